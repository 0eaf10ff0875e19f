"""Values of a spec that look like secret keys."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import SECRET
from compiler.document.nodes import Node
from stages.contracts.diagnostic import Diagnostic, Place


def secrets(node: Node) -> Iterator[Diagnostic]:
    """E318 for each key and value below a node that looks like a secret."""
    if isinstance(node.value, dict):
        for key, inner in node.value.items():
            if inner.key is not None and SECRET.search(key):
                yield _found(inner.key)
            yield from secrets(inner)
    elif isinstance(node.value, list):
        for inner in node.value:
            yield from secrets(inner)
    elif isinstance(node.value, str) and SECRET.search(node.value):
        yield _found(node.place)


def _found(place: Place) -> Diagnostic:
    return Diagnostic(
        "E318",
        "this looks like a secret key",
        why="specs, cards and pages are published; a key in them is a key lost",
        fix="take it out, revoke it if it was ever committed, and pass it through the environment, as in WANDB_API_KEY",
        place=place,
    )
