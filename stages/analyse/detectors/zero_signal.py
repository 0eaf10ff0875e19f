"""Groups without signal: all known rewards of a group are equal (highest - lowest = 0), so GRPO has nothing to compare.

Pooled over windows with k/n. It never looks at `reward_std`, which is the spread of the whole batch: it can be large while every
group is constant, and a threshold on it misses binary rewards (the smallest non-zero value for 16 completions is 0.25).
"""

from stages.analyse.signals import (
    DataFrame,
    Run,
    Series,
    Thresholds,
    counted,
    looked,
    millionths,
    not_applicable,
    not_observable,
    share_signal,
    signal,
    threshold,
)
from stages.contracts.health import Detection, Signal

NAME = "zero_signal"
NEEDS_COMPLETIONS = True


class Settings(Thresholds):
    window: int = threshold(10, "steps", ge=1)
    """Steps over which groups are pooled."""
    warn_above: float = threshold(0.3, "share of groups", "red flag of an OCaml GRPO report (`frac_zero_std > 0.30`)", ge=0, lt=1)
    """A larger pooled share of groups without signal is a warning."""
    severe_above: float = threshold(0.9, "share of groups", ge=0, lt=1)
    """A larger pooled share in the last window is severe: almost no group teaches anything."""


def detect(settings: Settings, run: Run) -> Detection:
    """A signal for a missing reward, for too many groups without signal, and for a batch spread that hides them."""
    rewards = run.logged("reward")
    if len(rewards) and not rewards.abs().lt(float("inf")).any():
        return looked(NAME, _no_reward(run, rewards))
    exact = len(run.silent) > 0
    if not exact and (reason := run.no_share("zero_signal_share")):
        return not_applicable(NAME, reason)
    counts = run.counting(run.silent) if exact else _logged(run)
    if counts.empty:
        if exact:
            return not_observable(NAME, "no step counts: the gradient is not finite in any with completions")
        if len(run.cut):
            return not_applicable(NAME, "one completion a prompt: there are no groups to compare")
        logged = next((name for name in ("zero_signal_share", "group_range") if run.logs(name)), None)
        return not_observable(
            NAME, run.why_none(logged) if logged else "no within-group spread was logged (zero_signal_share, completions)"
        )
    more = ""
    if not exact and len(run.unscored):
        more = f"; no completion was scored in {len(run.unscored)} of {len(counts)} logged steps, first in step {run.unscored[0]}"
    words = ("groups", "had no reward spread")
    silent = share_signal(NAME, run, "zero_signal_share", counts, settings, words, exact=exact, more=more, null="expected")
    return looked(NAME, silent, *(_scale(run) if silent else ()))


def _logged(run: Run) -> DataFrame:
    """Shares of groups without signal in millionths, of logs without completions."""
    shares = run.values("zero_signal_share")
    if shares.empty:
        shares = (run.values("group_range") == 0.0).astype(float)
    if run.logs("zero_signal_share") or run.logs("group_range"):  # where no completion was scored, no group has a signal
        shares = shares.reindex(shares.index.union(run.unscored))
        shares[run.unscored] = 1.0
    return millionths(shares)


def _scale(run: Run) -> list[Signal]:
    batch = run.values("reward_std")
    hidden = batch[(batch > 0) & run.values("group_range").reindex(batch.index).eq(0.0)]
    if hidden.empty:
        return []
    says = (
        f"reward_std is {hidden.iloc[0]:.3g} at step {hidden.index[0]} while every group is constant "
        f"({counted(len(hidden), 'such step')}): the spread lies between prompts, and scaling by the batch hides that no group has a signal"
    )
    dates, evidence = (hidden.index[0], None, hidden.index[-1]), {"steps": len(hidden)}
    return [signal(NAME, run, "reward_std", "warning", says, hidden.iloc[0], dates, evidence, null="info")]


def _no_reward(run: Run, rewards: Series) -> Signal:
    null, n = int((rewards == float("-inf")).sum()), len(rewards)
    states = "null" if null == n else "NaN or Inf" if not null else f"null ({null}) or NaN or Inf ({n - null})"
    rows = f"the only logged reward is {states}" if n == 1 else f"all {n} logged rewards are {states}"
    says = f"no reward: {rows}, so " + ("no completion was ever scored" if null == n else "no step has a reward")
    return signal(NAME, run, "reward", "severe", says, dates=(rewards.index[0], None, rewards.index[-1]), evidence={"rows": n})
