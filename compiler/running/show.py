"""Many runs at a glance, from their own files: the worker's state, the log's newest line of progress, how the run stands."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from compiler.running.batch import Batch, Task, WorkerState, state
from compiler.running.schedule import makespan
from compiler.running.worker import HEAD
from stages.contracts.diagnostic import printable
from stages.contracts.files import FileRefused, open_file, parse_json, read_bytes, read_json
from stages.contracts.layout import RUNS, RunFolder

TAIL = 8 << 10
"""Bytes of a log that are looked at for its newest line of progress."""
SHARE = 0.1
"""Of one core, that a live table takes at most."""
GOES_ON = ("trains", "evaluates", "runs")


@dataclass(frozen=True)
class Row:
    """How one run stands. None: not known."""

    run: str
    state: str
    step: int | None = None
    steps: int | None = None
    reward: float | None = None
    seconds_left: float | None = None
    place: str = ""
    """GPU or slot, or host and job of a cluster."""
    attempt: int | None = None

    @property
    def whole_seconds(self) -> float | None:
        """From its first step to its last, at the pace of now."""
        if self.seconds_left is None or not self.steps or self.step is None or self.step >= self.steps:
            return None
        return self.seconds_left * self.steps / (self.steps - self.step)

    def cells(self) -> tuple[str, ...]:
        """As the table shows them."""
        step = f"{self.step}/{self.steps}" if self.step is not None else ""
        reward = f"{self.reward:.2f}" if self.reward is not None else ""
        left = str(timedelta(seconds=round(self.seconds_left))) if self.seconds_left is not None and self.state in GOES_ON else ""
        return self.run, self.state, step, reward, left, self.place, str(self.attempt or "")


HEADINGS = ("run", "state", "step", "reward", "left", "on", "attempt")


def rows(batch: Batch, queue: Mapping[str, str]) -> list[Row]:
    """A row for each task. `queue`: what the machine's queue says of tasks that have not ended."""
    return [_row(batch, task, queue.get(task.run)) for task in batch.tasks]


def _row(batch: Batch, task: Task, queued: str | None) -> Row:
    worker = state(batch, task.run)
    folder = RunFolder(RUNS / batch.experiment / task.run)
    progress = _newest(batch.log(task.run)) if worker is not None else {}
    where = " ".join(filter(None, (worker.job, worker.host if worker.job else "", worker.devices))) if worker is not None else ""
    if not progress and worker is not None and worker.code == 0:  # an author's own program prints no line of progress
        outcome = _outcome(folder)
        progress = {"step": outcome.get("steps_done"), "steps": outcome.get("target_steps")}
    numbers = {name: value for name in ("step", "steps") if isinstance(value := progress.get(name), int)}
    seconds = {"reward": progress.get("reward"), "seconds_left": progress.get("seconds_left")}
    measured = {name: float(value) for name, value in seconds.items() if isinstance(value, int | float)}
    word = _state(batch, task, worker, queued, folder)
    attempt = known if isinstance(known := progress.get("attempt"), int) else _attempts(folder)
    return Row(run=task.run, state=word, place=where, attempt=attempt, **numbers, **measured)  # type: ignore[arg-type]


def _state(batch: Batch, task: Task, worker: WorkerState | None, queued: str | None, folder: RunFolder) -> str:
    is_cancelled = batch.cancelled(task.run).exists()
    if worker is None:
        return "cancelled" if is_cancelled else queued or "was not begun"
    if worker.ended is None:
        verb = worker.step.partition("-")[0]
        if worker.process() is not None or (worker.job is not None and queued == "running"):
            return {"train": "trains", "evaluate": "evaluates"}.get(verb, "runs")
        return queued or ("cancelled" if is_cancelled else "was killed")
    if worker.code:
        return queued or worker.why or f"ended with exit code {worker.code}"
    outcome = _outcome(folder)
    return "finished" if outcome.get("finished", True) else f"failed: {printable(str(outcome.get('failure')))}"


def _outcome(folder: RunFolder) -> dict[str, Any]:
    with suppress(OSError, ValueError, TypeError):
        return dict(read_json(folder.outcome))
    return {}


def _attempts(folder: RunFolder) -> int | None:
    with suppress(OSError):
        return read_bytes(folder.attempts).count(b'"event":"started"') or None
    return None


def _newest(log: Path) -> dict[str, Any]:
    """The newest line of progress of the stage that began last; {} when there is none."""
    try:
        with open_file(log) as stream:
            stream.seek(max(0, os.fstat(stream.fileno()).st_size - TAIL))
            lines = stream.read(TAIL).split(b"\n")[:-1]
    except (OSError, FileRefused):
        return {}
    for line in reversed(lines):
        if line.startswith(HEAD.encode()):
            break
        if line.startswith(b'{"progress"'):
            with suppress(ValueError):
                return dict(parse_json(line, nonfinite=True))
    return {}


def table(experiment: str, runs: Sequence[Row], most: int | None = None) -> list[str]:
    """Lines: counts, then a line a run, those that go on first where only `most` lines are wanted."""
    shown = list(runs)
    if most is not None and len(shown) > most:
        shown = sorted(shown, key=lambda row: row.state not in GOES_ON)[: max(1, most)]
    cells = [HEADINGS, *(row.cells() for row in shown)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(HEADINGS))]
    lines = ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]
    rest = [f"and {len(runs) - len(shown)} more"] if len(runs) > len(shown) else []
    return [f"{experiment}: {counts(runs)}", *(f"  {line}" for line in (*lines, *rest))]


def counts(runs: Sequence[Row]) -> str:
    """How many are in which state, and about how long they take together at this pace."""
    numbers = Counter(row.state.partition(":")[0] for row in runs)
    words = ", ".join(f"{number} {word}" for word, number in numbers.most_common())
    left = seconds_left(runs)
    return words + (f"; about {timedelta(seconds=round(left))} left" if left is not None else "")


def seconds_left(runs: Sequence[Row]) -> float | None:
    """Until the last run ends, when as many go on at once as now; None while no pace is known. A run that waits takes as long as those
    that go on seem to take from their first step."""
    going = [row for row in runs if row.state in GOES_ON]
    whole = [row.whole_seconds for row in going if row.whole_seconds is not None]
    if not whole:
        return None
    usual = sum(whole) / len(whole)
    lefts = [usual if row.seconds_left is None else row.seconds_left for row in going]
    return makespan([usual] * sum(row.state == "waiting" for row in runs), len(going), lefts)


class Screen:
    """What `octavo run` shows meanwhile: on a terminal one table that is drawn again and again, elsewhere a line for each change."""

    def __init__(self) -> None:
        self.is_live = sys.stdout.isatty() and not os.environ.get("CI") and os.environ.get("TERM") != "dumb"
        self._height, self._due = 0, 0.0
        self._states: dict[tuple[str, str], str] = {}

    def show(self, batches: Sequence[Batch], queue: Mapping[str, Mapping[str, str]], is_last: bool = False) -> None:
        """`queue`: experiment -> what the machine's queue says. Nothing is printed before its time, but the last state."""
        if not is_last and time.monotonic() < self._due:
            return
        begun = time.process_time()
        states = {batch.experiment: rows(batch, queue.get(batch.experiment, {})) for batch in batches}
        if self.is_live:
            self._draw(states)
        else:
            for line in self._changes(states):
                print(line, flush=True)
        self._due = time.monotonic() + max(1.0, (time.process_time() - begun) / SHARE)

    def _draw(self, states: Mapping[str, Sequence[Row]]) -> None:
        size = shutil.get_terminal_size()
        room = max(1, (size.lines - 1) // len(states) - 3)
        lines = [line[: size.columns - 1] for name, runs in states.items() for line in table(name, runs, room)]
        back = f"\x1b[{self._height}F" if self._height else ""
        sys.stdout.write(f"{back}\x1b[J" + "\n".join(lines) + "\n")
        sys.stdout.flush()
        self._height = len(lines)

    def _changes(self, states: Mapping[str, Sequence[Row]]) -> Iterator[str]:
        for name, runs in states.items():
            for row in runs:
                before = self._states.get((name, row.run))
                if row.state != before:
                    self._states[name, row.run] = row.state
                    if row.state != "waiting" or before is not None:
                        step = f", step {row.step}/{row.steps}" if row.step is not None else ""
                        on = f" on {row.place}" if row.place and row.state in GOES_ON else ""
                        yield f"{name}/{row.run}: {row.state}{on}{step}"
