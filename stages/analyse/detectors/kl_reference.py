"""KL to the reference model: how far the policy has moved, in nats per token, held against the null controls' movement.

The estimator matters. k3 is never negative; k1 may be, and around 0 it has either sign by chance. A k1 that stays below 0 by more than its
standard error (batch means) says that completions were not sampled from the distribution that is scored: look at temperature and top_p
before anything else. The null control's KL is what the optimizer does without a reward: a movement no larger is no effect of the reward.
"""

from __future__ import annotations

from pydantic import Field

from stages.contracts.amounts import above, at_end
from stages.contracts.artifact import Frozen
from stages.contracts.batch_means import level
from stages.contracts.health import Detection, Signal
from stages.contracts.observed import Observed

NAME = "kl_reference"
METRIC = "kl"


class Settings(Frozen):
    above: float = Field(
        0.5,
        gt=0,
        description="A larger mean of the last window is a warning.",
        json_schema_extra={"unit": "nats per token", "source": "octavo's own choice"},
    )
    errors: float = Field(
        4.0,
        gt=0,
        description="The mean over all steps is negative when it lies so many standard errors below 0.",
        json_schema_extra={"unit": "standard errors", "source": "octavo's own choice; batch means of short series are rough"},
    )
    share: float = Field(
        0.5,
        ge=0,
        lt=1,
        description="And a larger share of the steps is negative.",
        json_schema_extra={"unit": "share of steps", "source": "octavo's own choice"},
    )


def detect(settings: Settings, series: Observed) -> Detection:
    """A warning for a negative estimate; else one signal that says how far the policy is and what the null controls did."""
    if not series.metrics:
        return Detection(detector=NAME, state="not_observable", reason="nothing was logged")
    rows = series.rows(METRIC)
    if not rows.n:
        return series.lacks(NAME, METRIC, "there is no reference model in the loss")
    negative = rows.steps[rows.values < 0].tolist()
    estimator = "k1, which may be negative" if negative else "no value is negative, so k3 or k1"
    whole = level(rows.values.tolist()) if len(negative) / rows.n > settings.share else None
    if whole and whole.mean < -settings.errors * whole.error:
        return _negative(series, rows.n, negative, whole.mean, whole.error)
    _, last = series.ends(METRIC)
    if not last:
        return Detection(detector=NAME, state="not_observable", reason="kl has no value in the last window")
    mean = sum(last) / len(last)
    far = above(mean, settings.above)
    says = f"KL to the reference model is {mean:.3g} nats per token in {at_end(series.window())} ({estimator})"
    says += f", above {settings.above:g}" if far else ""
    signal = Signal(
        detector=NAME,
        metric=METRIC,
        severity="warning" if far and not series.null_control else "info",
        says=says + _against(series, mean),
        onset=_onset(settings, series) if far else None,
        last=int(rows.steps[-1]),
        value=mean,
        evidence={"rows": rows.n, "null_controls": sorted(series.null_finals.get(METRIC, ()))},
    )
    return Detection(detector=NAME, state="looked", signals=(signal,))


def _onset(settings: Settings, series: Observed) -> int:
    """First step of the rows that lie above the threshold without a break to the end, at the latest that of the last window."""
    steps, values = series.rows(METRIC)
    back = [int(step) for step in steps[values <= settings.above][-1:]]
    window = series.target_steps - series.window()
    return int(steps[steps > (min(back[0], window) if back else 0)][0])


def _against(series: Observed, mean: float) -> str:
    nulls = series.null_finals.get(METRIC, ())
    if series.null_control:
        return "; it is a null control: this is movement without a reward"
    if not nulls:
        return "; no null control to hold it against"
    low, high = min(nulls), max(nulls)
    span = f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}"
    return f"; null control: {span}" + (", so it has not moved further than without a reward" if mean <= high else "")


def _negative(series: Observed, rows: int, negative: list[int], mean: float, error: float) -> Detection:
    says = (
        f"estimate negative: sampling and scoring differ. KL to the reference model is {mean:.3g} nats per token over all steps "
        f"(standard error {error:.2g}), below 0 in {len(negative)} of {rows} of them; compare temperature and top_p with scoring"
    )
    signal = Signal(
        detector=NAME,
        metric=METRIC,
        severity="warning",
        says=says,
        onset=negative[0],
        last=negative[-1],
        value=mean,
        evidence={"k": len(negative), "n": rows, "standard_error": error},
    )
    return Detection(detector=NAME, state="looked", signals=(signal,))
