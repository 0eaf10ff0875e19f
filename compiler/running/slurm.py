"""Runs as one Slurm array, and a job after it that goes on: no process has to stay alive.

    octavo run -> [job: base models, preflight; then octavo run again] -> array of workers -> job after them
    job after  -> runs that were stopped or killed on the way are sent again, TURNS times at most; else `dvc repro` does the rest

Preemption and a lost node put a job back into the queue, and a worker that meets its time limit does so itself (slurm_job.py). With `wait`
this process takes the place of the jobs before and after: for clusters whose nodes may not submit.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from typing import ClassVar

from compiler.problems import Rejected, problem
from compiler.running.batch import JOBS, Batch, Task, batch_file, newest, state
from compiler.running.local import repro
from compiler.running.slurm_commands import SlurmMachine, array_size, cancel, most_gpus, queue, require, submit
from compiler.running.worker import CRASHES, SLOT, STOPPED
from stages.contracts.artifact import Artifact, Frozen, read, write
from stages.contracts.files import make_folder

TURNS = 5
"""Most times that runs which were stopped or killed are sent again."""
LOOK_SECONDS = 5.0


class Part(Frozen):
    """One array. The task of index `i` of the array is task `i + offset` of the batch."""

    job: str
    offset: int
    tasks: tuple[int, ...]


class Submission(Artifact):
    """`.cache/jobs/<experiment>/slurm.json`: jobs that see to an experiment."""

    SCHEMA: ClassVar[str] = "octavo.submission/1"

    parts: tuple[Part, ...] = ()
    step: str | None = None
    """Job before or after the runs."""

    @property
    def jobs(self) -> list[str]:
        return [*(part.job for part in self.parts), *([self.step] if self.step else [])]

    def job(self, index: int) -> str | None:
        """What Slurm calls a task of the batch."""
        return next((f"{part.job}_{index - part.offset}" for part in self.parts if index in part.tasks), None)


class Slurm:
    """Implements Machine."""

    def __init__(self, name: str, settings: SlurmMachine, typed: Sequence[str] = (), wait: bool = False) -> None:
        self.name, self.settings, self.typed, self.wait = name, settings, typed, wait

    def check(self, work: Mapping[str, Sequence[Task]]) -> None:
        """Raises Rejected E503."""
        require("sbatch")
        wanted = max((task.gpus for tasks in work.values() for task in tasks), default=0)
        most = most_gpus(self.settings)
        if most is not None and most < wanted:
            where = f"partition {self.settings.partition}" if self.settings.partition else "Slurm"
            raise Rejected([problem("E503.gpus", gpus=wanted, most=most, where=where)])

    def capacity(self, gpus: int) -> int | None:
        return self.settings.at_once

    def prepare(self, stages: Mapping[str, Sequence[str]], names: Sequence[str], on_gpu: bool) -> bool:
        lines = [shlex.join([sys.executable, *_dvc("--cd", folder, "repro", *targets)]) for folder, targets in stages.items()]
        if self.wait:
            if self._finished(names, lines, on_gpu):
                folder, targets = next(iter(stages.items()))
                raise Rejected([problem("E502.before", folder=folder, stages=list(targets))])
            return True
        again = shlex.join([sys.executable, "-m", "compiler.running.slurm_job", "run", self.name, *self.typed])
        job = self._step(names, [" &&\n".join([*lines, again])], on_gpu)
        print(f"job {job} makes what runs wait for and submits them then; its output: {JOBS / names[0]}/slurm-{job}.out")
        return False

    def submit(self, batches: Sequence[Batch], names: Sequence[str], on_gpu: bool) -> bool:
        self.send({batch.experiment: range(len(batch.tasks)) for batch in batches}, names, on_gpu, 0)
        return self.wait

    def send(self, tasks: Mapping[str, Sequence[int]], names: Sequence[str], on_gpu: bool, turn: int) -> None:
        """Submit tasks of the newest batches, and the job after them; with `wait`, see to them until none is worth another turn."""
        arrays = {name: self._arrays(name, indices) for name, indices in tasks.items()}
        jobs = [part.job for parts in arrays.values() for part in parts]
        if jobs:
            print(f"submitted {sum(map(len, tasks.values()))} runs as job {', '.join(jobs)}: octavo jobs {' '.join(names)}", flush=True)
        for name in names:
            _write(name, Submission(parts=arrays.get(name, ())))
        if not self.wait:
            after = shlex.join([sys.executable, "-m", "compiler.running.slurm_job", "after", str(turn), self.name, *self.typed])
            step = self._step(names, [after], on_gpu, after=jobs)
            print(f"job {step} does the rest then; its output: {JOBS / names[0]}/slurm-{step}.out")
            return
        _wait_for(jobs)
        again = interrupted(list(tasks))
        if again and turn < TURNS:
            self.send(again, names, on_gpu, turn + 1)

    def finish(self, targets: Sequence[str], names: Sequence[str], on_gpu: bool) -> int:
        if not self.wait:  # we are the job after the runs
            return repro(targets=targets)
        return self._finished(names, [shlex.join([sys.executable, *_dvc("repro", *targets)])], on_gpu)

    def states(self, batch: Batch) -> Mapping[str, str]:
        """A task that has not ended and of which Slurm knows nothing is `lost`."""
        submission = _submission(batch.experiment)
        known = queue(submission.jobs)
        states = {}
        for index, task in enumerate(batch.tasks):
            job, current = submission.job(index), state(batch, task.run)
            word = known.get(job or "", "").lower()
            if word or current is None or current.ended is None:
                states[task.run] = word or "lost"
        return states

    def cancel(self, batch: Batch, runs: Sequence[str]) -> None:
        submission = _submission(batch.experiment)
        live = queue(submission.jobs)
        jobs = [submission.job(index) for index, task in enumerate(batch.tasks) if task.run in runs]
        cancel([job for job in jobs if job in live])
        if len(runs) == len(batch.tasks) and submission.step in live:  # nothing is left that the job after them could do
            cancel([submission.step])

    def _arrays(self, name: str, indices: Sequence[int]) -> tuple[Part, ...]:
        """Arrays of at most as many tasks as this Slurm takes."""
        batch = newest(name)
        assert batch is not None  # written before anything is submitted
        size = array_size()
        parts: list[Part] = []
        for offset in range(0, len(batch.tasks), size):
            chosen = [index for index in indices if offset <= index < offset + size]
            if not chosen:
                continue
            at_once = f"%{self.settings.at_once}" if self.settings.at_once else ""
            extra = [f"--array={_ranges([index - offset for index in chosen])}{at_once}", f"--signal=B:TERM@{round(self.settings.grace)}"]
            extra += [f"--output={JOBS / name}/slurm-%A_%a.out"]
            extra += [f"--dependency=afterany:{parts[-1].job}"] if parts and at_once else []  # the limit is one of each array
            worker = shlex.join([sys.executable, "-m", "compiler.running.slurm_job", "worker", batch_file(name).as_posix()])
            line = f'exec {worker} "$((SLURM_ARRAY_TASK_ID + {offset}))"'
            devices = f'export {SLOT}="${{CUDA_VISIBLE_DEVICES:-}}"'  # for people; Slurm gives them away
            gpus = max(batch.tasks[index].gpus for index in chosen)
            job = submit(self.settings, f"octavo-{name}", [devices, line], gpus, extra)
            parts.append(Part(job=job, offset=offset, tasks=tuple(chosen)))
        return tuple(parts)

    def _step(self, names: Sequence[str], lines: Sequence[str], on_gpu: bool, after: Sequence[str] = ()) -> str:
        """Submit a job beside the runs of experiments, when all jobs of `after` have ended, however they did."""
        make_folder(JOBS / names[0])
        extra = [f"--output={JOBS / names[0]}/slurm-%j.out"]
        extra += [f"--dependency=afterany:{':'.join(after)}"] if after else []
        job = submit(self.settings, f"octavo-{names[0]}", lines, int(on_gpu), extra)
        for name in names:
            _write(name, _submission(name).model_copy(update={"step": job}))
        return job

    def _finished(self, names: Sequence[str], lines: Sequence[str], on_gpu: bool) -> int:
        """Exit code of a job that we wait for; 1 when it was lost. Slurm without accounting forgets the code: a file keeps it."""
        code = JOBS / names[0] / "step.code"
        code.unlink(missing_ok=True)
        script = [" &&\n".join(lines), f"echo $? > {shlex.quote(code.as_posix())}"]
        job = self._step(names, script, on_gpu)
        print(f"job {job} runs dvc repro; its output: {JOBS / names[0]}/slurm-{job}.out", flush=True)
        _wait_for([job])
        return int(code.read_text()) if code.exists() else 1


def require_no_jobs(names: Sequence[str]) -> None:
    """Raises Rejected E503 when jobs of an earlier `octavo run` see to one of these experiments, on whatever machine it is typed now."""
    for name in names:
        jobs = _submission(name).jobs
        if jobs and shutil.which("squeue") and queue(jobs).keys() - {os.environ.get("SLURM_JOB_ID")}:  # ours made what runs wait for
            raise Rejected([problem("E503.live", name=name)])


def interrupted(names: Sequence[str]) -> dict[str, list[int]]:
    """Experiment -> tasks that are worth another job: stopped or killed on the way. Not those that somebody cancelled, or that failed."""
    again: dict[str, list[int]] = {}
    for name in names:
        batch, submission = newest(name), _submission(name)
        if batch is None:  # nothing but the rest was due
            continue
        known = queue([part.job for part in submission.parts], ended=True)
        for part in submission.parts:
            for index in part.tasks:
                run = batch.tasks[index].run
                current = state(batch, run)
                code, why = (current.code, current.why) if current else (None, "")
                was_cancelled = batch.cancelled(run).exists() or why == "cancelled"
                was_cancelled |= code is None and known.get(submission.job(index) or "") == "CANCELLED"  # by scancel, while it waited
                is_stopped = code in (None, STOPPED) or (code is not None and code < 0 and -code not in CRASHES)
                if is_stopped and not was_cancelled:
                    again.setdefault(name, []).append(index)
    return again


def _submission(name: str) -> Submission:
    path = JOBS / name / "slurm.json"
    return read(Submission, path) if path.exists() else Submission()


def _write(name: str, submission: Submission) -> None:
    make_folder(JOBS / name)
    write(JOBS / name / "slurm.json", submission)


def _wait_for(jobs: Sequence[str]) -> None:
    """Until Slurm has nothing more to do with these. A controller that does not answer for a while is asked again."""
    while True:
        try:
            if not queue(jobs):
                return
        except Rejected as rejected:
            print(rejected.diagnostics[0].what, file=sys.stderr, flush=True)
        time.sleep(LOOK_SECONDS)


def _ranges(numbers: Sequence[int]) -> str:
    """`0-3,7` for 0, 1, 2, 3, 7."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(f"{first}-{last}" if last > first else str(first) for first, last in parts)


def _dvc(*words: str) -> list[str]:
    return ["-m", "dvc", "--wait-for-lock", *words]
