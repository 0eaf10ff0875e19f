"""A parsed YAML file: plain values, each with the place of its key and its value."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from stages.contracts.diagnostic import Place


class Node:
    """A value in a file. `value` is a scalar, a list of nodes, or a dict of nodes by key."""

    __slots__ = ("key", "layer", "over", "place", "value")

    def __init__(self, value: Any, place: Place, key: Place | None = None, layer: str = "experiment", over: Node | None = None) -> None:
        self.value, self.place, self.key, self.layer, self.over = value, place, key, layer, over
        """`key` is the place of its key in a map; `over` the value that this one replaced in a lower layer."""

    def get(self, *path: str | int) -> Node | None:
        """The node at a path, or None. A key with the value null counts as absent."""
        node: Node | None = self
        for part in path:
            inner = node.value if node is not None else None
            if isinstance(inner, dict):
                node = inner.get(part)
            elif isinstance(inner, list) and isinstance(part, int) and part < len(inner):
                node = inner[part]
            else:
                return None
        return node if node is not None and node.value is not None else None

    def items(self) -> Iterator[tuple[str, Node]]:
        """Keys and nodes of a map, without those that are null; nothing for other values."""
        if isinstance(self.value, dict):
            yield from ((key, node) for key, node in self.value.items() if node.value is not None)

    def plain(self) -> Any:
        """The value without places. Keys with the value null are left out: null removes."""
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items() if node.value is not None}
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        return self.value


@dataclass(frozen=True)
class Document:
    """One YAML file. `file` is its path as shown in messages, with forward slashes."""

    file: str
    lines: list[str]
    root: Node

    @cached_property
    def keys(self) -> dict[tuple[int, int], str]:
        """Line and column -> the dotted key that stands there. An entry of a list is named by its one key or its id, or by its number."""
        return dict(_keys("", self.root))


def _keys(key: str, node: Node) -> Iterator[tuple[tuple[int, int], str]]:
    in_list = isinstance(node.value, list)
    items: Iterable[tuple[str, Node]] = node.items()
    if in_list:
        items = ((_entry_name(entry, number), entry) for number, entry in enumerate(node.value, 1))
    for name, inner in items:
        dotted = f"{key}.{name}" if key else name
        if in_list and isinstance(inner.value, dict) and list(inner.value) == [name]:
            yield (inner.place.line, inner.place.column), dotted
            inner = inner.value[name]
        yield from (((place.line, place.column), dotted) for place in (inner.key, inner.place) if place is not None)
        yield from _keys(dotted, inner)


def _entry_name(entry: Node, number: int) -> str:
    if isinstance(entry.value, dict) and len(entry.value) == 1:
        return str(next(iter(entry.value)))
    named = entry.get("id")
    return str(named.value) if named is not None else str(number)
