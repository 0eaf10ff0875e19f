"""A negative KL in PPO's penalty. A KL is never negative; its k1 estimate is when completions come from another distribution than the one
that is scored (temperature, top_p), and the penalty then rewards what it should punish."""

from __future__ import annotations

from pydantic import Field

from stages.contracts.amounts import counted
from stages.contracts.artifact import Frozen
from stages.contracts.health import Detection, Signal
from stages.contracts.observed import Observed

NAME = "kl_sign"
METRIC = "objective.kl"


class Settings(Frozen):
    below: float = Field(
        -0.5,
        lt=0,
        description="A step counts as negative below this; around 0 the estimate of a batch has either sign.",
        json_schema_extra={"unit": "nats per completion", "source": "octavo's own choice"},
    )
    share: float = Field(
        0.05,
        ge=0,
        lt=1,
        description="A larger share of negative steps is a warning.",
        json_schema_extra={"unit": "share of steps", "source": "octavo's own choice; a report of 600 PPO updates had 122 (20%)"},
    )


def detect(settings: Settings, series: Observed) -> Detection:
    """At most one signal, with the lowest value."""
    if not series.metrics:
        return Detection(detector=NAME, state="not_observable", reason="nothing was logged")
    rows = series.rows(METRIC)
    if not rows.n:
        return series.lacks(NAME, METRIC, "there is no KL penalty in the reward")
    negative = rows.kept(rows.values < settings.below).pairs()
    if len(negative) / rows.n <= settings.share:
        return Detection(detector=NAME, state="looked")
    lowest_step, lowest = min(negative, key=lambda row: row[1])
    says = (
        f"the KL in the penalty was below {settings.below:g} nats per completion in {len(negative)} of {counted(rows.n, 'step')}, "
        f"lowest {lowest:.3g} at step {lowest_step}: completions are not samples of the distribution that is scored"
    )
    signal = Signal(
        detector=NAME,
        metric=METRIC,
        severity="warning",
        says=says,
        onset=negative[0][0],
        last=negative[-1][0],
        value=lowest,
        evidence={"k": len(negative), "n": rows.n},
    )
    return Detection(detector=NAME, state="looked", signals=(signal,))
