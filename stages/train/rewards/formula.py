"""Arithmetic that a spec may hold: numbers, named counts, + - * /, brackets, min and max. Parsed by `ast`, and never run as Python."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

MOST_CHARS = 200
_NUMBER = re.compile(r"(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_STRANGE = re.compile(r"[^A-Za-z0-9_.\s+\-*/(),]|,\s*\)", re.ASCII)
_FUNCTIONS = {"min": min, "max": max}
_SIGNS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}


@dataclass(frozen=True)
class Formula:
    """A formula that holds nothing but arithmetic."""

    tree: ast.expr

    def value(self, names: Mapping[str, float]) -> float:
        """The number for these counts, in floating point. Raises ZeroDivisionError; may be infinite or NaN where floats overflow."""
        return _value(self.tree, names)


def parsed(text: str, names: Sequence[str]) -> Formula:
    """Raises ValueError, with the column, for anything but arithmetic, or a name that is not allowed."""
    if len(text) > MOST_CHARS:
        raise ValueError(f"the formula has {len(text)} characters, more than {MOST_CHARS}")
    if strange := _STRANGE.search(text):
        raise _refusal(strange.start(), strange[0])
    source = re.sub(r"\s", " ", text.lstrip())
    shift = len(text) - len(text.lstrip())
    try:
        tree = ast.parse(source, mode="eval").body
    except SyntaxError as error:
        raise ValueError(f"column {(error.offset or 1) + shift}: {error.msg}") from None
    for node in _parts(tree):
        start = node.col_offset + shift
        part = ast.get_source_segment(source, node) or ""
        match node:
            case ast.BinOp(op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div()) | ast.UnaryOp(op=ast.USub()):
                pass
            case ast.Call(func=ast.Name(id="min" | "max"), args=[_, *_], keywords=[]):
                pass
            case ast.Constant() if _NUMBER.fullmatch(part):
                pass
            case ast.Name(id=name) if name not in names:
                raise ValueError(f"column {start + 1}: {name!r} is no name here; known: {', '.join([*names, *_FUNCTIONS])}")
            case ast.Name():
                pass
            case _:
                raise _refusal(start, part)
    return Formula(tree)


def _parts(node: ast.expr) -> list[ast.expr]:
    """The expression and all within it; of a call its arguments alone."""
    inner = node.args if isinstance(node, ast.Call) else [part for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr)]
    return [node, *(part for each in inner for part in _parts(each))]


def _refusal(start: int, part: str) -> ValueError:
    return ValueError(f"column {start + 1}: {part!r} is no part of a formula")


def _value(node: ast.expr, names: Mapping[str, float]) -> float:
    match node:
        case ast.Constant(value=int() | float() as number):
            return float(number)
        case ast.Name(id=name):
            return float(names[name])
        case ast.UnaryOp(operand=operand):
            return -_value(operand, names)
        case ast.BinOp(left=left, op=sign, right=right):
            return float(_SIGNS[type(sign)](_value(left, names), _value(right, names)))
        case ast.Call(func=ast.Name(id=name), args=arguments):
            return _FUNCTIONS[name](_value(argument, names) for argument in arguments)
    raise ValueError(f"{ast.dump(node)} is no arithmetic")
