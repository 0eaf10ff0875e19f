"""Two seeds with identical series are one run counted twice: n drops by one, loudly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stages.contracts.series import Series

SAMPLED = ("reward", "completion_tokens", "entropy", "kl", "grad_norm")
"""Metrics that differ between seeds because sampling does. Schedules and wall times say nothing."""


def duplicates(series: Sequence[Series]) -> dict[str, str]:
    """Later run -> earlier run of the same condition whose sampled series are all identical, in the given order.

    A constant series proves nothing (a constant reward has no other), so at least one of the compared ones must vary.
    """
    found: dict[str, str] = {}
    seen: dict[tuple[str, object], str] = {}
    for one in series:
        fingerprint = _fingerprint(one.metrics)
        if fingerprint is None:
            continue
        earlier = seen.setdefault((one.condition, fingerprint), one.run)
        if earlier != one.run:
            found[one.run] = earlier
    return found


def _fingerprint(metrics: Mapping[str, Sequence[object]]) -> object | None:
    """What two runs must share to be the same; None when nothing sampled varies."""
    kept = tuple((name, tuple(metrics[name])) for name in SAMPLED if name in metrics)
    varied = any(len({cell[1:] for cell in cells if isinstance(cell, tuple)}) > 1 for _, cells in kept)
    return kept if varied else None
