"""How long runs take, and when all would be done: the longest first onto what is free first, as a machine starts them."""

from __future__ import annotations

import heapq
import statistics
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from compiler.compile import Compiled
from stages.contracts.artifact import ArtifactError
from stages.contracts.attempt import Attempt, read_attempts
from stages.contracts.layout import RUNS

HOUR = 3600.0


def longest_first(hours: Sequence[tuple[float | None, int]]) -> list[int]:
    """Indices of tasks, given as (hours, GPUs), in the order in which they begin. Unknown hours come last, in their own order."""
    return sorted(range(len(hours)), key=lambda index: -(hours[index][0] or 0.0) * max(1, hours[index][1]))


def makespan(times: Sequence[float], slots: int, busy: Sequence[float] = ()) -> float:
    """Time until the last of these tasks ends, when `slots` of them run at once. `busy`: when each slot becomes free, in the same unit."""
    free = [*busy, *[0.0] * max(0, max(1, slots) - len(busy))]
    heapq.heapify(free)
    for each in sorted(times, reverse=True):
        heapq.heapreplace(free, free[0] + each)
    return max(free)


def hours_of_runs(compiled: Compiled, runs: Iterable[str]) -> dict[str, float | None]:
    """Run -> hours from its first step to its last: at the median pace of this experiment's finished attempts on the same kind of device,
    else as the spec declares; None: unknown."""
    steps = {run.name: run.setup.train.max_steps for run in compiled.expansion.runs}
    paces = [seconds for seconds, _ in paces_of(compiled)]
    declared = compiled.experiment.spec.resources.hours
    pace = statistics.median(paces) / HOUR if paces else None
    return {run: pace * steps[run] if pace is not None and run in steps else declared for run in runs}


def paces_of(compiled: Compiled) -> list[tuple[float, int]]:
    """(seconds a step, devices) of each finished attempt of an experiment on the kind of device that its runs train on now."""
    on_gpu = is_on_gpu(compiled)
    ledgers = sorted((RUNS / compiled.experiment.name).glob("*/attempts.jsonl"))
    return [pace for path in ledgers for pace in _paces(attempts_of(path), on_gpu)]


def is_on_gpu(compiled: Compiled) -> bool:
    """Whether runs train on GPUs."""
    return any(card.device == "cuda" for card in compiled.cards.train.values())


def _paces(attempts: Iterable[Attempt], on_gpu: bool) -> Iterator[tuple[float, int]]:
    for attempt in attempts:
        devices, ended = attempt.started.devices, attempt.ended
        steps = ended.last_step - (attempt.started.resumed_from or 0) if ended and ended.outcome == "finished" else 0
        if ended and steps > 0 and any(name != "cpu" for name in devices) == on_gpu:
            yield ended.seconds / steps, len(devices) if on_gpu else 1


def attempts_of(path: Path) -> tuple[Attempt, ...]:
    """Of a ledger on this machine. A broken one is no history."""
    with suppress(ArtifactError, OSError, UnicodeDecodeError):
        return read_attempts(path)
    return ()
