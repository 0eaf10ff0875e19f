"""Named health profiles, in health_profiles.yaml: detectors that look at a run, and settings in which they differ from their own defaults.

Every threshold stands in its detector's Settings with its unit and source; a profile holds only what it changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stages.contracts.algorithms import ALGORITHMS, DEFAULT
from stages.contracts.analysis_card import DetectorCard
from stages.contracts.files import load_table
from stages.contracts.plugin import DETECTORS, kinds, load

PROFILES: dict[str, dict[str, dict[str, Any]]] = load_table(Path(__file__).with_suffix(".yaml"))
"""Profile -> detectors in order -> settings."""


def profile_of(named: str | None, algorithm: str) -> str:
    """The profile of runs that an algorithm trains: the one that the spec names, else the algorithm's own."""
    return named or ALGORITHMS[algorithm if algorithm in ALGORITHMS else DEFAULT].profile


def detectors(profile: str, changes: Mapping[str, Mapping[str, Any]] | None = None) -> tuple[DetectorCard, ...]:
    """Detector cards of a profile, in its order, with every setting written out; then those that only the spec's `changes` name."""
    detector_kinds, own = kinds(DETECTORS), changes or {}
    wanted = {**PROFILES[profile], **{kind: {**PROFILES[profile].get(kind, {}), **settings} for kind, settings in own.items()}}
    return tuple(
        DetectorCard(kind=kind, settings=load(DETECTORS, kind).Settings.model_validate(settings).model_dump(mode="json"))
        for kind, settings in wanted.items()
        if kind in detector_kinds
    )


def named(profile: str, changes: Mapping[str, Mapping[str, Any]]) -> str:
    """The profile as a page names it: `grpo-default, changed: collapse`."""
    return f"{profile}, changed: {', '.join(changes)}" if changes else profile
