"""What is due, as tasks: asked of the compiler's own plan."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from compiler.build.files import compare
from compiler.build.inputs import Inputs
from compiler.build.pipeline import Reference
from compiler.compile import Compiled, compile_all, project
from compiler.lock.files import Cache, Files
from compiler.lock.status import Status, command, readable_locks, statuses
from compiler.problems import Rejected, listed, problem
from compiler.running.batch import JOBS, Step, Task
from compiler.running.schedule import hours_of_runs
from stages.contracts.artifact import digest
from stages.contracts.files import file_digest, write_text
from stages.contracts.layout import RUNS
from stages.contracts.stage import ROOT

CODE = JOBS / "_code"
_DUE = ("runs", "may_run")


@dataclass(frozen=True)
class Work:
    """What is due of some experiments. `before`: folder of a dvc.yaml -> stages that runs wait for. `tasks`: experiment -> its tasks,
    which may change with what those stages write. `differing`: generated files that are not on disk as the specs say. `on_gpu`: whether one
    of the experiments wants a GPU."""

    before: dict[str, list[str]]
    tasks: dict[str, tuple[Task, ...]]
    differing: tuple[str, ...]
    on_gpu: bool

    def require_compiled(self, names: Sequence[str]) -> None:
        """Raises Rejected E402 when files on disk are not what the specs of these experiments say."""
        if self.differing:
            raise Rejected([problem("E402.run", count=len(self.differing), first=self.differing[0], names=" ".join(names))])


def due(references: Sequence[Reference], inputs: Inputs) -> Work:
    """What would run now. Raises Rejected."""
    compiled = compile_all(references, inputs)
    texts = project(compiled, with_site=False)
    absent = {path: text for path, text in texts.once.items() if not os.path.lexists(path)}
    files = Files(Path(), {**texts.files, **absent})
    decided = statuses(texts.pipelines, readable_locks(texts.pipelines), files, Cache(Path()))
    writer = {out: status for status in decided for out in status.stage.outs}
    before: dict[str, list[str]] = {}
    tasks: dict[str, tuple[Task, ...]] = {}
    for each in compiled:
        runs: dict[str, list[Status]] = {}
        on_gpu = each.experiment.spec.resources.gpus > 0
        for status in decided:
            run = _run(status, on_gpu)
            if run is not None and run.parent.name == each.experiment.name and status.state in _DUE:
                runs.setdefault(run.name, []).append(status)
        for steps in runs.values():
            for status in _waited_for(steps, writer):
                stages = before.setdefault(Path(status.pipeline).parent.as_posix(), [])
                stages += [status.stage.name] if status.stage.name not in stages else []
        trained = [run for run, steps in runs.items() if any(step.stage.name.startswith("train-") for step in steps)]
        hours = hours_of_runs(each, trained)
        tasks[each.experiment.name] = tuple(_task(run, steps, files, each, hours.get(run)) for run, steps in runs.items())
    on_gpu = any(each.experiment.spec.resources.gpus for each in compiled)
    return Work(before, tasks, tuple(compare(texts.files, texts.once).differing), on_gpu)


def _run(status: Status, on_gpu: bool) -> Path | None:
    """Folder of the run that a stage belongs to; None for a stage of a whole experiment, and for what is left to DVC: imports take
    seconds, and one process evaluates all small models of a CPU in less time than each takes to start."""
    folder, left = Path(status.stage.arguments[0]), ("import-",) if on_gpu else ("import-", "evaluate-")
    is_run = folder.parent.parent == RUNS and len(status.stage.arguments) == 1 and not status.stage.name.startswith(left)
    return folder if is_run else None


def _waited_for(steps: Sequence[Status], writer: Mapping[str, Status]) -> Iterator[Status]:
    """Stages that must be brought up to date, or put back by DVC, before these can run."""
    own = [step.stage.name for step in steps]
    for step in steps:
        for dep in step.stage.deps:
            other = writer.get(dep)
            if other is not None and other.state != "stays" and not (other.pipeline == step.pipeline and other.stage.name in own):
                yield other


def _task(run: str, statuses: Sequence[Status], files: Files, compiled: Compiled, hours: float | None) -> Task:
    written: set[str] = set()
    steps = []
    for status in statuses:
        stage = status.stage
        deps = {dep: files.md5(dep) or "" for dep in stage.deps if dep not in written}
        call = {"stage": stage.name, "module": stage.module, "arguments": stage.arguments, "command": command(stage)}
        steps.append(Step(**call, inputs=stage.deps, deps=deps, outs=stage.outs))
        written |= set(stage.outs)
    return Task(run=run, steps=tuple(steps), gpus=compiled.experiment.spec.resources.gpus, hours=hours)


def freeze() -> str:
    """A copy of octavo's `stages`, named by its content. Returns the folder that holds it."""
    names = sorted(path for path in (ROOT / "stages").rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    name = digest("".join(f"{path.relative_to(ROOT)}\0{file_digest(path)}\n" for path in names))[:16]
    copy = CODE / name
    if not (copy / "whole").exists():  # written last: a copy that was begun by a killed process is made again
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(ROOT / "stages", copy / "stages", ignore=shutil.ignore_patterns("__pycache__"))
        write_text(copy / "whole", "")
    return copy.absolute().as_posix()


def missing(names: Sequence[str], work: Work) -> str:
    """Words for runs that are due, such as `few: gains-s1, gains-s2`."""
    return "; ".join(f"{name}: {listed([task.run for task in work.tasks[name]], 6)}" for name in names if work.tasks.get(name))
