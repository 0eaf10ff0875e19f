"""Stages that were compiled anew since they ran: what DVC's lock says of them belongs to the cards before, and `dvc repro` runs them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from compiler.build.stage import Pipeline, Stage
from compiler.lock.plan_files import Files
from compiler.lock.plan_lock import Locked, read_lock
from stages.contracts.verification import Difference

DUE = "E410"


@dataclass
class Due:
    """`stages`: (pipeline, stage) -> its difference. `following`: names of stages, these and all that read what they write.
    `cards`: generated files of which the locks record another one."""

    stages: dict[tuple[str, str], Difference] = field(default_factory=dict)
    following: frozenset[str] = frozenset()
    cards: frozenset[str] = frozenset()

    @property
    def differences(self) -> list[Difference]:
        return list(self.stages.values())


def due(pipelines: Iterable[Pipeline], generated: Mapping[str, str], files: Files) -> Due:
    """`generated`: path -> text that the specs compile to. A card that somebody changed by hand makes no stage due: it is no such text."""
    pipelines = list(pipelines)
    expected = {path: hashlib.md5(text.encode(), usedforsecurity=False).hexdigest() for path, text in generated.items()}
    expected = {path: md5 for path, md5 in expected.items() if files.md5(path) in (md5, None)}
    found: dict[tuple[str, str], Difference] = {}
    cards: set[str] = set()
    for pipeline in pipelines:
        path = pipeline.path.as_posix()
        place = pipeline.path.with_name("dvc.lock")
        try:
            lock = read_lock(place)
        except (ValueError, OSError):
            continue
        if not place.exists():
            continue
        for stage in pipeline.stages:
            record = lock.get(stage.name)
            changed = _changed(stage, record, expected) if record else []
            cards.update(changed)
            if record is None or changed:
                found[path, stage.name] = _difference(pipeline.path, stage.name, changed)
    return Due(found, _following(pipelines, found), frozenset(cards))


def _changed(stage: Stage, record: Locked, expected: Mapping[str, str]) -> list[str]:
    return [dep for dep in stage.deps if dep in expected and (dep not in record.deps or record.deps[dep].md5 != expected[dep])]


def _difference(pipeline: Path, stage: str, changed: list[str]) -> Difference:
    lock = pipeline.with_name("dvc.lock").as_posix()
    why = f"{changed[0]} was compiled anew since it ran" if changed else "it has never run"
    return Difference(code=DUE, path=lock, cell=stage, what=f"{stage} is due: {why}", fix=f"dvc repro {pipeline.as_posix()}")


def _following(pipelines: list[Pipeline], found: Iterable[tuple[str, str]]) -> frozenset[str]:
    """Names of the stages and of those after them. Stages stand after those whose files they read."""
    names = set()
    written: set[str] = set()
    first = set(found)
    for pipeline in pipelines:
        for stage in pipeline.stages:
            if (pipeline.path.as_posix(), stage.name) in first or written.intersection(stage.deps):
                names.add(stage.name)
                written.update(stage.outs)
    return frozenset(names)
