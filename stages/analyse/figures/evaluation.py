"""`evaluation-<score>`: the shared evaluation after training; seeds, mean and interval of each condition, the untrained model beside."""

from __future__ import annotations

from stages.analyse import svg
from stages.analyse.figures.drawing import Drawing, Material, Row
from stages.contracts.figure import Figure
from stages.contracts.finding import Finding

_ROW, _RIGHT = 32.0, 46.0
_CAPTION = (
    "Share of held-out completions that pass, after training. Dots are seeds (rings: left out), the upright bar is the mean of the "
    "included seeds and the horizontal line its interval. The dashed line is the untrained model, with its Wilson interval as a band."
)
_COLUMNS = ("score", "condition", "run", "seed", "pass_share", "low", "high", "counts", "method")


def draw(material: Material) -> list[Drawing]:
    """One picture a score, one row a condition."""
    return [_drawing(material, score) for score in material.card.evaluation]


def _drawing(material: Material, score: str) -> Drawing:
    alternative = _alternative(material, score)
    picture = svg.Picture(f"evaluation-{score}", alternative)
    rows: list[Row] = []
    used: list[str] = []
    _panel(picture, material, score, rows, used)
    figure = Figure(
        name=f"evaluation-{score}",
        title=f"Shared evaluation: {score}",
        caption=_CAPTION,
        alternative=alternative,
        findings=tuple(used),
        sources=(material.sources["findings"],),
    )
    return Drawing(figure, picture.render(), _COLUMNS, tuple(rows))


def _panel(picture: svg.Picture, material: Material, score: str, rows: list[Row], used: list[str]) -> None:
    name = f"evaluation.{score}.pass_share"
    left = 12 + max([svg.text_width(svg.shorten(c.name, 130)) for c in material.card.conditions], default=0.0)
    picture.text(0, svg.FONT, score, "strong")
    picture.text(svg.text_width(score) * 1.06 + 10, svg.FONT, "share that passes", "soft", 11)
    above = svg.FONT + 26.0
    below = above + _ROW * len(material.card.conditions)
    picture.height = below + svg.FONT + 8
    across = svg.Scale(0, 1, left, svg.WIDTH - _RIGHT)
    for tick in (0, 0.25, 0.5, 0.75, 1):
        picture.line(across(tick), above, across(tick), below, "grid")
        picture.text(across(tick), below + svg.FONT + 4, f"{tick:g}", "mid soft", 12)
    untrained = material.find(f"untrained/{name}/final")
    if untrained and untrained.value is not None:
        used.append(untrained.id)
        if untrained.low is not None and untrained.high is not None:
            picture.box(across(untrained.low), above, across(untrained.high) - across(untrained.low), below - above, "band")
        at = across(untrained.value)
        picture.line(at, above - 3, at, below, "mark")
        label = f"untrained {svg.share(untrained.value)}"
        half = svg.text_width(label, 12) / 2
        picture.text(min(max(at, half), svg.WIDTH - half), above - 7, label, "mid soft", 12)
        rows.append((score, None, "untrained", None, untrained.value, untrained.low, untrained.high, None, untrained.method))
    for index, condition in enumerate(material.card.conditions):
        found = material.find(f"{condition.name}/{name}/final")
        middle = above + _ROW * (index + 0.5)
        picture.text(left - 10, middle + 4, svg.shorten(condition.name, 130), "end")
        if found is not None:
            used.append(found.id)
            _row(picture, found, score, middle, across, material.colour(condition.name), rows)


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
        picture.text(svg.WIDTH, y + 4, "none", "end soft")
        return
    picture.line(across(found.value), y - 8, across(found.value), y + 3, "bar", colour)
    picture.text(svg.WIDTH, y + 4, svg.share(found.value), "end strong")


def _alternative(material: Material, score: str) -> str:
    name = f"evaluation.{score}.pass_share/final"
    found = [(who, material.find(f"{who}/{name}")) for who in ("untrained", *(c.name for c in material.card.conditions))]
    known = [f"{who} {svg.share(f.value)}" + _interval(f) for who, f in found if f is not None and f.value is not None]
    return f"Share of held-out completions that pass {score}, by condition: {', '.join(known) if known else 'no values'}."


def _interval(found: Finding) -> str:
    return "" if found.low is None or found.high is None else f" (interval {svg.share(found.low)} to {svg.share(found.high)})"
