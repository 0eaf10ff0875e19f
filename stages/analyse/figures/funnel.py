"""`funnel`: what each gate said of the completions, before training (preflight) beside the end of training."""

from __future__ import annotations

from dataclasses import dataclass

from stages.analyse import svg
from stages.analyse.figures.drawing import Drawing, Material, Row
from stages.contracts.figure import Figure

_LEFT, _BAR = 58.0, 17.0
_STAGES = (("preflight", "before"), ("final", "end"))
_PARTS = ("pass", "fail", "unknown")
_CAPTION = (
    "Gates of each reward in order. A bar is all completions: those that passed the gate, failed it, got no known answer, and (empty) "
    "those that an earlier gate had already decided. Before: preflight, the untrained model. End: the last window of training, included "
    "runs pooled."
)


@dataclass(frozen=True)
class _Bar:
    """Counts of one gate at one stage."""

    total: int
    reached: int
    counts: dict[str, int]
    ids: tuple[str, ...]

    def share(self, part: str) -> float:
        return self.counts[part] / self.total


def draw(material: Material) -> Drawing:
    """One block a condition, one pair of bars a gate."""
    bars = {
        (c.name, gate, stage): bar
        for c in material.card.conditions
        for gate in c.gates
        for stage, _ in _STAGES
        if (bar := _bar(material, c.name, gate, stage)) is not None
    }
    alternative = _alternative(bars)
    picture = svg.Picture("funnel", alternative)
    y = _legend(picture)
    rows: list[Row] = []
    for condition in material.card.conditions:
        picture.line(0, y + svg.FONT - 3, 14, y + svg.FONT - 3, "bar", material.colour(condition.name))
        picture.text(20, y + svg.FONT + 2, svg.shorten(condition.name, svg.WIDTH - 20), "strong")
        y += svg.FONT + 10
        for gate in condition.gates:
            picture.text(_LEFT, y + svg.FONT, svg.shorten(gate, svg.WIDTH - _LEFT), "soft")
            y += svg.FONT + 5
            for stage, label in _STAGES:
                picture.text(_LEFT - 8, y + _BAR - 4, label, "end soft")
                bar = bars.get((condition.name, gate, stage))
                _draw_bar(picture, bar, y)
                rows += _rows(condition.name, gate, stage, bar)
                y += _BAR + 3
            y += 6
        y += 8
    picture.height = y
    figure = Figure(
        name="funnel",
        title="Reward gates",
        caption=_CAPTION,
        alternative=alternative,
        findings=tuple(id_ for bar in bars.values() for id_ in bar.ids),
        sources=(material.sources["findings"],),
    )
    return Drawing(figure, picture.render(), ("condition", "gate", "stage", "outcome", "completions", "of", "share_of_all"), tuple(rows))


def _bar(material: Material, condition: str, gate: str, stage: str) -> _Bar | None:
    """None when nothing was counted."""
    ids = {part: f"{condition}/gate.{gate}.{part}/{stage}" for part in ("reach", *_PARTS)}
    reach = material.find(ids["reach"])
    if reach is None or not reach.n:
        return None
    counts = {part: found.k or 0 if (found := material.find(ids[part])) is not None else 0 for part in _PARTS}
    return _Bar(reach.n, reach.k or 0, counts, tuple(ids.values()))


def _draw_bar(picture: svg.Picture, bar: _Bar | None, y: float) -> None:
    width = svg.WIDTH - _LEFT - 1
    if bar is None:
        picture.text(_LEFT + 4, y + _BAR - 4, "no completions counted", "soft")
        return
    x = _LEFT
    for part in _PARTS:
        long = width * bar.share(part)
        if not bar.counts[part]:
            continue
        picture.box(x, y, long, _BAR, "hatch" if part == "unknown" else part, title=f"{part}: {bar.counts[part]} of {bar.total}")
        words = f"{bar.share(part):.0%}"
        if long > svg.text_width(words) + 6:
            picture.text(x + long / 2, y + _BAR - 4, words, "mid inbar" if part != "unknown" else "mid")
        x += long
    picture.box(_LEFT, y, width, _BAR, "outline", title=f"reached: {bar.reached} of {bar.total}")


def _legend(picture: svg.Picture) -> float:
    x = 0.0
    for part, label in (("pass", "passed"), ("fail", "failed"), ("hatch", "unknown"), ("outline", "not reached")):
        picture.box(x + 0.5, 2, 14, svg.FONT - 1, part)
        picture.text(x + 20, svg.FONT, label)
        x += 20 + svg.text_width(label) + 16
    return svg.FONT + 14


def _rows(condition: str, gate: str, stage: str, bar: _Bar | None) -> list[Row]:
    if bar is None:
        return []
    counts = {"reach": bar.reached, **bar.counts}
    return [(condition, gate, stage, part, k, bar.total, k / bar.total) for part, k in counts.items()]


def _alternative(bars: dict[tuple[str, str, str], _Bar]) -> str:
    words = dict(_STAGES)
    parts = [f"{c}, gate {gate}, {words[stage]}: {bar.share('pass'):.0%} passed" for (c, gate, stage), bar in bars.items()]
    return "Bars of what each reward gate said of the completions. " + ("; ".join(parts) + "." if parts else "Nothing was counted.")
