"""`octavo schema`: JSON Schema (draft 2020-12) of specs for editors, made from the models.

Layers (profiles, conditions, shared blocks, parents) merge sections key by key. So a section has one form, in which every key may be absent
or `null`; `octavo check` says what is missing after merging. Entries of lists are never merged, and stay whole.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from compiler.build.inputs import Inputs
from compiler.document.units import EXAMPLES as WRITTEN
from compiler.language.algorithms import SECTIONS
from compiler.language.experiment import NOT_IN_A_PROFILE
from compiler.language.outside import CommandSpec, ImportedSpec
from compiler.language.rewards import settings_of
from compiler.language.spec import Spec
from compiler.render import flow
from stages.contracts.algorithms import ALGORITHMS, DEFAULT
from stages.contracts.artifact import canonical_json
from stages.contracts.files import load_table
from stages.contracts.model import Adapter, TrainData
from stages.contracts.plugin import GATES, kinds

Schema = dict[str, Any]

EXAMPLES = Path(__file__).parents[1] / "spec_examples.yaml"
_REF = "#/$defs/"
_SLUG = {"pattern": "^[a-z0-9]+(-[a-z0-9]+)*$", "maxLength": 64}
_WORDS = ("description", "default", "markdownDescription", "examples")
_TEXTS = {
    "s": r"^[0-9]+(\.[0-9]+)?\s*(ms|s|m|min|h|d)$",
    "B": r"^[0-9]+(\.[0-9]+)?\s*([KMGT]i?)?B$",
    "share": r"^[0-9]+(\.[0-9]+)?\s*%$",
}
_UNITS = {"s": "seconds", "B": "bytes", "share": "a share of 1"}
_COMMAND = {"required": ["algorithm"], "properties": {"algorithm": {"const": "command"}}}
_IS_COMMAND = {"required": ["train"], "properties": {"train": {"type": "object", **_COMMAND}}}


def run(options: argparse.Namespace, inputs: Inputs) -> int:
    """Print the JSON Schema of specs."""
    print(schema(), end="")
    return 0


def schema() -> str:
    """The schema of the three kinds of specs as canonical JSON."""
    sections = definitions()
    needed = [key for key in sections["Spec"]["required"] if key != "title"]
    for name in _merged(["Spec", *map(_arm, ALGORITHMS)], sections):
        _relax(sections[name])
    trained, imported, command = (sections.pop(name) for name in ("Spec", "ImportedSpec", "CommandSpec"))
    profile = {key: value for key, value in trained["properties"].items() if key not in NOT_IN_A_PROFILE}
    words = "Keys of the spec that differ in this profile; `null` removes a key, lists replace."
    sections["Profile"] = {"type": "object", "description": words, "properties": profile, "additionalProperties": False}
    alone = {"if": {"anyOf": [{"required": ["use"]}, {"required": ["parent"]}]}, "else": {"required": needed}}
    trained |= {"type": "object", "required": ["title"], **alone}
    rest = {"if": _IS_COMMAND, "then": command, "else": trained}
    top = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "octavo spec", "$defs": sections}
    return canonical_json({**top, "if": {"required": ["runs"]}, "then": imported, "else": rest})


def definitions() -> dict[str, Schema]:
    """Every section by its model's name, with its required keys; `Spec`, `ImportedSpec` and `CommandSpec` are the kinds of specs."""
    gates = {kind: settings_of(kind) for kind in kinds(GATES)}
    models: list[type[BaseModel]] = [Spec, ImportedSpec, CommandSpec, *SECTIONS.values(), Adapter, TrainData, *gates.values()]
    references, top = models_json_schema([(model, "validation") for model in models], ref_template=_REF + "{model}")
    sections: dict[str, Schema] = top["$defs"]
    for part in _parts(sections):
        if isinstance(part.get("title"), str):
            del part["title"]  # pydantic's `Lora Alpha` for `lora_alpha` says nothing
    names = {model: references[(model, "validation")]["$ref"].removeprefix(_REF) for model in models}
    sections |= {_arm(name): sections.pop(names[model]) for name, model in SECTIONS.items()}
    sections["Train"] = _by_algorithm()
    sections["Gate"] = _gates({kind: sections.pop(names[model]) for kind, model in gates.items()}, sections["Gate"])
    _join(sections)
    examples = load_table(EXAMPLES)
    for name, section in sections.items():
        for form in (section, *section.get("oneOf", [])):
            _describe(form, examples.get(f"{name}.{form['title']}" if "title" in form else name, {}))
    for part in list(_parts(sections)):
        _accept_units(part)
    return sections


def _join(sections: dict[str, Schema]) -> None:
    """Put sections in place of free maps, close names, and take out what a kind of spec refuses."""
    for holder, key, name in (
        ("Spec", "train", "Train"),
        ("Spec", "profiles", "Profile"),
        ("Condition", "train", "Train"),
        ("ConditionData", "train", "TrainData"),
        ("ConditionModel", "adapter", "Adapter"),
    ):
        value = sections[holder]["properties"][key]
        reference = {"$ref": _REF + name}
        if key == "profiles":
            value["additionalProperties"] = reference
        else:
            sections[holder]["properties"][key] = {"description": value["description"], **reference}
    for key in ("rewards", "conditions", "profiles"):
        sections["Spec"]["properties"][key]["propertyNames"] = _SLUG
    for part in _parts(sections):
        values = part.get("additionalProperties")
        if isinstance(values, dict) and values.get("$ref") in (_REF + "Gate", _REF + "Penalty"):
            part.update(minProperties=1, maxProperties=1, propertyNames=_SLUG)
    for kind in (ImportedSpec, CommandSpec):
        for key in kind.REFUSED:
            del sections[kind.__name__]["properties"][key]
    condition = sections["ImportedCondition"]["properties"]
    for key in ("data", "model"):
        del condition[key]
    condition["train"]["description"] = "Of a command: `settings` that differ in this condition. Imported runs have none."
    for section in sections.values():
        for value in section.get("properties", {}).values():
            if "$ref" in value and "description" not in value:  # pydantic leaves out what the part says of itself
                value["description"] = sections[value["$ref"].removeprefix(_REF)].get("description", "")


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
    kind = {"enum": list(settings), "description": described}
    return {"type": "object", "description": gate["description"], "properties": {"kind": kind}, "required": ["kind"], "oneOf": forms}


def _arm(algorithm: str) -> str:
    """Name of the section that holds an algorithm's settings."""
    return f"Train{algorithm.capitalize()}"


def _by_algorithm() -> Schema:
    """`train`: the settings of the algorithm that it names; without one, which a lower layer may name, those of any."""
    choice: Schema = {"anyOf": [{"$ref": _REF + _arm(name)} for name in ALGORITHMS]}
    for name in reversed(ALGORITHMS):
        is_named = {"required": ["algorithm"], "properties": {"algorithm": {"const": name}}}
        choice = {"if": is_named, "then": {"$ref": _REF + _arm(name)}, "else": choice}
    names = {"enum": list(ALGORITHMS), "description": "Training algorithm; it decides which other keys there are.", "default": DEFAULT}
    return {"type": "object", "description": "Settings of training, by algorithm.", "properties": {"algorithm": names}, **choice}


def _describe(section: Schema, examples: Schema) -> None:
    """Give each key its examples, and what VS Code shows on hover; it shows neither defaults nor units by itself."""
    for key, value in section.get("properties", {}).items():
        unit = next((part["unit"] for part in (value, *value.get("anyOf", [])) if "unit" in part), None)
        facts = [value["description"]]
        if unit is not None:
            facts.append(f"Unit: {_UNITS.get(unit, unit)}" + (f", written {WRITTEN[unit]}" if unit in WRITTEN else ""))
        if value.get("default") not in (None, "", [], {}):
            facts.append(f"Default: `{flow(value['default'])}`")
        value["markdownDescription"] = "\n\n".join(facts)
        if key in examples:
            value["examples"] = examples[key]


def _accept_units(part: Schema) -> None:
    """Where a number has a unit, also accept the text with it; take out the marks of the models."""
    unit = part.pop("unit") if isinstance(part.get("unit"), str) else None
    if isinstance(part.get("source"), str):
        del part["source"]
    if unit in _TEXTS:
        words = {word: part.pop(word) for word in _WORDS if word in part}
        numbers = part.pop("anyOf", None) or [dict(part)]
        part.clear()
        text = {"type": "string", "pattern": _TEXTS[unit], "description": f"With unit: {WRITTEN[unit]}."}
        part.update(words, anyOf=[*numbers, text])


def _merged(names: list[str], sections: dict[str, Schema]) -> list[str]:
    """Sections that layers merge key by key: those reached from `names` without passing a list or a choice of forms."""
    merged, waiting = [], list(names)
    while waiting:
        name = waiting.pop()
        if name not in merged and name in sections and "oneOf" not in sections[name]:
            merged.append(name)
            for value in sections[name].get("properties", {}).values():
                inner = value.get("additionalProperties", value)
                inner = inner if isinstance(inner, dict) else value
                references = [part["$ref"] for part in (inner, *inner.get("anyOf", [])) if "$ref" in part]
                waiting += [references[0].removeprefix(_REF)] if len(references) == 1 else []
    return merged


def _relax(section: Schema) -> None:
    """Require no key; allow `null` for each, and in place of the whole section. A choice with `null` would hide where a mistake is."""
    section.pop("required", None)
    for part in (section, *section.get("properties", {}).values()):
        for value in (part, part.get("additionalProperties")):
            if not isinstance(value, dict):
                continue
            if "anyOf" in value and {"type": "null"} not in value["anyOf"]:
                value["anyOf"].append({"type": "null"})
            if isinstance(value.get("type"), str):
                value["type"] = [value["type"], "null"]
                value |= {"enum": [*value["enum"], None]} if "enum" in value else {}


def _parts(value: Any) -> Iterator[Schema]:
    """Every object of a schema, at any depth."""
    if isinstance(value, dict):
        yield value
        for inner in value.values():
            yield from _parts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _parts(inner)
