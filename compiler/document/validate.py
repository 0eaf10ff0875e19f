"""Document -> typed parts of a spec. Locations of pydantic become places in the file; its words become ours."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar, get_args, get_origin

from pydantic import BaseModel, Tag, ValidationError
from pydantic_core import ErrorDetails

from compiler.document.node import Node
from compiler.document.units import EXAMPLES, arms, converted, keys, unit_of
from compiler.problems import SECRET, nearest, sentence
from stages.contracts.diagnostic import Diagnostic, Place

M = TypeVar("M", bound=BaseModel)

_CLOSED = "keys are closed, so that a misspelt one cannot be ignored in silence"
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
        problems = [_diagnostic(found, model, node, where) for found in error.errors(include_url=False)]
        meant = {found.fix for found in problems if found.code == "E201"}
        return None, [found for found in problems if not (found.code == "E202" and found.fix.removesuffix(": ...`") + "`" in meant)]


def key_place(node: Node) -> Place:
    """The place to point at for a whole block: its key when it has one."""
    return node.key if node.key is not None and isinstance(node.value, dict | list) else node.place


def unknown_key(key: str, known: Sequence[str], place: Place, where: str) -> Diagnostic:
    """E201 with the nearest known key."""
    meant = nearest(key, known)
    inside = f" in `{where}`" if where else ""
    return Diagnostic(
        "E201",
        f"unknown key `{sentence(key)}`{inside}" + (f", did you mean `{meant}`?" if meant else ""),
        why=_CLOSED,
        fix=f"write `{meant}`" if meant else (f"known keys: {', '.join(known)}" if known else "delete it"),
        place=place,
    )


def _diagnostic(error: ErrorDetails, model: type[BaseModel], node: Node, where: str) -> Diagnostic:
    kind, location, context = error["type"], error["loc"], error.get("ctx", {})
    parts = [part for part in location if not _is_tag(part)]
    found, rest = _walk(node, parts)
    named = ".".join([where, *map(str, parts)] if where else map(str, parts))
    parent = ".".join([where, *map(str, parts[:-1])] if where else map(str, parts[:-1]))
    if kind == "extra_forbidden":
        known = [name for inner in _models_at(model, location[:-1]) for name in keys(inner)]
        return unknown_key(str(parts[-1]), known, found.key or found.place, parent)
    if kind == "missing":
        return _missing(str(parts[-1]), parent, model, location, found)
    if kind == "octavo":
        place = found.key if rest == ["[key]"] and found.key else key_place(found)
        return Diagnostic(context["code"], context["what"], why=context["why"], fix=context["fix"], place=place)
    place = found.key if rest == ["[key]"] and found.key else key_place(found)
    if kind in ("literal_error", "union_tag_not_found", "union_tag_invalid"):
        return _choice(named, found, context, place)
    if kind in _RANGES:
        return _range(named, kind, context, found, place)
    unit = _unit_at(model, location)
    if unit and isinstance(found.value, str):
        return Diagnostic(
            "E208",
            f"`{named}` needs a unit that octavo knows, and is `{_shown(found)}`",
            why="a number without its unit is read differently by different people",
            fix=f"write it as {EXAMPLES[unit]}",
            place=place,
        )
    expected = _TYPES.get(kind.removesuffix("_type").removesuffix("_from_float").removesuffix("_parsing"))
    if expected:
        return _wrong_type(named, expected, found, place)
    message = re.sub(r"^(Value|Assertion) error, ", "", error["msg"])
    return Diagnostic(
        "E205",
        f"`{named or where}`: {message}",
        why="the value is outside what the key can mean",
        fix=f"change `{named or where}`",
        place=place,
    )


def _missing(key: str, parent: str, model: type[BaseModel], location: Sequence[int | str], found: Node) -> Diagnostic:
    removed = found.value.get(key) if isinstance(found.value, dict) else None
    inside = f" in `{parent}`" if parent else ""
    fields = next((keys(inner) for inner in _models_at(model, location[:-1]) if key in keys(inner)), {})
    description = fields[key].description if key in fields else None
    return Diagnostic(
        "E202",
        f"`{key}` is missing{inside}" + (": null removes it" if removed is not None else ""),
        why=(description or "it has no default"),
        fix=f"write `{key}: ...`" if removed is None else f"delete this line, or give `{key}` a value",
        place=removed.key or removed.place if removed is not None else key_place(found),
    )


def _choice(named: str, found: Node, context: dict[str, Any], place: Place) -> Diagnostic:
    expected = re.findall(r"'([^']*)'", str(context.get("expected", "")))
    if not expected:
        return Diagnostic(
            "E209",
            f"`{named}` has none of the forms that are known here, or more than one",
            why="each form means something else, so it must be clear which one is meant",
            fix="write a reward's name, {invert: name}, {random: bernoulli, p: 0.5} or {constant: 0.0}",
            place=place,
        )
    meant = nearest(str(found.value), expected) if isinstance(found.value, str) else None
    choices = ", ".join(f"`{word}`" for word in expected)
    return Diagnostic(
        "E204",
        f"`{named}` cannot be `{_shown(found)}`" + (f", did you mean `{meant}`?" if meant else ""),
        why=f"known values: {choices}",
        fix=f"write `{meant or expected[0]}`",
        place=place,
    )


def _range(named: str, kind: str, context: dict[str, Any], found: Node, place: Place) -> Diagnostic:
    name, words = _RANGES[kind]
    bound = context[name]
    amount = f"{words} {bound:g}" if isinstance(bound, float) else f"{words} {bound}"
    unit = _COUNTED.get(kind.removesuffix("_short").removesuffix("_long"))
    if unit is not None:
        amount = f"{amount} {unit[0] if bound == 1 else unit[1]}"
    return Diagnostic(
        "E205",
        f"`{named}` must have {amount}" if unit else f"`{named}` must be {amount}, and is `{_shown(found)}`",
        why="a value outside this range cannot mean anything here",
        fix=f"give it {amount}" if unit else f"write a value that is {amount}",
        place=place,
    )


def _wrong_type(named: str, expected: str, found: Node, place: Place) -> Diagnostic:
    is_text_wanted = expected == "text" and not isinstance(found.value, list | dict)
    is_quoted_number = expected in ("a number", "a whole number") and isinstance(found.value, str)
    return Diagnostic(
        "E203",
        f"`{named}` must be {expected}, and is {_shape(found)}",
        why="the value is used as it stands, so nothing is guessed",
        fix=f'put it in quotes: "{_shown(found)}"'
        if is_text_wanted
        else "write the number without quotes or words"
        if is_quoted_number
        else f"write {expected}",
        place=place,
    )


def _shape(node: Node) -> str:
    if isinstance(node.value, dict):
        return "a block of `key: value` pairs"
    if isinstance(node.value, list):
        return "a list"
    if isinstance(node.value, bool) or node.value is None:
        return f"`{_shown(node)}`"
    return f"the text `{_shown(node)}`" if isinstance(node.value, str) else f"the number `{_shown(node)}`"


def _shown(node: Node) -> str:
    value = node.value
    text = (
        "null"
        if value is None
        else str(value).lower()
        if isinstance(value, bool)
        else f"{value:g}"
        if isinstance(value, float)
        else str(value)
    )
    return sentence(text if len(text) <= 60 else text[:57] + "...")


def _walk(node: Node, parts: Sequence[int | str]) -> tuple[Node, list[int | str]]:
    """The deepest node on the way, and the parts that lead nowhere."""
    for index, part in enumerate(parts):
        inner = node.value.get(part) if isinstance(node.value, dict) else None
        if isinstance(node.value, list) and isinstance(part, int) and part < len(node.value):
            inner = node.value[part]
        if inner is None or inner.value is None:
            return node, list(parts[index:])
        node = inner
    return node, []


def _is_tag(part: int | str) -> bool:
    return isinstance(part, str) and part.startswith("(") and part.endswith(")")


def _models_at(model: type[BaseModel], location: Sequence[int | str]) -> list[type[BaseModel]]:
    """Models that a location may stand for, following union tags."""
    found: list[Any] = [model]
    for part in location:
        found = [deep for annotation in found for deep in _step(annotation, part)]
    return [arm for annotation in found for arm in arms(annotation) if isinstance(arm, type) and issubclass(arm, BaseModel)]


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


def secrets(node: Node) -> Iterator[Diagnostic]:
    """E318 for each key and value below a node that looks like a secret."""
    if isinstance(node.value, dict):
        for key, inner in node.value.items():
            if inner.key is not None and SECRET.search(key):
                yield _secret(inner.key)
            yield from secrets(inner)
    elif isinstance(node.value, list):
        for inner in node.value:
            yield from secrets(inner)
    elif isinstance(node.value, str) and SECRET.search(node.value):
        yield _secret(node.place)


def _secret(place: Place) -> Diagnostic:
    return Diagnostic(
        "E318",
        "this looks like a secret key",
        why="specs, cards and pages are published; a key in them is a key lost",
        fix="take it out, revoke it if it was ever committed, and pass it through the environment, as in WANDB_API_KEY",
        place=place,
    )
