"""Size of updates: share of tokens that are clipped, ratio of new and old policy, KL of the update.

When each batch is used for one optimizer step, the new policy is the old one while the loss is computed: all of these are exactly 0 (the
ratio 1) and say nothing. That is "no information", never "healthy".
"""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from stages.contracts.amounts import above, stretch
from stages.contracts.artifact import Frozen
from stages.contracts.health import Detection, Signal
from stages.contracts.observed import Observed, Rows

NAME = "update_size"
NEEDS_COMPLETIONS = True
CLIPPED = ("policy.clipfrac", "clip_ratio/region_mean")
RATIO, FIRST, UPDATE_KL = "policy.ratio", "policy.first_ratio", "policy.approxkl"


class Settings(Frozen):
    clipped: float = Field(
        0.3,
        gt=0,
        lt=1,
        description="A larger mean share of clipped tokens in a window is a warning: much of the batch no longer teaches.",
        json_schema_extra={"unit": "share of tokens", "source": "octavo's own choice"},
    )
    ratio: float = Field(
        0.2,
        gt=0,
        description="A mean ratio further from 1 in a window is a warning.",
        json_schema_extra={
            "unit": "distance from 1",
            "source": "the clip range 0.2 of Schulman et al. 2017 (PPO): no token should go further",
        },
    )
    kl: float = Field(
        0.05,
        gt=0,
        description="A larger mean KL of the update in a window is a warning.",
        json_schema_extra={"unit": "nats per token", "source": "octavo's own choice; target_kl is commonly set to 0.01 to 0.05"},
    )
    first_ratio: float = Field(
        0.02,
        gt=0,
        description="A mean ratio before the first optimizer step further from 1 is a warning: sampling and training disagree.",
        json_schema_extra={"unit": "distance from 1", "source": "octavo's own choice; equal arithmetic gives exactly 1"},
    )
    window: int = Field(
        10,
        ge=1,
        description="Logged rows that are averaged.",
        json_schema_extra={"unit": "logged rows", "source": "octavo's own choice"},
    )


def detect(settings: Settings, series: Observed) -> Detection:
    """One signal a measure that is too large in some window."""
    if not series.metrics:
        return Detection(detector=NAME, state="not_observable", reason="nothing was logged")
    logged = [
        (name, rows, rest) for name, rest in (*((c, 0.0) for c in CLIPPED), (RATIO, 1.0), (UPDATE_KL, 0.0)) if (rows := series.rows(name)).n
    ]
    if not logged:
        empty = "; ".join(series.why_none(name) for name in (*CLIPPED, RATIO, UPDATE_KL) if series.logs(name))
        reason = empty or "no clip fraction, ratio or KL of updates was logged"
        return Detection(detector=NAME, state="not_observable", reason=reason)
    if reason := next((odd for name in CLIPPED if (odd := series.no_share(name))), ""):
        return Detection(detector=NAME, state="not_applicable", reason=reason)
    first = series.rows(FIRST)
    if all((rows.values == rest).all() for _, rows, rest in logged) and not _too_far(first, 1.0, settings.first_ratio, settings.window):
        names = ", ".join(name for name, _, _ in logged)
        known = {name for name, _, _ in logged} & {RATIO, UPDATE_KL}  # shares of clipped tokens are also 0 while updates are small
        norms = series.rows("grad_norm")
        why = "because each batch is used for one optimizer step (purely on-policy)"
        if series.adapter == "zero" or (norms.n and not norms.values.any()):
            why = "because no update moved the policy: its gradient is 0 throughout"
        elif not known:
            why = f"either {why}, or because no update reached the clip range"
        reason = f"no information: {names} never moved, {why}"
        return Detection(detector=NAME, state="not_applicable", reason=reason)
    return Detection(detector=NAME, state="looked", signals=tuple(_signals(settings, series)))


def _signals(settings: Settings, series: Observed) -> Iterator[Signal]:
    words = {
        RATIO: "the mean ratio of new and old policy",
        UPDATE_KL: "the KL of an update",
        FIRST: "the ratio before the first optimizer step",
    }
    limits = [*((name, 0.0, settings.clipped) for name in CLIPPED), (RATIO, 1.0, settings.ratio), (UPDATE_KL, 0.0, settings.kl)]
    for name, rest, limit in (*limits, (FIRST, 1.0, settings.first_ratio)):
        rows = series.rows(name)
        found = _too_far(rows, rest, limit, settings.window)
        if found:
            mean, begin, end = found
            what = words.get(name, "the share of clipped tokens")
            bound = f"more than {limit:g} from 1" if rest else f"above {limit:g}"
            yield Signal(
                detector=NAME,
                metric=name,
                severity="info" if series.null_control else "warning",
                says=f"{what} is {mean:.3g} on average in {stretch(begin, end)}, {bound}",
                onset=begin,
                detected=end,
                last=int(rows.steps[-1]),
                value=mean,
                evidence={"rows": rows.n, "window": min(settings.window, rows.n)},
            )


def _too_far(found: Rows, rest: float, limit: float, window: int) -> tuple[float, int, int] | None:
    """(mean, first step, last step) of the first window whose mean lies further from `rest` than the limit; shorter logs are one window."""
    if not (abs(found.values - rest) > limit * (1 - 1e-6)).any():
        return None  # no mean is further away than all of its rows, and the sums' rounding is far below the margin
    rows, size = found.pairs(), min(window, found.n)
    total = sum(value for _, value in rows[:size])
    for end in range(size, len(rows) + 1):
        if above(abs(total / size - rest), limit):
            return total / size, rows[end - size][0], rows[end - 1][0]
        if end < len(rows):
            total += rows[end][1] - rows[end - size][1]
    return None
