"""Truncation: completions cut at the length limit. They are judged unfinished, and long runs of them train the model to ramble.

Part of the default panel: the share is always reported, as information when it is small.
"""

from __future__ import annotations

from stages.analyse.signals import OWN, Run, Thresholds, end, first_above, looked, not_applicable, not_observable, pooled, signal, threshold
from stages.contracts.health import Detection
from stages.rules import stretch

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
    counts = run.counting(run.cut)
    exact = len(run.cut) > 0
    if not exact and (reason := run.no_share("truncated")):
        return not_applicable(NAME, reason)
    if not exact:  # shares of a log, in millionths
        counts = (run.values("truncated") * 1_000_000).round().astype(int).to_frame("k").assign(n=1_000_000)
    if counts.empty:
        why = "no step counts: the gradient is not finite in any with completions" if exact else run.why_none("truncated")
        return not_observable(NAME, why)
    k, n = pooled(counts, settings.window)
    share, steps = k / n, counts.index
    says = f"{share:.0%} of completions" + (f" ({k} of {n})" if exact else "")
    says += f" were cut at the length limit in {end(steps[0], steps[-1], settings.window)}"
    hit = first_above(counts, settings.warn_above, settings.window)
    evidence: dict[str, float | str] = {"k": k, "n": n} if exact else {"rows": len(counts)}
    if hit is not None:
        says += f"; above {settings.warn_above:.0%} first in {stretch(hit.first, hit.last)}"
        if hit.k * n > k * hit.n:  # the end looks better than that: the explanation must not speak of the end
            evidence |= {"first_above": hit.k / hit.n, "in": stretch(hit.first, hit.last)}
    severity = "severe" if share > settings.severe_above else "warning" if hit is not None else "info"
    dates = (hit.onset if hit else None, hit.last if hit else None, steps[-1])
    return looked(NAME, signal(NAME, run, "truncated", severity, says, share, dates, evidence))
