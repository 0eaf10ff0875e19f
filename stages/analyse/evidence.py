"""Everything that conclude and draw read, loaded once, and the value of every estimand of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from stages.analyse.tables import Evaluation, History, read_completions, read_evaluation, read_history
from stages.analyse.windows import Window, final_window, initial_window
from stages.contracts.analysis_card import ConditionCard, RunRef, Windows
from stages.contracts.artifact import file_digest, read
from stages.contracts.attempt import Attempt, read_attempts
from stages.contracts.finding import Source
from stages.contracts.health import Health
from stages.contracts.history import Metric, metric
from stages.contracts.import_card import Imported
from stages.contracts.layout import ExperimentFolder, RunFolder
from stages.contracts.preflight_card import Preflight


@dataclass(frozen=True)
class RunEvidence:
    """One run's files."""

    ref: RunRef
    condition: ConditionCard
    place: RunFolder
    health: Health | None
    history: History
    evaluation: Evaluation
    completions: pd.DataFrame
    imported: Imported | None = None

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
    _digests: dict[Path, str] = field(default_factory=dict)
    _values: dict[tuple[str, str, str], Measured] = field(default_factory=dict)

    def of(self, condition: str) -> list[RunEvidence]:
        """Runs of a condition, in the card's order."""
        return [run for run in self.runs if run.ref.condition == condition]

    def source(self, path: Path, attempt: str | None = None) -> Source:
        """Raises OSError when the file is missing: ask only for files that were read."""
        if path not in self._digests:
            self._digests[path] = file_digest(path)
        return Source(path=path.as_posix(), sha256=self._digests[path], attempt=attempt)

    def window(self, run: RunRef, statistic: str) -> Window:
        """The window of `initial` or `final`."""
        whole = initial_window if statistic == "initial" else final_window
        return whole(run.target_steps, self.windows.initial if statistic == "initial" else self.windows.final)

    def value(self, run: RunEvidence, name: str, statistic: str) -> Measured:
        """The run's initial, final or change of a history metric or of `evaluation.<score>.<measure>`."""
        key = (run.ref.name, name, statistic)
        if key not in self._values:
            self._values[key] = self._measure(run, name, statistic)
        return self._values[key]

    def rows(self, run: RunEvidence, name: str, statistic: str) -> list[float]:
        """Logged values of a history metric in the window of `initial` or `final`, those that may enter statistics."""
        window = self.window(run.ref, statistic)
        found: list[float] = run.history.values(name, window.first, window.last).tolist()
        return found

    def _measure(self, run: RunEvidence, name: str, statistic: str) -> Measured:
        if statistic == "change":
            return self._change(run, name)
        if name.startswith("evaluation."):
            return self.evaluated(run.evaluation, name)
        if run.imported is not None and run.only_summary:
            return _summary_value(run.imported, name, statistic)
        window = self.window(run.ref, statistic)
        values = run.history.values(name, window.first, window.last)
        if len(values):
            return Measured(float(values.mean()))
        if run.history.gradient.since is not None and run.history.gradient.since <= window.last:
            return Measured(None, f"the valid range ends at step {run.history.gradient.since - 1}")
        if not run.history.columns:
            return Measured(None, "nothing was logged")
        if run.health is not None and run.health.stopped is not None and run.health.stopped.step < window.last:
            return Measured(None, f"stopped by {run.health.stopped.rule} at step {run.health.stopped.step}")
        if run.history.last_step < window.last:
            return Measured(None, f"the log ends at step {run.history.last_step}")
        return Measured(None, f"{name} has no value in {window}")

    def _change(self, run: RunEvidence, name: str) -> Measured:
        final = self.value(run, name, "final")
        start = self.evaluated(self.untrained, name) if name.startswith("evaluation.") else self.value(run, name, "initial")
        if final.value is None or start.value is None:
            return Measured(None, final.why or start.why)
        return Measured(final.value - start.value)

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
        return Measured(k / n, k=k, n=n) if n else Measured(None, f"{score} knew of no completion", 0, 0)


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


def load_evidence(
    folder: ExperimentFolder, conditions: Sequence[ConditionCard], runs: Sequence[RunRef], scores: Sequence[str], windows: Windows
) -> Evidence:
    """Read all files of an experiment. Missing ones are holes, broken ones raise ArtifactError."""
    by_name = {condition.name: condition for condition in conditions}
    found = tuple(_load_run(folder.run(run.name), run, by_name[run.condition], scores) for run in runs)
    return Evidence(
        folder=folder,
        windows=windows,
        conditions=tuple(conditions),
        runs=found,
        scores=tuple(scores),
        untrained=read_evaluation(folder.untrained.evaluation, scores),
        preflight=read(Preflight, folder.preflight) if folder.preflight.exists() else None,
        attempts={run.ref.name: read_attempts(run.place.attempts) for run in found},
    )


def _load_run(place: RunFolder, run: RunRef, condition: ConditionCard, scores: Sequence[str]) -> RunEvidence:
    return RunEvidence(
        ref=run,
        condition=condition,
        place=place,
        health=read(Health, place.health) if place.health.exists() else None,
        history=read_history(place.history),
        evaluation=read_evaluation(place.evaluation, scores),
        completions=read_completions(place.completions, condition.gates),
        imported=read(Imported, place.imported) if place.imported.exists() else None,
    )
