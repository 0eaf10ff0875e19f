"""`curves-<metric>`: one picture a metric over steps; seeds as thin lines, the mean over the included ones thick."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby

from stages.analyse import svg
from stages.analyse.figures.drawing import Drawing, Material, Row
from stages.contracts.analysis_card import RunRef
from stages.contracts.figure import Figure, Mark
from stages.contracts.history import metric as meaning
from stages.contracts.metric_words import words
from stages.contracts.series import stride

_LEFT, _PLOT, _NAMES, _ROW = 42.0, 132.0, 104.0, 15.0
_CAPTION = (
    "One colour a condition. Thin lines are seeds, thick ones the mean over the included seeds; dashed seeds are left out by a health "
    "gate or failed. Lines break where nothing was logged, hatching marks steps whose gradient was not finite, a dotted vertical line "
    "the start of another attempt, a triangle the onset of a collapse, a square the step at which a rule stopped a run."
)
_COLUMNS = ("metric", "unit", "condition", "run", "seed", "step", "value", "state", "counts")
_Points = list[tuple[int, float]]


def draw(material: Material) -> list[Drawing]:
    """Pictures in the card's order of metrics."""
    return [_drawing(material, name) for name in material.card.curves]


def _drawing(material: Material, name: str) -> Drawing:
    runs = material.card.runs
    last_step = max([run.target_steps for run in runs] + [history.last_step for history in material.histories.values()], default=1)
    alternative = _alternative(material, name)
    picture = svg.Picture(f"curves-{name}", alternative)
    rows, marks = _panel(picture, material, name, last_step)
    figure = Figure(
        name=f"curves-{name}",
        title=_titled(words(name)),
        caption=_CAPTION,
        alternative=alternative,
        findings=tuple(id_ for c in material.card.conditions if material.find(id_ := f"{c.name}/{name}/final")),
        sources=tuple(material.sources[run.name] for run in runs if run.name in material.sources),
        marks=tuple(marks),
    )
    return Drawing(figure, picture.render(), _COLUMNS, tuple(rows))


def _titled(text: str) -> str:
    return text[:1].upper() + text[1:]


def _panel(picture: svg.Picture, material: Material, name: str, last_step: int) -> tuple[list[Row], list[Mark]]:
    """Draws the metric and returns the numbers and what is marked."""
    marks = [mark for run in material.card.runs for mark in _marks(material, run, name)]
    known = meaning(name)
    unit = known.unit if known else ""
    lines = {run.name: _points(material, run, name) for run in material.card.runs}
    rows: list[Row] = [row for run in material.card.runs for row in _rows(material, run, name, unit)]
    _title(picture, name, unit)
    conditions = [condition.name for condition in material.card.conditions]
    above = svg.FONT + 16.0
    right = svg.WIDTH - min(_NAMES, 16 + max((svg.text_width(condition) for condition in conditions), default=0.0))
    if len(conditions) * _ROW > _PLOT:
        above, right = svg.legend(picture, conditions, svg.FONT + 6) + 8, svg.WIDTH - 6
    below = above + _PLOT
    picture.height = below + svg.FONT + 8
    low, high, clipped = _domain([value for points in lines.values() for _, value in points], share=bool(known and known.share))
    down = svg.Scale(low, high, below, above)
    left = max(_LEFT, 8 + max(svg.text_width(svg.shown(tick), 12) for tick in svg.ticks(low, high, 5)))
    across = svg.Scale(1, max(2, last_step), left, right)
    _axes(picture, across, down, last_step)
    if not any(lines.values()):
        picture.text((left + right) / 2, (above + below) / 2, "not logged", "mid soft")
        return rows, marks
    for run in material.card.runs:
        for mark in marks:
            if mark.run == run.name:
                _mark(picture, mark, material.colour(run.condition), across, above, below)
        _seed(picture, material, run, lines[run.name], across, down)
    ends: list[tuple[float, str]] = []
    for condition in conditions:
        mine = [run for run in material.card.runs if run.condition == condition]
        mean = _mean([lines[run.name] for run in mine if material.included(run.name)])
        rows += [(name, unit, condition, "mean", None, step, value, "value", True) for step, value in mean]
        for piece in _pieces(mean):
            points = [(across(step), down.clipped(value)) for step, value in piece]
            picture.curve(points, "mean", material.colour(condition), f"{condition}: mean")
        last = [value for _, value in mean[-3:]] or [value for run in mine for _, value in lines[run.name][-3:]]
        if last:
            ends.append((down.clipped(math.fsum(last) / len(last)), condition))
    if len(conditions) * _ROW <= _PLOT:
        _names(picture, material, ends, right, above, below)
    if clipped:
        picture.text(svg.WIDTH, svg.FONT, "cut at the edge: see the table", "end soft")
    return rows, marks


def _title(picture: svg.Picture, name: str, unit: str) -> None:
    said = _titled(words(name))
    picture.text(0, svg.FONT, said, "strong")
    parts = [part for part in (name if name != words(name) else "", unit if unit not in (name, "share", "norm") else "") if part]
    begin = svg.text_width(said) * 1.06 + 10
    room = svg.WIDTH - begin
    if len(parts) > 1 and svg.text_width(" \u00b7 ".join(parts), 11) > room:
        parts = parts[:1]  # the numbers beside it name the unit too
    if parts:
        picture.text(begin, svg.FONT, svg.shorten(" \u00b7 ".join(parts), room, 11), "soft", 11)


def _axes(picture: svg.Picture, across: svg.Scale, down: svg.Scale, last_step: int) -> None:
    below = down.start
    for tick in svg.ticks(down.low, down.high, 5):
        picture.line(across.start, down(tick), across.end, down(tick), "grid")
        picture.text(across.start - 6, down(tick) + 4, svg.shown(tick), "end soft", 12)
    wide = svg.text_width(f"step {last_step}", 12)
    picture.text(across.end, below + svg.FONT + 3, f"step {last_step}", "end soft", 12)
    for tick in sorted({1.0, *(t for t in svg.ticks(1, last_step, 6) if t >= 1 and float(t).is_integer())}):
        if across(tick) < across.end - wide - 12 and (tick == 1 or across(tick) - across(1) > 22):
            picture.text(across(tick), below + svg.FONT + 3, svg.shown(tick), "mid soft", 12)
    picture.line(across.start, below, across.end, below, "axis")


def _names(picture: svg.Picture, material: Material, ends: list[tuple[float, str]], right: float, above: float, below: float) -> None:
    """Conditions at the ends of their lines, in their order there, pushed apart where they would overlap."""
    ordered = sorted(ends, key=lambda end: (end[0], material.colour(end[1])))
    places: list[float] = []
    for y, _ in ordered:
        places.append(max(y, places[-1] + _ROW) if places else max(y, above + 4))
    limit = below - 2
    for index in range(len(places) - 1, -1, -1):
        places[index] = min(places[index], limit)
        limit = places[index] - _ROW
    for (y, condition), place in zip(ordered, places, strict=True):
        picture.shape([(right + 1, y), (right + 9, place)], "leader", material.colour(condition))
        picture.box(right + 9, place - 3.5, 3, 7, "fill", material.colour(condition))
        picture.text(right + 15, place + 4, svg.shorten(condition, svg.WIDTH - right - 15, 12), "", 12)


def _points(material: Material, run: RunRef, name: str) -> _Points:
    history = material.histories[run.name]
    column = history.columns.get(name)
    if column is None:
        return []
    cells = zip(column.steps.tolist(), column.values.tolist(), strict=True)
    return [(step, value) for step, value in cells if not math.isnan(value) and step not in history.bad_steps]


def _rows(material: Material, run: RunRef, name: str, unit: str) -> list[Row]:
    """All logged cells, also those that are not drawn; `counts` tells whether a cell may enter statistics."""
    history = material.histories[run.name]
    column = history.columns.get(name)
    if column is None:
        return []
    since = history.gradient.since
    return [
        (
            name,
            unit,
            run.condition,
            run.name,
            run.seed,
            step,
            value,
            state,
            material.included(run.name) and value is not None and step not in history.bad_steps and (since is None or step < since),
        )
        for step, value, state in column.cells()
    ]


def _domain(values: Sequence[float], *, share: bool) -> tuple[float, float, bool]:
    """(low, high, whether values lie outside). A few far outliers must not flatten everything else."""
    if share:
        return 0.0, 1.0, False
    if not values:
        return 0.0, 1.0, False
    ordered = sorted(values)
    low, high = ordered[0], ordered[-1]
    inner_low, inner_high = ordered[len(ordered) // 50], ordered[-1 - len(ordered) // 50]
    clipped = len(ordered) >= 50 and inner_high > inner_low and high - low > 6 * (inner_high - inner_low)
    if clipped:
        low, high = inner_low - (inner_high - inner_low) * 0.5, inner_high + (inner_high - inner_low) * 0.5
    if low == high:
        return low - max(0.5, abs(low) * 0.1), high + max(0.5, abs(high) * 0.1), clipped
    pad = (high - low) * 0.05
    return (0.0 if 0 <= low < (high - low) else low - pad), high + pad, clipped


def _pieces(points: _Points) -> list[_Points]:
    """Cut at gaps: further apart than the metric's own usual distance between logged steps."""
    usual = stride([step for step, _ in points])
    pieces: list[_Points] = []
    for point in points:
        if pieces and point[0] - pieces[-1][-1][0] <= usual:
            pieces[-1].append(point)
        else:
            pieces.append([point])
    return pieces


def _mean(lines: Sequence[_Points]) -> _Points:
    """Mean at the steps at which every one of the lines has a value."""
    tables = [dict(points) for points in lines if points]
    if not tables:
        return []
    steps = set(tables[0]).intersection(*tables[1:])
    return [(step, math.fsum(table[step] for table in tables) / len(tables)) for step in sorted(steps)]


def _seed(picture: svg.Picture, material: Material, run: RunRef, points: _Points, across: svg.Scale, down: svg.Scale) -> None:
    included = material.included(run.name)
    title = run.name if included else f"{run.name} (left out)"
    for piece in _pieces(points):
        places = [(across(step), down.clipped(value)) for step, value in piece]
        picture.curve(places, "seed" if included else "seed out", material.colour(run.condition), title)


def _marks(material: Material, run: RunRef, name: str) -> list[Mark]:
    """Non-finite ranges, starts of later attempts, stops by a rule, onsets of collapses."""
    history, health = material.histories[run.name], material.healths.get(run.name)
    found = []
    for _, stretch in groupby(enumerate(sorted(history.bad_steps)), key=lambda pair: pair[1] - pair[0]):
        steps = [step for _, step in stretch]
        where = f"step {steps[0]}" if len(steps) == 1 else f"steps {steps[0]}-{steps[-1]}"
        says = f"{run.name}: gradient not finite, {where}"
        found.append(Mark(run=run.name, kind="not_finite", first=steps[0], last=steps[-1], says=says))
    for step in history.boundaries:
        says = f"{run.name}: another attempt from step {step}"
        found.append(Mark(run=run.name, kind="attempt", first=step, last=step, says=says))
    if health is not None and health.stopped is not None:
        step, says = health.stopped.step, f"{run.name}: stopped by {health.stopped.rule} at step {health.stopped.step}"
        found.append(Mark(run=run.name, kind="stopped", first=step, last=step, says=says))
    signals = [signal for detection in (health.detections if health else ()) for signal in detection.signals]
    for signal in signals:
        if signal.detector == "collapse" and signal.metric == name and signal.severity != "info" and signal.onset:
            says = f"{run.name}: collapse from step {signal.onset}"
            found.append(Mark(run=run.name, kind="collapse", first=signal.onset, last=signal.onset, says=says))
    return found


def _mark(picture: svg.Picture, mark: Mark, colour: int, across: svg.Scale, above: float, below: float) -> None:
    if mark.kind == "not_finite":
        left, right = (min(across.end, max(across.start, across(edge))) for edge in (mark.first - 0.5, mark.last + 0.5))
        picture.box(left, above, max(right - left, 2), below - above, "hatch", title=mark.says)
    elif mark.kind == "attempt":
        picture.line(across(mark.first - 0.5), above, across(mark.first - 0.5), below, "cut", title=mark.says)
    elif mark.kind == "stopped":
        picture.box(across(mark.first) - 3.5, above - 8, 7, 7, "fill", colour, mark.says)
    else:
        x = across(mark.first)
        picture.shape([(x - 5, above - 7), (x + 5, above - 7), (x, above)], "fill", colour, mark.says)


def _alternative(material: Material, name: str) -> str:
    means = [(c.name, found.value) for c in material.card.conditions if (found := material.find(f"{c.name}/{name}/final"))]
    known = ", ".join(f"{condition} {svg.shown(value)}" for condition, value in means if value is not None)
    logged = any(name in history.columns for history in material.histories.values())
    shown = f"In the final window: {known}." if known else "" if logged else "It was not logged."
    return f"Line chart of {words(name)} over training steps. {shown}".strip()
