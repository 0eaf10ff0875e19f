"""Layers of a spec: defaults < parent < shared < experiment < condition < profile. Maps merge, lists and scalars replace, null removes."""

from __future__ import annotations

from compiler.document.node import Node

RANK = {"parent": 0, "shared": 1, "experiment": 2, "condition": 3, "profile": 4}


def overlay(base: Node, over: Node, layer: str) -> Node:
    """`over` on top of `base`; a value of a higher layer that is already in `base` stays. The replaced value stays reachable."""
    if isinstance(base.value, dict) and isinstance(over.value, dict):
        merged = dict(base.value)
        for key, node in over.value.items():
            merged[key] = overlay(merged[key], node, layer) if key in merged else labelled(node, layer)
        return Node(merged, base.place, base.key, base.layer, base.over)
    if RANK[base.layer] > RANK[_higher(layer, over.layer)]:
        return base
    top = labelled(over, layer)
    top.over = base
    return top


def labelled(node: Node, layer: str) -> Node:
    """A copy whose values say which layer they come from: this one, or a higher one that wrote them."""
    value = node.value
    if isinstance(value, dict):
        value = {key: labelled(inner, layer) for key, inner in value.items()}
    elif isinstance(value, list):
        value = [labelled(inner, layer) for inner in value]
    return Node(value, node.place, node.key, _higher(layer, node.layer), node.over)


def lowered(node: Node, layer: str) -> Node:
    """A copy whose values all come from `layer`, whichever wrote them in their own file."""
    value = node.value
    if isinstance(value, dict):
        value = {key: lowered(inner, layer) for key, inner in value.items()}
    elif isinstance(value, list):
        value = [lowered(inner, layer) for inner in value]
    return Node(value, node.place, node.key, layer)


def _higher(one: str, other: str) -> str:
    return one if RANK[one] > RANK[other] else other


def replaced(node: Node) -> list[Node]:
    """Values that this one replaced, nearest layer first."""
    found = []
    while node.over is not None:
        node = node.over
        found.append(node)
    return found
