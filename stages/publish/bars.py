"""The interval of a claim drawn as a bar against its margin: large beside the claim, small on the home page."""

from __future__ import annotations

from markupsafe import Markup

from stages.contracts.artifact import Frozen
from stages.contracts.finding import Finding, Verdict
from stages.publish.render import render

_WIDTH, _EDGE = 320, 12


class Place(Frozen):
    """Where a number stands against the margin of its claim."""

    value: float
    low: float | None
    high: float | None
    margin: float
    direction: str
    """`above` or `below`: the side that the claim says."""


def place(finding: Finding | None, verdict: Verdict) -> Place | None:
    """None when there is no value to draw."""
    if finding is None or finding.value is None:
        return None
    return Place(value=finding.value, low=finding.low, high=finding.high, margin=verdict.margin, direction=verdict.direction)


def bar(at: Place, verdict: str, printed: str, *, small: bool = False) -> Markup:
    """The claimed side is shaded. `printed` is the number as the page prints it; a small bar has no words."""
    marks = [x for x in (0.0, at.margin, at.value, at.low, at.high) if x is not None]
    span = (max(marks) - min(marks)) or 1.0
    least, most = min(marks) - 0.12 * span, max(marks) + 0.12 * span

    def x(value: float) -> float:
        return round(_EDGE + (value - least) / (most - least) * (_WIDTH - 2 * _EDGE), 1)

    svg = render("bar.html.j2", at=at, verdict=verdict, printed=printed, small=small, x=x, width=_WIDTH)
    return Markup("".join(svg.splitlines()))
