"""Faults at a resume: a jump at the boundary between two attempts, steps missing between them, steps that were made or written twice.

A jump is the mean of the rows after a step minus that of the rows before it. It is a fault when the jump at the boundary is many times the
median of the same jumps everywhere else in the run: a series that always moves is no fault, one that moves only there is. Where the
median is 0 although the series moves at times, there is nothing to measure the jump with, and the answer says so.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import median

from pydantic import Field

from stages.contracts.amounts import above, counted, stretch
from stages.contracts.artifact import Frozen
from stages.contracts.health import Detection, Signal
from stages.contracts.observed import Observed, Resume

NAME = "resume_faults"


class Settings(Frozen):
    metrics: tuple[str, ...] = Field(
        ("reward", "completion_tokens", "entropy", "kl", "grad_norm"),
        description="Metrics whose course must go on over a resume, those that were logged.",
        json_schema_extra={"unit": "names", "source": "octavo's own choice"},
    )
    window: int = Field(
        5,
        ge=2,
        description="Rows on each side of a boundary.",
        json_schema_extra={"unit": "logged rows", "source": "octavo's own choice"},
    )
    k: float = Field(
        8.0,
        gt=0,
        description="A jump so many times the median jump elsewhere is a change-point.",
        json_schema_extra={"unit": "median jumps", "source": "octavo's own choice; 8 are 5.4 standard deviations of a normal series"},
    )


def detect(settings: Settings, series: Observed) -> Detection:
    """Signals by boundary, then one for rows written twice."""
    if not series.metrics:
        return Detection(detector=NAME, state="not_observable", reason="nothing was logged")
    signals = [_repeated(series)] if series.repeated else []
    if not series.resumes:
        if signals:
            return Detection(detector=NAME, state="looked", signals=tuple(signals))
        if series.imported:
            reason = "the steps of the log never go back, so it does not show whether the run was resumed"
            return Detection(detector=NAME, state="not_observable", reason=reason)
        return Detection(detector=NAME, state="not_applicable", reason="the run was not resumed: all its steps are of one attempt")
    blind: dict[str, list[str]] = {}
    for resume in series.resumes:
        signals += _seam(series, resume)
        for metric in settings.metrics:
            rows = series.values(metric)
            if not rows:
                if series.logs(metric):
                    blind.setdefault("no number at a step that counts", []).append(metric)
                continue
            jump = _jump(settings, rows, resume.first, {other.first for other in series.resumes})
            if isinstance(jump, str):
                blind.setdefault(jump, []).append(metric)
            elif above(jump[0], settings.k * jump[1]):
                signals.append(_change_point(settings, metric, resume, *jump))
    reason = "; ".join(f"{why}: {', '.join(dict.fromkeys(names))}" for why, names in blind.items())
    return Detection(detector=NAME, state="looked", reason=reason, signals=tuple(signals))


def _jump(settings: Settings, rows: list[tuple[int, float]], first: int, boundaries: set[int]) -> tuple[float, float] | str:
    """(jump at the boundary, median jump elsewhere), or why no jump can be seen."""
    w = settings.window
    values = [value for _, value in rows]
    sums = [0.0]
    for value in values:
        sums.append(sums[-1] + value)
    if not math.isfinite(max(map(abs, sums))):
        raise OverflowError("a sum of the series has no number")
    starts = [index for index, (step, _) in enumerate(rows) if step >= first][:1]
    edges = [next((i for i, (step, _) in enumerate(rows) if step >= boundary), len(rows)) for boundary in boundaries]
    if not starts or starts[0] < w or len(rows) - starts[0] < w:
        return "too few rows beside a boundary to see a jump"

    rounding = 1e-15 * max(map(abs, sums))  # of 2w additions, for a mean of w rows: a constant series has no jumps

    def jump(at: int) -> float:
        found = abs(sums[at + w] - 2 * sums[at] + sums[at - w]) / w
        return found if found > rounding else 0.0

    elsewhere = [jump(at) for at in range(w, len(rows) - w + 1) if all(abs(at - edge) >= w for edge in edges)]
    if len(elsewhere) < 2 * w:
        return "too few rows away from boundaries to know its usual jumps"
    usual = median(elsewhere)
    return (jump(starts[0]), usual) if usual > 0 or max(elsewhere) == 0 else "usual jump of 0, so there is nothing to measure by"


def _change_point(settings: Settings, metric: str, resume: Resume, jump: float, usual: float) -> Signal:
    times = f"{jump / usual:.3g} times the median jump elsewhere" if usual > 0 else "and moves nowhere else"
    says = f"{metric} jumps by {jump:.3g} where the run was resumed at step {resume.first}, {times}"
    return Signal(
        detector=NAME,
        metric=metric,
        severity="warning",
        says=says,
        onset=resume.first,
        detected=resume.first + settings.window - 1,
        value=jump,
        evidence={"median_jump": usual, "rows_on_each_side": settings.window},
    )


def _seam(series: Observed, resume: Resume) -> Iterator[Signal]:
    missing = resume.first - resume.before - 1
    if missing >= max(1, series.stride):
        says = (
            f"{stretch(resume.before + 1, resume.first - 1)} {'is' if missing == 1 else 'are'} missing: the log ends at {resume.before}, "
        )
        says += f"and the next attempt begins at {resume.first}"
        yield Signal(
            detector=NAME,
            metric="step",
            severity="warning",
            says=says,
            onset=resume.before + 1,
            last=resume.first - 1,
            value=float(missing),
        )
    if resume.again:
        was = "was" if resume.again == 1 else "were"
        says = f"{counted(resume.again, 'step')} from step {resume.first} on {was} made again after the resume; the later attempt's count"
        yield Signal(detector=NAME, metric="step", severity="info", says=says, onset=resume.first, value=float(resume.again))


def _repeated(series: Observed) -> Signal:
    repeat = "repeats" if series.repeated == 1 else "repeat"
    says = f"{counted(series.repeated, 'value')} {repeat} a metric and a step within one attempt; of each the last counts"
    return Signal(detector=NAME, metric="rows", severity="warning", says=says, value=float(series.repeated))
