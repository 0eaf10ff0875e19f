"""A run's measurements as detectors see them: plain data, so that a detector needs neither tables nor pandas."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Literal, NamedTuple

from stages.contracts.history import GRADIENT_METRICS as GRADIENT_METRICS
from stages.contracts.history import SKIPPED as SKIPPED

Cell = tuple[int, float | None, str]
"""(step, value, state): state is `value`, `nonfinite` or `null` (see history.py); the value is None unless the state is `value`."""

PERSISTENT_STEPS = 3
"""So many last rows in a row without a finite value are a persistent failure; fewer at the very end are transient."""


class NonFinite(NamedTuple):
    """How a metric's NaN and Inf are spread. `first`, `last` and `since` are steps; `since` is set when they persist to the end."""

    kind: Literal["none", "transient", "persistent"]
    found: int
    rows: int
    first: int | None
    last: int | None
    since: int | None

    @property
    def share(self) -> float:
        """Share of logged rows, 0..1."""
        return self.found / self.rows if self.rows else 0.0


def classify(logged: Iterable[int], bad: Iterable[int]) -> NonFinite:
    """Class of the steps in `bad` among the `logged` ones. Persistent: no finite row from some step to the end of the log."""
    steps = sorted(set(logged))
    wrong = sorted(set(bad))
    if not wrong:
        return NonFinite("none", 0, len(steps), None, None, None)
    marked = set(wrong)
    tail = 0
    while tail < len(steps) and steps[-1 - tail] in marked:
        tail += 1
    since = steps[-tail] if tail >= PERSISTENT_STEPS else None
    return NonFinite("transient" if since is None else "persistent", len(wrong), len(steps), wrong[0], wrong[-1], since)


def stride(steps: Sequence[int]) -> int:
    """The most common distance between logged steps; 1 when there are fewer than two."""
    ordered = sorted(set(steps))
    gaps = Counter(later - earlier for earlier, later in pairwise(ordered))
    return min(gaps, key=lambda gap: (-gaps[gap], gap)) if gaps else 1


class Share(NamedTuple):
    """k of n at a step, such as groups without signal."""

    step: int
    k: int
    n: int


class Span(NamedTuple):
    """A stretch of steps with pooled counts. `onset` is the first step in it whose own share is above the limit asked for."""

    first: int
    last: int
    k: int
    n: int
    onset: int


def pooled(shares: Sequence[Share], first: int, last: int) -> Span:
    """Counts of the steps first..last added up."""
    inside = [share for share in shares if first <= share.step <= last]
    return Span(first, last, sum(share.k for share in inside), sum(share.n for share in inside), first)


def first_above(shares: Sequence[Share], limit: float, window: int) -> Span | None:
    """The first window of `window` steps whose pooled share is above the limit; a shorter log is one window. None: there is none."""
    if not shares:
        return None
    ordered = sorted(shares)
    begin, end = ordered[0].step, ordered[-1].step
    start, k, n = 0, 0, 0
    for share in ordered:
        k, n = k + share.k, n + share.n
        while ordered[start].step <= share.step - window:
            k, n, start = k - ordered[start].k, n - ordered[start].n, start + 1
        whole = share.step - window + 1 >= begin or share.step == end
        if whole and n and k / n > limit:
            onset = next((inside.step for inside in ordered[start:] if inside.k > limit * inside.n), ordered[start].step)
            return Span(ordered[start].step, share.step, k, n, onset)
    return None


class RewardCount(NamedTuple):
    """How many completions of a step hold one exact reward."""

    step: int
    reward: float
    completions: int


@dataclass(frozen=True)
class CompletionsSummary:
    """What detectors need of completions.parquet."""

    completions: int
    unknown: int
    """Completions whose reward is unknown."""
    zero_signal: tuple[Share, ...] = ()
    """Per step: groups whose known rewards are all equal (k) of all groups (n)."""
    truncated: tuple[Share, ...] = ()
    """Per step: completions cut at the limit (k) of all (n)."""
    rewards: tuple[RewardCount, ...] = ()
    examples: Mapping[float, tuple[str, ...]] = field(default_factory=dict)
    """A few of the latest texts of each reward value. Untrusted: escape before showing."""


@dataclass(frozen=True)
class Series:
    """One run. `metrics` holds what was logged and nothing else: an absent step has no cell."""

    run: str
    condition: str
    role: str
    """treatment, control or null_control."""
    target_steps: int
    stride: int
    """Most common distance between logged steps; 1 for histories that octavo wrote."""
    metrics: Mapping[str, Sequence[Cell]]
    completions: CompletionsSummary | None = None

    @property
    def null_control(self) -> bool:
        return self.role == "null_control"

    def cells(self, metric: str) -> Sequence[Cell]:
        """All logged cells of a metric, in order of steps; () when it was never logged."""
        return self.metrics.get(metric, ())

    @cached_property
    def bad_steps(self) -> frozenset[int]:
        """Steps whose gradient was not finite."""
        found = {step for name in GRADIENT_METRICS for step, _, state in self.cells(name) if state == "nonfinite"}
        return frozenset(found | {step for step, value, _ in self.cells(SKIPPED) if value})

    @cached_property
    def gradient(self) -> NonFinite:
        """Class of the steps with a non-finite gradient. Persistent from step s ends the valid range at s - 1."""
        logged = {step for name in (*GRADIENT_METRICS, SKIPPED) for step, _, _ in self.cells(name)}
        return classify(logged, self.bad_steps)

    @property
    def valid_until(self) -> int | None:
        """Last step of the valid range; None when it does not end before the log does."""
        return None if self.gradient.since is None else self.gradient.since - 1

    def valid(self, step: int) -> bool:
        """Whether a step may enter statistics."""
        return step not in self.bad_steps and (self.gradient.since is None or step < self.gradient.since)

    def values(self, metric: str) -> list[tuple[int, float]]:
        """(step, value) of the finite values inside the valid range, in order of steps."""
        return [(step, value) for step, value, _ in self.cells(metric) if value is not None and self.valid(step)]

    def shares(self, counted: Sequence[Share]) -> list[Share]:
        """Those counts that lie inside the valid range."""
        return [share for share in counted if self.valid(share.step)]
