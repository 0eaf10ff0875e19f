"""`parent` and `changes`: a child is its parent with its changes on top, and whatever its own file says.

Everything but what only an experiment itself can say is inherited. Declared changes are written into the inherited tree at
their dotted keys; `compiler.build.difference` then holds the result against the parent.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from compiler.document.layers import OWN, Read, lowered, overlay, with_shared
from compiler.document.node import Document, Node
from compiler.problems import Rejected, listed, problem, unknown
from stages.contracts.diagnostic import Note
from stages.contracts.names import SLUG

SPECS = Path("specs")
MAX_CHANGES = 500
MAX_PARTS = 20
NOT_INHERITED = {*OWN} - {"question"}


@dataclass(frozen=True)
class Member:
    """An experiment in its family. `root` has shared blocks, the parent and the changes merged in."""

    stem: str
    document: Document
    root: Node
    parent: Member | None


def member(document: Document, stem: str, read: Read) -> Member:
    """A spec with its ancestors. Raises Rejected: E336 no such parent, E337 a circle, E338 a change of nothing."""
    child: Member | None = None
    for name, ancestor in reversed(_line(document, stem, read)):
        root = with_shared(ancestor, read)
        if child is not None:
            root = _inherited(child.root, root)
        child = Member(name, ancestor, root, child)
    assert child is not None  # a line holds the spec itself
    return child


def _line(document: Document, stem: str, read: Read) -> list[tuple[str, Document]]:
    """The spec, its parent, its parent's parent and so on."""
    line = [(stem, document)]
    places: list[Note] = []
    while (named := line[-1][1].root.get("parent")) is not None and isinstance(named.value, str):
        file = line[-1][1].file
        if named.value in dict(line):
            names = " -> ".join([*(name for name, _ in line), named.value])
            circle = problem("E337", named.place, names=names, file=file)
            raise Rejected([replace(circle, notes=tuple(places))])
        places.append(Note(named.place, f"the parent of `{line[-1][0]}` is `{named.value}`"))
        line.append((named.value, read(_parent_file(named, line[-1][0]))))
    return line


def _parent_file(named: Node, child: str) -> Path:
    path, others = SPECS / f"{named.value}.yaml", ("pipeline", "revisions.lock", child)
    if SLUG.fullmatch(named.value) and named.value not in others and path.is_file():
        return path
    specs = sorted(path.stem for path in SPECS.glob("*.yaml") if path.stem not in others)
    plain = named.value.partition("@")[0]  # a parent is named without a profile
    if plain in specs:
        raise Rejected([problem("E336.profile", named.place, word=named.value[:80], plain=plain, known=specs)])
    raise Rejected([unknown("E336", named.value, specs, named.place)])


def _inherited(parent: Node, own: Node) -> Node:
    """The child's whole tree."""
    kept = {key: node for key, node in parent.value.items() if key not in NOT_INHERITED} if isinstance(parent.value, dict) else {}
    if (count := sum(1 for _ in changes(own))) > MAX_CHANGES:
        node = own.get("changes")
        raise Rejected([problem("E205.changes", node.key if node else None, most=MAX_CHANGES, count=f"{count:,}")])
    root = Node(lowered(Node(kept, own.place), "parent").value, own.place, own.key, "parent")
    return overlay(with_changes(root, changes(own)), own, "shared")


def with_changes(root: Node, declared: Iterable[tuple[str, Node]]) -> Node:
    """A copy of a tree with new values at dotted keys. Raises Rejected with an E338 for each key that leads nowhere."""
    problems = []
    for path, node in declared:
        parts, short = _parts(path), path if len(path) <= 80 else f"{path[:77]}..."
        keys, rest = _way(root, parts) if len(parts) <= MAX_PARTS else ([], [])
        target = _down(root, keys)
        if len(parts) > MAX_PARTS:
            problems.append(problem("E338.deep", node.key or node.place, path=short))
        elif rest and isinstance(target.value, list):
            names = [name for entry in target.value if isinstance(entry.value, dict) for name in entry.value]
            gates = f"; gates: {listed(names)}" if names else ""
            problems.append(unknown("E338.gate", rest[0], names, node.key or node.place, target.place, path=short, gates=gates))
        elif not rest and node.value is None and len(keys) > 1 and isinstance(keys[-2], int):  # a gate goes with its entry
            root = _replaced(root, keys[:-1], None)
        else:
            over = node
            for part in reversed(rest):  # maps around the value, all of them at the place where the change is declared
                over = Node({part: over}, node.place, node.key)
            root = _replaced(root, keys, overlay(target, over, "experiment"))
    if problems:
        raise Rejected(problems)
    return root


def changes(root: Node) -> Iterator[tuple[str, Node]]:
    """Declared changes: dotted key and new value; null removes."""
    declared = root.get("changes")
    if declared is not None and isinstance(declared.value, dict):
        yield from declared.value.items()


def _parts(path: str) -> list[str]:
    """Keys that a dotted key stands for. Below `health.gates` lie metrics, which have dots in their names."""
    head = "health.gates."
    if not path.startswith(head):
        return path.split(".")
    metric, _, last = path.removeprefix(head).rpartition(".")
    below = metric and last in ("below", "above")
    return ["health", "gates", metric, last] if below else ["health", "gates", path.removeprefix(head)]


def _way(root: Node, parts: list[str]) -> tuple[list[str | int], list[str]]:
    """Keys of maps, and numbers and names of gates in lists, that the parts of a dotted key lead along; and the parts that lead nowhere.

    Metrics have dots in their names, so the longest key that fits is meant.
    """
    keys: list[str | int] = []
    while parts:
        value = _down(root, keys).value
        entries = enumerate(value) if isinstance(value, list) else ()
        gates = {name: index for index, entry in entries if isinstance(entry.value, dict) and len(entry.value) == 1 for name in entry.value}
        names = (".".join(parts[:count]) for count in range(len(parts), 0, -1))
        name = next((name for name in names if name in (value if isinstance(value, dict) else gates)), None)
        if name is None:
            break
        keys += [gates[name], name] if gates else [name]
        parts = parts[name.count(".") + 1 :]
    return keys, parts


def _down(root: Node, keys: Iterable[str | int]) -> Node:
    return functools.reduce(lambda node, key: node.value[key], keys, root)


def at(root: Node, path: str) -> Node | None:
    """The node at a dotted key, a removed one (null) included; None if there is none."""
    keys, rest = _way(root, path.split("."))
    return None if rest else _down(root, keys)


def _replaced(node: Node, keys: list[str | int], new: Node | None) -> Any:
    """A copy of a tree with another node at some keys; without that entry of a list when there is none."""
    if not keys:
        return new
    value, inner = node.value.copy(), _replaced(node.value[keys[0]], keys[1:], new)
    if inner is None:
        del value[keys[0]]
    else:
        value[keys[0]] = inner
    return Node(value, node.place, node.key, node.layer, node.over)
