"""The page about gates says what the gates do: every setting with its default and meaning, every tier, every limit."""

from pathlib import Path

import pytest
from pydantic import BaseModel

from stages.contracts.patterns import PATTERN_SECONDS
from stages.contracts.plugin import GATES, kinds, load
from stages.train.verifiers import box, inside, isolation

PAGE = (Path(__file__).parents[4] / "site/docs/reference/gates.md").read_text(encoding="utf-8")


def rows(settings, prefix=""):
    """Table rows of a Settings model: setting, default, unit, meaning."""
    lines = []
    for name, field in settings.model_fields.items():
        default = "required" if field.is_required() else f"`{shown(field.default)}`"
        unit = (field.json_schema_extra or {}).get("unit", "")
        lines.append(f"| `{prefix}{name}` | {default} | {unit} | {field.description} |")
        if isinstance(field.default, BaseModel):
            lines += rows(type(field.default), f"{prefix}{name}.")
    return lines


def shown(default):
    if isinstance(default, BaseModel):
        return ", ".join(f"{name}: {value}" for name, value in default)
    if isinstance(default, dict):
        return ", ".join(f"{name}: {value}" for name, value in default.items())
    if isinstance(default, tuple):
        return str(list(default))
    if isinstance(default, bool):  # 1 == True, so a table by value would print a default of 1 line as `true`
        return "true" if default else "false"
    return "null" if default is None else default


@pytest.mark.parametrize("kind", kinds(GATES))
def test_every_setting_is_on_the_page(kind):
    section = PAGE.split(f"\n## `{kind}`\n")[1].split("\n## ")[0]
    for row in rows(load(GATES, kind).Settings):
        assert row in section.splitlines(), f"site/docs/reference/gates.md needs this row:\n{row}"
    assert section.count("\n| `") == len(rows(load(GATES, kind).Settings))


def test_numbers_on_the_page():
    assert f"after {PATTERN_SECONDS:g} s" in PAGE
    assert f"more than {box.OUTPUT_BYTES // 2**20} MiB" in PAGE
    assert f"uid {isolation.UID}" in PAGE
    for tier in isolation.TIERS:
        assert f"**`{tier}`**" in PAGE
    for name in inside.PRELOADED.split():
        assert name.startswith("encodings.") or f"`{name}`" in PAGE, name
