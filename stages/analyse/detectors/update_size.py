"""Size of updates: share of tokens that are clipped, ratio of new and old policy, KL of the update.

When each batch is used for one optimizer step, the new policy is the old one while the loss is computed: all of these are exactly 0 (the
ratio 1) and say nothing. That is "no information", never "healthy".
"""

from stages.analyse.signals import OWN, Run, Thresholds, looked, not_applicable, not_observable, signal, threshold
from stages.contracts.health import Detection, Signal
from stages.rules import above, stretch

NAME = "update_size"
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


def detect(settings: Settings, run: Run) -> Detection:
    """One signal a measure that is too large in some window."""
    if run.steps.empty:
        return not_observable(NAME, "nothing was logged")
    limits = [*((name, 0.0, settings.clipped) for name in CLIPPED), (RATIO, 1.0, settings.ratio), (UPDATE_KL, 0.0, settings.kl)]
    logged = {name: rest for name, rest, _ in limits if len(run.values(name))}
    if not logged:
        empty = "; ".join(run.why_none(name) for name, _, _ in limits if run.logs(name))
        return not_observable(NAME, empty or "no clip fraction, ratio or KL of updates was logged")
    if reason := next((odd for name in CLIPPED if (odd := run.no_share(name))), ""):
        return not_applicable(NAME, reason)
    limits.append((FIRST, 1.0, settings.first_ratio))
    signals = list(filter(None, (_signal(run, settings.window, *limit) for limit in limits)))
    if not any(signal.metric == FIRST for signal in signals) and all((run.values(name) == rest).all() for name, rest in logged.items()):
        return not_applicable(NAME, f"no information: {', '.join(logged)} never moved, {_why_still(run, logged)}")
    return looked(NAME, *signals)


def _why_still(run: Run, logged: dict[str, float]) -> str:
    norms = run.values("grad_norm")
    if run.adapter == "zero" or (len(norms) and not norms.any()):
        return "because no update moved the policy: its gradient is 0 throughout"
    why = "because each batch is used for one optimizer step (purely on-policy)"
    # shares of clipped tokens are also 0 while updates are small
    return why if {RATIO, UPDATE_KL} & logged.keys() else f"either {why}, or because no update reached the clip range"


def _signal(run: Run, window: int, name: str, rest: float, limit: float) -> Signal | None:
    """The first window whose mean lies further from `rest` than the limit; a shorter log is one window."""
    values = run.values(name)
    size = min(window, len(values))
    means = values.rolling(size).mean() if size else values
    far = next((place for place, mean in enumerate(means) if above(abs(mean - rest), limit)), None)
    if far is None:
        return None
    inside = values.iloc[far - size + 1 : far + 1]
    begin, end, mean = int(inside.index[0]), int(inside.index[-1]), inside.mean()
    bound = f"more than {limit:g} from 1" if rest else f"above {limit:g}"
    says = f"{_WORDS.get(name, 'the share of clipped tokens')} is {mean:.3g} on average in {stretch(begin, end)}, {bound}"
    dates, kind = (begin, end, values.index[-1]), "clipped" if name in CLIPPED else ""
    return signal(NAME, run, name, "warning", says, mean, dates, {"rows": len(values), "window": size}, kind=kind, null="info")
