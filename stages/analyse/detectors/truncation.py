"""Truncation: completions cut at the length limit. They are judged unfinished, and long runs of them train the model to ramble.

Part of the default panel: the share is always reported, as information when it is small.
"""

from __future__ import annotations

from pydantic import Field

from stages.contracts.artifact import Frozen
from stages.contracts.health import Detection, Signal
from stages.contracts.series import Series, Share, first_above, pooled

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


def detect(settings: Settings, series: Series) -> Detection:
    """Exactly one signal when truncation was logged."""
    shares, counted = _shares(series)
    if not shares:
        return Detection(detector=NAME, state="not_observable", reason="truncation was not logged")
    last = pooled(shares, shares[-1].step - settings.window + 1, shares[-1].step)
    share = last.k / last.n
    says = f"{share:.0%} of completions" + (f" ({last.k} of {last.n})" if counted else "")
    says += f" were cut at the length limit in the last {settings.window} steps"
    hit = first_above(shares, settings.warn_above, settings.window)
    if hit is not None:
        says += f"; above {settings.warn_above:.0%} first in steps {hit.first}-{hit.last}"
    signal = Signal(
        detector=NAME,
        metric="truncated",
        severity="severe" if share > settings.severe_above else "warning" if hit is not None else "info",
        says=says,
        onset=hit.onset if hit else None,
        detected=hit.last if hit else None,
        last=shares[-1].step,
        value=share,
        evidence={"k": last.k, "n": last.n} if counted else {"rows": len(shares)},
    )
    return Detection(detector=NAME, state="looked", signals=(signal,))


def _shares(series: Series) -> tuple[list[Share], bool]:
    if series.completions and series.completions.truncated:
        return series.shares(series.completions.truncated), True
    return [Share(step, round(value * 1_000_000), 1_000_000) for step, value in series.values("truncated")], False
