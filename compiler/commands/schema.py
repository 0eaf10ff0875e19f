"""JSON Schema (draft 2020-12) of specs for editors, made from the models.

Parts that layers merge (profiles, conditions, shared blocks, parents) exist twice: as an experiment writes them, and as
`...Override`, where a layer may leave out every key and `null` removes one. Entries of lists are never merged, so they are whole.
What an experiment that stands alone must say is one block of requirements beside the parts.
"""

from __future__ import annotations

import argparse
import copy
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from compiler.build.inputs import Inputs
from compiler.commands.schema_outside import parts, with_outside
from compiler.commands.schema_words import worded
from compiler.language.algorithms import SECTIONS
from compiler.language.experiment import NOT_IN_A_PROFILE
from compiler.language.gates import settings_of
from compiler.language.spec import Spec
from stages.contracts.algorithms import ALGORITHMS, DEFAULT
from stages.contracts.artifact import canonical_json
from stages.contracts.model import Adapter, TrainData
from stages.contracts.plugin import GATES, kinds

DRAFT = "https://json-schema.org/draft/2020-12/schema"
_REF = "#/$defs/"
_SLUG = {"pattern": "^[a-z0-9]+(-[a-z0-9]+)*$", "maxLength": 64}
_ONE_NAME = ("Gate", "Penalty")
"""Entries of lists that are one name with its settings."""

Schema = dict[str, Any]


def run(options: argparse.Namespace, inputs: Inputs) -> int:
    """Print the JSON Schema of specs."""
    print(schema(), end="")
    return 0


def schema() -> str:
    """The schema as canonical JSON."""
    found = built()
    imported, command, definitions = parts(found["$defs"])
    words = worded({"title": found["title"], "$defs": definitions, "then": [imported, command]})
    return canonical_json(with_outside(found, words["then"][0], words["then"][1], words["$defs"]))


def built() -> Schema:
    """The schema of specs that octavo trains, keys in the order in which specs are written."""
    definitions = _models()
    needed = _requirements(definitions["Spec"], definitions)
    needed["properties"].pop("train", None)  # conditions may give what it lacks
    merged = _merged(["Spec", *map(_arm, ALGORITHMS)], definitions)
    overrides = {_over(name): _override(definitions[name], merged) for name in merged}
    overrides[_over("Train")] = _by_algorithm(_over(""))
    for name in merged:
        definitions[name].pop("required", None)
    spec = definitions.pop("Spec")
    profile = overrides.pop(_over("Spec"))
    for key in NOT_IN_A_PROFILE:
        profile["properties"].pop(key, None)
    profile["description"] = "Keys of the spec that differ in this profile; `null` removes a key, lists replace."
    spec["properties"]["profiles"]["additionalProperties"] = {"$ref": f"{_REF}Profile"}
    found = {
        "$schema": DRAFT,
        **spec,
        "title": "octavo spec",
        "required": ["title"],
        "$defs": _used({**definitions, **overrides, "Profile": profile}, spec),
    }
    beside = {"if": {"anyOf": [{"required": ["use"]}, {"required": ["parent"]}]}, "else": needed}
    return {**worded(found), **beside}


def _models() -> dict[str, Schema]:
    """Definitions by name, every model's own; free maps replaced by the sections that they hold; gates by kind."""
    gates = {kind: model for kind in kinds(GATES) if (model := settings_of(kind)) is not None}
    models: list[type[BaseModel]] = [Spec, *SECTIONS.values(), Adapter, TrainData, *gates.values()]
    references, top = models_json_schema([(model, "validation") for model in models], ref_template=_REF + "{model}")
    definitions: dict[str, Schema] = top["$defs"]
    named = {model: references[(model, "validation")]["$ref"].removeprefix(_REF) for model in models}
    definitions |= {_arm(name): definitions.pop(named[model]) for name, model in SECTIONS.items()}
    definitions["Train"] = _by_algorithm("")
    definitions["Gate"] = _gates({kind: definitions.pop(named[model]) for kind, model in gates.items()}, definitions["Gate"])
    for holder, key, section in (
        ("Spec", "train", "Train"),
        ("Condition", "train", _over("Train")),
        ("ConditionData", "train", _over("TrainData")),
        ("ConditionModel", "adapter", _over("Adapter")),
    ):
        old = definitions[holder]["properties"][key]
        definitions[holder]["properties"][key] = {"description": old["description"], "$ref": _REF + section}
    for definition in definitions.values():
        for value in definition.get("properties", {}).values():
            if "$ref" in value and "description" not in value:  # pydantic leaves out what the part says of itself
                value["description"] = definitions[value["$ref"].removeprefix(_REF)].get("description", "")
    for part in _parts(list(definitions.values())):
        values = part.get("additionalProperties")
        if isinstance(values, dict) and values.get("$ref", "").removeprefix(_REF) in _ONE_NAME:
            part.update(minProperties=1, maxProperties=1, propertyNames=_SLUG)
    for key in ("rewards", "conditions", "profiles"):
        definitions["Spec"]["properties"][key]["propertyNames"] = _SLUG
    return definitions


def _gates(settings: dict[str, Schema], gate: Schema) -> Schema:
    """One form a kind, told apart by `kind`; the list of kinds stands first, so that a wrong one is named at its own place."""
    described = gate["properties"]["kind"]["description"]
    forms = [
        {
            "type": "object",
            "title": kind,
            "description": own.get("description", ""),
            "properties": {**gate["properties"], "kind": {"const": kind, "description": described}, **own.get("properties", {})},
            "required": ["kind", *own.get("required", [])],
            "additionalProperties": False,
        }
        for kind, own in settings.items()
    ]
    return {
        "type": "object",
        "description": gate.get("description", ""),
        "properties": {"kind": {"enum": list(settings), "description": described}},
        "required": ["kind"],
        "oneOf": forms,
    }


def _arm(algorithm: str) -> str:
    """Name of the definition that holds an algorithm's settings."""
    return f"Train{algorithm.capitalize()}"


def _by_algorithm(suffix: str) -> Schema:
    """`train`: the settings of the algorithm that it names; without one, which a lower layer may name, those of any."""
    choice: Schema = {"anyOf": [{"$ref": f"{_REF}{_arm(name)}{suffix}"} for name in ALGORITHMS]}
    for name in reversed(ALGORITHMS):
        named = {"required": ["algorithm"], "properties": {"algorithm": {"const": name}}}
        choice = {"if": named, "then": {"$ref": f"{_REF}{_arm(name)}{suffix}"}, "else": choice}
    known = {"enum": list(ALGORITHMS), "description": "Training algorithm; it decides which other keys there are.", "default": DEFAULT}
    return {"type": "object", "description": "Settings of training, by algorithm.", "properties": {"algorithm": known}, **choice}


def _merged(names: list[str], definitions: dict[str, Schema]) -> list[str]:
    """Definitions that are reached from `names` without passing a list or a choice of forms: what layers merge key by key."""
    found, waiting = [], list(names)
    while waiting:
        current = waiting.pop()
        if current not in found and current in definitions and "oneOf" not in definitions[current]:
            found.append(current)
            for value in definitions[current].get("properties", {}).values():
                inner = value.get("additionalProperties", value)
                reference = _reference(inner if isinstance(inner, dict) else value)
                waiting += [reference.removesuffix("Override")] if reference else []
    return sorted(found)


def _reference(value: Schema) -> str | None:
    """The one definition that a property's value is, `null` aside."""
    options = [option["$ref"] for option in [value, *value.get("anyOf", [])] if "$ref" in option]
    return options[0].removeprefix(_REF) if len(options) == 1 else None


def _override(definition: Schema, merged: list[str]) -> Schema:
    """A copy with no key required, `null` allowed, and overrides inside."""
    changed = copy.deepcopy(definition)
    changed.pop("required", None)
    for key, value in changed.get("properties", {}).items():
        for part in (value, value.get("additionalProperties"), *value.get("anyOf", [])):
            if isinstance(part, dict) and part.get("$ref", "").removeprefix(_REF) in merged:
                part["$ref"] = _over(part["$ref"])
        if isinstance(value.get("additionalProperties"), dict):
            value["additionalProperties"] = {"anyOf": [value["additionalProperties"], {"type": "null"}]}
        kept = {name: value.pop(name) for name in ("description", "default") if name in value}
        options = value.pop("anyOf") if set(value) <= {"anyOf", "title"} and "anyOf" in value else [value]
        changed["properties"][key] = {**kept, "anyOf": [*(option for option in options if option.get("type") != "null"), {"type": "null"}]}
    return changed


def _requirements(definition: Schema, definitions: dict[str, Schema]) -> Schema:
    """Only what is required of an object and of the objects below it."""
    inner: dict[str, Schema] = {}
    for key, value in definition.get("properties", {}).items():
        each = value.get("additionalProperties")
        below = _reference(each if isinstance(each, dict) else value)
        if below is None or below not in definitions or "oneOf" in definitions[below]:
            continue
        needed = _requirements(definitions[below], definitions)
        if needed:
            inner[key] = {"additionalProperties": needed} if isinstance(each, dict) else needed
    return {key: value for key, value in (("required", definition.get("required")), ("properties", inner)) if value}


def _used(definitions: dict[str, Schema], spec: Schema) -> dict[str, Schema]:
    """Only definitions that something refers to."""
    found: dict[str, Schema] = {}
    waiting = [spec]
    while waiting:
        for part in list(_parts(waiting.pop())):
            name = part.get("$ref", "").removeprefix(_REF)
            if name and name not in found:
                found[name] = definitions[name]
                waiting.append(definitions[name])
    return found


def _over(name: str) -> str:
    return f"{name}Override"


def _parts(value: Any) -> Iterator[Schema]:
    """Every object of a schema, at any depth."""
    if isinstance(value, dict):
        if isinstance(value.get("$ref", ""), str):
            yield value
        for inner in value.values():
            yield from _parts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _parts(inner)
