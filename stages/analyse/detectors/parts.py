"""Parts against the whole: what the scores of a reward's gates do that the reward does not show.

Parts that cancel: scores differ within a group and the reward does not. A score whose differences lie between prompts, with none within
groups, is no signal for GRPO. A score that is the same for every completion adds nothing. A score of some completions only is a mean of
those. And the reward may hold or rise while one part falls, because another one rises: whether that other part is the task, only the author
knows, so both are named.
"""

from stages.analyse.signals import OWN, Answer, Event, NotApplicable, NotObservable, Run, Series, Thresholds, counted, threshold
from stages.contracts.history import metric_title

NEEDS_COMPLETIONS = True


class Settings(Thresholds):
    errors: float = threshold(6.0, "usual differences", f"{OWN}, as for changes of level", gt=0)
    """A part has fallen when a difference in its course is this many times the usual one."""
    share: float = threshold(0.2, "share of the larger level", gt=0, lt=1)
    """A smaller change of a part or of the reward is none."""
    cancel: float = threshold(0.1, "share of groups", gt=0, lt=1)
    """A larger share of groups whose scores differ while the reward does not is a warning."""
    within: float = threshold(0.02, "share of groups", ge=0, lt=1)
    """A score that differs in no larger share of groups, and does between groups, has its differences between prompts."""
    groups: int = threshold(20, "groups", ge=2)
    """So many groups with two known scores are needed to tell."""
    known: float = threshold(0.9, "share of completions", gt=0, le=1)
    """A part that scored fewer is one of some completions only: information."""


def detect(settings: Settings, run: Run) -> Answer:
    """Events by kind, then by part."""
    parts = [name for name in run.steps if name.startswith("gate.") and name.endswith(".score")]
    values = {name: scores for name in parts if len(scores := run.values(name))}
    if not parts:
        raise NotObservable("no part's score was logged")
    if not values:
        raise NotObservable("; ".join(map(run.why_none, parts)))
    if len(parts) == 1:
        raise NotApplicable("the reward has one part")
    yield from _traded(settings, run, values)
    yield from _constant(settings, run, values)
    if run.parts.empty:
        yield "scores of single completions were not recorded, so parts that cancel or differ only between prompts were not looked for"
    elif (run.parts["reward", "count"] > 1).sum() < settings.groups:
        yield f"fewer than {settings.groups} groups with two known rewards, so differences within groups were not looked at"
    else:
        yield from _within(settings, run)
    yield from _some(settings, run)


def _traded(settings: Settings, run: Run, values: dict[str, Series]) -> Answer:
    """A part that fell and another that rose, while the reward did not fall."""
    from stages.analyse.changes import fall

    first, last = (float(end.mean()) for end in run.ends("reward"))
    if not last >= first - settings.share * max(abs(first), abs(last)):  # or one of the two windows is empty
        return
    ends = {name: tuple(float(end.mean()) for end in run.ends(name)) for name in values}
    rose = [name for name, (a, b) in ends.items() if b - a > settings.share * max(abs(a), abs(b))]
    for name, scores in values.items():
        a, b = ends[name]
        change = (
            fall(scores.to_numpy(), settings.errors, settings.share)
            if name not in run.paid_to_fall and a - b > settings.share * abs(a)
            else None
        )
        if change is None or not rose:
            continue
        best = max(rose, key=lambda other: ends[other][1] - ends[other][0])
        does = "rose" if last - first > settings.share * max(abs(first), abs(last)) else "held"
        on = f"on the {metric_title(best)} ({ends[best][0]:.3g} to {ends[best][1]:.3g})"
        says = f"reward {does} ({first:.3g} to {last:.3g}, first window to last) {on} "
        says += f"while the {metric_title(name)} fell ({a:.3g} to {b:.3g})"
        dates = (int(scores.index[change.low]), int(scores.index[change.high]), int(scores.index[-1]))
        yield Event(name, "warning", says, b, dates, {"rose": best, "reward_first": first, "reward_last": last}, "traded", "info")


def _constant(settings: Settings, run: Run, values: dict[str, Series]) -> Answer:
    for name, scores in values.items():
        if len(scores) < 2 or scores.min() < scores.max():
            continue
        value, title = float(scores.iloc[0]), metric_title(name)
        says = f"the {title} is {value:.3g} at all {len(scores)} logged steps, so it adds nothing that differs to the reward"
        dates = (int(scores.index[0]), None, int(scores.index[-1]))
        yield Event(name, "info" if value > 0 else "warning", says, value, dates, {"rows": len(scores)}, "dead", "expected")


def _within(settings: Settings, run: Run) -> Answer:
    """Of groups with two completions or more whose value is known."""
    table = run.parts
    scores = [name for name in table.columns.get_level_values(0).unique() if name != "reward"]
    differs = {name: (table[name, "max"] > table[name, "min"]) & (table[name, "count"] > 1) for name in (*scores, "reward")}
    for name in scores:
        several = table[name, "count"] > 1
        k, n = int(differs[name].sum()), int(several.sum())
        means = table.loc[several, (name, "mean")]
        if n >= settings.groups and k <= settings.within * n and means.max() > means.min():
            says = f"the {metric_title(name)} differs within {k} of {counted(n, 'group')} and between them from {means.min():.3g} to "
            says += f"{means.max():.3g}: "
            says += "its differences lie between prompts, and completions of one prompt cannot be told apart by it"
            dates = (int(table.index[0][0]), None, int(table.index[-1][0]))
            yield Event(name, "warning", says, k / n, dates, {"k": k, "n": n}, "between", "info")
    comparable = table["reward", "count"] == table["reward", "count"].clip(lower=2)
    silent = comparable & ~differs["reward"]
    both = silent & (sum(differs[name].astype(int) for name in scores) > 1)
    k, n = int(both.sum()), int(comparable.sum())
    if k > settings.cancel * n:
        which = [metric_title(name) for name in scores if differs[name][both].mean() > 0.5]
        steps = table.index.get_level_values(0)[both]
        says = f"in {k} of {counted(n, 'group')} the scores of several parts ({', '.join(which)}) differ and the reward does not: "
        says += "they cancel each other, or something levels them (a cap, a penalty, a weight of 0)"
        yield Event("reward", "warning", says, k / n, (int(steps[0]), None, int(steps[-1])), {"k": k, "n": n}, "cancel", "expected")


def _some(settings: Settings, run: Run) -> Answer:
    """Parts that scored some completions only: by completions, or by logged steps where none were recorded."""
    rewards = run.values("reward")
    for name in [name for name in run.steps if name.startswith("gate.") and name.endswith(".score")]:
        if (name, "count") in run.parts:
            k, n, what = int(run.parts[name, "count"].sum()), int(run.parts["reward", "count"].sum()), "completions"
        else:
            k, n, what = len(run.values(name).index.intersection(rewards.index)), len(rewards), "logged steps"
        if n and k < settings.known * n:
            says = f"the {metric_title(name)} is known of {k} of {n} {what}, and its mean is over those only"
            yield Event(name, "info", says, k / n, (None, None, None), {"k": k, "n": n}, "some")
