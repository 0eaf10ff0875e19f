"""What an editor shows of a key: description, default, unit and examples. Numbers with a unit may be written with it."""

from __future__ import annotations

from typing import Any

from compiler.commands.schema_examples import EXAMPLES
from compiler.document.units import EXAMPLES as WRITTEN

_PATTERNS = {
    "s": r"^[0-9]+(\.[0-9]+)?\s*(ms|s|m|min|h|d)$",
    "B": r"^[0-9]+(\.[0-9]+)?\s*([KMGT]i?)?B$",
    "share": r"^[0-9]+(\.[0-9]+)?\s*%$",
}
_UNITS = {"s": "seconds", "B": "bytes", "share": "a share of 1"}

Schema = dict[str, Any]


def worded(found: Schema) -> Schema:
    """The whole schema with words on every key."""
    definitions = {name: _part(definition, name.removesuffix("Override")) for name, definition in found["$defs"].items()}
    return {**_part({key: value for key, value in found.items() if key != "$defs"}, "Spec"), "title": found["title"], "$defs": definitions}


def _part(part: Any, owner: str) -> Any:
    """One schema; `owner` is the definition that its properties belong to."""
    if isinstance(part, list):
        return [_part(item, owner) for item in part]
    if not isinstance(part, dict):
        return part
    found = {
        key: value if key in ("default", "enum", "const") else _part(value, owner) for key, value in part.items() if key != "properties"
    }
    is_form = isinstance(found.get("required"), list) and "kind" in found["required"]
    if isinstance(found.get("title"), str) and not is_form:
        del found["title"]  # pydantic's `Lora Alpha` for `lora_alpha` says nothing
    if "properties" in part:
        owner = f"Gate.{part['title']}" if is_form and "title" in part else owner
        found["properties"] = {key: _property(value, owner, key) for key, value in part["properties"].items()}
    return found


def _property(value: Schema, owner: str, key: str) -> Schema:
    found: Schema = _with_unit(_part(value, owner))
    if "description" in found:
        found["markdownDescription"] = _markdown(found, _unit(value))
    if f"{owner}.{key}" in EXAMPLES:
        found["examples"] = EXAMPLES[f"{owner}.{key}"]
    return found


def _markdown(found: Schema, unit: str | None) -> str:
    """What VS Code shows on hover; it shows neither defaults nor units by itself."""
    facts = []
    if unit is not None:
        facts.append(f"Unit: {_UNITS.get(unit, unit)}" + (f", written {WRITTEN[unit]}" if unit in WRITTEN else ""))
    if found.get("default") not in (None, "", [], {}):
        facts.append(f"Default: `{_yaml(found['default'])}`")
    return "\n\n".join([found["description"], *facts])


def _yaml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_yaml(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_yaml, value)) + "]"
    return {True: "true", False: "false", None: "null"}[value] if isinstance(value, bool) or value is None else str(value)


def _unit(value: Schema) -> str | None:
    """The unit of a number, or of the number inside an override."""
    return next((part["unit"] for part in (value, *value.get("anyOf", [])) if isinstance(part.get("unit"), str)), None)


def _with_unit(value: Schema) -> Schema:
    """Also accept the text with the unit; internal marks are taken out, at every depth of a choice."""
    kept: Schema = {name: value[name] for name in ("description", "default", "title") if name in value}
    rest = {name: inner for name, inner in value.items() if name not in kept and name not in ("unit", "source")}
    options = rest.get("anyOf", [])
    unit = value.get("unit")
    if unit in _PATTERNS:
        texts = [{"type": "string", "pattern": _PATTERNS[unit], "description": f"With unit: {WRITTEN[unit]}."}]
        numbers = options if set(rest) == {"anyOf"} else [rest]
        return {**kept, "anyOf": [*numbers, *texts]}
    if options:
        rest["anyOf"] = [inner for option in options for inner in _flat(_with_unit(option))]
    if isinstance(rest.get("additionalProperties"), dict):
        rest["additionalProperties"] = _with_unit(rest["additionalProperties"])
    return {**kept, **rest}


def _flat(option: Schema) -> list[Schema]:
    return option["anyOf"] if set(option) == {"anyOf"} else [option]
