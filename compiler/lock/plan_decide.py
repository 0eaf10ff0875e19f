"""Which stages would run: DVC's own rules, applied to what was recorded and what lies there now.

DVC runs a stage when its command, a file it reads or a file it wrote differs from the record, and puts back what it remembers when it has
run the same thing before. Whether a stage runs *because another one ran* depends on the bytes that one will write: such stages may run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from compiler.build.stage import Pipeline, Stage
from compiler.lock.plan_files import Cache, Files
from compiler.lock.plan_lock import Entry, Lock, Locked

State = Literal["runs", "may_run", "restored", "stays"]
CauseKind = Literal[
    "new", "command", "added", "changed", "missing", "output_added", "output_changed", "output_missing", "not_in_cache", "upstream"
]


@dataclass(frozen=True)
class Cause:
    """Why a stage is not up to date. `path` is the file concerned; of an upstream cause, the stage that writes it."""

    kind: CauseKind
    path: str = ""


@dataclass(frozen=True)
class Decision:
    """What happens to one stage. `locked` is its record, None for a stage that never ran."""

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


class Decider:
    """Decides each stage once, those that write its inputs first. Without a cache outputs do not count: git does not hold them."""

    def __init__(self, pipelines: Iterable[Pipeline], locks: Mapping[str, Lock], files: Files, cache: Cache | None) -> None:
        self.locks, self.files, self.cache = locks, files, cache
        self.stages = {(pipeline.path.as_posix(), stage.name): stage for pipeline in pipelines for stage in pipeline.stages}
        self.producer = {out: key for key, stage in self.stages.items() for out in stage.outs}
        self.known: dict[tuple[str, str], Decision] = {}
        self.restored: dict[str, str] = {}
        """Path -> MD5 of outputs that DVC will put back."""

    def all(self) -> list[Decision]:
        """Every stage, in the pipelines' order."""
        return [self.decide(key) for key in self.stages]

    def decide(self, key: tuple[str, str]) -> Decision:
        """One stage. The graph has no circles."""
        if key not in self.known:
            stage = self.stages[key]
            before = dict.fromkeys(self.producer[dep] for dep in stage.deps if dep in self.producer)
            soft = [Cause("upstream", found.address) for found in map(self.decide, before) if found.state in ("runs", "may_run")]
            self.known[key] = self._decide(key[0], stage, soft)
        return self.known[key]

    def _decide(self, pipeline: str, stage: Stage, soft: list[Cause]) -> Decision:
        """`soft`: stages whose rerun may change what this one reads."""
        locked = self.locks.get(pipeline, {}).get(stage.name)
        record = locked or Locked(command(stage))
        if locked is None:
            causes: list[Cause] = [Cause("new")]
        else:
            causes = [Cause("command")] if locked.cmd != command(stage) else []
            causes += self._inputs(stage, locked, {cause.path for cause in soft})
            if self.cache is not None:
                causes += self._outputs(stage, locked, self.cache)
            else:
                causes += [Cause("output_added", out) for out in stage.outs if out not in locked.outs]
        state: State = "runs" if causes else "may_run" if soft else "stays"
        if state == "runs" and not soft and self.cache is not None and (found := self._remembered(stage, record, causes, self.cache)):
            state = "restored"
            self.restored |= found
        return Decision(pipeline, stage, state, (*causes, *soft), locked)

    def _inputs(self, stage: Stage, locked: Locked, upstream: set[str]) -> list[Cause]:
        found = []
        for dep in stage.deps:
            entry = locked.deps.get(dep)
            if entry is None:  # whatever it will hold, nothing was recorded of it
                found.append(Cause("added", dep))
                continue
            if dep in self.producer:
                if upstream and self.known[self.producer[dep]].address in upstream:
                    continue
                if self.cache is None:  # another revision: what stages write is not in git
                    continue
                if dep in self.restored:
                    if entry.md5 != self.restored[dep]:
                        found.append(Cause("changed", dep))
                    continue
            change = self.files.against(dep, entry)
            if change != "same":
                found.append(Cause("missing" if change == "missing" else "changed", dep))
        return found

    def _outputs(self, stage: Stage, locked: Locked, cache: Cache) -> list[Cause]:
        found = []
        for out in stage.outs:
            entry = locked.outs.get(out)
            if entry is None:
                found.append(Cause("output_added", out))
                continue
            change = self.files.against(out, entry)
            if stage.cache and not cache.holds(entry.md5, self.files.folders.get(entry.md5)):
                found.append(Cause("not_in_cache", out))
            elif change != "same":
                found.append(Cause("output_missing" if change == "missing" else "output_changed", out))
        return found

    def _remembered(self, stage: Stage, locked: Locked, causes: list[Cause], cache: Cache) -> dict[str, str] | None:
        """Path -> MD5 of outputs that DVC can put back instead of running the stage; None when it must run."""
        if not stage.outs or not stage.deps:
            return None
        unchanged = all(cause.kind in ("output_changed", "output_missing", "not_in_cache") for cause in causes)
        if unchanged and all(out in locked.outs for out in stage.outs):
            outs: Mapping[str, Entry] = locked.outs
        else:
            deps = {dep: self.restored.get(dep) or self.files.md5(dep) for dep in stage.deps}
            hashes = {dep: md5 for dep, md5 in deps.items() if md5 is not None}
            run = cache.run(command(stage), hashes, stage.outs) if len(hashes) == len(deps) else None
            if run is None:
                return None
            outs = run.outs
        if not all(out in outs and cache.holds(outs[out].md5) for out in stage.outs):
            return None
        return {out: outs[out].md5 for out in stage.outs}
