"""Duplicates: two seeds of a condition with identical series are one run that is counted twice. n drops by one, loudly.

Compared are the metrics that differ between seeds because sampling does; schedules and wall times say nothing. A series that never varies
proves nothing (a constant reward has no other), so at least one of them must vary. The later run is left out whatever the gates say. An
imported run that repeats one of another condition is a warning: which of the two logs lies in the wrong place, the numbers do not say.
"""

from __future__ import annotations

from stages.contracts.artifact import Frozen
from stages.contracts.health import Detection, Signal
from stages.contracts.observed import Observed

NAME = "duplicates"
SAMPLED = ("reward", "completion_tokens", "entropy", "kl", "grad_norm")


class Settings(Frozen):
    """None: two series are identical or they are not. Compared are reward, completion_tokens, entropy, kl and grad_norm."""


def detect(settings: Settings, series: Observed) -> Detection:
    """One severe signal when an earlier run of the condition holds the same numbers."""
    if not any(series.logs(name) for name in SAMPLED):
        return Detection(detector=NAME, state="not_observable", reason="nothing that sampling changes was logged")
    if series.twin is not None:
        says = f"DUPLICATE: its series are identical to those of {series.twin}, so it is no run of its own and n drops by one"
        if not series.twin_counts:
            says = (
                f"DUPLICATE: its series are identical to those of {series.twin}, which is left out: at most one of them is a run of its own"
            )
        severity = "severe" if series.twin_counts else "warning"
        signal = Signal(detector=NAME, metric="reward", severity=severity, says=says, onset=1, evidence={"of": series.twin})
        return Detection(detector=NAME, state="looked", signals=(signal,))
    if series.elsewhere is not None and series.imported:
        says = f"its series are identical to those of {series.elsewhere}, a run of another condition: one of the two logs is not its own"
        signal = Signal(detector=NAME, metric="series", severity="warning", says=says, onset=1, evidence={"elsewhere": series.elsewhere})
        return Detection(detector=NAME, state="looked", signals=(signal,))
    if not series.siblings:
        return Detection(detector=NAME, state="not_applicable", reason="the condition has one seed: there is nothing to be identical to")
    if not any(series.varies(name) for name in SAMPLED):
        return Detection(
            detector=NAME, state="not_applicable", reason="nothing that sampling changes varies, and equal constants prove nothing"
        )
    return Detection(detector=NAME, state="looked")
