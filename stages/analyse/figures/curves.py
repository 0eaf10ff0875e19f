"""`curves`: one panel a metric over steps; seeds as thin lines, the mean over the included ones thick."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby

from stages.analyse import svg
from stages.analyse.figures.drawing import Drawing, Material, Row
from stages.contracts.analysis_card import RunRef
from stages.contracts.figure import Figure
from stages.contracts.history import metric as meaning
from stages.contracts.series import stride

_LEFT, _RIGHT, _PLOT = 46.0, 6.0, 118.0
_CAPTION = (
    "Metrics over training steps, one colour a condition. Thin lines are seeds, thick ones the mean over the included seeds; dashed seeds "
    "are left out by a health gate or failed. Lines break where nothing was logged, hatching marks steps whose gradient was not finite, "
    "a dotted vertical line the start of another attempt, a triangle the onset of a collapse."
)
_Points = list[tuple[int, float]]


def draw(material: Material) -> Drawing:
    """Panels in the card's order of metrics."""
    card = material.card
    alternative = _alternative(material)
    picture = svg.Picture("curves", alternative)
    y = svg.legend(picture, [condition.name for condition in card.conditions], 0)
    y = svg.note(picture, "thin: seeds \u00b7 thick: mean of the included seeds \u00b7 dashed: left out", y - 6)
    rows: list[Row] = []
    last_step = max([run.target_steps for run in card.runs] + [history.last_step for history in material.histories.values()], default=1)
    for name in card.curves:
        y = _panel(picture, material, name, y + 10, last_step, rows)
    picture.text((svg.WIDTH + _LEFT) / 2, y + 6, "step", "mid soft")
    picture.height = y + 14
    figure = Figure(
        name="curves",
        title="Curves",
        caption=_CAPTION,
        alternative=alternative,
        findings=tuple(id_ for name in card.curves for c in card.conditions if material.find(id_ := f"{c.name}/{name}/final")),
        sources=tuple(material.sources[run.name] for run in card.runs if run.name in material.sources),
    )
    columns = ("metric", "unit", "condition", "run", "seed", "step", "value", "state", "counts")
    return Drawing(figure, picture.render(), columns, tuple(rows))


def _panel(picture: svg.Picture, material: Material, name: str, top: float, last_step: int, rows: list[Row]) -> float:
    """One metric. Returns the y below the panel."""
    known = meaning(name)
    unit = known.unit if known else ""
    lines = {run.name: _points(material, run, name) for run in material.card.runs}
    for run in material.card.runs:
        rows += _rows(material, run, name, unit)
    picture.text(0, top + svg.FONT, name, "strong")
    if unit and unit != name:
        picture.text(svg.text_width(name) + 14, top + svg.FONT, unit, "soft")
    above = top + svg.FONT + 15
    below = above + _PLOT
    low, high, clipped = _domain([value for points in lines.values() for _, value in points], share=bool(known and known.share))
    across = svg.Scale(1, max(2, last_step), _LEFT, svg.WIDTH - _RIGHT)
    down = svg.Scale(low, high, below, above)
    for tick in svg.ticks(low, high, 5):
        picture.line(_LEFT, down(tick), svg.WIDTH - _RIGHT, down(tick), "grid")
        picture.text(_LEFT - 6, down(tick) + 4, svg.shown(tick), "end soft")
    for tick in sorted({1.0, *(t for t in svg.ticks(1, last_step, 6) if t >= 1 and float(t).is_integer())}):
        if tick == 1 or across(tick) - across(1) > 22:
            edge = across(tick) > svg.WIDTH - 12
            picture.text(svg.WIDTH if edge else across(tick), below + svg.FONT + 3, svg.shown(tick), "end soft" if edge else "mid soft")
    picture.line(_LEFT, below, svg.WIDTH - _RIGHT, below, "axis")
    if not any(lines.values()):
        picture.text((_LEFT + svg.WIDTH) / 2, (above + below) / 2, "not logged", "mid soft")
        return below + svg.FONT + 12
    for run in material.card.runs:
        _marks(picture, material, run, name, across, above, below)
        _seed(picture, material, run, lines[run.name], across, down)
    for condition in material.card.conditions:
        mean = _mean([lines[run.name] for run in material.card.runs if run.condition == condition.name and material.included(run.name)])
        rows += [(name, unit, condition.name, "mean", None, step, value, "value", True) for step, value in mean]
        for piece in _pieces(mean):
            points = [(across(step), down.clipped(value)) for step, value in piece]
            picture.curve(points, "mean", material.colour(condition.name), f"{condition.name}: mean")
    if clipped:
        picture.text(svg.WIDTH - _RIGHT, top + svg.FONT, "cut at the edge: see the table", "end soft")
    return below + svg.FONT + 12


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


def _marks(picture: svg.Picture, material: Material, run: RunRef, name: str, across: svg.Scale, above: float, below: float) -> None:
    """Non-finite ranges, starts of later attempts, onsets of collapses."""
    history, health = material.histories[run.name], material.healths.get(run.name)
    for _, stretch in groupby(enumerate(sorted(history.bad_steps)), key=lambda pair: pair[1] - pair[0]):
        steps = [step for _, step in stretch]
        left, right = (min(across.end, max(across.start, across(edge))) for edge in (steps[0] - 0.5, steps[-1] + 0.5))
        where = f"step {steps[0]}" if len(steps) == 1 else f"steps {steps[0]}-{steps[-1]}"
        picture.box(left, above, max(right - left, 2), below - above, "hatch", title=f"{run.name}: gradient not finite, {where}")
    for step in history.boundaries:
        picture.line(across(step - 0.5), above, across(step - 0.5), below, "cut")
    signals = [signal for detection in (health.detections if health else ()) for signal in detection.signals]
    for signal in signals:
        if signal.detector == "collapse" and signal.metric == name and signal.severity != "info" and signal.onset:
            x = across(signal.onset)
            title = f"{run.name}: collapse from step {signal.onset}"
            picture.shape([(x - 5, above - 7), (x + 5, above - 7), (x, above)], "fill", material.colour(run.condition), title)


def _alternative(material: Material) -> str:
    parts = []
    for name in material.card.curves:
        means = [(c.name, found.value) for c in material.card.conditions if (found := material.find(f"{c.name}/{name}/final"))]
        known = ", ".join(f"{condition} {svg.shown(value)}" for condition, value in means if value is not None)
        if known:
            parts.append(f"{name} in the final window: {known}")
    return "Line charts of metrics over training steps. " + (". ".join(parts) + "." if parts else "No values were logged.")
