"""What training again costs: from this experiment's own finished attempts, else from what the spec declares."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Literal

from compiler.commands.plan_report import Cost
from compiler.compile import Compiled
from stages.contracts.artifact import ArtifactError
from stages.contracts.attempt import read_attempts
from stages.contracts.layout import RUNS

HOUR = 3600.0


def cost(compiled: Compiled, runs: Iterable[str]) -> Cost:
    """Device hours of training these runs. The median and the range are those of device seconds a step, times the steps to do."""
    on_gpu = any(card.device == "cuda" for card in compiled.cards.train.values())
    unit: Literal["GPU-hours", "CPU-hours"] = "GPU-hours" if on_gpu else "CPU-hours"
    steps = {run.name: run.setup.train.max_steps for run in compiled.expansion.runs}
    again = [steps[name] for name in runs if name in steps]
    rates = list(_rates(compiled.experiment.name, on_gpu))
    if rates and again:
        low, median, high = (round(sum(again) * rate / HOUR, 6) for rate in (min(rates), statistics.median(rates), max(rates)))
        return Cost(unit=unit, runs=len(again), basis="attempts", attempts=len(rates), median=median, low=low, high=high)
    hours = compiled.experiment.spec.resources.hours
    if hours is not None and again:
        return Cost(unit=unit, runs=len(again), basis="resources", median=round(hours * len(again), 6))
    return Cost(unit=unit, runs=len(again), basis="no history", attempts=len(rates))


def _rates(experiment: str, on_gpu: bool) -> Iterator[float]:
    """Device seconds a step of each finished attempt on the same kind of device. A broken ledger is no history."""
    for path in sorted((RUNS / experiment).glob("*/attempts.jsonl")):
        with suppress(ArtifactError, OSError, UnicodeDecodeError):
            for attempt in read_attempts(path):
                devices, ended = attempt.started.devices, attempt.ended
                steps = ended.last_step - (attempt.started.resumed_from or 0) if ended and ended.outcome == "finished" else 0
                if ended and steps > 0 and any(name != "cpu" for name in devices) == on_gpu:
                    yield ended.seconds / steps * (len(devices) if on_gpu else 1)
