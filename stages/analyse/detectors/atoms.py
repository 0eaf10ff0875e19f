"""Reward atoms: one exact reward value, neither 0 nor the maximum, that holds a large share of the completions.

A policy that found a constant, cheap reward (garbage scored as "one type error" gave 0.21) shows up here before it shows up anywhere else.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from pydantic import Field

from stages.contracts.amounts import end, stretch
from stages.contracts.artifact import Frozen
from stages.contracts.health import Detection, Signal
from stages.contracts.series import CompletionsSummary, Series, Share, Span, first_above, pooled

NAME = "atoms"
NEEDS_COMPLETIONS = True


class Settings(Frozen):
    share: float = Field(
        0.3,
        gt=0,
        lt=1,
        description="A value that holds a larger share of the completions of a window is an atom.",
        json_schema_extra={"unit": "share of completions", "source": "octavo's own choice; the exploit that it is made after held 0.40"},
    )
    window: int = Field(
        10,
        ge=1,
        description="Steps over which completions are pooled.",
        json_schema_extra={"unit": "steps", "source": "octavo's own choice"},
    )
    maximum: float = Field(
        1.0,
        description="Highest reward that can be reached; a higher one that was observed takes its place.",
        json_schema_extra={"unit": "reward", "source": "gates score from 0 to 1"},
    )


def detect(settings: Settings, series: Series) -> Detection:
    """One signal a value, with the latest texts that earned it (untrusted text, escape before showing)."""
    summary = series.completions
    if summary is None or not summary.rewards:
        return Detection(detector=NAME, state="not_observable", reason="no completions with a known reward were recorded")
    known: dict[int, int] = defaultdict(int)
    held: dict[float, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for count in summary.rewards:
        if series.valid(count.step):
            known[count.step] += count.completions
            held[count.reward][count.step] += count.completions
    if not known:
        return Detection(detector=NAME, state="not_observable", reason="no step counts: the gradient is not finite in any with completions")
    maximum = max(settings.maximum, *held)
    signals = []
    least = settings.share * min(known.values(), default=0)  # fewer in all can be no atom: graded rewards have thousands of values
    for value in sorted(held):
        if value in (0.0, maximum) or sum(held[value].values()) <= least:
            continue
        shares = [Share(step, held[value].get(step, 0), known[step]) for step in sorted(known)]
        hit = first_above(shares, settings.share, settings.window)
        if hit is not None:
            signals.append(_signal(settings, series, summary, value, shares, hit))
    return Detection(detector=NAME, state="looked", signals=tuple(signals))


def _signal(settings: Settings, series: Series, summary: CompletionsSummary, value: float, shares: Sequence[Share], hit: Span) -> Signal:
    whole = pooled(shares, shares[0].step, shares[-1].step)
    last = pooled(shares, shares[-1].step - settings.window + 1, shares[-1].step)
    says = (
        f"{hit.k} of {hit.n} completions of {stretch(hit.first, hit.last)} earned exactly {value:g}, neither 0 nor the maximum "
        f"({whole.k / whole.n:.0%} of all, {last.k / last.n:.0%} in {end(shares[0].step, shares[-1].step, settings.window)})"
    )
    if series.null_control:
        says += "; expected for a null control"
    return Signal(
        detector=NAME,
        metric="reward",
        severity="info" if series.null_control else "warning",
        says=says,
        onset=hit.onset,
        detected=hit.last,
        last=max(share.step for share in shares if share.k),
        value=value,
        evidence={"k": whole.k, "n": whole.n, "examples": list(summary.examples.get(value, ()))},
    )
