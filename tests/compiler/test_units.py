"""Durations, sizes and shares with their units."""

import pytest
from pydantic import BaseModel, Field

from compiler.document.read import parse
from compiler.document.units import number
from compiler.document.validate import validated


@pytest.mark.parametrize(
    ("unit", "texts"),
    [
        ("s", {"60s": 60.0, "500ms": 0.5, "2m": 120.0, "2 min": 120.0, "1.5h": 5400.0, "9" * 39 + "s": 1e39}),
        ("share", {"5%": 0.05, "0.1%": 0.001, "33.3%": 0.333, "7%": 0.07, "60s": None}),
        ("B", {"30GB": 30_000_000_000, "512MiB": 536_870_912, "1.5 KB": 1500}),
        ("s", dict.fromkeys(("5", "5 parsecs", "5%", "-5s", "1e3s", ""))),
    ],
)
def test_number(unit, texts):
    assert {text: number(text, unit) for text in texts} == texts
    assert unit != "B" or all(isinstance(number(text, unit), int) for text in texts), "bytes are whole"


class Inner(BaseModel):
    limit: float = Field(json_schema_extra={"unit": "share"})


class Outer(BaseModel):
    timeout: float = Field(json_schema_extra={"unit": "s"})
    inner: Inner | None = None
    many: dict[str, Inner] = {}
    several: tuple[Inner, ...] = ()
    name: str = ""


def test_units_are_found_wherever_a_model_lies():
    text = b"{timeout: 1m, inner: {limit: 5%}, many: {a: {limit: 50%}}, several: [{limit: 1%}], name: 60s}"
    value, problems = validated(Outer, parse(text, "x.yaml").root)
    assert problems == [] and value == Outer(
        timeout=60.0, inner=Inner(limit=0.05), many={"a": Inner(limit=0.5)}, several=(Inner(limit=0.01),), name="60s"
    )
    value, problems = validated(Outer, parse(b"{timeout: soon, inner: {limit: 5%}}", "x.yaml").root)
    assert value is None and [(problem.code, problem.place.column) for problem in problems] == [("E208", 11)]
