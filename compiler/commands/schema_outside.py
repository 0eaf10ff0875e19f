"""JSON Schema of specs whose runs octavo does not train itself, told apart by `runs` and by `train.algorithm: command`."""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import models_json_schema

from compiler.language import spec_command, spec_imports
from compiler.language.spec_command import CommandSpec
from compiler.language.spec_imports import ImportedSpec

Schema = dict[str, Any]
_IS_COMMAND = {
    "required": ["train"],
    "properties": {"train": {"type": "object", "required": ["algorithm"], "properties": {"algorithm": {"const": "command"}}}},
}


def parts(known: Schema) -> tuple[Schema, Schema, Schema]:
    """(imported spec, spec with a command, definitions that are not among the `known` ones of other specs)."""
    references, top = models_json_schema([(ImportedSpec, "validation"), (CommandSpec, "validation")], ref_template="#/$defs/{model}")
    definitions: dict[str, Schema] = top["$defs"]
    made = []
    for model, refused in ((ImportedSpec, spec_imports.REFUSED), (CommandSpec, spec_command.REFUSED)):
        found = definitions.pop(references[(model, "validation")]["$ref"].rpartition("/")[2])
        made.append({**found, "properties": {key: value for key, value in found["properties"].items() if key not in refused}})
    condition = definitions["ImportedCondition"]["properties"]
    for key in ("data", "model"):
        condition.pop(key)
    condition["train"]["description"] = "Of a command: `settings` that differ in this condition. Imported runs have none."
    if "profiles" in made[1]["properties"]:
        made[1]["properties"]["profiles"]["additionalProperties"] = {"type": "object"}
    return made[0], made[1], {name: part for name, part in definitions.items() if name not in known}


def with_outside(found: Schema, imported: Schema, command: Schema, definitions: Schema) -> Schema:
    """The schema of all specs: of the three kinds, the one that a spec is."""
    shared: Schema = {key: found[key] for key in ("$schema", "title") if key in found}
    trained = {key: value for key, value in found.items() if key not in ("$schema", "title", "$defs")}
    rest = {"if": _IS_COMMAND, "then": command, "else": trained}
    return {**shared, "$defs": {**found["$defs"], **definitions}, "if": {"required": ["runs"]}, "then": imported, "else": rest}
