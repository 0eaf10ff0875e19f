"""Throughput: seconds a step, the part that scoring takes, tokens a second, steps that grow slow, and rewards that no verifier knew.

Always reports what it measured. Times of generation and update are said where they were logged apart (`generation_seconds`,
`update_seconds`); what remains of a step is called the rest, not guessed. Wall times depend on the machine and its neighbours: what they
say is information, and only unknown rewards are a warning.
"""

from stages.analyse.signals import OWN, Answer, Event, NotObservable, Run, Series, Thresholds, at_end, check_shares, counted, threshold
from stages.rules import above

PARTS = {"generation_seconds": "generation", "reward_seconds": "scoring", "update_seconds": "the update"}


class Settings(Thresholds):
    slower: float = threshold(3.0, "ratio", f"{OWN}; longer completions alone make steps slower", gt=1)
    """Ratio of the median step of the last window to that of the first above which the slowdown is reported."""
    scoring: float = threshold(0.5, "share of time", gt=0, lt=1)
    """A larger share of the time of all steps that goes into scoring is reported."""
    unknown: float = threshold(0.05, "share of completions", ge=0, lt=1)
    """A larger mean share of completions without a known reward is a warning."""


def detect(settings: Settings, run: Run) -> Answer:
    """One event about time where it was logged, and one about unknown rewards where there are too many."""
    times, unknown = run.values("step_seconds"), run.values("unknown_share")
    if times.empty and unknown.empty:
        logged = "; ".join(run.why_none(metric) for metric in ("step_seconds", "unknown_share") if run.logs(metric))
        raise NotObservable(logged or "neither the time of steps nor the share of unknown rewards was logged")
    check_shares(run, "unknown_share")
    if times.empty:
        yield run.why_none("step_seconds")
    else:
        yield _time(settings, run, times)
    if len(unknown) and above(unknown.mean(), settings.unknown):
        says = f"no reward is known for {unknown.mean():.1%} of completions on average: no gate knew their score"
        dates = (unknown.index[unknown > 0][0], None, unknown.index[-1])
        yield Event("unknown_share", "warning", says, unknown.mean(), dates, {"steps": len(unknown)})


def _time(settings: Settings, run: Run, times: Series) -> Event:
    from stages.analyse.frames import usual_distance

    before, after = (end.median() for end in run.ends("step_seconds"))
    stride = usual_distance(times.index) if run.imported else run.stride
    covered = times.index[-1] - max(0, times.index[0] - stride)
    total = times.sum() if stride == 1 else times.mean() * covered
    ratio, window = after / before if before > 0 and after == after else None, run.window()
    shares = {name: _per_second(run.values(name), times) for name in PARTS}
    tokens = (run.values("completion_tokens") * run.cut["n"]).dropna()  # by step: mean length times completions
    rate, scoring = _per_second(tokens, times), shares["reward_seconds"]
    took = f"{total:.3g} s" if total < 600 else f"{total / 60:.0f} min" if total < 7200 else f"{total / 3600:.1f} h"
    rows = f"{counted(len(times), 'step')}, {took}" if stride == 1 else f"{len(times)} rows, one in {stride} steps, about {took}"
    says = f"a step takes {times.median():.3g} s (median of {rows} in all)"
    says += "".join(f", {share:.0%} of it in {PARTS[name]}" for name, share in shares.items() if share is not None)
    says += f"; {rate:.{0 if rate >= 100 else 1}f} generated tokens a second" if rate is not None else ""
    says += f"; more than {settings.scoring:.0%} of the time goes into scoring" if above(scoring or 0.0, settings.scoring) else ""
    if ratio is not None and above(ratio, settings.slower):
        says += f"; {at_end(window)} {'takes' if window == 1 else 'take'} {ratio:.2g} times as long as the first"
    evidence = {
        "last_to_first": ratio,
        "scoring_share": scoring,
        "tokens_per_second": rate,
        "steps" if stride == 1 else "rows": len(times),
    }
    kept = {name: value for name, value in evidence.items() if value is not None}
    return Event("step_seconds", "info", says, times.median(), (None, None, times.index[-1]), kept)


def _per_second(part: Series, times: Series) -> float | None:
    """Sum of a part over the time of the same steps; None without steps that logged both."""
    seconds = times.reindex(part.index).dropna()
    return float(part[seconds.index].sum() / seconds.sum()) if seconds.sum() > 0 else None
