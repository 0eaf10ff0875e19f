"""Signals -> one plain sentence with what would confirm it, from the table of causes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from stages.contracts.algorithms import AnyTrainCard
from stages.contracts.health import Signal
from stages.publish.causes import CAUSES

_MANY = 5
_NO_SIGNAL = "zero_signal_share at least 1"
"""The rule of `collapse` that says that no group had unequal rewards; another one says only what it says."""
_SUMMARY = {"truncated": ("truncation", ""), "zero_signal_share": ("zero_signal", "zero_signal_share")}


@dataclass(frozen=True)
class Explanation:
    says: str
    """One sentence."""
    confirm: str
    """What would confirm it, or rule it out."""


def clipped_at(card: AnyTrainCard | None) -> float | None:
    """The norm to which a run's gradients were clipped; None when that is not known (an imported run)."""
    return getattr(card.train, "max_grad_norm", None) if card else None


def explain(signals: Sequence[Signal], clip: float | None = None) -> Explanation | None:
    """Signals of one detector on one metric, of one run or several; None for mere information. One sentence holds for all of them; where
    they are of two kinds, such as an entropy that fell in one run and rose in another, there is one for each. `clip` is the norm to which
    gradients were clipped, where it is known."""
    kinds: dict[tuple[str, str], list[Signal]] = {}
    for signal in signals:
        if signal.severity != "info" and (key := _kind(signal)) is not None:
            kinds.setdefault(key, []).append(signal)
    made = [_explained(key, alike, clip) for key, alike in kinds.items()]
    return Explanation(" ".join(one.says for one in made), " ".join(one.confirm for one in made)) if made else None


def _explained(key: tuple[str, str], signals: Sequence[Signal], clip: float | None) -> Explanation:
    cause = CAUSES[key]
    says = cause.means.format(measured=cause.measured(signals))
    if key[0] == "spikes" and signals[0].metric == "grad_norm":
        if clip is None:
            says += "; whether clipping was on is not known, nor whether the norm was logged before it"
        else:
            cut = max(signal.value or 0.0 for signal in signals) > clip
            so = "so the update itself was bounded" if cut else "and no spike reached it, so nothing was cut"
            says += f"; the norm is logged before clipping, and clipping to {clip:g} was on, {so}"
    return Explanation(f"{says[0].upper()}{says[1:]}.", f"{cause.confirm[0].upper()}{cause.confirm[1:]}.")


def _kind(signal: Signal) -> tuple[str, str] | None:
    """The entry that explains a signal; None for a detector without one."""
    detector, value = signal.detector, signal.value or 0.0
    if detector == "summary":  # single values of an imported summary: what its words are about
        lasting = signal.evidence.get("class") == "persistent"
        return _SUMMARY.get(signal.metric, ("summary", "persistent" if lasting else "transient"))
    sort = signal.metric
    if detector == "kl_reference" and value < 0:
        sort = "negative"
    elif detector == "collapse" and signal.evidence.get("rule", _NO_SIGNAL) != _NO_SIGNAL:
        sort = "declared"
    elif detector == "entropy_change" and signal.value is not None and "outside" not in signal.evidence:
        sort = "fallen" if value < 1 else "risen"
    elif detector == "spikes" and _in_a_row(signal.evidence.get("steps", ())):
        sort = "level"
    elif detector == "gradient" and "streak" in signal.evidence:
        sort = "lost"
    elif detector == "update_size" and ("clipfrac" in sort or "clip_ratio" in sort):
        sort = "clipped"
    return next((key for key in ((detector, sort), (detector, "")) if key in CAUSES), None)


def _in_a_row(steps: Sequence[int]) -> bool:
    """Whether five rows or more follow each other: a spike is one row, or a few."""
    gaps = {after - before for before, after in pairwise(steps)}
    return len(steps) >= _MANY and len(gaps) == 1
