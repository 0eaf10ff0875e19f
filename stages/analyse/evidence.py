"""What is kept of an experiment's files: of each run its log, its health, its counts, and its values of every estimand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from stages.analyse.frames import Run, Window
from stages.analyse.measures import Measure, Range
from stages.contracts.analysis_card import ConcludeCard, ConditionCard, RunRef
from stages.contracts.attempt import Attempt
from stages.contracts.expressions import comparisons
from stages.contracts.files import file_digest
from stages.contracts.finding import Source
from stages.contracts.health import Health
from stages.contracts.history import Ends, Metric, metric
from stages.contracts.import_card import Imported
from stages.contracts.layout import ExperimentFolder, RunFolder
from stages.contracts.preflight_card import Preflight
from stages.contracts.stops import StopRules

FIRST_SCREEN = ("reward", "zero_signal_share", "truncated")
"""History metrics that every experiment gets, whatever its card names."""
SHOWN = ("reward_std", "loss", "grad_norm", "kl")
"""History metrics whose last window every table shows by default."""
ENDS = ("initial", "final")
"""Statistics of the windows that every metric is measured in."""
MEASURES = ("pass_share", "score")


@dataclass(frozen=True)
class RunEvidence:
    """What is kept of one run's files."""

    ref: RunRef
    place: RunFolder
    log: Run
    """Of its tables only the metrics that rules and expectations look at."""
    windows: Mapping[str, Window]
    """`initial` and `final`, and the points between them where the card asks for those."""
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
