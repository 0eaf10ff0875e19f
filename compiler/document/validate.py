"""A node -> a model of the language. Locations of pydantic become places in the file, and its errors messages of the catalogue."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from compiler.document.node import Node
from compiler.document.units import EXAMPLES, FACTORS, number
from compiler.problems import SECRET, catalogue, problem, sentence, shown, unknown
from stages.contracts.diagnostic import Diagnostic, Place

M = TypeVar("M", bound=BaseModel)

MOST_SEEDS_SHOWN = 10
MOST = 200
"""Problems of one section that are collected; twenty are shown."""
_TYPES = {
    "int": "a whole number",
    "float": "a number",
    "string": "text",
    "bool": "true or false",
    "list": "a list",
    "tuple": "a list",
    "dict": "`key: value` pairs",
    "model": "`key: value` pairs",
}
_RANGES = {
    "greater_than": ("gt", "above"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "below"),
    "less_than_equal": ("le", "at most"),
    "too_short": ("min_length", "at least"),
    "too_long": ("max_length", "at most"),
    "string_too_short": ("min_length", "at least"),
    "string_too_long": ("max_length", "at most"),
}
_COUNTED = {"too": ("entry", "entries"), "string_too": ("character", "characters")}


def validated(model: type[M], node: Node, where: str = "") -> tuple[M | None, list[Diagnostic]]:
    """The node as a model, or None and what is wrong with it. `where` names the node in messages, such as `train`."""
    plain = node.plain()
    while True:
        try:
            return model.model_validate_json(json.dumps(plain), strict=True), []
        except ValidationError as error:
            errors = [details | {"loc": _without_tags(details["loc"])} for details in error.errors(include_url=False)]
            # sum, as any() would stop at the first
            if not sum(_converted(plain, details, model) for details in errors):
                break
    # pydantic counts the entries that are right: a list whose entries are refused is no list that is too short
    errors = [details for details in errors if details["type"] != "too_short" or len(details["input"]) < details["ctx"]["min_length"]]
    problems = [_problem(details, model, node, where) for details in errors[:MOST]]
    meant = {problem.fix for problem in problems if problem.code == "E201"}
    # a misspelt key is not reported a second time as a missing one
    return None, [problem for problem in problems if not (problem.code == "E202" and problem.fix.removesuffix(": ...`") + "`" in meant)]


def _converted(plain: Any, error: ErrorDetails, model: type[BaseModel]) -> bool:
    """Whether what was refused is a text with a unit, which is then replaced by the number that the model stores."""
    text = error["input"]
    unit = _unit_at(model, error["loc"]) if isinstance(text, str) else None
    amount = number(text, unit) if unit is not None else None
    if amount is None:
        return False
    *way, last = error["loc"]
    for part in way:
        plain = plain[part]
    plain[last] = amount
    return True


def key_place(node: Node) -> Place:
    """The place to point at for a whole block: its key when it has one."""
    return node.key if node.key is not None and isinstance(node.value, dict | list) else node.place


def place_of(node: Node, *keys: str) -> Place:
    """The place of the first of these dotted keys that is written, otherwise that of the whole block."""
    written = (node.get(*key.split(".")) for key in keys)
    return next((inner.place for inner in written if inner is not None), key_place(node))


def unknown_key(key: str, names: Sequence[str], place: Place, where: str) -> Diagnostic:
    """E201 with the nearest known key."""
    inside = f" in `{where}`" if where else ""
    return unknown("E201" if names else "E201.none", sentence(key), names, place, inside=inside, all=", ".join(names))


def secrets(node: Node) -> Iterator[Diagnostic]:
    """E318 for each key and value below a node that looks like a secret."""
    if isinstance(node.value, dict):
        for key, inner in node.value.items():
            if inner.key is not None and SECRET.search(key):
                yield problem("E318", inner.key)
            yield from secrets(inner)
    elif isinstance(node.value, list):
        for inner in node.value:
            yield from secrets(inner)
    elif isinstance(node.value, str) and SECRET.search(node.value):
        yield problem("E318", node.place)


def _problem(error: ErrorDetails, model: type[BaseModel], root: Node, where: str) -> Diagnostic:
    kind, parts, context = error["type"], error["loc"], error.get("ctx", {})
    node, rest = _walk(root, parts)
    key, parent = (".".join([where, *map(str, names)] if where else map(str, names)) for names in (parts, parts[:-1]))
    if kind == "extra_forbidden":
        names = [name for inner in _models_at(model, parts[:-1]) for name in keys(inner)]
        return unknown_key(str(parts[-1]), names, node.key or node.place, parent)
    if kind == "missing":
        return _missing(str(parts[-1]), parent, _types_at(model, parts), node)
    place = node.key if rest == ["[key]"] and node.key else key_place(node)
    if kind in catalogue():
        return problem(kind, place, **context)
    if kind in ("literal_error", "union_tag_not_found", "union_tag_invalid"):
        return _choice(key, node, context, place)
    if kind in _RANGES:
        return _range(key, kind, context, node, place)
    unit = _unit_at(model, parts)
    if unit and isinstance(node.value, str):
        return problem("E208", place, key=key, value=_shown(node), example=EXAMPLES[unit])
    expected = _TYPES.get(kind.removesuffix("_type").removesuffix("_from_float").removesuffix("_parsing"))
    if expected:
        return _wrong_type(key, expected, node, place)
    return problem("E205", place, key=key or where, message=re.sub(r"^(Value|Assertion) error, ", "", error["msg"]))


def _missing(key: str, parent: str, fields: Sequence[Any], block: Node) -> Diagnostic:
    removed = block.value.get(key) if isinstance(block.value, dict) else None
    why = next((field.description for field in fields if isinstance(field, FieldInfo)), None) or "it has no default"
    place = key_place(block) if removed is None else removed.key or removed.place
    return problem("E202" if removed is None else "E202.removed", place, key=key, inside=f" in `{parent}`" if parent else "", why=why)


def _choice(key: str, node: Node, context: dict[str, Any], place: Place) -> Diagnostic:
    expected = re.findall(r"'([^']*)'", str(context.get("expected", "")))
    if not expected:
        return problem("E209", place, key=key)
    choices = ", ".join(f"`{word}`" for word in expected)
    if isinstance(node.value, str):
        return unknown("E204", _shown(node), expected, place, key=key, choices=choices)
    return problem("E204", place, key=key, word=_shown(node), choices=choices, first=expected[0])


def _range(key: str, kind: str, context: dict[str, Any], node: Node, place: Place) -> Diagnostic:
    name, words = _RANGES[kind]
    bound = context[name]
    amount = f"{words} {bound:g}" if isinstance(bound, float) else f"{words} {bound}"
    unit = _COUNTED.get(kind.removesuffix("_short").removesuffix("_long"))
    if unit is not None:
        return problem("E205.size", place, key=key, amount=f"{amount} {unit[0] if bound == 1 else unit[1]}")
    return problem("E205.range", place, key=key, amount=amount, value=_shown(node))


def _wrong_type(key: str, expected: str, node: Node, place: Place) -> Diagnostic:
    form = "E203"
    if expected == "text" and not isinstance(node.value, list | dict):
        form = "E203.quoted"
    elif expected in ("a number", "a whole number") and isinstance(node.value, str):
        form = "E203.number"
    elif expected == "a list" and not isinstance(node.value, dict):
        form = "E203.list"
    count = node.value if key == "seeds" and type(node.value) is int and 1 < node.value <= MOST_SEEDS_SHOWN else None
    example = list(range(1, count + 1)) if count else f"[{_shown(node)}]"
    return problem(form, place, key=key, expected=expected, shape=_shape(node), value=_shown(node), example=str(example))


def _shape(node: Node) -> str:
    if isinstance(node.value, dict):
        return "a block of `key: value` pairs"
    if isinstance(node.value, list):
        return "a list"
    if isinstance(node.value, bool) or node.value is None:
        return f"`{_shown(node)}`"
    return f"the text `{_shown(node)}`" if isinstance(node.value, str) else f"the number `{_shown(node)}`"


def _shown(node: Node) -> str:
    return shown(node.value, 60)


def _walk(node: Node, parts: Sequence[int | str]) -> tuple[Node, list[int | str]]:
    """The deepest node on the way, and the parts that lead nowhere."""
    for index, part in enumerate(parts):
        inner = node.get(part)
        if inner is None:
            return node, list(parts[index:])
        node = inner
    return node, []


def _without_tags(location: tuple[int | str, ...]) -> tuple[int | str, ...]:
    """A location without the names of forms: `(name)` is no key."""
    return tuple(part for part in location if not (isinstance(part, str) and part.startswith("(") and part.endswith(")")))


def keys(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """Fields of a model by the key that a spec writes: `from` is no name in Python."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


def _types_at(model: type[BaseModel], parts: Sequence[int | str]) -> list[Any]:
    """Fields of models, or types of entries, that a location may stand for."""
    types: list[Any] = [model]
    for part in parts:
        types = [inner for kind in types for arm in _arms(kind) for inner in _below(arm, part)]
    return types


def _models_at(model: type[BaseModel], parts: Sequence[int | str]) -> list[type[BaseModel]]:
    return [arm for kind in _types_at(model, parts) for arm in _arms(kind) if isinstance(arm, type) and issubclass(arm, BaseModel)]


def _below(arm: Any, part: int | str) -> Iterator[Any]:
    if isinstance(arm, type) and issubclass(arm, BaseModel):
        if part in keys(arm):
            yield keys(arm)[str(part)]
    elif get_origin(arm) in (dict, tuple):
        yield get_args(arm)[1 if get_origin(arm) is dict else 0]


def _arms(kind: Any) -> list[Any]:
    """Members of a union, without what is noted beside them; the type itself when it is no union."""
    if isinstance(kind, FieldInfo):
        return _arms(kind.annotation)
    if hasattr(kind, "__metadata__"):
        return _arms(get_args(kind)[0])
    return [deep for arm in get_args(kind) for deep in _arms(arm)] if get_origin(kind) in (Union, UnionType) else [kind]


def _unit_at(model: type[BaseModel], parts: Sequence[int | str]) -> str | None:
    """The unit in which the value at a location is stored, where specs may write it with a unit."""
    marks = [
        mark for kind in _types_at(model, parts) for mark in ([kind] if isinstance(kind, FieldInfo) else getattr(kind, "__metadata__", []))
    ]
    units = (
        mark.json_schema_extra.get("unit") for mark in marks if isinstance(mark, FieldInfo) and isinstance(mark.json_schema_extra, dict)
    )
    return next((str(unit) for unit in units if unit in FACTORS), None)
