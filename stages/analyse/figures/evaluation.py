"""`evaluation`: the shared evaluation after training; seeds, mean and interval of each condition, the untrained model as reference."""

from __future__ import annotations

from stages.analyse import svg
from stages.analyse.figures.drawing import Drawing, Material, Row
from stages.contracts.figure import Figure
from stages.contracts.finding import Finding

_ROW, _RIGHT = 34.0, 52.0
_CAPTION = (
    "Share of held-out completions that pass, after training. Dots are seeds (rings: left out), the upright bar is the mean of the "
    "included seeds and the horizontal line its t interval. The dashed line is the untrained model, with its Wilson interval as a band."
)


def draw(material: Material) -> Drawing:
    """One panel a score, one row a condition."""
    alternative = _alternative(material)
    picture = svg.Picture("evaluation", alternative)
    y = 0.0
    rows: list[Row] = []
    used: list[str] = []
    left = 12 + max([svg.text_width(svg.shorten(c.name, 130)) for c in material.card.conditions], default=0.0)
    for score in material.card.evaluation:
        y = _panel(picture, material, score, y, left, rows, used)
    if not material.card.evaluation:
        y = svg.note(picture, "The spec declares no shared evaluation.", y)
    picture.height = y
    figure = Figure(
        name="evaluation",
        title="Shared evaluation",
        caption=_CAPTION,
        alternative=alternative,
        findings=tuple(used),
        sources=(material.sources["findings"],),
    )
    columns = ("score", "condition", "run", "seed", "pass_share", "low", "high", "counts", "method")
    return Drawing(figure, picture.render(), columns, tuple(rows))


def _panel(picture: svg.Picture, material: Material, score: str, top: float, left: float, rows: list[Row], used: list[str]) -> float:
    name = f"evaluation.{score}.pass_share"
    picture.text(0, top + svg.FONT + 2, score, "strong")
    picture.text(svg.text_width(score) + 14, top + svg.FONT + 2, "share that passes", "soft")
    above = top + svg.FONT + 12
    below = above + _ROW * len(material.card.conditions)
    across = svg.Scale(0, 1, left, svg.WIDTH - _RIGHT)
    for tick in (0, 0.25, 0.5, 0.75, 1):
        picture.line(across(tick), above, across(tick), below, "grid")
        picture.text(across(tick), below + svg.FONT + 4, f"{tick:g}", "mid soft")
    untrained = material.find(f"untrained/{name}/final")
    if untrained and untrained.value is not None:
        used.append(untrained.id)
        if untrained.low is not None and untrained.high is not None:
            picture.box(across(untrained.low), above, across(untrained.high) - across(untrained.low), below - above, "band")
        picture.line(across(untrained.value), above, across(untrained.value), below, "mark")
        rows.append((score, None, "untrained", None, untrained.value, untrained.low, untrained.high, None, untrained.method))
    for index, condition in enumerate(material.card.conditions):
        found = material.find(f"{condition.name}/{name}/final")
        middle = above + _ROW * (index + 0.5)
        picture.text(left - 10, middle + 4, svg.shorten(condition.name, 130), "end")
        if found is not None:
            used.append(found.id)
            _row(picture, found, score, middle, across, material.colour(condition.name), rows)
    bottom = below + svg.FONT + 10
    if untrained and untrained.value is not None:
        bottom = svg.note(picture, f"dashed: untrained model, {svg.shown(untrained.value)} \u00b7 rings: seeds left out", bottom - 4)
    return bottom + 8


def _row(picture: svg.Picture, found: Finding, score: str, y: float, across: svg.Scale, colour: int, rows: list[Row]) -> None:
    rows.append((score, found.subject, "mean", None, found.value, found.low, found.high, True, found.method))
    if found.low is not None and found.high is not None:
        picture.line(across.clipped(found.low), y, across.clipped(found.high), y, "bar", colour)
    for seed in found.seeds:
        rows.append((score, found.subject, seed.run, seed.seed, seed.value, None, None, seed.included, seed.why or None))
        if seed.value is not None:
            words = f"{seed.run}: {svg.shown(seed.value)}" + ("" if seed.included else " (left out)")
            picture.dot(across.clipped(seed.value), y + 8, 3.4, "dot" if seed.included else "ring", colour, words)
    if found.value is None:
        picture.text(across(0.5), y + 4, "no value", "mid soft")
        return
    picture.line(across(found.value), y - 8, across(found.value), y + 3, "bar", colour)
    picture.text(svg.WIDTH, y + 4, svg.shown(found.value), "end strong")


def _alternative(material: Material) -> str:
    parts = []
    for score in material.card.evaluation:
        name = f"evaluation.{score}.pass_share/final"
        found = [(who, material.find(f"{who}/{name}")) for who in ("untrained", *(c.name for c in material.card.conditions))]
        known = [f"{who} {svg.shown(f.value)}" + _interval(f) for who, f in found if f is not None and f.value is not None]
        parts.append(f"{score}: {', '.join(known)}" if known else f"{score}: no values")
    return "Share of held-out completions that pass, by condition. " + ". ".join(parts) + "."


def _interval(found: Finding) -> str:
    return "" if found.low is None or found.high is None else f" (interval {svg.shown(found.low)} to {svg.shown(found.high)})"
