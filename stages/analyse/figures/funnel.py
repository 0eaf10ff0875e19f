"""`funnel-<condition>`: what each gate said of the completions, before training (preflight) beside the end of training."""

from __future__ import annotations

from dataclasses import dataclass

from stages.analyse import svg
from stages.analyse.figures.drawing import Drawing, Material, Row
from stages.contracts.analysis_card import ConditionCard
from stages.contracts.figure import Figure

_LEFT, _BAR = 58.0, 17.0
_STAGES = (("preflight", "before"), ("final", "end"))
_PARTS = ("pass", "fail", "unknown")
_CAPTION = (
    "Gates of the reward in order. A bar is all completions: those that passed the gate, failed it, got no known answer, and (empty) "
    "those that an earlier gate had already decided. Before: preflight, the untrained model. End: the last window of training, included "
    "runs pooled."
)
_COLUMNS = ("condition", "gate", "stage", "outcome", "completions", "of", "share_of_all")


@dataclass(frozen=True)
class _Bar:
    """Counts of one gate at one stage."""

    total: int
    reached: int
    counts: dict[str, int]
    ids: tuple[str, ...]

    def share(self, part: str) -> float:
        return self.counts[part] / self.total


def draw(material: Material) -> list[Drawing]:
    """One picture a condition, one pair of bars a gate."""
    return [_drawing(material, condition) for condition in material.card.conditions if condition.gates]


def _drawing(material: Material, condition: ConditionCard) -> Drawing:
    bars = {
        (gate, stage): bar
        for gate in condition.gates
        for stage, _ in _STAGES
        if (bar := _bar(material, condition.name, gate, stage)) is not None
    }
    alternative = _alternative(condition.name, bars)
    picture = svg.Picture(f"funnel-{condition.name}", alternative)
    picture.box(0, 4, 10, 10, "fill", material.colour(condition.name))
    picture.text(16, svg.FONT, svg.shorten(condition.name, svg.WIDTH - 16), "strong")
    y = _legend(picture, svg.FONT + 10)
    rows: list[Row] = []
    for gate in condition.gates:
        picture.text(_LEFT, y + svg.FONT, svg.shorten(gate, svg.WIDTH - _LEFT), "soft")
        y += svg.FONT + 5
        for stage, label in _STAGES:
            picture.text(_LEFT - 8, y + _BAR - 4, label, "end soft")
            _draw_bar(picture, bars.get((gate, stage)), y)
            rows += _rows(condition.name, gate, stage, bars.get((gate, stage)))
            y += _BAR + 3
        y += 6
    picture.height = y
    figure = Figure(
        name=f"funnel-{condition.name}",
        title=f"Gates of {condition.name}",
        caption=_CAPTION,
        alternative=alternative,
        findings=tuple(id_ for bar in bars.values() for id_ in bar.ids),
        sources=(material.sources["findings"],),
    )
    return Drawing(figure, picture.render(), _COLUMNS, tuple(rows))


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


def _legend(picture: svg.Picture, top: float) -> float:
    x = _LEFT
    for part, label in (("pass", "passed"), ("fail", "failed"), ("hatch", "unknown"), ("outline", "not reached")):
        picture.box(x + 0.5, top + 1, 11, 11, part)
        picture.text(x + 16, top + 11, label, "soft", 12)
        x += 16 + svg.text_width(label, 12) + 14
    return top + 20


def _rows(condition: str, gate: str, stage: str, bar: _Bar | None) -> list[Row]:
    if bar is None:
        return []
    counts = {"reach": bar.reached, **bar.counts}
    return [(condition, gate, stage, part, k, bar.total, k / bar.total) for part, k in counts.items()]


def _alternative(condition: str, bars: dict[tuple[str, str], _Bar]) -> str:
    words = dict(_STAGES)
    parts = [f"gate {gate}, {words[stage]}: {bar.share('pass'):.0%} passed" for (gate, stage), bar in bars.items()]
    return f"What the reward gates of {condition} said of the completions. " + ("; ".join(parts) + "." if parts else "Nothing was counted.")
