"""Truncation: completions cut at the length limit. They are judged unfinished, and long runs of them train the model to ramble.

Part of the default panel: the share is always reported, as information when it is small.
"""

from stages.analyse.signals import OWN, Run, Thresholds, looked, millionths, not_applicable, not_observable, share_signal, threshold
from stages.contracts.health import Detection

NAME = "truncation"
NEEDS_COMPLETIONS = True


class Settings(Thresholds):
    window: int = threshold(10, "steps", ge=1)
    """Steps over which completions are pooled."""
    warn_above: float = threshold(0.3, "share of completions", f"{OWN}, as in preflight", ge=0, lt=1)
    """A larger pooled share of truncated completions is a warning."""
    severe_above: float = threshold(0.5, "share of completions", f"{OWN}; a prover run called healthy had 0.95", ge=0, lt=1)
    """A larger pooled share in the last window is severe."""


def detect(settings: Settings, run: Run) -> Detection:
    """Exactly one signal when truncation was logged."""
    exact = len(run.cut) > 0
    if not exact and (reason := run.no_share("truncated")):
        return not_applicable(NAME, reason)
    counts = run.counting(run.cut) if exact else millionths(run.values("truncated"))
    if counts.empty:
        why = "no step counts: the gradient is not finite in any with completions" if exact else run.why_none("truncated")
        return not_observable(NAME, why)
    words = ("completions", "were cut at the length limit")
    return looked(NAME, share_signal(NAME, run, "truncated", counts, settings, words, exact=exact))
