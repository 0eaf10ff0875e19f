"""Collapse: a streak of steps without any signal, at least `patience` steps long.

Patience counts steps, not rows. Onset (first step of the streak) and detection (the step at which a live detector could first
have known) are reported apart. A log that is too coarse to see a streak of that length is refused, never called healthy, and a streak does
not go on over rows that are further apart than a third of the patience.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from pydantic import Field

from stages.contracts.amounts import counted, stretch
from stages.contracts.artifact import Frozen
from stages.contracts.health import Detection, Signal
from stages.contracts.observed import Observed, Rows, usual_distance

NAME = "collapse"
NEEDS_COMPLETIONS = True


class Settings(Frozen):
    metric: str = Field(
        "zero_signal_share",
        description="Metric that tells whether a step had a signal.",
        json_schema_extra={"unit": "name", "source": "within-group spread, which is what GRPO compares"},
    )
    at_least: float | None = Field(
        1.0,
        description="A step has no signal when the metric is at least this; null: not used.",
        json_schema_extra={"unit": "unit of the metric", "source": "all groups constant: the advantage of every completion is zero"},
    )
    below: float | None = Field(
        None,
        description="A step has no signal when the metric is below this (for imported logs that hold only reward_std); null: not used.",
        json_schema_extra={"unit": "unit of the metric", "source": "set by the spec; a prover report used reward_std below 0.05"},
    )
    patience: int = Field(
        15,
        ge=1,
        description="Shortest streak that counts.",
        json_schema_extra={"unit": "steps", "source": "early stopping of a prover report (patience 15)"},
    )


def detect(settings: Settings, series: Observed) -> Detection:
    """One signal a streak."""
    rows = series.rows(settings.metric)
    if not rows.n:
        return Detection(detector=NAME, state="not_observable", reason=series.why_none(settings.metric))
    if settings.at_least is None and settings.below is None:
        return Detection(
            detector=NAME, state="not_applicable", reason="neither `at_least` nor `below` says what a step without a signal is"
        )
    if settings.metric == "zero_signal_share" and (reason := series.no_share(settings.metric)):
        return Detection(detector=NAME, state="not_applicable", reason=reason)
    logged_every = usual_distance(rows.steps)
    if logged_every > settings.patience / 3:
        reason = f"logged every {logged_every} steps, which is too coarse for a streak of {settings.patience} steps"
        return Detection(detector=NAME, state="not_observable", reason=reason)
    first, last = int(rows.steps[0]), int(rows.steps[-1])
    if last - first + 1 < settings.patience:
        reason = f"the log covers {stretch(first, last)}: a streak of {settings.patience} steps does not fit"
        return Detection(detector=NAME, state="not_applicable", reason=reason)
    signals = [signal for streak in _streaks(settings, rows, logged_every) for signal in _signal(settings, series, streak, logged_every)]
    return Detection(detector=NAME, state="looked", reason=_unseen(rows, settings, logged_every), signals=tuple(signals))


def _unseen(rows: Rows, settings: Settings, logged_every: int) -> str:
    """How much of the log is too sparse for a streak; empty when nothing is."""
    gaps = rows.steps[1:] - rows.steps[:-1]
    wide = gaps[gaps > max(logged_every, settings.patience / 3)]
    steps = int((wide - 1).sum())
    return f"{counted(steps, 'step')} in {counted(len(wide), 'gap')} between rows were not seen: no streak goes over them" if steps else ""


def _rule(settings: Settings) -> str:
    bounds = [f"at least {settings.at_least:g}"] if settings.at_least is not None else []
    bounds += [f"below {settings.below:g}"] if settings.below is not None else []
    return f"{settings.metric} {' or '.join(bounds)}"


class _Streak(NamedTuple):
    steps: list[int]
    ended: int | None
    """Step at which a signal returned."""
    gap: bool
    """Whether rows are missing after it: what came there is unknown."""


def _streaks(settings: Settings, rows: Rows, logged_every: int) -> Iterator[_Streak]:
    """Rows without a signal that follow each other. A streak ends where rows are further apart than a third of the patience: steps
    that nobody saw are not silent."""
    silent = rows.values != rows.values  # none yet
    if settings.at_least is not None:
        silent |= rows.values >= settings.at_least
    if settings.below is not None:
        silent |= rows.values < settings.below
    if not silent.any():
        return
    gaps = (rows.steps[1:] - rows.steps[:-1]) > max(logged_every, settings.patience / 3)
    edges = [0, *(((silent[1:] != silent[:-1]) | gaps).nonzero()[0] + 1).tolist(), rows.n]
    for first, end in pairwise(edges):
        if silent[first]:
            gap = end < rows.n and bool(gaps[end - 1])
            yield _Streak(rows.steps[first:end].tolist(), int(rows.steps[end]) if end < rows.n and not gap else None, gap)


def _signal(settings: Settings, series: Observed, streak: _Streak, logged_every: int) -> list[Signal]:
    steps, ended, gap = streak
    if steps[-1] - steps[0] + 1 < settings.patience:
        return []
    onset, last = steps[0], steps[-1]
    detected = next(step for step in steps if step - onset + 1 >= settings.patience)
    length = last - onset + 1
    says = f"no signal in {stretch(onset, last)} ({counted(length, 'step')}: {_rule(settings)}); a live detector knows at step {detected}"
    if gap:
        says += "; rows are missing after it"
    else:
        says += f"; a signal returned at step {ended}" if ended is not None else "; it lasts to the end of the log"
    if logged_every > 1:
        says += f"; logged every {logged_every} steps"
    if series.null_control:
        says += "; expected for a null control"
    open_end = ended is None and not gap
    severity = "info" if series.null_control else "severe" if open_end else "warning"
    return [
        Signal(
            detector=NAME,
            metric=settings.metric,
            severity=severity,
            says=says,
            onset=onset,
            detected=detected,
            last=last,
            value=float(length),
            evidence={
                "rows": len(steps),
                "stride": logged_every,
                "patience": settings.patience,
                "recovered": ended is not None,
                "rule": _rule(settings),
            },
        )
    ]
