"""`specs/revisions.lock.yaml`: the commits of hub repositories that specs name, and the hashes of snapshots of W&B runs. Read by every
compile, written by `--update` alone."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from compiler.document.node import Document, Node
from compiler.document.validate import key_place
from compiler.problems import Rejected, nearest, problem
from stages.contracts.diagnostic import Diagnostic, Place
from stages.contracts.names import PATH, is_hub_id

LOCK = Path("specs/revisions.lock.yaml")
UPDATE = "octavo compile --update"

Kind = Literal["models", "datasets"]
KINDS: tuple[Kind, ...] = ("models", "datasets")
USES: dict[Kind, tuple[str, ...]] = {"models": ("model", "base"), "datasets": ("hub",)}
"""The last keys on the way to a reference of each kind."""

SNAPSHOTS = "snapshots"
"""The part of W&B: path of a snapshot -> SHA-256 of its content."""

_COMMIT = re.compile(r"[0-9a-f]{40}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_HEADER = f"""\
# Commits of the Hugging Face hub repositories that the specs name. Cards take them from here, so results name what made them.
# Written by `{UPDATE}`, which adds what is missing and drops what no spec names;
# `{UPDATE} owner/name` moves one entry to the newest commit. Commit this file.
# One line an entry, sorted: git merges entries that two branches add.
"""
_OF_WANDB = f"""
# runs.import of W&B: SHA-256 of what was fetched
{SNAPSHOTS}:
"""
_TITLES: dict[Kind, str] = {"models": "# model.base", "datasets": "# data.train.hub and data.evaluation.hub"}


@dataclass(frozen=True)
class Reference:
    """A hub repository that a spec names."""

    kind: Kind
    name: str


@dataclass(frozen=True)
class Lock:
    """Commit by reference, hash by path of a snapshot. `places` of the entries' names, for messages."""

    commits: dict[Reference, str] = field(default_factory=dict)
    places: dict[Reference, Place] = field(default_factory=dict)
    snapshots: dict[str, str] = field(default_factory=dict)


def lock(read: Callable[[Path], Document]) -> Lock:
    """The lock of the project; an empty one when there is no file. Raises Rejected E377 when it is broken, or E1xx when it is no YAML."""
    if not os.path.exists(LOCK):
        return Lock()
    root = read(LOCK).root
    if not isinstance(root.value, dict):
        raise Rejected([problem("E377", root.place, reason="it must hold `models:` and `datasets:`")])
    new = Lock({}, {}, {})
    for part, node in root.items():
        if part not in (*KINDS, SNAPSHOTS) or not isinstance(node.value, dict):
            meant = nearest(part, (*KINDS, SNAPSHOTS))
            reason = f"`{part}` is no part of it" + (f", did you mean `{meant}`?" if meant else "")
            raise Rejected([problem("E377", key_place(node), reason=reason)])
        for name, entry in node.items():
            value, is_snapshot = entry.value if isinstance(entry.value, str) else "", part == SNAPSHOTS
            if not (_DIGEST if is_snapshot else _COMMIT).fullmatch(value) or not (PATH.fullmatch(name) if is_snapshot else is_hub_id(name)):
                kind = "SHA-256 of 64" if is_snapshot else "commit of 40"
                raise Rejected([problem("E377", entry.place, reason=f"`{name[:80]}` has no {kind} hex digits in quotes")])
            if is_snapshot:
                new.snapshots[name] = value
            else:
                repository = Reference("models" if part == "models" else "datasets", name)
                new.commits[repository], new.places[repository] = value, entry.key or entry.place
    return new


def text(commits: Mapping[Reference, str], snapshots: Mapping[str, str] | None = None) -> str:
    """Text of a lock file. One without snapshots has no part for them."""
    parts = [_HEADER]
    for kind in KINDS:
        entries = {repository.name: commit for repository, commit in commits.items() if repository.kind == kind}
        parts.append(f"\n{_TITLES[kind]}\n{kind}:" + ("" if entries else " {}") + "\n")
        parts += [f'  {name}: "{entries[name]}"\n' for name in sorted(entries)]
    if snapshots:
        parts += [_OF_WANDB, *(f'  {path}: "{snapshots[path]}"\n' for path in sorted(snapshots))]
    return "".join(parts)


def files(lock: Lock) -> dict[str, str]:
    """Path -> text of the lock; nothing when there is nothing to pin and never was."""
    return {LOCK.as_posix(): text(lock.commits, lock.snapshots)} if lock.commits or lock.snapshots or os.path.exists(LOCK) else {}


def named_in(root: Node) -> Iterator[Reference]:
    """Hub repositories that a file of specs names, in any of its parts: profiles, conditions, `changes`, `change` of a plan."""
    waiting: list[tuple[tuple[str, ...], Node]] = [((), root)]
    while waiting:
        way, node = waiting.pop()
        waiting += [((*way, *key.split(".")), inner) for key, inner in node.items()]
        waiting += [(way, inner) for inner in (node.value if isinstance(node.value, list) else ())]
        if not isinstance(node.value, str) or not is_hub_id(node.value) or node.value.startswith("octavo/"):
            continue
        for kind in KINDS:
            if way[-len(USES[kind]) :] == USES[kind]:
                yield Reference(kind, node.value)


def spec_files() -> list[Path]:
    """Files that may name hub repositories."""
    return [path for path in sorted(LOCK.parent.glob("*.yaml")) if path != LOCK] + sorted((LOCK.parent / "_shared").glob("*.yaml"))


def unused(within: Lock, read: Callable[[Path], Document]) -> Iterator[Diagnostic]:
    """W375 for each entry that no file of specs names. Nothing while one of them cannot be read: it may name it."""
    if not within.commits:
        return
    try:
        used = {repository for path in spec_files() for repository in named_in(read(path).root)}
    except Rejected:
        return
    for repository in within.commits:
        if repository not in used:
            kind, names = repository.kind, sorted(other.name for other in used if other.kind == repository.kind)
            yield problem("W375", within.places.get(repository), kind=kind.removesuffix("s"), name=repository.name, names=names)
