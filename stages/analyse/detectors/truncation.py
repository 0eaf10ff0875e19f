"""Truncation: completions cut at the length limit. They are judged unfinished, and long runs of them train the model to ramble.

Part of the default panel: the share is always reported, as information when it is small.
"""

from __future__ import annotations

from pydantic import Field

from stages.contracts.amounts import end, stretch
from stages.contracts.artifact import Frozen
from stages.contracts.health import Detection, Signal
from stages.contracts.observed import Observed
from stages.contracts.series import Share, first_above, pooled

NAME = "truncation"
NEEDS_COMPLETIONS = True


class Settings(Frozen):
    window: int = Field(
        10,
        ge=1,
        description="Steps over which completions are pooled.",
        json_schema_extra={"unit": "steps", "source": "octavo's own choice"},
    )
    warn_above: float = Field(
        0.3,
        ge=0,
        lt=1,
        description="A larger pooled share of truncated completions is a warning.",
        json_schema_extra={"unit": "share of completions", "source": "octavo's own choice, as in preflight"},
    )
    severe_above: float = Field(
        0.5,
        ge=0,
        lt=1,
        description="A larger pooled share in the last window is severe.",
        json_schema_extra={"unit": "share of completions", "source": "octavo's own choice; a prover run called healthy had 0.95"},
    )


def detect(settings: Settings, series: Observed) -> Detection:
    """Exactly one signal when truncation was logged."""
    shares, counted = _shares(series)
    if not shares:
        return Detection(detector=NAME, state="not_observable", reason=_why_none(series))
    if not counted and (reason := series.no_share("truncated")):
        return Detection(detector=NAME, state="not_applicable", reason=reason)
    last = pooled(shares, shares[-1].step - settings.window + 1, shares[-1].step)
    share = last.k / last.n
    says = f"{share:.0%} of completions" + (f" ({last.k} of {last.n})" if counted else "")
    says += f" were cut at the length limit in {end(shares[0].step, shares[-1].step, settings.window)}"
    hit = first_above(shares, settings.warn_above, settings.window)
    if hit is not None:
        says += f"; above {settings.warn_above:.0%} first in {stretch(hit.first, hit.last)}"
    evidence: dict[str, float | str] = {"k": last.k, "n": last.n} if counted else {"rows": len(shares)}
    if hit is not None and hit.k * last.n > last.k * hit.n:  # the end looks better than that: the explanation must not speak of the end
        evidence |= {"first_above": hit.k / hit.n, "in": stretch(hit.first, hit.last)}
    signal = Signal(
        detector=NAME,
        metric="truncated",
        severity="severe" if share > settings.severe_above else "warning" if hit is not None else "info",
        says=says,
        onset=hit.onset if hit else None,
        detected=hit.last if hit else None,
        last=shares[-1].step,
        value=share,
        evidence=evidence,
    )
    return Detection(detector=NAME, state="looked", signals=(signal,))


def _why_none(series: Observed) -> str:
    if series.completions and series.completions.truncated:
        return "no step counts: the gradient is not finite in any with completions"
    return series.why_none("truncated")


def _shares(series: Observed) -> tuple[list[Share], bool]:
    if series.completions and series.completions.truncated:
        return series.shares(series.completions.truncated), True
    return [Share(step, round(value * 1_000_000), 1_000_000) for step, value in series.values("truncated")], False
