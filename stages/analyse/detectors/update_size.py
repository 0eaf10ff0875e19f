"""Size of updates: share of tokens that are clipped, ratio of new and old policy, KL of the update.

When each batch is used for one optimizer step, the new policy is the old one while the loss is computed: all of these are exactly 0 (the
ratio 1) and say nothing. That is "no information", never "healthy".
"""

from stages.analyse.signals import OWN, Answer, Event, NotApplicable, NotObservable, Run, Thresholds, check_shares, threshold
from stages.rules import above, stretch

NEEDS_COMPLETIONS = True
CLIPPED = ("policy.clipfrac", "clip_ratio/region_mean")
RATIO, FIRST, UPDATE_KL = "policy.ratio", "policy.first_ratio", "policy.approxkl"
_WORDS = {
    RATIO: "the mean ratio of new and old policy",
    UPDATE_KL: "the KL of an update",
    FIRST: "the ratio before the first optimizer step",
}


class Settings(Thresholds):
    clipped: float = threshold(0.3, "share of tokens", gt=0, lt=1)
    """A larger mean share of clipped tokens in a window is a warning: much of the batch no longer teaches."""
    ratio: float = threshold(0.2, "distance from 1", "the clip range 0.2 of Schulman et al. 2017 (PPO): no token should go further", gt=0)
    """A mean ratio further from 1 in a window is a warning."""
    kl: float = threshold(0.05, "nats per token", f"{OWN}; target_kl is commonly set to 0.01 to 0.05", gt=0)
    """A larger mean KL of the update in a window is a warning."""
    first_ratio: float = threshold(0.02, "distance from 1", f"{OWN}; equal arithmetic gives exactly 1", gt=0)
    """A mean ratio before the first optimizer step further from 1 is a warning: sampling and training disagree."""
    window: int = threshold(10, "logged rows", ge=1)
    """Logged rows that are averaged."""


def detect(settings: Settings, run: Run) -> Answer:
    """One event a measure whose mean lies in some window further from its rest than the limit; a shorter log is one window."""
    if run.steps.empty:
        raise NotObservable("nothing was logged")
    limits = [*((name, 0.0, settings.clipped) for name in CLIPPED), (RATIO, 1.0, settings.ratio), (UPDATE_KL, 0.0, settings.kl)]
    logged = {name: rest for name, rest, _ in limits if len(run.values(name))}
    if not logged:
        empty = "; ".join(run.why_none(name) for name, _, _ in limits if run.logs(name))
        raise NotObservable(empty or "no clip fraction, ratio or KL of updates was logged")
    check_shares(run, *CLIPPED)
    events = []
    for name, rest, limit in (*limits, (FIRST, 1.0, settings.first_ratio)):
        values = run.values(name)
        size = min(settings.window, len(values))
        means = values.rolling(size).mean() if size else values
        far = next((place for place, mean in enumerate(means) if above(abs(mean - rest), limit)), None)
        if far is None:
            continue
        inside = values.iloc[far - size + 1 : far + 1]
        begin, end, mean = int(inside.index[0]), int(inside.index[-1]), inside.mean()
        bound = f"more than {limit:g} from 1" if rest else f"above {limit:g}"
        says = f"{_WORDS.get(name, 'the share of clipped tokens')} is {mean:.3g} on average in {stretch(begin, end)}, {bound}"
        dates, evidence = (begin, end, values.index[-1]), {"rows": len(values), "window": size}
        events.append(Event(name, "warning", says, mean, dates, evidence, "clipped" if name in CLIPPED else "", "info"))
    if not any(event.metric == FIRST for event in events) and all((run.values(name) == rest).all() for name, rest in logged.items()):
        norms = run.values("grad_norm")
        why = "because each batch is used for one optimizer step (purely on-policy)"
        if run.adapter == "zero" or (len(norms) and not norms.any()):
            why = "because no update moved the policy: its gradient is 0 throughout"
        elif not {RATIO, UPDATE_KL} & logged.keys():  # shares of clipped tokens are also 0 while updates are small
            why = f"either {why}, or because no update reached the clip range"
        raise NotApplicable(f"no information: {', '.join(logged)} never moved, {why}")
    yield from events
