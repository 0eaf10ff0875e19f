"""Faults at a resume: a jump at the boundary between two attempts, steps missing between them, steps that were made or written twice.

A jump is the mean of the rows after a step minus that of the rows before it. It is a fault when the jump at the boundary is many times the
median of the same jumps everywhere else in the run: a series that always moves is no fault, one that moves only there is. Where the
median is 0 although the series moves at times, there is nothing to measure the jump with, and the answer says so.
"""

from collections.abc import Iterator

from stages.analyse.signals import OWN, Resume, Run, Series, Thresholds, counted, looked, not_applicable, not_observable, signal, threshold
from stages.contracts.health import Detection, Signal
from stages.rules import above, stretch

NAME = "resume_faults"


class Settings(Thresholds):
    metrics: tuple[str, ...] = threshold(("reward", "completion_tokens", "entropy", "kl", "grad_norm"), "names")
    """Metrics whose course must go on over a resume, those that were logged."""
    window: int = threshold(5, "logged rows", ge=2)
    """Rows on each side of a boundary."""
    k: float = threshold(8.0, "median jumps", f"{OWN}; 8 are 5.4 standard deviations of a normal series", gt=0)
    """A jump of this many median jumps is a change-point."""


def detect(settings: Settings, run: Run) -> Detection:
    """Signals by boundary, then one for rows written twice."""
    if run.steps.empty:
        return not_observable(NAME, "nothing was logged")
    signals = []
    if run.repeated:
        repeat = "repeats" if run.repeated == 1 else "repeat"
        says = f"{counted(run.repeated, 'value')} {repeat} a metric and a step within one attempt; of each the last counts"
        signals = [signal(NAME, run, "rows", "warning", says, float(run.repeated))]
    if not run.resumes:
        if signals:
            return looked(NAME, *signals)
        if run.imported:
            return not_observable(NAME, "the steps of the log never go back, so it does not show whether the run was resumed")
        return not_applicable(NAME, "the run was not resumed: all its steps are of one attempt")
    blind: dict[str, list[str]] = {}
    for resume in run.resumes:
        signals += _seam(run, resume)
        for metric in settings.metrics:
            values = run.values(metric)
            if values.empty:
                if run.logs(metric):
                    blind.setdefault("no number at a step that counts", []).append(metric)
                continue
            jump = _jump(settings.window, values, resume.first, [other.first for other in run.resumes])
            if isinstance(jump, str):
                blind.setdefault(jump, []).append(metric)
            elif above(jump[0], settings.k * jump[1]):
                signals.append(_change_point(settings, run, metric, resume, *jump))
    reason = "; ".join(f"{why}: {', '.join(dict.fromkeys(names))}" for why, names in blind.items())
    return looked(NAME, *signals, reason=reason)


def _jump(w: int, values: Series, first: int, boundaries: list[int]) -> tuple[float, float] | str:
    """(jump at the boundary, median jump elsewhere), or why no jump can be seen. `w`: rows on each side."""
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


def _change_point(settings: Settings, run: Run, metric: str, resume: Resume, jump: float, usual: float) -> Signal:
    times = f"{jump / usual:.3g} times the median jump elsewhere" if usual > 0 else "and moves nowhere else"
    says = f"{metric} jumps by {jump:.3g} where the run was resumed at step {resume.first}, {times}"
    dates = (resume.first, resume.first + settings.window - 1, None)
    evidence = {"median_jump": usual, "rows_on_each_side": settings.window}
    return signal(NAME, run, metric, "warning", says, jump, dates, evidence)


def _seam(run: Run, resume: Resume) -> Iterator[Signal]:
    missing = resume.first - resume.before - 1
    if missing >= max(1, run.stride):
        says = f"{stretch(resume.before + 1, resume.first - 1)} {'is' if missing == 1 else 'are'} missing: the log ends at "
        says += f"{resume.before}, and the next attempt begins at {resume.first}"
        yield signal(NAME, run, "step", "warning", says, float(missing), (resume.before + 1, None, resume.first - 1))
    if resume.again:
        was = "was" if resume.again == 1 else "were"
        says = f"{counted(resume.again, 'step')} from step {resume.first} on {was} made again after the resume; the later attempt's count"
        yield signal(NAME, run, "step", "info", says, float(resume.again), (resume.first, None, None))
