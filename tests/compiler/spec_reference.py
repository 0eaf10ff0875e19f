"""Writes site/docs/reference/spec.schema.json and spec.md from the models: `python tests/compiler/spec_reference.py`. Tests compare."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))  # as a script, Python looks beside the script only

from compiler.commands.schema import definitions, schema  # noqa: E402
from compiler.render import flow  # noqa: E402

SCHEMA = ROOT / "site" / "docs" / "reference" / "spec.schema.json"
PAGE = ROOT / "site" / "docs" / "reference" / "spec.md"

_HEAD = """\
# Spec keys

<!-- Made from the models by tests/compiler/spec_reference.py; edit compiler/language or stages/contracts, then run it. -->

Every key of `specs/<experiment>.yaml`. Keys are closed: one that is not here is an error that names the nearest one. How the parts work
together is in [Write a spec](../guide/write-a-spec.md), the settings of gates are in [Gates](gates.md).

An editor that knows JSON Schema completes keys and shows these words as you type. For VS Code with the YAML extension, the first line of
a spec is

```yaml
# yaml-language-server: $schema=../site/docs/reference/spec.schema.json
```

Profiles, conditions, shared blocks and parents are layers: maps merge key by key, lists replace, `null` removes a key.
"""
_OUTSIDE = """
## Runs that octavo does not train

`runs: {import: ...}` stands in place of `model`, `data`, `train`, `rewards`, `preflight` and `evaluation`; with
`train: {algorithm: command}` a program of yours trains. What these parts are for is in [Import runs](../guide/import-runs.md).
"""


def generated() -> str:
    """The whole page."""
    sections = definitions()
    names, waiting = [], ["Spec"]
    while waiting:
        name = waiting.pop(0)
        if name not in names:
            names.append(name)
            section = sections[name]
            values = [*section["properties"].values(), section.get("then", {}), section.get("else", {})]
            waiting += [inner for value in values for inner in _names(value) if inner not in ("Gate", "Profile")]
    outside = ("Runs", "Import", "Column", "SummaryKeys", "ImportedCondition", "CommandTrain", "CommandHistory")
    tables, outside_tables = ("".join(_table(name, sections[name]) for name in group) for group in (names, outside))
    return _HEAD + tables + _OUTSIDE + outside_tables


def _names(value: dict[str, Any]) -> list[str]:
    """Sections that a key's value may be or hold."""
    inside = [part for key in ("additionalProperties", "items", "then", "else") if isinstance(part := value.get(key), dict)]
    parts = [*inside, *value.get("anyOf", []), *value.get("oneOf", [])]
    return [value["$ref"].removeprefix("#/$defs/")] if "$ref" in value else [name for part in parts for name in _names(part)]


def _table(name: str, section: dict[str, Any]) -> str:
    lines = [f"\n## {name}\n", section.get("description", ""), "", "| key | is | default | meaning |", "|---|---|---|---|"]
    for key, value in section["properties"].items():
        default = f"`{flow(value['default'])}`" if value.get("default") not in (None, "", [], {}) else ""
        default = "required" if key in section.get("required", []) else default
        lines.append(f"| `{key}` | {_kind(value)} | {default} | {_cell(value['description'])} |")
    return "\n".join(lines) + "\n"


def _kind(value: dict[str, Any]) -> str:
    """What may be written, in words, with links to the sections of parts."""
    if "$ref" in value:
        name = value["$ref"].removeprefix("#/$defs/")
        if name == "Profile":
            return "keys of this page that differ"
        return "[gate](gates.md)" if name == "Gate" else f"[{name}](#{name.lower()})"
    if "const" in value:
        return f"`{flow(value['const'])}`"
    if "enum" in value:
        return ", ".join(f"`{word}`" for word in value["enum"])
    for form in ("anyOf", "oneOf"):
        if form in value:
            return " or ".join(dict.fromkeys(_kind(option) for option in value[form] if option.get("type") != "null"))
    if value.get("type") == "array":
        return f"list of {_kind(value['items'])}"
    if value.get("type") == "object":
        inner = value.get("additionalProperties")
        if not isinstance(inner, dict):
            return "`key: value` pairs"
        return f"one name: {_kind(inner)}" if value.get("maxProperties") == 1 else f"name: {_kind(inner)}"
    if "pattern" in value:
        return "text with its unit"
    return {"integer": "whole number", "number": "number", "string": "text", "boolean": "`true` or `false`"}.get(
        value.get("type", ""), "value"
    ) + _range(value)


def _range(value: dict[str, Any]) -> str:
    bounds = (("minimum", "≥"), ("exclusiveMinimum", ">"), ("maximum", "≤"), ("exclusiveMaximum", "<"))
    limits = [f"{sign} {_number(value[name])}" for name, sign in bounds if name in value and abs(value[name]) < 1e9]
    return f" {', '.join(limits)}" if limits else ""


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:g}"


def _cell(text: str) -> str:
    """Text for a table; outside of code spans nothing may read as HTML."""
    pieces = text.replace("|", "\\|").replace("\n", " ").split("`")
    return "`".join(piece if index % 2 else piece.replace("<", "&lt;") for index, piece in enumerate(pieces))


def write() -> None:
    """Both files."""
    SCHEMA.write_text(schema(), encoding="utf-8")
    PAGE.write_text(generated(), encoding="utf-8")


if __name__ == "__main__":
    write()
