"""A run's tables reduced to numbers: means of windows, counts of gates, shares of the shared evaluation."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from stages.analyse.frames import Run, Window
from stages.analyse.statistics import Interval
from stages.contracts.analysis_card import ConditionCard
from stages.contracts.attempt import StoppedBy
from stages.contracts.history import STATUSES, gate_columns, metric
from stages.contracts.import_card import Imported
from stages.contracts.reward import Phase

CLASS = re.compile(r"[:;]| \(")
"""What ends the class of a reason such as `does not parse: line 2` or `2 items with a type error; line 3`."""
CLASS_CHARS = 60
_SHARES = {"truncated", "zero_signal_share", "pass_share", "reach_share", "unknown_share"}
"""Metrics, and measures of gates, that are shares of a step's completions."""
NOT_EVALUATED = "it was not evaluated"


class Measure(NamedTuple):
    """A run's value of an estimand; `why` when there is none."""

    value: float | None
    why: str = ""
    k: int | None = None
    n: int | None = None
    """k of n, when it is a share of completions of the shared evaluation."""
    method: str = ""
    """How the value was made, when the source of an import says so."""
    part: str = ""
    """What part of its window a mean is over, where it is not all of it."""
    worth: float | None = None
    """Independent completions that a share is worth: one a step in training, all of a shared evaluation."""
    scale: float = 0.0
    """Of a change: the larger of the numbers it is the difference of, without sign."""
    interval: Interval | None = None
    """Of a change within training: from the run's own steps."""


class Range(NamedTuple):
    """Where the values of a metric lie over all steps of a run that count."""

    lowest: float
    at_lowest: int
    highest: float
    at_highest: int
    outside: int
    """Steps outside the metric's healthy range, of `n`."""
    n: int


def completions_of(run: Run, window: Window) -> pd.DataFrame:
    """Completions of a window that may enter statistics."""
    if run.completions.empty:
        return run.completions
    by_step = run.completions.set_index("step")
    return run.counting(by_step[(by_step.index >= window.first) & (by_step.index <= window.last)])


def gate_counts(completions: pd.DataFrame, gate: str) -> dict[str, int]:
    statuses = completions[gate_columns(gate)[0]].value_counts() if len(completions) else {}
    return {"completions": len(completions)} | {status: int(statuses.get(status, 0)) for status in STATUSES}


def error_counts(completions: pd.DataFrame, gate: str) -> dict[str, int]:
    """Completions that failed, by what their reason says before any detail."""
    if completions.empty:
        return {}
    status, _, reason = gate_columns(gate)
    counts: dict[str, int] = {}
    for text, k in completions.loc[completions[status] == "fail", reason].value_counts().items():
        if k and str(text).strip():
            kind = CLASS.split(str(text), maxsplit=1)[0].strip()[:CLASS_CHARS]
            counts[kind] = counts.get(kind, 0) + int(k)
    return counts


def range_of(values: pd.Series, name: str) -> Range:
    known = metric(name)
    low, high = known.healthy if known else (None, None)
    outside = (values < (-math.inf if low is None else low)) | (values > (math.inf if high is None else high))
    at = [int(values.idxmin()), int(values.idxmax())]
    return Range(float(values.min()), at[0], float(values.max()), at[1], int(outside.sum()), len(values))


def contributions(
    completions: pd.DataFrame, condition: ConditionCard, weights: Sequence[Phase], target_steps: int
) -> Iterator[tuple[str, Measure]]:
    """What each gate of a weighted reward adds to it: weight times score, a mean over the completions with a known reward. The weights are
    those that held when a step was scored."""
    if not weights:
        return
    known = completions[completions["reward"].notna()] if len(completions) else completions
    progress = (known.index.to_numpy() - 1) / target_steps
    phase = np.searchsorted([phase.begins for phase in weights], progress, side="right") - 1
    for gate in condition.gates:
        if known.empty:
            yield gate, Measure(None, "no completion of the window has a known reward")
        else:
            weight = np.array([phase.weights[gate] for phase in weights])[phase]
            yield gate, Measure(float((weight * known[gate_columns(gate)[1]].astype(float).fillna(0.0)).mean()))


def window_mean(run: Run, name: str, window: Window, *, sampled: bool, stopped: StoppedBy | None) -> Measure:
    """A history metric in a window. `sampled`: the window has completions. `stopped`: what ended the run before its last step."""
    rows = window.rows(run.values(name))
    if len(rows):
        end = run.last_step + run.stride - 1  # a stride's last row stands for its stride
        if run.since is not None:
            end = min(end, run.since - 1)
        part = f"one logged step of {window}" if len(rows) == 1 < window.length else ""
        if end < window.last:
            part = f"a mean over {Window(window.first, end)} only, because the run ends inside {window}"
        share = (name.rpartition(".")[2] if name.startswith("gate.") else name) in _SHARES
        return Measure(float(rows.mean()), part=part, worth=float(len(rows)) if share and sampled else None)
    if run.since is not None and run.since <= window.last:
        return Measure(None, f"the valid range ends at step {run.since - 1}")
    if run.steps.empty:
        return Measure(None, "nothing was logged")
    if stopped is not None and stopped.step < window.last:
        return Measure(None, f"stopped by {stopped.rule} at step {stopped.step}")
    if run.last_step < window.last:
        return Measure(None, f"the log ends at step {run.last_step}")
    return Measure(None, f"{name} has no value in {window}")


def summary_value(imported: Imported | None, name: str, statistic: str) -> Measure:
    """A value of the source's own summary. It is never a mean over a window of ours, and its method says what it is."""
    values = imported.summary if imported else ()
    summary = next((value for value in values if (value.metric, value.statistic) == (name, statistic)), None)
    if summary is None:
        return Measure(None, f"the source's summary has no {statistic} value of {name}")
    if summary.value is None:
        return Measure(None, f"the source's summary says {'NaN or Inf' if summary.state == 'nonfinite' else 'null'}")
    return Measure(summary.value, method=summary.method)


def evaluated(statuses: pd.DataFrame, scores: Sequence[str]) -> dict[str, Measure]:
    """By metric: pass_share (of the known), mean score and unknown_share of a model on the shared evaluation."""
    measures: dict[str, Measure] = {}
    for score in scores:
        status, value, _ = gate_columns(score)
        passed, failed, unknown = (int((statuses[status] == word).sum()) for word in ("pass", "fail", "unknown"))
        nothing = NOT_EVALUATED if statuses.empty else f"{score} knew of no completion"
        for measure, k, n in (("pass_share", passed, passed + failed), ("unknown_share", unknown, passed + failed + unknown)):
            none = Measure(None, nothing) if statuses.empty else Measure(None, nothing, 0, 0)
            measures[f"evaluation.{score}.{measure}"] = Measure(k / n, k=k, n=n, worth=float(n)) if n else none
        mean = float(statuses[value].astype(float).mean())
        measures[f"evaluation.{score}.score"] = Measure(None, nothing) if math.isnan(mean) else Measure(mean)
    return measures


def change_of(start: Measure, final: Measure) -> Measure:
    if final.value is None or start.value is None:
        return Measure(None, final.why or start.why)
    part = "; ".join(dict.fromkeys(part for part in (start.part, final.part) if part))
    return Measure(final.value - start.value, part=part, scale=max(abs(final.value), abs(start.value)))
