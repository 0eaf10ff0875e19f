"""A node -> a model of the language. Locations of pydantic become places in the file, and its errors messages of the catalogue."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar, get_args, get_origin

from pydantic import BaseModel, Tag, ValidationError
from pydantic_core import ErrorDetails

from compiler.document.node import Node
from compiler.document.units import EXAMPLES, arms, converted, keys, unit_of
from compiler.problems import SECRET, catalogue, problem, sentence, shown, unknown
from stages.contracts.diagnostic import Diagnostic, Place

M = TypeVar("M", bound=BaseModel)

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
    plain = converted(model, node.plain())
    try:
        return model.model_validate_json(json.dumps(plain), strict=True), []
    except ValidationError as error:
        problems = [_problem(details, model, node, where) for details in error.errors(include_url=False)]
        meant = {problem.fix for problem in problems if problem.code == "E201"}
        # a misspelt key is not reported a second time as a missing one
        return None, [problem for problem in problems if not (problem.code == "E202" and problem.fix.removesuffix(": ...`") + "`" in meant)]


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
    kind, location, context = error["type"], error["loc"], error.get("ctx", {})
    parts = [part for part in location if not _is_tag(part)]
    node, rest = _walk(root, parts)
    key = ".".join([where, *map(str, parts)] if where else map(str, parts))
    parent = ".".join([where, *map(str, parts[:-1])] if where else map(str, parts[:-1]))
    if kind == "extra_forbidden":
        names = [name for inner in _models_at(model, location[:-1]) for name in keys(inner)]
        return unknown_key(str(parts[-1]), names, node.key or node.place, parent)
    if kind == "missing":
        return _missing(str(parts[-1]), parent, model, location, node)
    place = node.key if rest == ["[key]"] and node.key else key_place(node)
    if kind in catalogue():
        return problem(kind, place, **context)
    if kind in ("literal_error", "union_tag_not_found", "union_tag_invalid"):
        return _choice(key, node, context, place)
    if kind in _RANGES:
        return _range(key, kind, context, node, place)
    unit = _unit_at(model, location)
    if unit and isinstance(node.value, str):
        return problem("E208", place, key=key, value=_shown(node), example=EXAMPLES[unit])
    expected = _TYPES.get(kind.removesuffix("_type").removesuffix("_from_float").removesuffix("_parsing"))
    if expected:
        return _wrong_type(key, expected, node, place)
    return problem("E205", place, key=key or where, message=re.sub(r"^(Value|Assertion) error, ", "", error["msg"]))


def _missing(key: str, parent: str, model: type[BaseModel], location: Sequence[int | str], block: Node) -> Diagnostic:
    removed = block.value.get(key) if isinstance(block.value, dict) else None
    fields = next((keys(inner) for inner in _models_at(model, location[:-1]) if key in keys(inner)), {})
    facts: dict[str, Any] = {
        "key": key,
        "inside": f" in `{parent}`" if parent else "",
        "why": (fields[key].description if key in fields else None) or "it has no default",
    }
    if removed is not None:
        return problem("E202.removed", removed.key or removed.place, **facts)
    return problem("E202", key_place(block), **facts)


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
    return problem(form, place, key=key, expected=expected, shape=_shape(node), value=_shown(node))


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


def _is_tag(part: int | str) -> bool:
    return isinstance(part, str) and part.startswith("(") and part.endswith(")")


def _models_at(model: type[BaseModel], location: Sequence[int | str]) -> list[type[BaseModel]]:
    """Models that a location may stand for, following union tags."""
    annotations: list[Any] = [model]
    for part in location:
        annotations = [inner for annotation in annotations for inner in _step(annotation, part)]
    return [arm for annotation in annotations for arm in arms(annotation) if isinstance(arm, type) and issubclass(arm, BaseModel)]


def _step(annotation: Any, part: int | str) -> Iterator[Any]:
    if _is_tag(part):
        yield from _tagged(annotation, str(part))
        return
    for arm in arms(annotation):
        if isinstance(arm, type) and issubclass(arm, BaseModel):
            if part in keys(arm):
                yield keys(arm)[str(part)].annotation
        elif get_origin(arm) is dict:
            yield get_args(arm)[1]
        elif get_origin(arm) is tuple:
            yield get_args(arm)[0]


def _tagged(annotation: Any, tag: str) -> Iterator[Any]:
    for arm in get_args(annotation):
        if any(isinstance(mark, Tag) and mark.tag == tag for mark in getattr(arm, "__metadata__", ())):
            yield arm
        elif get_args(arm) and not isinstance(arm, type):
            yield from _tagged(arm, tag)


def _unit_at(model: type[BaseModel], location: Sequence[int | str]) -> str | None:
    for parent in _models_at(model, location[:-1]):
        field = keys(parent).get(str(location[-1])) if location else None
        if field is not None and (unit := unit_of(field)):
            return unit
    return None
