"""Optimizer steps of PPO's updates that were not taken, and why: `target_kl` ended the update, a gradient was not finite, or no reward of
the minibatch was known.

What was not taken is in no logged mean, so a run may look calm while it hardly moves. An update without any step taught nothing.
"""

from stages.analyse.signals import OWN, Answer, Event, Run, Thresholds, check_shares, counted, needed, threshold
from stages.rules import below, stretch

NEEDS_COMPLETIONS = True
SHARE = "optimizer_steps_share"
_WHY = {
    "left_out.target_kl": "target_kl ended the update",
    "left_out.nonfinite": "the gradient was not finite",
    "left_out.unscored": "no reward was known",
}


class Settings(Thresholds):
    below: float = threshold(0.5, "share of optimizer steps", gt=0, le=1)
    """A smaller mean share of planned optimizer steps that were taken, in a window, is a warning."""
    severe_below: float = threshold(0.1, "share of optimizer steps", f"{OWN}: the policy hardly moves", ge=0, lt=1)
    """A smaller mean share in the last window is severe."""
    window: int = threshold(10, "logged rows", ge=1)
    """Logged rows that are averaged."""


def detect(settings: Settings, run: Run) -> Answer:
    """One event when steps were left out."""
    shares = needed(run, SHARE, "no share of optimizer steps taken is logged (PPO only, and not before 2026-11-29)")
    check_shares(run, SHARE)
    left_out = {why: int(run.values(name).sum()) for name, why in _WHY.items()}
    if shares.min() >= 1 and not any(left_out.values()):
        return
    size = min(settings.window, len(shares))
    means = shares.rolling(size).mean()
    low = [place for place, mean in enumerate(means) if below(mean, settings.below)]
    last = float(means.iloc[-1])
    says = f"{shares.mean():.0%} of the planned optimizer steps were taken over {counted(len(shares), 'update')}"
    reasons = [f"{why} ({counted(count, 'step')})" for why, count in left_out.items() if count]
    says += f"; left out because {', '.join(reasons)}" if reasons else ""
    begin, end = (int(shares.index[low[0] - size + 1]), int(shares.index[low[0]])) if low else (None, None)
    if begin is not None and end is not None:
        says += f"; below {settings.below:.0%} first in {stretch(begin, end)}"
    evidence = {"last_window": last, "rows": len(shares)}
    severity = "severe" if below(last, settings.severe_below) else "warning" if low else "info"
    yield Event(SHARE, severity, says, float(shares.mean()), (begin, end, int(shares.index[-1])), evidence, null="info")
