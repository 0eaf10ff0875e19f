"""Duplicates: two seeds of a condition with identical series are one run that is counted twice. n drops by one, loudly.

Compared are the metrics that differ between seeds because sampling does; schedules and wall times say nothing. A series that never varies
proves nothing (a constant reward has no other), so at least one of them must vary. The later run is left out whatever the gates say. An
imported run that repeats one of another condition is a warning: which of the two logs lies in the wrong place, the numbers do not say.
"""

from stages.analyse.signals import Answer, Event, NotApplicable, NotObservable, Run
from stages.contracts.artifact import Frozen


class Settings(Frozen):
    """None: two series are identical or they are not. Compared are reward, completion_tokens, entropy, kl and grad_norm."""


def detect(settings: Settings, run: Run) -> Answer:
    """One severe event when an earlier run of the condition holds the same numbers."""
    from stages.analyse.frames import SAMPLED

    if not any(run.logs(name) for name in SAMPLED):
        raise NotObservable("nothing that sampling changes was logged")
    if run.twin is not None:
        says = f"DUPLICATE: its series are identical to those of {run.twin}, so it is no run of its own and n drops by one"
        yield Event("reward", "severe", says, None, (1, None, None), {"of": run.twin})
    elif run.elsewhere is not None and run.imported:
        says = f"its series are identical to those of {run.elsewhere}, a run of another condition: one of the two logs is not its own"
        yield Event("series", "warning", says, None, (1, None, None), {"elsewhere": run.elsewhere})
    elif not run.siblings:
        raise NotApplicable("the condition has one seed: there is nothing to be identical to")
    elif run.fingerprint is None:
        raise NotApplicable("nothing that sampling changes varies, and equal constants prove nothing")
