"""Everything that conclude reads, one run's tables at a time, and the value of every estimand of a run."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from stages.analyse.completions import Evaluation, read_completions, read_evaluation
from stages.analyse.counted import Count, of_evaluation
from stages.analyse.replay import Replayed, asked, replay
from stages.analyse.tables import History, read_history
from stages.analyse.traces import Rows, Trace, reduce
from stages.analyse.windows import Window, window_of
from stages.contracts.analysis_card import ConcludeCard, ConditionCard, RunRef, Windows
from stages.contracts.artifact import file_digest, read
from stages.contracts.attempt import Attempt, read_attempts, tries
from stages.contracts.finding import Source
from stages.contracts.health import Health
from stages.contracts.history import Metric, metric
from stages.contracts.import_card import ImportCard, Imported
from stages.contracts.layout import ExperimentFolder, RunFolder
from stages.contracts.preflight_card import Preflight

FIRST_SCREEN = ("reward", "zero_signal_share", "truncated")
"""History metrics that every experiment gets, whatever its card names."""


_ROUNDING = 1e-9


@dataclass(frozen=True)
class RunEvidence:
    """What is kept of one run's files."""

    ref: RunRef
    condition: ConditionCard
    place: RunFolder
    health: Health | None
    trace: Trace
    replayed: Replayed
    evaluation: Evaluation
    imported: Imported | None = None
    only_read: bool = False
    """Its log was read, and the run was trained elsewhere."""

    @property
    def only_summary(self) -> bool:
        """Whether the run was imported as single values, without any series."""
        return self.imported is not None and bool(self.imported.summary)

    @property
    def included(self) -> bool:
        return self.health is not None and self.health.included

    @property
    def why_not(self) -> str:
        """Why the run does not count; empty when it does."""
        return "no health.json" if self.health is None else "; ".join(self.health.reasons)


@dataclass(frozen=True)
class Measured:
    """A run's value of an estimand; `why` when there is none. `k` of `n` when it is a share of completions."""

    value: float | None
    why: str = ""
    k: int | None = None
    n: int | None = None
    method: str = ""
    """How the value was made, when its source says so."""
    count: Count | None = None
    """What the value is a share of, where that is known; of a change, its later part."""
    start: Count | None = None
    """Of a change: the same of its earlier part."""
    scale: float = 0.0
    """Of a change: the larger of the numbers it is the difference of, without sign."""
    part: str = ""
    """Of a mean over less than its window, because the run ended inside it or logged one step of it: over what."""


@dataclass
class Evidence:
    """One experiment's files. Hashes are computed when a number first asks for its source."""

    folder: ExperimentFolder
    windows: Windows
    conditions: tuple[ConditionCard, ...]
    runs: tuple[RunEvidence, ...]
    scores: tuple[str, ...]
    untrained: Evaluation
    preflight: Preflight | None
    attempts: dict[str, tuple[Attempt, ...]]
    _sources: dict[tuple[Path, str | None], Source] = field(default_factory=dict)
    _values: dict[tuple[str, str, str], Measured] = field(default_factory=dict)

    def of(self, condition: str) -> list[RunEvidence]:
        """Runs of a condition, in the card's order."""
        return [run for run in self.runs if run.ref.condition == condition]

    @cached_property
    def imported(self) -> frozenset[str]:
        """Conditions of which a run is imported, read or not."""
        return frozenset(run.ref.condition for run in self.runs if run.place.import_card.exists())

    def source(self, path: Path, attempt: str | None = None) -> Source:
        """Raises OSError when the file is missing: ask only for files that were read."""
        if (path, attempt) not in self._sources:
            self._sources[path, attempt] = Source(path=path.as_posix(), sha256=file_digest(path), attempt=attempt)
        return self._sources[path, attempt]

    def window(self, run: RunRef, statistic: str) -> Window:
        """The window of `initial` or `final`."""
        return window_of(statistic, run.target_steps, self.windows)

    def value(self, run: RunEvidence, name: str, statistic: str) -> Measured:
        """The run's initial, final or change of a history metric or of `evaluation.<score>.<measure>`."""
        key = (run.ref.name, name, statistic)
        if key not in self._values:
            self._values[key] = self._measure(run, name, statistic)
        return self._values[key]

    def _measure(self, run: RunEvidence, name: str, statistic: str) -> Measured:
        if statistic == "change":
            return self._change(run, name)
        if name.startswith("evaluation."):
            return self.evaluated(run.evaluation, name)
        if run.imported is not None and run.only_summary:
            return _summary_value(run.imported, name, statistic)
        window, trace = self.window(run.ref, statistic), run.trace
        rows = trace.rows[name, statistic]
        if rows is not None:
            part = _part(trace, window) or (f"one logged step of {window}" if rows.n == 1 < window.length else "")
            return Measured(rows.mean, part=part, count=_same(trace.counts.get((name, statistic)), rows))
        if trace.since is not None and trace.since <= window.last:
            return Measured(None, f"the valid range ends at step {trace.since - 1}")
        if not trace.logged:
            return Measured(None, "nothing was logged")
        if run.health is not None and run.health.stopped is not None and run.health.stopped.step < window.last:
            return Measured(None, f"stopped by {run.health.stopped.rule} at step {run.health.stopped.step}")
        if trace.last_step < window.last:
            return Measured(None, f"the log ends at step {trace.last_step}")
        return Measured(None, f"{name} has no value in {window}")

    def _change(self, run: RunEvidence, name: str) -> Measured:
        final = self.value(run, name, "final")
        start = self.evaluated(self.untrained, name) if name.startswith("evaluation.") else self.value(run, name, "initial")
        if final.value is None or start.value is None:
            return Measured(None, final.why or start.why)
        if not math.isfinite(final.value - start.value):
            return Measured(None, "the change is larger than any number that a computer holds")
        part = "; ".join(dict.fromkeys(part for part in (start.part, final.part) if part))
        return Measured(
            final.value - start.value, part=part, count=final.count, start=start.count, scale=max(abs(final.value), abs(start.value))
        )

    def evaluated(self, found: Evaluation, name: str) -> Measured:
        """pass_share (of the known), unknown_share or mean score of a model on the shared evaluation."""
        _, score, measure = name.split(".")
        counts = found.scores.get(score)
        if counts is None:
            return Measured(None, "it was not evaluated")
        if measure == "score":
            return Measured(counts.score, "" if counts.score is not None else f"{score} knew of no completion")
        known = counts.passed + counts.failed
        k, n = (counts.passed, known) if measure == "pass_share" else (counts.unknown, known + counts.unknown)
        return Measured(k / n, k=k, n=n, count=of_evaluation(k, n)) if n else Measured(None, f"{score} knew of no completion", 0, 0)


def _same(count: Count | None, rows: Rows) -> Count | None:
    """The count, where it gives the logged value: a history whose steps do not weigh alike, or that belongs to other completions, has
    none. It is worth no more than the steps that were logged."""
    if count is None or abs(count.share - rows.mean) > _ROUNDING:
        return None
    return count._replace(worth=min(count.worth, rows.n))


def _part(trace: Trace, window: Window) -> str:
    """A run that ended inside the window gives a mean over another stretch than the others; a stride's last row stands for its stride."""
    end = trace.last_step + trace.stride - 1
    if trace.since is not None:
        end = min(end, trace.since - 1)
    return f"a mean over {Window(window.first, end)} only, because the run ends inside {window}" if end < window.last else ""


def _summary_value(imported: Imported, name: str, statistic: str) -> Measured:
    """A value of the source's own summary. It is never a mean over a window of ours, and its method says what it is."""
    found = next((value for value in imported.summary if (value.metric, value.statistic) == (name, statistic)), None)
    if found is None:
        return Measured(None, f"the source's summary has no {statistic} value of {name}")
    if found.value is None:
        return Measured(None, "the source's summary says NaN or Inf" if found.state == "nonfinite" else "the source's summary says null")
    return Measured(found.value, method=found.method)


def meaning(name: str) -> Metric:
    """What a metric is; a name that octavo does not know has no unit."""
    return metric(name) or Metric(name=name, unit="", says=name)


def history_metrics(card: ConcludeCard) -> tuple[str, ...]:
    """History metrics of which every run and condition gets findings."""
    named = [claim.metric for claim in card.claims if not claim.metric.startswith("evaluation.")]
    return tuple(dict.fromkeys([*FIRST_SCREEN, *card.metrics, *named]))


def load_evidence(folder: ExperimentFolder, card: ConcludeCard) -> Evidence:
    """Read all files of an experiment. Missing ones are holes, broken ones raise ArtifactError.

    Each run's history and completions are read once, reduced to what the card's findings are made of, and let go.
    """
    by_name = {condition.name: condition for condition in card.conditions}
    found = tuple(_load_run(folder.run(run.name), run, by_name[run.condition], card) for run in card.runs)
    return Evidence(
        folder=folder,
        windows=card.windows,
        conditions=card.conditions,
        runs=found,
        scores=card.evaluation,
        untrained=read_evaluation(folder.untrained.evaluation, card.evaluation),
        preflight=read(Preflight, folder.preflight) if folder.preflight.exists() else None,
        attempts={run.ref.name: tries(read_attempts(run.place.attempts), only_read=run.only_read) for run in found},
    )


def _load_run(place: RunFolder, run: RunRef, condition: ConditionCard, card: ConcludeCard) -> RunEvidence:
    stop = next((own.stop for own in card.stops if own.condition == run.condition), None)
    expectations = [expectation for expectation in card.expectations if run.condition in expectation.conditions]
    metrics = (*history_metrics(card), *(f"gate.{gate}.pass_share" for gate in condition.gates))
    health = read(Health, place.health) if place.health.exists() else None
    history = read_history(place.history, {*metrics, *asked(stop, expectations)})
    windows = {statistic: window_of(statistic, run.target_steps, card.windows) for statistic in ("initial", "final")}
    return RunEvidence(
        ref=run,
        condition=condition,
        place=place,
        health=health,
        trace=reduce(history, read_completions(place.completions, condition.gates), metrics, condition.gates, windows),
        replayed=replay(history, stop, expectations, target_steps=run.target_steps, done=_done(history, health), share=card.windows.final),
        evaluation=read_evaluation(place.evaluation, card.evaluation),
        imported=read(Imported, place.imported) if place.imported.exists() else None,
        only_read=place.import_card.exists() and read(ImportCard, place.import_card).only_read,
    )


def _done(history: History, health: Health | None) -> int:
    """A log with a stride above 1 gets to a place that lies before its next row; a trainer's own count of steps is believed."""
    logged = history.last_step + history.stride - 1 if history.last_step else 0
    return max(logged, (health.steps_done or 0) if health else 0)
