"""What conclude reads: each run's tables once, reduced to its values of every estimand."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from stages.analyse.frames import Run, Window, read_if_there, read_run, read_table, window_of
from stages.analyse.statistics import Interval, trend
from stages.contracts.analysis_card import ConcludeCard, ConditionCard, OtherCondition, RunRef
from stages.contracts.artifact import read
from stages.contracts.attempt import Attempt, read_attempts, tries
from stages.contracts.expressions import comparisons
from stages.contracts.files import file_digest
from stages.contracts.finding import Source
from stages.contracts.health import Health
from stages.contracts.history import EVALUATION_SCHEMA, STATUSES, Ends, Metric, gate_columns, metric
from stages.contracts.import_card import ImportCard, Imported
from stages.contracts.layout import ExperimentFolder, RunFolder
from stages.contracts.preflight_card import Preflight
from stages.contracts.reward import Phase
from stages.contracts.stops import StopRules

FIRST_SCREEN = ("reward", "zero_signal_share", "truncated")
"""History metrics that every experiment gets, whatever its card names."""
SHOWN = ("reward_std", "loss", "grad_norm", "kl")
"""History metrics whose last window every table shows by default."""
CLASS = re.compile(r"[:;]| \(")
"""What ends the class of a reason such as `does not parse: line 2` or `2 items with a type error; line 3`."""
CLASS_CHARS = 60
MEASURES = ("pass_share", "score")
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


@dataclass(frozen=True)
class RunEvidence:
    """What is kept of one run's files."""

    ref: RunRef
    place: RunFolder
    log: Run
    """Of its tables only the metrics that rules and expectations look at."""
    windows: Mapping[str, Window]
    """`initial` and `final`."""
    health: Health | None
    imported: Imported | None
    only_read: bool
    """Its log was read, and the run was trained elsewhere."""
    attempts: tuple[Attempt, ...]
    gates: Mapping[tuple[str, str], Mapping[str, int]]
    """By gate and window: completions by status, and all of them as `completions`."""
    errors: Mapping[tuple[str, str], Mapping[str, int]]
    """By gate and window: completions that failed by the class of their reason."""
    ranges: Mapping[str, Range]
    """By metric, those that have a value that counts."""
    evaluated_attempt: str | None
    evaluated: bool

    @property
    def only_summary(self) -> bool:
        """Whether the run was imported as single values, without any series."""
        return self.imported is not None and bool(self.imported.summary)

    @property
    def included(self) -> bool:
        return self.health is not None and self.health.included

    @property
    def goes_on(self) -> bool:
        """Whether this is evidence of a page that is written while runs go on, and the run has not ended."""
        return self.ref.so_far is not None and (self.health is None or self.health.state in ("missing", "unknown"))

    @property
    def why_not(self) -> str:
        """Why the run does not count; empty when it does."""
        return "no health.json" if self.health is None else "; ".join(self.health.reasons)


@dataclass
class Evidence:
    """One experiment's files. Hashes are computed when a number first asks for its source."""

    folder: ExperimentFolder
    card: ConcludeCard
    preflight: Preflight | None
    runs: list[RunEvidence] = field(default_factory=list)
    others: list[RunEvidence] = field(default_factory=list)
    """Runs of other experiments that claims are held against; their names and conditions begin with `<experiment>:`."""
    measures: dict[tuple[str, str, str], Measure] = field(default_factory=dict)
    """By run (`untrained` too), metric and statistic."""
    _sources: dict[tuple[Path, str | None], Source] = field(default_factory=dict)

    def runs_of(self, condition: str) -> list[RunEvidence]:
        """Runs of a condition, in the card's order."""
        return [run for run in (*self.runs, *self.others) if run.ref.condition == condition]

    @cached_property
    def conditions(self) -> tuple[ConditionCard, ...]:
        """This experiment's, and those of other experiments that claims are held against."""
        return (*self.card.conditions, *(other.condition.model_copy(update={"name": other.name}) for other in self.card.elsewhere))

    @cached_property
    def imported(self) -> frozenset[str]:
        """Conditions with an imported run, read or not."""
        return frozenset(run.ref.condition for run in (*self.runs, *self.others) if run.place.import_card.exists())

    def meaning(self, name: str) -> Metric:
        """What a metric is; a name that octavo does not know has no unit."""
        formula = self.card.derived.get(name)
        return metric(name) or Metric(
            name, "derived" if formula else "", (), name, f"{name} = {formula}, step by step" if formula else name
        )

    def bounds(self, name: str, conditions: Iterable[str]) -> Ends:
        """What a value of these conditions lies between by definition. Rewards of runs that octavo only read have no known range."""
        if name != "reward":
            return self.meaning(name).bounds
        if not self.imported.isdisjoint(conditions):
            return (None, None)
        own = {condition.name for condition in self.card.conditions}  # of another experiment only an equal reward is compared
        ranges = [self.card.reward_ranges.get(condition, (0.0, 1.0)) for condition in conditions if condition in own]
        return (min((low for low, _ in ranges), default=None), max((high for _, high in ranges), default=None))

    def sources(self, files: Iterable[tuple[Path, str | None]]) -> tuple[Source, ...]:
        """Files that were read, each with its attempt. Raises OSError when one is missing."""
        files = list(files)
        for path, attempt in set(files) - self._sources.keys():
            self._sources[path, attempt] = Source(path=path.as_posix(), sha256=file_digest(path), attempt=attempt)
        return tuple(self._sources[file] for file in files)

    def histories(self, runs: Sequence[RunEvidence]) -> tuple[Source, ...]:
        """The histories of runs, those that there are."""
        return self.sources((run.place.history, run.log.attempt) for run in runs if run.log.card_id is not None)

    def healths(self, runs: Sequence[RunEvidence]) -> tuple[Source, ...]:
        return self.sources((run.place.health, None) for run in runs if run.health)


def shown_metrics(evidence: Evidence) -> tuple[str, ...]:
    """Metrics whose last window tables show beside those of `history_metrics`, as far as runs log them."""
    named = history_metrics(evidence.card)
    return tuple(name for name in SHOWN if name not in named and any(name in run.ranges for run in evidence.runs))


def history_metrics(card: ConcludeCard) -> tuple[str, ...]:
    """History metrics that every run and condition gets findings of."""
    named = [claim.metric for claim in card.claims if not claim.metric.startswith("evaluation.")]
    return tuple(dict.fromkeys([*FIRST_SCREEN, *card.metrics, *named]))


def rule_metrics(stop: StopRules | None) -> set[str]:
    """Metrics that stop rules look at."""
    return {leaf.metric for rule in (*stop.rules, *stop.green_lights) for leaf in comparisons(rule.when)} if stop else set()


def load_evidence(folder: ExperimentFolder, card: ConcludeCard) -> Evidence:
    """Read all files of an experiment, one run at a time. Missing files are holes, broken ones raise ArtifactError."""
    evidence = Evidence(folder, card, read_if_there(Preflight, folder.preflight))
    conditions = {condition.name: condition for condition in card.conditions}
    untrained = _evaluated(read_evaluation(folder.untrained.evaluation, card.evaluation)[0], card.evaluation)
    evidence.measures |= {("untrained", name, "final"): measure for name, measure in untrained.items()}
    for ref in card.runs:
        run, measures = _load_run(folder.run(ref.name), ref, conditions[ref.condition], card, untrained)
        evidence.runs.append(run)
        evidence.measures |= {(ref.name, *estimand): measure for estimand, measure in measures.items()}
    for other in card.elsewhere:
        _load_other(evidence, ExperimentFolder(folder.root.parent / other.experiment), other)
    return evidence


def _load_other(evidence: Evidence, folder: ExperimentFolder, other: OtherCondition) -> None:
    """Add the runs of another experiment's condition, and their measures."""
    card = evidence.card.model_copy(update={"evaluation": other.evaluation, "weights": {}})
    untrained = _evaluated(read_evaluation(folder.untrained.evaluation, other.evaluation)[0], other.evaluation)
    for ref in other.runs:
        run, measures = _load_run(folder.run(ref.name), ref, other.condition, card, untrained)
        name = f"{other.experiment}:{ref.name}"
        evidence.others.append(replace(run, ref=ref.model_copy(update={"name": name, "condition": other.name})))
        evidence.measures |= {(name, *estimand): measure for estimand, measure in measures.items()}


def _load_run(
    place: RunFolder, ref: RunRef, condition: ConditionCard, card: ConcludeCard, untrained: Mapping[str, Measure]
) -> tuple[RunEvidence, dict[tuple[str, str], Measure]]:
    weights = card.weights.get(condition.name, ())
    columns = [column for gate in condition.gates for column in gate_columns(gate) if weights or not column.endswith(".score")]
    run = read_run(place, ref, condition, ("step", "group", "reward", "truncated", *columns), card.derived)
    statuses, attempt = read_evaluation(place.evaluation, card.evaluation)
    windows = {statistic: window_of(statistic, ref.span, card.windows) for statistic in ("initial", "final")}
    completions = {statistic: _completions(run, window) for statistic, window in windows.items()}
    only_read = place.import_card.exists() and read(ImportCard, place.import_card).only_read
    gates = {(gate, statistic): _gate_counts(rows, gate) for gate in condition.gates for statistic, rows in completions.items()}
    errors = {(gate, statistic): _error_counts(rows, gate) for gate in condition.gates for statistic, rows in completions.items()}
    own = [f"gate.{gate}.{measure}" for gate in condition.gates for measure in MEASURES]
    names = dict.fromkeys((*history_metrics(card), *SHOWN, *own))
    evidence = RunEvidence(
        ref=ref,
        place=place,
        log=run,
        windows=windows,
        health=read_if_there(Health, place.health),
        imported=read_if_there(Imported, place.imported),
        only_read=only_read,
        attempts=tries(read_attempts(place.attempts), only_read=only_read),
        gates=gates,
        errors=errors,
        ranges={name: _range(values, name) for name in names if len(values := run.values(name))},
        evaluated_attempt=attempt,
        evaluated=len(statuses) > 0,
    )
    measures: dict[tuple[str, str], Measure] = {}
    for name in names:
        first, last = (
            _summary(evidence, name, end) if evidence.only_summary else _mean(evidence, name, window, sampled=len(completions[end]) > 0)
            for end, window in windows.items()
        )
        change = _change(first, last)
        if change.value is not None and not evidence.only_summary:
            before, after = (window.rows(run.values(name)) for window in windows.values())
            change = change._replace(interval=trend(before, after, card.level))
        measures |= {(name, "initial"): first, (name, "final"): last, (name, "change"): change}
    times = run.values("step_seconds")
    measures["step_seconds", "mean"] = Measure(float(times.mean())) if len(times) else Measure(None, run.why_none("step_seconds"))
    for statistic, rows in completions.items():
        measures |= {(f"gate.{gate}.contribution", statistic): paid for gate, paid in _paid(rows, condition, weights, ref.target_steps)}
    for name, last in _evaluated(statuses, card.evaluation).items():
        measures |= {(name, "final"): last, (name, "change"): _change(untrained[name], last)}
    run.keep({*rule_metrics(card.stops.get(run.condition)), *(expected.metric for expected in card.expectations)})
    return evidence, measures


def read_evaluation(path: Path, scores: Sequence[str]) -> tuple[pd.DataFrame, str | None]:
    """Status and score columns of evaluation.parquet, empty without the file, and the attempt of the adapter that was evaluated."""
    columns = [column for score in scores for column in gate_columns(score)[:2]]
    rows, metadata = read_table(path, EVALUATION_SCHEMA, columns)
    return rows, metadata.get("octavo.attempt")


def _completions(run: Run, window: Window) -> pd.DataFrame:
    """Completions of a window that may enter statistics."""
    if run.completions.empty:
        return run.completions
    by_step = run.completions.set_index("step")
    return run.counting(by_step[(by_step.index >= window.first) & (by_step.index <= window.last)])


def _gate_counts(completions: pd.DataFrame, gate: str) -> dict[str, int]:
    statuses = completions[gate_columns(gate)[0]].value_counts() if len(completions) else {}
    return {"completions": len(completions)} | {status: int(statuses.get(status, 0)) for status in STATUSES}


def _error_counts(completions: pd.DataFrame, gate: str) -> dict[str, int]:
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


def _range(values: pd.Series, name: str) -> Range:
    known = metric(name)
    low, high = known.healthy if known else (None, None)
    outside = (values < (-math.inf if low is None else low)) | (values > (math.inf if high is None else high))
    at = [int(values.idxmin()), int(values.idxmax())]
    return Range(float(values.min()), at[0], float(values.max()), at[1], int(outside.sum()), len(values))


def _paid(
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


def _mean(evidence: RunEvidence, name: str, window: Window, *, sampled: bool) -> Measure:
    """A history metric in a window. `sampled`: the window has completions."""
    run = evidence.log
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
    stopped = evidence.health.stopped if evidence.health else None
    if run.since is not None and run.since <= window.last:
        return Measure(None, f"the valid range ends at step {run.since - 1}")
    if run.steps.empty:
        return Measure(None, "nothing was logged")
    if stopped is not None and stopped.step < window.last:
        return Measure(None, f"stopped by {stopped.rule} at step {stopped.step}")
    if run.last_step < window.last:
        return Measure(None, f"the log ends at step {run.last_step}")
    return Measure(None, f"{name} has no value in {window}")


def _summary(evidence: RunEvidence, name: str, statistic: str) -> Measure:
    """A value of the source's own summary. It is never a mean over a window of ours, and its method says what it is."""
    values = evidence.imported.summary if evidence.imported else ()
    summary = next((value for value in values if (value.metric, value.statistic) == (name, statistic)), None)
    if summary is None:
        return Measure(None, f"the source's summary has no {statistic} value of {name}")
    if summary.value is None:
        return Measure(None, f"the source's summary says {'NaN or Inf' if summary.state == 'nonfinite' else 'null'}")
    return Measure(summary.value, method=summary.method)


def _evaluated(statuses: pd.DataFrame, scores: Sequence[str]) -> dict[str, Measure]:
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


def _change(start: Measure, final: Measure) -> Measure:
    if final.value is None or start.value is None:
        return Measure(None, final.why or start.why)
    part = "; ".join(dict.fromkeys(part for part in (start.part, final.part) if part))
    return Measure(final.value - start.value, part=part, scale=max(abs(final.value), abs(start.value)))
