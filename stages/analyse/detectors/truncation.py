"""Truncation: completions cut at the length limit. They are judged unfinished, and long runs of them train the model to ramble.

Part of the default panel: the share is always reported, as information when it is small.
"""

from stages.analyse.signals import OWN, UNCOUNTED, Answer, NotObservable, Run, Thresholds, check_shares, millionths, share_event, threshold

NEEDS_COMPLETIONS = True


class Settings(Thresholds):
    window: int = threshold(10, "steps", ge=1)
    """Steps over which completions are pooled."""
    warn_above: float = threshold(0.3, "share of completions", f"{OWN}, as in preflight", ge=0, lt=1)
    """A larger pooled share of truncated completions is a warning."""
    severe_above: float = threshold(0.5, "share of completions", f"{OWN}; a prover run called healthy had 0.95", ge=0, lt=1)
    """A larger pooled share in the last window is severe."""


def detect(settings: Settings, run: Run) -> Answer:
    """Exactly one event when truncation was logged."""
    exact = len(run.cut) > 0
    if not exact:
        check_shares(run, "truncated")
    counts = run.counting(run.cut) if exact else millionths(run.values("truncated"))
    if counts.empty:
        raise NotObservable(UNCOUNTED if exact else run.why_none("truncated"))
    yield share_event("truncated", counts, settings, ("completions", "were cut at the length limit"), exact=exact)
