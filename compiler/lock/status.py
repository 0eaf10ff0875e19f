"""Which stages would run, by DVC's own rules: what was recorded against what lies here now.

DVC runs a stage if its command, a file that it reads or a file that it wrote differs from the record. It puts back what it remembers if
the same was run before. Whether a stage runs *because another one ran* depends on the bytes that the other one will write: it may run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from compiler.build.graph import Pipeline, Stage
from compiler.lock.files import Cache, Files
from stages.contracts.dvc_lock import Entry, Lock, Locked, read_lock

State = Literal["runs", "may_run", "restored", "stays"]
CauseKind = Literal[
    "new", "command", "added", "changed", "missing", "output_added", "output_changed", "output_missing", "not_in_cache", "upstream"
]


@dataclass(frozen=True)
class Cause:
    """Why a stage is not up to date. `path` is the file concerned; for an upstream cause, the stage that writes it."""

    kind: CauseKind
    path: str = ""


@dataclass(frozen=True)
class Status:
    """What happens to one stage. `locked` is its record; None if the stage never ran."""

    pipeline: str
    stage: Stage
    state: State
    causes: tuple[Cause, ...]
    locked: Locked | None

    @property
    def address(self) -> str:
        """As DVC prints it: `runs/x/dvc.yaml:train-a-s1`; only the name at the top level."""
        return self.stage.name if self.pipeline == "dvc.yaml" else f"{self.pipeline}:{self.stage.name}"


def command(stage: Stage) -> str:
    """The command of dvc.yaml."""
    return f"python -m {stage.module} {' '.join(stage.arguments)}"


def readable_locks(pipelines: Iterable[Pipeline]) -> dict[str, Lock]:
    """Path of a dvc.yaml -> its lock, of those whose lock is there and can be read."""
    locks: dict[str, Lock] = {}
    for pipeline in pipelines:
        with suppress(ValueError, OSError):
            locks[pipeline.path.as_posix()] = read_lock(pipeline.path.with_name("dvc.lock"))
    return locks


def statuses(pipelines: Iterable[Pipeline], locks: Mapping[str, Lock], files: Files, cache: Cache | None) -> list[Status]:
    """Every stage that is planned, in the order of the pipelines. `locks`: path of a dvc.yaml -> its lock.

    `cache` is None for another revision of the project: git does not hold what stages write, so outputs do not count there.
    """
    graph = _Graph(pipelines, locks, files, cache)
    return [graph.status(key) for key in graph.stages]


class _Graph:
    """Decides each stage once, after those that write what it reads. The graph has no circles."""

    def __init__(self, pipelines: Iterable[Pipeline], locks: Mapping[str, Lock], files: Files, cache: Cache | None) -> None:
        self.locks, self.files, self.cache = locks, files, cache
        self.stages = {(pipeline.path.as_posix(), stage.name): stage for pipeline in pipelines for stage in pipeline.planned}
        self.writer = {out: key for key, stage in self.stages.items() for out in stage.outs}
        self.decided: dict[tuple[str, str], Status] = {}
        self.restored: dict[str, str] = {}
        """Path -> MD5 of outputs that DVC will put back."""

    def status(self, key: tuple[str, str]) -> Status:
        if key not in self.decided:
            stage = self.stages[key]
            before = map(self.status, dict.fromkeys(self.writer[dep] for dep in stage.deps if dep in self.writer))
            upstream = [Cause("upstream", status.address) for status in before if status.state in ("runs", "may_run")]
            self.decided[key] = self._decide(key[0], stage, upstream)
        return self.decided[key]

    def _decide(self, pipeline: str, stage: Stage, upstream: list[Cause]) -> Status:
        locked = self.locks.get(pipeline, {}).get(stage.name)
        causes = [Cause("new")] if locked is None else [Cause("command")] if locked.cmd != command(stage) else []
        if locked is not None:
            causes += self._inputs(stage, locked) + self._outputs(stage, locked)
        state: State = "runs" if causes else "may_run" if upstream else "stays"
        if causes and not upstream and (back := self._remembered(stage, locked, causes)):
            state = "restored"
            self.restored |= back
        return Status(pipeline, stage, state, (*causes, *upstream), locked)

    def _inputs(self, stage: Stage, locked: Locked) -> list[Cause]:
        causes = []
        for dep in stage.deps:
            entry = locked.deps.get(dep)
            if entry is None:  # whatever it will hold, there is no record of it
                causes.append(Cause("added", dep))
            elif dep in self.writer and (self.cache is None or self.decided[self.writer[dep]].state in ("runs", "may_run")):
                continue
            elif dep in self.restored:
                causes += [Cause("changed", dep)] if entry.md5 != self.restored[dep] else []
            elif (change := self.files.against(dep, entry)) != "same":
                causes.append(Cause(change, dep))
        return causes

    def _outputs(self, stage: Stage, locked: Locked) -> list[Cause]:
        causes = []
        for out in stage.outs:
            entry = locked.outs.get(out)
            if entry is None:
                causes.append(Cause("output_added", out))
            elif self.cache is not None:
                change = self.files.against(out, entry)
                if stage.cache and not self.cache.holds(entry.md5, self.files.folders.get(entry.md5)):
                    causes.append(Cause("not_in_cache", out))
                elif change != "same":
                    causes.append(Cause("output_missing" if change == "missing" else "output_changed", out))
        return causes

    def _remembered(self, stage: Stage, locked: Locked | None, causes: list[Cause]) -> dict[str, str] | None:
        """Path -> MD5 of outputs that DVC can put back in place of a run; None if the stage must run."""
        if self.cache is None or not stage.outs or not stage.deps:
            return None
        outs: Mapping[str, Entry] = locked.outs if locked else {}
        if any(not cause.kind.startswith(("output_", "not_in_")) for cause in causes) or not all(out in outs for out in stage.outs):
            deps = {dep: md5 for dep in stage.deps if (md5 := self.restored.get(dep) or self.files.md5(dep))}
            run = self.cache.run(command(stage), deps, stage.outs) if len(deps) == len(stage.deps) else None
            outs = run.outs if run else {}
        if not all(out in outs and self.cache.holds(outs[out].md5) for out in stage.outs):
            return None
        return {out: outs[out].md5 for out in stage.outs}
