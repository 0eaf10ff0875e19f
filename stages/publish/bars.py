"""The interval of a claim drawn as a bar against its margin: large beside the claim, small on the home page."""

from __future__ import annotations

from markupsafe import Markup

from stages.contracts.artifact import Frozen
from stages.contracts.finding import Finding, Verdict
from stages.publish import numbers
from stages.publish.text import shown


class Place(Frozen):
    """Where a number stands against the margin of its claim."""

    value: float
    low: float | None
    high: float | None
    margin: float
    direction: str
    """`above` or `below`: the side that the claim says."""


def place(finding: Finding, verdict: Verdict) -> Place | None:
    """None when there is no value to draw."""
    if finding.value is None:
        return None
    return Place(value=finding.value, low=finding.low, high=finding.high, margin=verdict.margin, direction=verdict.direction)


_WIDTH, _EDGE = 320, 12
_BAR = Markup(
    '<svg class="bar {verdict}" viewBox="0 0 {width} {height}" role="img" aria-label="{label}">'
    '<rect class="side" x="{side_x}" y="8" width="{side_width}" height="24"/>'
    '<line class="axis" x1="0" y1="20" x2="{width}" y2="20"/>'
    "{zero}"
    '<line class="margin" x1="{margin}" y1="4" x2="{margin}" y2="36"/>'
    "{words}"
    '{whisker}<circle class="point" cx="{value}" cy="20" r="5"/></svg>'
)
_WORDS = Markup('<text class="margin" x="{at}" y="50" text-anchor="middle">margin {label}</text>')
_ZERO = Markup('<line class="zero" x1="{at}" y1="12" x2="{at}" y2="28"/>{label}')
_WHISKER = Markup(
    '<line class="whisker" x1="{low}" y1="20" x2="{high}" y2="20"/>'
    '<line class="cap" x1="{low}" y1="14" x2="{low}" y2="26"/><line class="cap" x1="{high}" y1="14" x2="{high}" y2="26"/>'
)


def bar(at: Place, verdict: str, said: str, *, small: bool = False) -> Markup:
    """The claimed side is shaded. `said` is the number as the page prints it; a small bar has no words."""
    marks = [0.0, at.margin, at.value, *(x for x in (at.low, at.high) if x is not None)]
    least, most = min(marks), max(marks)
    span = (most - least) or 1.0
    least, most = least - 0.12 * span, most + 0.12 * span

    def x(value: float) -> float:
        return round(_EDGE + (value - least) / (most - least) * (_WIDTH - 2 * _EDGE), 1)

    margin = x(at.margin)
    above = at.direction == "above"
    zero = Markup('<text x="{}" y="50" text-anchor="middle">0</text>').format(x(0.0)) if abs(x(0.0) - margin) > 50 else Markup("")
    words = _WORDS.format(at=min(max(margin, 40), _WIDTH - 40), label=shown(numbers.setting(at.margin).replace("-", numbers.MINUS)))
    whisker = _WHISKER.format(low=x(at.low), high=x(at.high)) if at.low is not None and at.high is not None else Markup("")
    return _BAR.format(
        verdict=verdict,
        width=_WIDTH,
        height=40 if small else 58,
        label=shown(f"{said} against the margin {numbers.setting(at.margin)}, {at.direction}"),
        side_x=margin if above else 0,
        side_width=round(_WIDTH - margin if above else margin, 1),
        zero=_ZERO.format(at=x(0.0), label=Markup("") if small else zero) if at.margin else Markup(""),
        margin=margin,
        words=Markup("") if small else words,
        whisker=whisker,
        value=x(at.value),
    )
