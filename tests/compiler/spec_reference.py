"""Writes site/docs/reference/spec.schema.json and spec.md from the models: `python tests/compiler/spec_reference.py`. Tests compare."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))  # as a script, Python looks beside the script only

from compiler.commands.schema import built, schema  # noqa: E402
from compiler.commands.schema_outside import parts  # noqa: E402
from compiler.language.algorithms import SECTIONS  # noqa: E402

SCHEMA = ROOT / "site" / "docs" / "reference" / "spec.schema.json"
PAGE = ROOT / "site" / "docs" / "reference" / "spec.md"

_HEAD = """\
# Spec keys

<!-- Made from the models by tests/compiler/spec_reference.py; edit compiler/spec.py, then run it. -->

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
_SKIPPED = ("Gate",)


def generated() -> str:
    """The whole page."""
    found = built()
    definitions = found["$defs"]
    needed = {"Spec": found["else"]["required"]}
    for name, model in SECTIONS.items():
        needed[f"Train{name.capitalize()}"] = [key for key, field in model.model_fields.items() if field.is_required()]
    _collect(found["else"], found, definitions, needed)
    names, waiting = [], ["Spec"]
    while waiting:
        name = waiting.pop(0)
        if name not in names:
            names.append(name)
            section = _section(name, found)
            values = [*section["properties"].values(), section.get("then", {}), section.get("else", {})]
            waiting += [inner for value in values for inner in _names(value) if inner not in _SKIPPED]
    tables = "".join(_table(name, _section(name, found), needed.get(name)) for name in names)
    _, _, outside = parts(definitions)
    order = ("Runs", "Import", "Column", "SummaryKeys", "ImportedCondition", "CommandTrain", "CommandHistory")
    return _HEAD + tables + _OUTSIDE + "".join(_table(name, outside[name], outside[name].get("required", [])) for name in order)


def _section(name: str, found: dict[str, Any]) -> dict[str, Any]:
    return found if name == "Spec" else found["$defs"][name]


def _collect(needed: dict[str, Any], part: dict[str, Any], definitions: dict[str, Any], into: dict[str, list[str]]) -> None:
    """Required keys by definition, from the block of requirements beside the parts."""
    for key, inner in needed.get("properties", {}).items():
        (name,) = _names(part["properties"][key])
        inner = inner.get("additionalProperties", inner)
        into[name] = inner.get("required", [])
        _collect(inner, definitions[name], definitions, into)


def _names(value: dict[str, Any]) -> list[str]:
    """Definitions that a key's value may be or hold; overrides and profiles are described by what they override."""
    found = []
    inside = (value.get(key) for key in ("additionalProperties", "items", "then", "else"))
    for part in (value, *inside, *value.get("anyOf", []), *value.get("oneOf", [])):
        if isinstance(part, dict):
            name = part.get("$ref", "").removeprefix("#/$defs/")
            found += [name] if name and not name.endswith("Override") and name != "Profile" else _names(part) if part is not value else []
    return found


def _table(name: str, section: dict[str, Any], needed: list[str] | None) -> str:
    required = section.get("required", []) if needed is None else needed
    lines = [f"\n## {name}\n", section.get("description", ""), "", "| key | is | default | meaning |", "|---|---|---|---|"]
    for key, value in section["properties"].items():
        default = (
            "required" if key in required else f"`{_yaml(value['default'])}`" if value.get("default") not in (None, "", [], {}) else ""
        )
        meaning = value.get("description") or ""
        lines.append(f"| `{key}` | {_kind(value)} | {default} | {_cell(meaning)} |")
    return "\n".join(lines) + "\n"


def _kind(value: dict[str, Any]) -> str:
    """What may be written, in words, with links to the sections of parts."""
    if "$ref" in value:
        name = value["$ref"].removeprefix("#/$defs/")
        if name == "Profile":
            return "keys of this page that differ"
        part = name.removesuffix("Override")
        link = "[gate](gates.md)" if name == "Gate" else f"[{part}](#{part.lower()})"
        return f"keys of {link}" if name.endswith("Override") else link
    if "const" in value:
        return f"`{_yaml(value['const'])}`"
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
    said = [f"{sign} {_number(value[name])}" for name, sign in bounds if name in value and abs(value[name]) < 1e9]
    return f" {', '.join(said)}" if said else ""


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:g}"


def _yaml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_yaml(inner)}" for key, inner in value.items()) + "}"
    return value if isinstance(value, str) else json.dumps(value)


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
