"""Named health profiles: which detectors look at a run, and the settings in which they differ from their own defaults.

Every threshold stands in its detector's Settings with its unit and source; a profile holds only what it changes.
"""

from __future__ import annotations

from typing import Any

from stages.contracts.analysis_card import DetectorCard
from stages.contracts.plugin import DETECTORS, kinds, load

_EVERY: dict[str, dict[str, Any]] = {
    "truncation": {},
    "atoms": {},
    "degenerate": {},
    "entropy_change": {},
    "kl_reference": {},
    "update_size": {},
    "gradient": {},
    "resume_faults": {},
    "throughput": {},
    "duplicates": {},
}
"""Detectors that look at runs of every algorithm."""
PROFILES: dict[str, dict[str, dict[str, Any]]] = {
    "grpo-default": {"nonfinite": {}, "zero_signal": {}, "collapse": {}, "spikes": {}, **_EVERY},
    "ppo-default": {
        "nonfinite": {},
        "spikes": {"metrics": ("grad_norm", "kl", "entropy", "loss.policy", "loss.value")},
        "value_fit": {},
        "kl_sign": {},
        "true_objective": {},
        **_EVERY,
    },
}


def detectors(profile: str) -> tuple[DetectorCard, ...]:
    """Detector cards of a profile, in its order, with every setting written out."""
    known = kinds(DETECTORS)
    return tuple(
        DetectorCard(kind=kind, settings=load(DETECTORS, kind).Settings.model_validate(changes).model_dump(mode="json"))
        for kind, changes in PROFILES[profile].items()
        if kind in known
    )
