"""dvc.lock against the disk: which stages are due, and each recorded command, file, hash and size."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field

from compiler.build.graph import Pipeline, Stage
from compiler.lock.files import Cache, Files
from compiler.lock.status import command
from stages.contracts.dvc_lock import Entry, Lock, Locked, parse_lock, place, read_lock
from stages.contracts.files import FileRefused
from stages.publish.verification import Difference

DUE = "E410"
RETRY = "/retry.json"
MOST = 12
"""Files of a changed folder that are named, and stages that the spec no longer has."""


@dataclass
class Due:
    """Stages that were compiled anew since they ran: `dvc repro` runs them, and their records belong to the cards before."""

    stages: dict[tuple[str, str], Difference] = field(default_factory=dict)
    """(pipeline, stage) -> what is said of it."""
    following: frozenset[str] = frozenset()
    """Names of these stages and of all that read what they write."""
    cards: frozenset[str] = frozenset()
    """Generated files whose text differs from what a lock records."""


def due(pipelines: Sequence[Pipeline], generated: Mapping[str, str], files: Files) -> Due:
    """`generated`: path -> text that the specs compile to. A card that was changed by hand makes no stage due."""
    expected = {path: hashlib.md5(text.encode(), usedforsecurity=False).hexdigest() for path, text in generated.items()}
    expected = {path: md5 for path, md5 in expected.items() if _holds(files, path, md5)}
    stages, cards, following, written = dict[tuple[str, str], Difference](), set[str](), set[str](), set[str]()
    for pipeline in pipelines:
        lock = _readable(pipeline)
        for stage in pipeline.planned:
            record = lock.get(stage.name) if lock is not None else None
            entries = record.deps if record else {}
            changed = [
                dep for dep in stage.deps if dep in expected and record and (dep not in entries or entries[dep].md5 != expected[dep])
            ]
            cards.update(changed)
            if lock is not None and (record is None or changed):
                why = f"{changed[0]} was compiled anew since it ran" if changed else "it has never run"
                what, fix = f"{stage.name} is due: {why}", f"dvc repro {pipeline.path.as_posix()}"
                difference = Difference(code=DUE, path=_lock_of(pipeline), cell=stage.name, what=what, fix=fix)
                stages[pipeline.path.as_posix(), stage.name] = difference
            if (pipeline.path.as_posix(), stage.name) in stages or written.intersection(stage.deps):
                following.add(stage.name)
                written.update(stage.outs)
    return Due(stages, frozenset(following), frozenset(cards))


def _holds(files: Files, path: str, md5: str) -> bool:
    """Whether the file is the expected one, or missing."""
    with suppress(FileRefused):
        return files.md5(path) in (md5, None)
    return False


def _readable(pipeline: Pipeline) -> Lock | None:
    try:
        return read_lock(pipeline.path.with_name("dvc.lock")) if os.path.exists(_lock_of(pipeline)) else None
    except (ValueError, OSError):
        return None


def _lock_of(pipeline: Pipeline) -> str:
    return pipeline.path.with_name("dvc.lock").as_posix()


@dataclass
class Checked:
    """`files`: path that was hashed -> its bytes."""

    differences: list[Difference] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    files: dict[str, int] = field(default_factory=dict)


def against_locks(
    pipelines: Iterable[Pipeline], files: Files, cache: Cache, waiting: Due | None = None, absent: Set[str] = frozenset()
) -> Checked:
    """Every record of the pipelines' locks. What follows from a stage being due is left out. `absent`: files that need not be here."""
    checked = Checked()
    for pipeline in pipelines:
        _Lock(pipeline, files, cache, checked, waiting or Due(), absent).check()
    return checked


class _Lock:
    def __init__(self, pipeline: Pipeline, files: Files, cache: Cache, checked: Checked, waiting: Due, absent: Set[str]) -> None:
        self.pipeline, self.files, self.cache, self.checked = pipeline, files, cache, checked
        self.path, self.redo = _lock_of(pipeline), f"dvc repro {pipeline.path}"
        self.text = files.text(self.path) or ""
        self.due = {stage for path, stage in waiting.stages if path == pipeline.path.as_posix()}
        self.cards, self.absent = waiting.cards, absent
        self.wrong: dict[tuple[str, str], list[tuple[str, str]]] = {}
        """(path, MD5 as recorded) -> (stage, side) of records that are not what lies there."""
        self.right: Counter[str] = Counter()
        """Path -> number of records that are."""

    def check(self) -> None:
        if not self.text:
            return self._add(f"{self.pipeline.path} has never run: there is no lock", fix=self.redo)
        try:
            lock = parse_lock(self.text)
        except ValueError as error:
            return self._add(str(error), fix=f"git checkout {self.path}")
        names = [stage.name for stage in self.pipeline.planned]
        if new := [name for name in names if name not in lock and name not in self.due]:
            self._add(f"{new[0]}{' and others have' if len(new) > 1 else ' has'} never run: the lock has no record", fix=self.redo)
        for stage in self.pipeline.planned:
            if stage.name in lock:
                self._stage(stage, lock[stage.name])
        gone = [name for name in lock if name not in {stage.name for stage in self.pipeline.stages}]
        for name in gone[:MOST]:
            self.checked.notes.append(f"{self.path}:{place(self.text, name)[0]}: {name} is a stage that the spec no longer has")
        if more := len(gone[MOST:]):
            self.checked.notes.append(f"{self.path}: {more:,} more are stages that the spec no longer has")
        for (path, md5), records in self.wrong.items():
            self._other_file(path, md5, records)
        return None

    def _stage(self, stage: Stage, record: Locked) -> None:
        name, redo, is_due = stage.name, f"{self.redo}:{stage.name}", stage.name in self.due
        if record.cmd != command(stage) and not is_due:
            self._add(f"the command of {name}", (name, "", "", "cmd"), command(stage), record.cmd, redo)
        for side, paths, entries in (("deps", stage.deps, record.deps), ("outs", stage.outs, record.outs)):
            for path in paths:
                if path not in entries and not is_due:
                    self._add(f"{name} has no record of {path}", (name, side), path, "no record", redo)
                elif path in entries and not (is_due and side == "deps" and path in self.cards):
                    self._entry(name, side, path, entries[path])
            for path in entries:
                if path not in paths and not is_due:
                    self._add(f"{name} has no {path} in {side}", (name, side, path), "no record", path, redo)

    def _entry(self, stage: str, side: str, path: str, entry: Entry) -> None:
        try:
            md5 = self.files.md5(path)
        except FileRefused as refused:
            file = str(refused.filename)
            return self._add(f"{file}: {refused.strerror}", (stage, side, path), f"md5 {entry.md5}", "no file", refused.fix, file)
        if md5 is None:
            if path not in self.absent and (side == "outs" or not any(path in other.outs for other in self.pipeline.stages)):
                fix = f"dvc checkout {self.pipeline.path}, or dvc pull"
                self._add(f"{path} is missing", (stage, side, path), f"md5 {entry.md5}", "nothing", fix)
            return None
        names = [f"{path}/{name}" for name in self.files.listing(path)] if md5.endswith(".dir") else [path]
        size = self.checked.files[path] = sum(map(os.path.getsize, filter(os.path.exists, names)))  # a link may lead nowhere
        if md5 != entry.md5:
            if path.endswith(RETRY) and not self._is_finished(path):
                self.checked.notes.append(f"{path}: the run failed and is due again")
            else:
                self.wrong.setdefault((path, entry.md5), []).append((stage, side))
            return None
        self.right[path] += 1
        fix = f"git checkout {self.path}, or dvc commit {self.pipeline.path}"
        for key, now, then in (("size", size, entry.size), ("nfiles", len(names) if md5.endswith(".dir") else None, entry.files)):
            if now != then:
                recorded = "no such line" if then is None else str(then)
                self._add(f"{key} of {path}", (stage, side, path, key), str(now), recorded, fix)
        return None

    def _is_finished(self, retry: str) -> bool:
        """Whether the run of a retry.json has finished; screen makes a failed one due again."""
        return '"finished": true' in (self.files.text(f"{retry.removesuffix(RETRY)}/outcome.json") or "")

    def _other_file(self, path: str, md5: str, records: list[tuple[str, str]]) -> None:
        """A file that is not the recorded one; for a folder, the files in it, if the cache still has its listing."""
        stages = ", ".join(dict.fromkeys(stage for stage, _ in records[:3])) + (" ..." if len(records) > 3 else "")
        if path in self.right:
            fix = f"{self.right[path]} other records name the file that is here: git checkout {self.path}"
        elif any(side == "outs" for _, side in records):
            fix = f"dvc checkout {path} gives back the recorded one; if the new one is meant, {self.redo}"
        else:
            fix = f"git diff -- {path}; if the new one is meant, {self.redo}"
        before = self.cache.listing(md5) if md5.endswith(".dir") else {}
        after = self.files.listing(path) if before else {}
        pairs = {f"{path}/{name}": (before.get(name), after.get(name)) for name in sorted({*before, *after})}
        changed = {name: hashes for name, hashes in pairs.items() if hashes[0] != hashes[1]} or {path: (md5, self.files.md5(path))}
        for name, (then, now) in list(changed.items())[:MOST]:
            what = f"{name} is not the file that {stages} recorded"
            self._add(what, (*records[0], path, "md5"), f"md5 {then or 'none'}", f"md5 {now or 'none'}", fix, name)

    def _add(self, what: str, at: tuple[str, ...] = (), expected: str = "", found: str = "", fix: str = "", cell: str = "") -> None:
        """A difference at (stage, side, path, key) of the lock."""
        line, column = place(self.text, *at) if at else (None, None)
        facts = {"what": what, "expected": expected, "found": found, "fix": fix, "cell": cell or " ".join(filter(None, at))}
        self.checked.differences.append(Difference(code="E487", path=self.path, line=line, column=column, **facts))
