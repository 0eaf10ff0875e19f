"""Groups without signal: all known rewards of a group are equal (highest - lowest = 0), so GRPO has nothing to compare.

Pooled over windows with k/n. It sets no threshold on `reward_std`, the spread of the whole batch: it can be large while every group is
constant, and binary rewards have no small one (the smallest non-zero value for 16 completions is 0.25). Only where it is exactly 0, and
nothing else was logged, does it say that no group has a spread.
"""

from stages.analyse.signals import (
    UNCOUNTED,
    Answer,
    Event,
    NotApplicable,
    NotObservable,
    Run,
    Thresholds,
    check_shares,
    counted,
    millionths,
    share_event,
    threshold,
)

NEEDS_COMPLETIONS = True


class Settings(Thresholds):
    window: int = threshold(10, "steps", ge=1)
    """Steps over which groups are pooled."""
    warn_above: float = threshold(0.3, "share of groups", "red flag of an OCaml GRPO report (`frac_zero_std > 0.30`)", ge=0, lt=1)
    """A larger pooled share of groups without signal is a warning."""
    severe_above: float = threshold(0.9, "share of groups", ge=0, lt=1)
    """A larger pooled share in the last window is severe: almost no group teaches anything."""


def detect(settings: Settings, run: Run) -> Answer:
    """An event for a missing reward, for too many groups without signal, and for a batch spread that hides them."""
    rewards, exact = run.logged("reward"), len(run.silent) > 0
    if len(rewards) and not rewards.abs().lt(float("inf")).any():
        null, n = int((rewards == float("-inf")).sum()), len(rewards)
        states = "null" if null == n else "NaN or Inf" if not null else f"null ({null}) or NaN or Inf ({n - null})"
        rows = f"the only logged reward is {states}" if n == 1 else f"all {n} logged rewards are {states}"
        says = f"no reward: {rows}, so " + ("no completion was ever scored" if null == n else "no step has a reward")
        yield Event("reward", "severe", says, None, (rewards.index[0], None, rewards.index[-1]), {"rows": n})
        return
    spread = next((name for name in ("zero_signal_share", "group_range") if run.logs(name)), None)
    more = ""
    if exact:
        counts = run.counting(run.silent)
    else:
        check_shares(run, "zero_signal_share")
        shares = run.values("zero_signal_share")
        shares = (run.values("group_range") == 0.0).astype(float) if shares.empty else shares
        if spread:  # where no completion was scored, no group has a signal
            shares = shares.reindex(shares.index.union(run.unscored))
            shares[run.unscored] = 1.0
        counts = millionths(shares)
        if len(run.unscored):
            more = f"; no completion was scored in {len(run.unscored)} of {len(counts)} logged steps, first in step {run.unscored[0]}"
    if counts.empty and exact:
        raise NotObservable(UNCOUNTED)
    words, kind = ("groups", "had no reward spread"), ""
    if counts.empty and len(run.flat):
        counts, words, kind = millionths(run.flat), ("steps", "had no reward spread in the whole batch (reward_std exactly 0)"), "batch"
        yield "no spread within groups was logged: where the batch has one, groups without it are not observable"
    if counts.empty and len(run.cut):
        raise NotApplicable("one completion a prompt: there are no groups to compare")
    if counts.empty:
        raise NotObservable(run.why_none(spread) if spread else "no within-group spread was logged (zero_signal_share, completions)")
    silent = share_event("zero_signal_share", counts, settings, words, exact=exact, null="expected")
    if silent.dates[0] is None:  # no window is above the threshold
        return
    yield silent._replace(says=silent.says + more, kind=kind)
    batch = run.values("reward_std")
    hidden = batch[(batch > 0) & run.values("group_range").reindex(batch.index).eq(0.0)]
    if len(hidden):
        says = (
            f"reward_std is {hidden.iloc[0]:.3g} at step {hidden.index[0]} while every group is constant "
            f"({counted(len(hidden), 'such step')}): the spread lies between prompts, "
            "and scaling by the batch hides that no group has a signal"
        )
        dates = (hidden.index[0], None, hidden.index[-1])
        yield Event("reward_std", "warning", says, hidden.iloc[0], dates, {"steps": len(hidden)}, null="info")
