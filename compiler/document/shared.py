"""`use: [name, ...]`: blocks of `specs/_shared/` below an experiment's own keys. Later blocks win over earlier ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from compiler import disk
from compiler.document.layers import lowered, overlay
from compiler.document.node import Document, Node
from compiler.document.validate import secrets
from compiler.problems import Rejected, nearest
from stages.contracts.diagnostic import Diagnostic
from stages.contracts.names import SLUG, SLUG_CHARS

SHARED = Path("specs/_shared")
OWN = ("title", "question", "use", "parent", "changes", "hypothesis", "claims", "actions", "contingency")
"""What only an experiment itself can say."""

Read = Callable[[Path], Document]


def with_shared(document: Document, read: Read) -> Node:
    """The root of a spec on top of the shared blocks that it uses. Raises Rejected: E334 no such block, E335 a key that has no
    place in one."""
    wanted = document.root.get("use")
    if wanted is None or not isinstance(wanted.value, list):
        return document.root  # its own model says what is wrong with `use`
    below: Node | None = None
    problems: list[Diagnostic] = []
    for entry in wanted.value:
        if not isinstance(entry.value, str):
            continue
        try:
            block = lowered(_block(entry, read), "shared")
        except Rejected as rejected:
            problems.extend(rejected.diagnostics)
            if rejected.sources:
                raise
        else:
            below = block if below is None else overlay(below, block, "shared")
    if problems:
        raise Rejected(problems)
    root = document.root
    return root if below is None else overlay(Node(below.value, root.place, root.key, "shared"), root, "shared")


def _block(entry: Node, read: Read) -> Node:
    name = entry.value
    known = sorted(path.stem for path in disk.yaml_files(SHARED))
    if name not in known or not SLUG.fullmatch(name):
        meant = nearest(name, known)
        raise Rejected(
            [
                Diagnostic(
                    "E334",
                    f"no shared block `{name[:SLUG_CHARS]}`" + (f", did you mean `{meant}`?" if meant else ""),
                    why=f"`use` names files of {SHARED.as_posix()}/; known: {', '.join(known) or 'none'}",
                    fix=f"write `{meant}`" if meant else f"ls {SHARED.as_posix()}",
                    place=entry.place,
                )
            ]
        )
    document = read(SHARED / f"{name}.yaml")
    problems = [*secrets(document.root), *_misplaced(document)]
    if problems:
        raise Rejected(problems)
    return document.root


def _misplaced(document: Document) -> Iterator[Diagnostic]:
    if not isinstance(document.root.value, dict):
        yield Diagnostic(
            "E203",
            "a shared block must be `key: value` pairs",
            why="it holds keys of a spec that several experiments share",
            fix="train: {...}",
            place=document.root.place,
        )
        return
    for key, node in document.root.value.items():
        if key in OWN:
            yield Diagnostic(
                "E335",
                f"`{key}` has no place in a shared block",
                why="it is what makes an experiment this experiment, so it stands in the experiment's own file",
                fix=f"move `{key}` to the specs that use this block",
                place=node.key or node.place,
            )
