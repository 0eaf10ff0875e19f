"""Shares of completions as counts, for seeds that do not differ: what is left of their error is that of the completions themselves.

Completions are not independent, and equal seeds do not show how strongly they depend on each other. So those that share what made them
count as one (a design effect at its largest, Kish 1965): completions of one step, which share the policy and the batch of prompts. On the
shared evaluation prompts are given and every completion is drawn by itself, but equal seeds count once. site/docs/decisions/0033 says how
often the intervals made of it hold the truth, and what larger counts do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stages.analyse.completions import Completions, groups_without_signal
from stages.contracts.history import gate_columns


class Count(NamedTuple):
    """k of n, which are worth so many independent ones."""

    share: float
    k: int
    n: int
    worth: float
    what: str = "completions"


def of_evaluation(k: int, n: int) -> Count:
    """One model's completions of the shared evaluation. n is above 0."""
    return Count(k / n, k, n, n)


def over_seeds(counts: Sequence[Count], *, once: bool) -> Count:
    """The mean share of equally weighted seeds, each with its count; what it is worth follows from the variance of that mean. `once`:
    seeds whose worth is not added up, because the same prompts made all of it."""
    many = len(counts)
    worth = many / sum(1 / count.worth for count in counts)
    k, n = sum(count.k for count in counts), sum(count.n for count in counts)
    return Count(sum(count.share for count in counts) / many, k, n, worth if once else many * worth, counts[0].what)


def counted(completions: Completions, metrics: Iterable[str]) -> dict[str, Count | None]:
    """What each metric is a share of among these completions; None where nothing was counted. Metrics that are no such shares are left
    out."""
    return {name: find(completions) for name in metrics if (find := _finder(name)) is not None}


_Flags = NDArray[np.bool_]
_Find = Callable[[Completions], "Count | None"]


def _finder(name: str) -> _Find | None:
    if name in _PLAIN:
        return _PLAIN[name]
    kind, _, rest = name.partition(".")
    gate, _, measure = rest.rpartition(".")
    if kind != "gate" or measure not in _GATES:
        return None
    holds, among = _GATES[measure]
    return lambda completions: _count(completions, _said(completions, gate, holds), _said(completions, gate, among))


def _count(completions: Completions, holds: _Flags, among: _Flags) -> Count | None:
    steps = completions.numbers["step"][among]
    k, n = int(np.count_nonzero(holds)), len(steps)
    if not n:
        return None
    rising = steps[1:] > steps[:-1]  # rows mostly come step by step, and need no sorting
    many = 1 + int(np.count_nonzero(rising)) if (rising | (steps[1:] == steps[:-1])).all() else len(np.unique(steps))
    return Count(k / n, k, n, many)


def _said(completions: Completions, gate: str, statuses: Sequence[str]) -> _Flags:
    column = gate_columns(gate)[0]
    if column not in completions.words and column not in completions.alone:  # a claim names the gate of another condition
        return np.zeros(completions.rows, dtype=bool)
    words = completions.text(column)
    held: _Flags = np.array([*(name in statuses for name in words.names), False])[words.codes]  # null is -1, the last
    return held


def _all(completions: Completions) -> _Flags:
    return np.ones(completions.rows, dtype=bool)


def _silent(completions: Completions) -> Count | None:
    found = groups_without_signal(completions)
    k, n = sum(share.k for share in found), sum(share.n for share in found)
    return Count(k / n, k, n, len(found), "groups") if n else None


_PLAIN: Mapping[str, _Find] = {
    "truncated": lambda made: _count(made, made.numbers["truncated"].astype(bool), _all(made)),
    "unknown_share": lambda made: _count(made, np.isnan(made.numbers["reward"]), _all(made)),
    "zero_signal_share": _silent,
}
_KNOWN = ("pass", "fail")
_GATES = {
    "pass_share": (("pass",), _KNOWN),
    "reach_share": ((*_KNOWN, "unknown"), (*_KNOWN, "unknown", "not_reached")),
    "unknown_share": (("unknown",), (*_KNOWN, "unknown")),
}
"""By measure of a gate: statuses that it counts, and among which."""
