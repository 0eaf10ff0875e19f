"""`parent` and `changes`: a child is its parent with its changes on top, and whatever its own file says.

Everything but what only an experiment itself can say is inherited. Declared changes are written into the inherited tree at
their dotted keys; `compiler.build.difference` then holds the result against the parent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from compiler.document.layers import OWN, Read, lowered, overlay, with_shared
from compiler.document.node import Document, Node
from compiler.problems import Rejected, listed, problem, unknown
from stages.contracts.diagnostic import Diagnostic, Note

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
    known = sorted(path.stem for path in SPECS.glob("*.yaml") if path.stem not in ("pipeline", "revisions.lock", child))
    if named.value in known:
        return SPECS / f"{named.value}.yaml"
    plain = named.value.partition("@")[0]  # a parent is named without a profile
    if plain in known:
        raise Rejected([problem("E336.profile", named.place, word=named.value[:80], plain=plain, known=known)])
    raise Rejected([unknown("E336", named.value, known, named.place)])


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
        try:
            if len(parts := _parts(path)) > MAX_PARTS:
                raise Rejected([problem("E338.deep", node.key or node.place, path=_short(path))])
            root = _changed(root, parts, node, path)
        except Rejected as rejected:
            problems.extend(rejected.diagnostics)
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


def step(node: Node, parts: list[str]) -> tuple[str | int, int] | None:
    """The key of a map, or the place of a named gate in a list, that the first parts name, and how many parts; None if nothing.

    Metrics have dots in their names, so the longest key that fits is meant.
    """
    if isinstance(node.value, dict):
        for count in range(len(parts), 0, -1):
            if ".".join(parts[:count]) in node.value:
                return ".".join(parts[:count]), count
    elif isinstance(node.value, list):
        for index, entry in enumerate(node.value):
            if isinstance(entry.value, dict) and list(entry.value) == parts[:1]:
                return index, 1
    return None


def at(root: Node, path: str) -> Node | None:
    """The node at a dotted key, a removed one (null) included; None if there is none."""
    node, parts = root, path.split(".")
    while parts:
        target = step(node, parts)
        if target is None:
            return None
        key, count = target
        node, parts = node.value[key], parts[count:]
        if isinstance(key, int):
            node = next(iter(node.value.values()))
    return node


def _changed(node: Node, parts: list[str], over: Node, path: str) -> Node:
    """A copy of the tree with a new value at a dotted key."""
    if not parts:
        return overlay(node, over, "experiment")
    target = step(node, parts)
    if target is None:
        if isinstance(node.value, list):
            raise Rejected([_no_gate(node, parts, over, path)])
        return overlay(node, _nested(parts, over), "experiment")
    key, count = target
    value, rest = node.value.copy(), parts[count:]
    if isinstance(key, str):
        value[key] = _changed(value[key], rest, over, path)
    elif not rest and over.value is None:
        del value[key]
    else:
        ((name, gate),) = value[key].value.items()
        value[key] = Node({name: _changed(gate, rest, over, path)}, value[key].place, layer=node.layer)
    return Node(value, node.place, node.key, node.layer, node.over)


def _nested(parts: list[str], over: Node) -> Node:
    """Maps around a value, all of them at the place where the change is declared."""
    node = over
    for part in reversed(parts):
        node = Node({part: node}, over.place, over.key)
    return node


def _no_gate(node: Node, parts: list[str], over: Node, path: str) -> Diagnostic:
    known = [name for entry in node.value if isinstance(entry.value, dict) for name in entry.value]
    gates = f"; gates: {listed(known)}" if known else ""
    return unknown("E338.gate", parts[0], known, over.key or over.place, note=node.place, path=_short(path), gates=gates)


def _short(path: str) -> str:
    return path if len(path) <= 80 else f"{path[:77]}..."
