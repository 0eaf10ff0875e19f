"""Layers of a spec: defaults < parent < shared < experiment < condition < profile. Maps merge, lists and scalars replace, null removes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from compiler.document.node import Document, Node
from compiler.document.validate import secrets
from compiler.problems import Rejected, problem, unknown
from stages.contracts.diagnostic import Diagnostic
from stages.contracts.names import SLUG

RANK = {"parent": 0, "shared": 1, "experiment": 2, "condition": 3, "profile": 4}
SHARED = Path("specs/_shared")
OWN = (
    "title",
    "question",
    "use",
    "parent",
    "changes",
    "compare",
    "hypothesis",
    "claims",
    "actions",
    "contingency",
    "status",
    "decision",
    "evidence",
)
"""Keys that only an experiment itself can have, and no shared block."""

Read = Callable[[Path], Document]


def overlay(base: Node, over: Node, layer: str) -> Node:
    """`over` on top of `base`; a value of a higher layer that is already in `base` stays. The replaced value stays reachable."""
    if isinstance(base.value, dict) and isinstance(over.value, dict):
        merged = dict(base.value)
        for key, node in over.value.items():
            merged[key] = overlay(merged[key], node, layer) if key in merged else _labelled(node, layer)
        return Node(merged, base.place, base.key, base.layer, base.over)
    top = _labelled(over, layer)
    if RANK[base.layer] > RANK[top.layer]:
        return base
    top.over = base
    return top


def _labelled(node: Node, layer: str) -> Node:
    """A copy with the layer of each value: this one, or a higher one that wrote the value."""
    higher = layer if RANK[layer] > RANK[node.layer] else node.layer
    return Node(_mapped(node, _labelled, layer), node.place, node.key, higher, node.over)


def lowered(node: Node, layer: str) -> Node:
    """A copy whose values all come from `layer`, whichever wrote them in their own file."""
    return Node(_mapped(node, lowered, layer), node.place, node.key, layer)


def _mapped(node: Node, change: Callable[[Node, str], Node], layer: str) -> object:
    """The node's value with every node below it changed."""
    if isinstance(node.value, dict):
        return {key: change(inner, layer) for key, inner in node.value.items()}
    return [change(inner, layer) for inner in node.value] if isinstance(node.value, list) else node.value


def replaced(node: Node) -> list[Node]:
    """Values that this one replaced, nearest layer first."""
    values = []
    while node.over is not None:
        node = node.over
        values.append(node)
    return values


def with_shared(document: Document, read: Read) -> Node:
    """The root of a spec on top of the shared blocks that its `use` names; later blocks win over earlier ones.

    Raises Rejected: E334 no such block, E335 a key that has no place in one.
    """
    root, use = document.root, document.root.get("use")
    below: Node | None = None
    problems: list[Diagnostic] = []
    # a `use` of another shape is refused by its own model
    for entry in use.value if use is not None and isinstance(use.value, list) else ():
        if not isinstance(entry.value, str):
            continue
        try:
            block = lowered(_block(entry, read), "shared")
        except Rejected as rejected:
            if rejected.sources:  # it is no YAML
                raise
            problems.extend(rejected.diagnostics)
        else:
            below = block if below is None else overlay(below, block, "shared")
    if problems:
        raise Rejected(problems)
    return root if below is None else overlay(Node(below.value, root.place, root.key, "shared"), root, "shared")


def _block(entry: Node, read: Read) -> Node:
    names = sorted(path.stem for path in SHARED.glob("*.yaml"))
    if entry.value not in names or not SLUG.fullmatch(entry.value):
        raise Rejected([unknown("E334", entry.value, names, entry.place, all=", ".join(names) or "none")])
    root = read(SHARED / f"{entry.value}.yaml").root
    problems = list(secrets(root))
    if not isinstance(root.value, dict):
        problems.append(problem("E203.shared", root.place))
    else:
        problems += [problem("E335", node.key or node.place, key=key) for key, node in root.value.items() if key in OWN]
    if problems:
        raise Rejected(problems)
    return root
