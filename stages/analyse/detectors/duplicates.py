"""Duplicates: two seeds of a condition with identical series are one run that is counted twice. n drops by one, loudly.

Compared are the metrics that differ between seeds because sampling does; schedules and wall times say nothing. A series that never varies
proves nothing (a constant reward has no other), so at least one of them must vary. The later run is left out whatever the gates say. An
imported run that repeats one of another condition is a warning: which of the two logs lies in the wrong place, the numbers do not say.
"""

from stages.analyse.signals import Run, looked, not_applicable, not_observable, signal
from stages.contracts.artifact import Frozen
from stages.contracts.health import Detection

NAME = "duplicates"


class Settings(Frozen):
    """None: two series are identical or they are not. Compared are reward, completion_tokens, entropy, kl and grad_norm."""


def detect(settings: Settings, run: Run) -> Detection:
    """One severe signal when an earlier run of the condition holds the same numbers."""
    from stages.analyse.frames import SAMPLED

    if not any(run.logs(name) for name in SAMPLED):
        return not_observable(NAME, "nothing that sampling changes was logged")
    if run.twin is not None:
        says = f"DUPLICATE: its series are identical to those of {run.twin}, so it is no run of its own and n drops by one"
        return looked(NAME, signal(NAME, run, "reward", "severe", says, dates=(1, None, None), evidence={"of": run.twin}))
    if run.elsewhere is not None and run.imported:
        says = f"its series are identical to those of {run.elsewhere}, a run of another condition: one of the two logs is not its own"
        return looked(NAME, signal(NAME, run, "series", "warning", says, dates=(1, None, None), evidence={"elsewhere": run.elsewhere}))
    if not run.siblings:
        return not_applicable(NAME, "the condition has one seed: there is nothing to be identical to")
    if run.fingerprint is None:
        return not_applicable(NAME, "nothing that sampling changes varies, and equal constants prove nothing")
    return looked(NAME)
