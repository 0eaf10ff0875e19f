"""JSON Schema (draft 2020-12) of specs, made from the models; gates and sections that conditions override included."""

from __future__ import annotations

import copy
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from compiler.experiment import NOT_IN_A_PROFILE
from compiler.gates import settings_of
from compiler.spec import Adapter, Spec, TrainData
from compiler.units import EXAMPLES
from stages.contracts.artifact import canonical_json
from stages.contracts.grpo import GrpoSettings
from stages.contracts.plugin import GATES, kinds

DRAFT = "https://json-schema.org/draft/2020-12/schema"
_PATTERNS = {
    "s": r"^[0-9]+(\.[0-9]+)?\s*(ms|s|m|min|h|d)$",
    "B": r"^[0-9]+(\.[0-9]+)?\s*([KMGT]i?)?B$",
    "share": r"^[0-9]+(\.[0-9]+)?\s*%$",
}


def schema() -> str:
    """The schema as canonical JSON."""
    gates = {kind: model for kind in kinds(GATES) if (model := settings_of(kind)) is not None}
    models: list[type[BaseModel]] = [Spec, GrpoSettings, Adapter, TrainData, *gates.values()]
    references, top = models_json_schema([(model, "validation") for model in models], title="octavo spec")
    found = {"$schema": DRAFT, **top}
    definitions = found["$defs"]
    named = {model: references[(model, "validation")]["$ref"].rpartition("/")[2] for model in models}
    spec = definitions.pop(named[Spec])
    definitions["Gate"] = {"oneOf": [_gate(kind, definitions[named[model]], definitions["Gate"]) for kind, model in gates.items()]}
    for model in gates.values():
        definitions.pop(named[model])
    _section(spec, "train", "TrainOverride", definitions, definitions.pop(named[GrpoSettings]))
    _section(definitions["ConditionModel"], "adapter", "AdapterOverride", definitions, definitions[named[Adapter]])
    _section(definitions["ConditionData"], "train", "TrainDataOverride", definitions, definitions[named[TrainData]])
    definitions["Condition"]["properties"]["train"] = {
        **_described(definitions["Condition"]["properties"]["train"]),
        "$ref": "#/$defs/TrainOverride",
    }
    definitions["Profile"] = _optional({key: value for key, value in copy.deepcopy(spec).items() if key != "title"})
    for key in NOT_IN_A_PROFILE:
        definitions["Profile"]["properties"].pop(key)
    _required_alone(spec)
    spec["properties"]["profiles"]["additionalProperties"] = {"$ref": "#/$defs/Profile"}
    found = {
        "$schema": DRAFT,
        "title": "octavo spec",
        **{key: value for key, value in spec.items() if key != "title"},
        "$defs": definitions,
    }
    return canonical_json(_with_units(found))


def _required_alone(spec: dict[str, Any]) -> None:
    """What a shared block or a parent may say need not stand in the spec itself."""
    elsewhere = [{"required": ["use"]}, {"required": ["parent"]}]
    spec["if"], spec["else"] = {"anyOf": elsewhere}, {"required": spec["required"]}
    spec["required"] = ["title"]


def _section(holder: dict[str, Any], key: str, name: str, definitions: dict[str, Any], section: dict[str, Any]) -> None:
    """A free map of a model becomes the section it overrides, with no key required."""
    definitions[name] = _optional(copy.deepcopy(section))
    holder["properties"][key] = {**_described(holder["properties"][key]), "$ref": f"#/$defs/{name}"}


def _described(part: dict[str, Any]) -> dict[str, Any]:
    return {"description": part["description"]} if "description" in part else {}


def _optional(section: dict[str, Any]) -> dict[str, Any]:
    section.pop("required", None)
    return section


def _gate(kind: str, settings: dict[str, Any], gate: dict[str, Any]) -> dict[str, Any]:
    own = {**gate["properties"], "kind": {"const": kind, "description": gate["properties"]["kind"]["description"]}}
    return {
        "type": "object",
        "title": kind,
        "description": settings.get("description", ""),
        "properties": {**own, **settings.get("properties", {})},
        "required": ["kind", *settings.get("required", [])],
        "additionalProperties": False,
    }


def _with_units(part: Any) -> Any:
    """Every number with a unit may also be written as text with it; internal marks are taken out."""
    if isinstance(part, list):
        return [_with_units(item) for item in part]
    if not isinstance(part, dict):
        return part
    found = {key: _with_units(value) for key, value in part.items()}
    unit = found.get("unit")
    if isinstance(unit, str) and ("type" in found or "anyOf" in found):
        found.pop("unit")
        found.pop("source", None)
        if unit in _PATTERNS:
            kept = {key: found.pop(key) for key in ("description", "default", "title") if key in found}
            found = {
                **kept,
                "anyOf": [found, {"type": "string", "pattern": _PATTERNS[unit], "description": f"With unit: {EXAMPLES[unit]}."}],
            }
    return found
