"""What training again costs: from this experiment's own finished attempts, else from what the spec declares."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from contextlib import suppress
from typing import Literal

from compiler.compile import Compiled
from stages.contracts.artifact import ArtifactError, Frozen
from stages.contracts.attempt import Attempt, read_attempts
from stages.contracts.layout import RUNS

HOUR = 3600.0


class Cost(Frozen):
    """Device hours of the runs that train. attempts: from this experiment's own finished attempts; resources: as the spec declares."""

    unit: Literal["GPU-hours", "CPU-hours"]
    runs: int
    basis: Literal["attempts", "resources", "no history"]
    attempts: int = 0
    """Finished attempts that the numbers come from."""
    median: float | None = None
    low: float | None = None
    high: float | None = None


def cost(compiled: Compiled, runs: Iterable[str]) -> Cost:
    """Device hours of training these runs. The median and the range are those of device seconds a step, times the steps to do."""
    device = next((card.device for card in compiled.cards.train.values()), "cpu")  # imported runs have no train cards, and cost nothing
    unit: Literal["GPU-hours", "CPU-hours"] = "GPU-hours" if device == "cuda" else "CPU-hours"
    steps = {run.name: run.setup.train.max_steps for run in compiled.expansion.runs}
    again = [steps[name] for name in runs if name in steps]
    rates = [rate for attempt in _attempts(compiled.experiment.name) if (rate := _rate(attempt, device)) is not None]
    if rates and again:
        low, median, high = (round(sum(again) * rate / HOUR, 6) for rate in (min(rates), statistics.median(rates), max(rates)))
        return Cost(unit=unit, runs=len(again), basis="attempts", attempts=len(rates), median=median, low=low, high=high)
    hours = compiled.experiment.spec.resources.hours
    if hours is not None and again:
        return Cost(unit=unit, runs=len(again), basis="resources", median=round(hours * len(again), 6))
    return Cost(unit=unit, runs=len(again), basis="no history", attempts=len(rates))


def _attempts(experiment: str) -> list[Attempt]:
    """All attempts of the experiment's runs, those that left the spec included. A broken ledger is no history."""
    attempts: list[Attempt] = []
    for path in sorted((RUNS / experiment).glob("*/attempts.jsonl")):
        with suppress(ArtifactError, OSError, UnicodeDecodeError):
            attempts += read_attempts(path)
    return attempts


def _rate(attempt: Attempt, device: str) -> float | None:
    """Device seconds a step of a finished attempt on the same kind of device; None for any other."""
    ended, started = attempt.ended, attempt.started
    on_gpu = any(name != "cpu" for name in started.devices)
    if ended is None or ended.outcome != "finished" or on_gpu != (device == "cuda"):
        return None
    steps = ended.last_step - (started.resumed_from or 0)
    return ended.seconds / steps * (len(started.devices) if on_gpu else 1) if steps > 0 else None
