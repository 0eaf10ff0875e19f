"""Durations, sizes and shares with their units."""

import pytest
from pydantic import BaseModel, Field

from compiler.document.units import converted, number


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("60s", "s", 60.0),
        ("500ms", "s", 0.5),
        ("2m", "s", 120.0),
        ("2 min", "s", 120.0),
        ("1.5h", "s", 5400.0),
        ("5%", "share", 0.05),
        ("0.1%", "share", 0.001),
        ("33.3%", "share", 0.333),
        ("7%", "share", 0.07),
        ("30GB", "B", 30_000_000_000),
        ("512MiB", "B", 536_870_912),
        ("1.5 KB", "B", 1500),
        ("5", "s", None),
        ("5 parsecs", "s", None),
        ("5%", "s", None),
        ("60s", "share", None),
        ("-5s", "s", None),
        ("1e3s", "s", None),
        ("", "s", None),
        ("9" * 39 + "s", "s", 1e39),
    ],
)
def test_number(text, unit, value):
    assert number(text, unit) == value


def test_bytes_are_whole():
    assert isinstance(number("512MB", "B"), int)


class Inner(BaseModel):
    limit: float = Field(json_schema_extra={"unit": "share"})


class Outer(BaseModel):
    timeout: float = Field(json_schema_extra={"unit": "s"})
    inner: Inner | None = None
    many: dict[str, Inner] = {}
    several: tuple[Inner, ...] = ()
    name: str = ""


def test_units_are_found_wherever_a_model_lies():
    value = {"timeout": "1m", "inner": {"limit": "5%"}, "many": {"a": {"limit": "50%"}}, "several": [{"limit": "1%"}], "name": "60s"}
    assert converted(Outer, value) == {
        "timeout": 60.0,
        "inner": {"limit": 0.05},
        "many": {"a": {"limit": 0.5}},
        "several": [{"limit": 0.01}],
        "name": "60s",
    }


def test_what_is_no_unit_stays_for_the_model_to_refuse():
    assert converted(Outer, {"timeout": "soon", "unknown": "5%"}) == {"timeout": "soon", "unknown": "5%"}
