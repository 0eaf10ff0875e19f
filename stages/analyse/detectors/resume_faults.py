"""Faults at a resume: a jump at the boundary between two attempts, steps missing between them, steps that were made or written twice.

A jump is the mean of the rows after a step minus that of the rows before it. It is a fault when the jump at the boundary is many times the
median of the same jumps everywhere else in the run: a series that always moves is no fault, one that moves only there is. Where the
median is 0 although the series moves at times, there is nothing to measure the jump with, and the answer says so.
"""

from stages.analyse.signals import OWN, Answer, Event, NotApplicable, NotObservable, Run, Series, Thresholds, counted, threshold
from stages.rules import above, stretch


class Settings(Thresholds):
    metrics: tuple[str, ...] = threshold(("reward", "completion_tokens", "entropy", "kl", "grad_norm"), "names")
    """Metrics whose course must go on over a resume, those that were logged."""
    window: int = threshold(5, "logged rows", ge=2)
    """Rows on each side of a boundary."""
    k: float = threshold(8.0, "median jumps", f"{OWN}; 8 are 5.4 standard deviations of a normal series", gt=0)
    """A jump of this many median jumps is a change-point."""


def detect(settings: Settings, run: Run) -> Answer:
    """Events by boundary, after one for rows written twice."""
    if run.steps.empty:
        raise NotObservable("nothing was logged")
    if run.repeated:
        repeat = "repeats" if run.repeated == 1 else "repeat"
        says = f"{counted(run.repeated, 'value')} {repeat} a metric and a step within one attempt; of each the last counts"
        yield Event("rows", "warning", says, float(run.repeated))
    elif not run.resumes and run.imported:
        raise NotObservable("the steps of the log never go back, so it does not show whether the run was resumed")
    elif not run.resumes:
        raise NotApplicable("the run was not resumed: all its steps are of one attempt")
    blind: dict[str, list[str]] = {}
    for first, before, again in run.resumes:
        missing = first - before - 1
        if missing >= max(1, run.stride):
            says = f"{stretch(before + 1, first - 1)} {'is' if missing == 1 else 'are'} missing: the log ends at {before}, "
            says += f"and the next attempt begins at {first}"
            yield Event("step", "warning", says, float(missing), (before + 1, None, first - 1))
        if again:
            was = "was" if again == 1 else "were"
            says = f"{counted(again, 'step')} from step {first} on {was} made again after the resume; the later attempt's count"
            yield Event("step", "info", says, float(again), (first, None, None))
        for metric in filter(run.logs, settings.metrics):
            jump = _jump(settings.window, run.values(metric), first, [resume.first for resume in run.resumes])
            if isinstance(jump, str):
                blind.setdefault(jump, []).append(metric)
            elif above(jump[0], settings.k * jump[1]):
                size, usual = jump
                times = f"{size / usual:.3g} times the median jump elsewhere" if usual > 0 else "and moves nowhere else"
                says = f"{metric} jumps by {size:.3g} where the run was resumed at step {first}, {times}"
                evidence = {"median_jump": usual, "rows_on_each_side": settings.window}
                known = run.values(metric).loc[first:].index[settings.window - 1]
                yield Event(metric, "warning", says, size, (first, known, None), evidence)
    yield "; ".join(f"{why}: {', '.join(dict.fromkeys(names))}" for why, names in blind.items())


def _jump(w: int, values: Series, first: int, boundaries: list[int]) -> tuple[float, float] | str:
    """(jump at the boundary, median jump elsewhere), or why no jump can be seen. `w`: rows on each side."""
    if values.empty:
        return "no number at a step that counts"
    steps = values.index.to_numpy()
    at, edges = int(steps.searchsorted(first)), steps.searchsorted(boundaries)
    if at < w or len(values) - at < w:
        return "too few rows beside a boundary to see a jump"
    means = values.rolling(w).mean().reset_index(drop=True)
    jumps = (means.shift(1 - w) - means.shift(1)).abs()  # by the first row after the boundary
    jumps = jumps.mask(jumps <= 1e-12 * values.abs().max(), 0.0).dropna()  # a constant series has no jumps, only rounding
    elsewhere = jumps[[all(abs(place - edge) >= w for edge in edges) for place in jumps.index]]
    if len(elsewhere) < 2 * w:
        return "too few rows away from boundaries to know its usual jumps"
    usual = float(elsewhere.median())
    if usual == 0 and elsewhere.max() > 0:
        return "usual jump of 0, so there is nothing to measure by"
    return float(jumps[at]), usual
