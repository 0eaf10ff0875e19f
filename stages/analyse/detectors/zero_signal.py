"""Groups without signal: all known rewards of a group are equal (highest - lowest = 0), so GRPO has nothing to compare.

Pooled over windows with k/n. It never looks at `reward_std`, which is the spread of the whole batch: it can be large while every
group is constant, and a threshold on it misses binary rewards (the smallest non-zero value for 16 completions is 0.25).
"""

from __future__ import annotations

from pydantic import Field

from stages.contracts.amounts import counted as amount
from stages.contracts.amounts import end, stretch
from stages.contracts.artifact import Frozen
from stages.contracts.health import Detection, Signal
from stages.contracts.observed import Observed
from stages.contracts.series import Share, first_above, pooled

NAME = "zero_signal"
NEEDS_COMPLETIONS = True


class Settings(Frozen):
    window: int = Field(
        10, ge=1, description="Steps over which groups are pooled.", json_schema_extra={"unit": "steps", "source": "octavo's own choice"}
    )
    warn_above: float = Field(
        0.3,
        ge=0,
        lt=1,
        description="A larger pooled share of groups without signal is a warning.",
        json_schema_extra={"unit": "share of groups", "source": "red flag of an OCaml GRPO report (`frac_zero_std > 0.30`)"},
    )
    severe_above: float = Field(
        0.9,
        ge=0,
        lt=1,
        description="A larger pooled share in the last window is severe: almost no group teaches anything.",
        json_schema_extra={"unit": "share of groups", "source": "octavo's own choice"},
    )


def detect(settings: Settings, series: Observed) -> Detection:
    """A signal for a missing reward, for too many groups without signal, and for a batch spread that hides them."""
    if series.logs("reward") and not series.numbers("reward"):
        return _found(_no_reward(series))
    shares, counted = _shares(series)
    if not shares and series.completions and series.completions.zero_signal:
        reason = "no step counts: the gradient is not finite in any with completions"
        return Detection(detector=NAME, state="not_observable", reason=reason)
    if not shares and series.completions and series.completions.completions:
        return Detection(detector=NAME, state="not_applicable", reason="one completion a prompt: there are no groups to compare")
    if not shares:
        logged = next((name for name in ("zero_signal_share", "group_range") if series.logs(name)), None)
        reason = series.why_none(logged) if logged else "no within-group spread was logged (zero_signal_share, completions)"
        return Detection(detector=NAME, state="not_observable", reason=reason)
    if not counted and (reason := series.no_share("zero_signal_share")):
        return Detection(detector=NAME, state="not_applicable", reason=reason)
    hit = first_above(shares, settings.warn_above, settings.window)
    if hit is None:
        return _found()
    last = pooled(shares, shares[-1].step - settings.window + 1, shares[-1].step)
    whole = pooled(shares, shares[0].step, shares[-1].step)
    share = last.k / last.n
    groups = f"{share:.0%} of groups" + (f" ({last.k} of {last.n})" if counted else "")
    says = f"{groups} had no reward spread in {end(shares[0].step, shares[-1].step, settings.window)}; "
    says += f"above {settings.warn_above:.0%} first in {stretch(hit.first, hit.last)}"
    unscored = [] if counted else sorted(series.unscored)
    if unscored:
        says += f"; no completion was scored in {len(unscored)} of {len(shares)} logged steps, first in step {unscored[0]}"
    if series.null_control:
        says += "; expected for a null control"
    severity = "info" if series.null_control else "severe" if share > settings.severe_above else "warning"
    evidence: dict[str, float | str] = {"k": last.k, "n": last.n, "all_k": whole.k, "all_n": whole.n} if counted else {"rows": len(shares)}
    if hit.k * last.n > last.k * hit.n:  # the end looks better than that: the explanation must not speak of the end
        evidence |= {"first_above": hit.k / hit.n, "in": stretch(hit.first, hit.last)}
    signal = Signal(
        detector=NAME,
        metric="zero_signal_share",
        severity=severity,
        says=says,
        onset=hit.onset,
        detected=hit.last,
        last=shares[-1].step,
        value=share,
        evidence=evidence,
    )
    return _found(signal, *_scale(series))


def _shares(series: Observed) -> tuple[list[Share], bool]:
    """Groups without signal per step, and whether they are counts of groups (else shares in millionths, of imported logs)."""
    if series.completions and series.completions.zero_signal:
        return series.shares(series.completions.zero_signal), True
    logged = {step: round(value * 1_000_000) for step, value in series.values("zero_signal_share")}
    if not logged:
        logged = {step: int(value == 0.0) * 1_000_000 for step, value in series.values("group_range")}
    if series.logs("zero_signal_share") or series.logs("group_range"):  # where no completion was scored, no group has a signal
        logged |= dict.fromkeys(series.unscored, 1_000_000)
    return [Share(step, k, 1_000_000) for step, k in sorted(logged.items())], False


def _scale(series: Observed) -> list[Signal]:
    batch = series.rows("reward_std")
    hidden = batch.kept((batch.values > 0) & (series.rows("group_range").at(batch.steps, 1.0) == 0.0)).pairs()
    if not hidden:
        return []
    step, value = hidden[0]
    says = (
        f"reward_std is {value:.3g} at step {step} while every group is constant ({amount(len(hidden), 'such step')}): "
        "the spread lies between prompts, and scaling by the batch hides that no group has a signal"
    )
    evidence = {"steps": len(hidden)}
    severity = "info" if series.null_control else "warning"
    return [
        Signal(
            detector=NAME, metric="reward_std", severity=severity, says=says, onset=step, last=hidden[-1][0], value=value, evidence=evidence
        )
    ]


def _no_reward(series: Observed) -> Signal:
    cells = series.cells("reward")
    null = sum(state == "null" for _, _, state in cells)
    found = "are null" if null == len(cells) else "are NaN or Inf" if not null else f"are null ({null}) or NaN or Inf ({len(cells) - null})"
    rows = "the only logged reward is" + found.removeprefix("are") if len(cells) == 1 else f"all {len(cells)} logged rewards {found}"
    says = f"no reward: {rows}, so " + ("no completion was ever scored" if null == len(cells) else "no step has a reward")
    first, last = cells[0][0], cells[-1][0]
    return Signal(detector=NAME, metric="reward", severity="severe", says=says, onset=first, last=last, evidence={"rows": len(cells)})


def _found(*signals: Signal) -> Detection:
    return Detection(detector=NAME, state="looked", signals=signals)
