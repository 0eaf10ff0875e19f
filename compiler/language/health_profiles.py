"""Named health profiles: which detectors look at a run, and the settings in which they differ from their own defaults.

Every threshold stands in its detector's Settings with its unit and source; a profile holds only what it changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stages.contracts.algorithms import ALGORITHMS, DEFAULT
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
    "sft-default": {
        "nonfinite": {},
        "spikes": {"metrics": ("grad_norm", "loss")},
        "gradient": {},
        "resume_faults": {},
        "throughput": {},
        "duplicates": {},
    },
}


def profile_of(named: str | None, algorithm: str) -> str:
    """The profile of runs that an algorithm trains: the one that the spec names, else the algorithm's own."""
    return named or ALGORITHMS[algorithm if algorithm in ALGORITHMS else DEFAULT].profile


def detectors(profile: str, changes: Mapping[str, Mapping[str, Any]] | None = None) -> tuple[DetectorCard, ...]:
    """Detector cards of a profile, in its order, with every setting written out; then those that only the spec's `changes` name."""
    known, own = kinds(DETECTORS), changes or {}
    wanted = {**PROFILES[profile], **{kind: {**PROFILES[profile].get(kind, {}), **settings} for kind, settings in own.items()}}
    return tuple(
        DetectorCard(kind=kind, settings=load(DETECTORS, kind).Settings.model_validate(settings).model_dump(mode="json"))
        for kind, settings in wanted.items()
        if kind in known
    )


def named(profile: str, changes: Mapping[str, Mapping[str, Any]]) -> str:
    """The profile as a page names it: `grpo-default, changed: collapse`."""
    return f"{profile}, changed: {', '.join(changes)}" if changes else profile
