"""`claims`: each claim's interval against its margin, grouped by unit."""

from __future__ import annotations

from stages.analyse import svg
from stages.analyse.figures.drawing import Drawing, Material, Row
from stages.contracts.figure import Figure
from stages.contracts.finding import Finding, Verdict

_ROW, _SIDE = 50.0, 8.0
_SIGNS = {"supported": "\u2713", "refuted": "\u2717", "inconclusive": "?", "void": "\u2205"}
_CAPTION = (
    "What each claim compares: point and interval. The dashed line is the claim's margin and the shaded side is where the whole interval "
    "must lie for `supported`; wholly on the other side is `refuted`, across the margin `inconclusive`. A void claim was not decided."
)


def draw(material: Material) -> list[Drawing]:
    """One picture; one row a claim, and rows of one unit share an axis."""
    verdicts = material.findings.verdicts
    alternative = "Verdicts on claims. " + (" ".join(f"{v.claim}: {v.verdict}. {v.why}" for v in verdicts) or "There are no claims.")
    picture = svg.Picture("claims", alternative)
    found = {v.claim: material.find(v.finding) if v.finding else None for v in verdicts}
    units = dict.fromkeys(f.unit for v in verdicts if (f := found[v.claim]) is not None and f.value is not None)
    y = 0.0
    rows: list[Row] = []
    for unit in units:
        chosen = [(v, f) for v in verdicts if (f := found[v.claim]) is not None and f.value is not None and f.unit == unit]
        y = _panel(picture, unit, chosen, y)
    for verdict in verdicts:
        finding = found[verdict.claim]
        numbers = (finding.unit, finding.value, finding.low, finding.high) if finding else (None, None, None, None)
        rows.append((verdict.claim, verdict.verdict, verdict.finding, *numbers, verdict.direction, verdict.margin))
        if finding is None or finding.value is None:
            with picture.group("claim", verdict.claim):
                y = _undecided(picture, verdict, y)
    if not verdicts:
        y = svg.note(picture, "The spec makes no claims.", y)
    picture.height = y + 4
    figure = Figure(
        name="claims",
        title="Claims",
        caption=_CAPTION,
        alternative=alternative,
        findings=tuple(dict.fromkeys(v.finding for v in verdicts if v.finding)),
        sources=(material.sources["findings"],),
    )
    columns = ("claim", "verdict", "finding", "unit", "value", "low", "high", "direction", "margin")
    return [Drawing(figure, picture.render(), columns, tuple(rows))]


def _panel(picture: svg.Picture, unit: str, chosen: list[tuple[Verdict, Finding]], top: float) -> float:
    edges = [0.0]
    for verdict, found in chosen:
        edges += [verdict.margin, *(edge for edge in (found.value, found.low, found.high) if edge is not None)]
    pad = (max(edges) - min(edges)) * 0.07 or 0.5
    across = svg.Scale(min(edges) - pad, max(edges) + pad, _SIDE, svg.WIDTH - _SIDE)
    below = top + _ROW * len(chosen) + 2
    for tick in svg.ticks(across.low, across.high, 6):
        picture.line(across(tick), top + 4, across(tick), below, "axis" if tick == 0 else "grid")
        picture.text(across(tick), below + svg.FONT + 3, svg.shown(tick), "mid soft")
    for index, (verdict, found) in enumerate(chosen):
        with picture.group("claim", verdict.claim):
            _row(picture, verdict, found, top + _ROW * index, across)
    picture.text(svg.WIDTH / 2, below + 2 * svg.FONT + 7, unit or "value", "mid soft")
    return below + 2 * svg.FONT + 18


def _row(picture: svg.Picture, verdict: Verdict, found: Finding, top: float, across: svg.Scale) -> None:
    sign = f"{_SIGNS[verdict.verdict]} {verdict.verdict}"
    room = svg.WIDTH - svg.text_width(sign) - 12
    picture.text(0, top + svg.FONT + 4, svg.shorten(verdict.claim, room), "strong")
    picture.text(svg.WIDTH, top + svg.FONT + 4, sign, "end")
    above, below, middle = top + svg.FONT + 10, top + _ROW - 4, top + svg.FONT + 10 + (_ROW - svg.FONT - 14) / 2
    margin = across(verdict.margin)
    left, right = (margin, across.end) if verdict.direction == "above" else (across.start, margin)
    picture.box(left, above, right - left, below - above, "band")
    picture.line(margin, above - 2, margin, below + 2, "mark")
    if found.low is not None and found.high is not None:
        picture.line(across(found.low), middle, across(found.high), middle, f"verdict {verdict.verdict}")
    value = across(found.value or 0.0)
    places = [(value, middle - 5.5), (value + 5.5, middle), (value, middle + 5.5), (value - 5.5, middle)]
    picture.shape(places, f"point {verdict.verdict}", title=f"{svg.shown(found.value or 0.0)} against {svg.shown(verdict.margin)}")


def _undecided(picture: svg.Picture, verdict: Verdict, top: float) -> float:
    sign = f"{_SIGNS[verdict.verdict]} {verdict.verdict}"
    picture.text(0, top + svg.FONT + 4, svg.shorten(verdict.claim, svg.WIDTH - svg.text_width(sign) - 12), "strong")
    picture.text(svg.WIDTH, top + svg.FONT + 4, sign, "end")
    return svg.note(picture, "no interval to draw", top + svg.FONT + 2) + 4
