"""A small SVG writer: scales, axes, lines, text. No drawing library: its import alone would take longer than all figures.

The pages inline the pictures: ids carry the figure's name, and style rules are the same in every picture and reach no further than
`.octavo-figure`. Colours are CSS variables with colour-blind-safe fallbacks (Okabe and Ito), text is `currentColor`: one file works
in light and dark. All text is escaped.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from xml.sax.saxutils import escape, quoteattr

WIDTH = 440.0
"""Units. On a phone one unit is about 0.8 px, on a desktop 1.4 px."""
FONT = 13
_CHAR = 0.56
"""Mean width of a character, as a share of the font size."""
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#999999", "#B8A800")

_RULES = """
{max-width:34rem;font-family:inherit;--pass:var(--octavo-pass,#009E73);--fail:var(--octavo-fail,#D55E00);--none:var(--octavo-unknown,#767676)}
 text{fill:currentColor;font-size:13px}
 .soft{opacity:.78} .strong{font-weight:600} .end{text-anchor:end} .mid{text-anchor:middle}
 .grid{stroke:currentColor;stroke-opacity:.13} .axis{stroke:currentColor;stroke-opacity:.45}
 .mark{stroke:currentColor;stroke-dasharray:4 3;stroke-width:1.4;stroke-opacity:.8}
 .cut{stroke:currentColor;stroke-dasharray:1 3;stroke-opacity:.6}
 .band{fill:currentColor;opacity:.09} .outline{fill:none;stroke:currentColor;stroke-opacity:.4}
 .line{fill:none;stroke:var(--c);stroke-linejoin:round} .seed{stroke-width:1;stroke-opacity:.55} .mean{stroke-width:2.6}
 .out{stroke-dasharray:3 3;stroke-opacity:.7} .dot{fill:var(--c)} .ring{fill:none;stroke:var(--c);stroke-width:1.4}
 .bar{stroke:var(--c);stroke-width:2.6;stroke-linecap:butt} .fill{fill:var(--c)} .leader{stroke:var(--c);stroke-width:1;fill:none}
 .verdict{stroke-width:3} .supported{stroke:var(--pass);fill:var(--pass)} .refuted{stroke:var(--fail);fill:var(--fail)}
 .inconclusive{stroke:var(--none);fill:var(--none)} .void{stroke:var(--none);fill:var(--none)}
 .pass{fill:var(--pass)} .fail{fill:var(--fail)}
 .inbar{fill:#fff;font-weight:600;paint-order:stroke;stroke:#000;stroke-opacity:.4;stroke-width:2.5px}
"""
_SCOPE = ".octavo-figure"
_HATCH = (
    '<defs><pattern id="{id}-hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<line x1="0" y1="0" x2="0" y2="6" stroke="currentColor" stroke-opacity=".45" stroke-width="2"/></pattern></defs>\n'
)


def number(value: float) -> str:
    """A coordinate: one decimal is finer than a screen shows; no trailing zero, no minus zero."""
    text = f"{value:.1f}".removesuffix(".0")
    return "0" if text in ("-0", "") else text


def shown(value: float) -> str:
    """A value as a label: three significant digits, a real minus sign."""
    text = f"{value:.3g}" if value == 0 or 1e-3 <= abs(value) < 1e5 else f"{value:.1e}"
    return text.replace("-", "\u2212")


def share(value: float) -> str:
    """A share as a label: two decimals, and never a zero for what is more than none."""
    return "<0.01" if 0 < value < 0.005 else f"{value:.2f}"


def text_width(text: str, size: float = FONT) -> float:
    """Estimated width in units."""
    return len(text) * size * _CHAR


def shorten(text: str, width: float, size: float = FONT) -> str:
    """The text, cut with an ellipsis where it would be wider."""
    most = int(width / (size * _CHAR))
    return text if len(text) <= most else text[: max(1, most - 1)] + "\u2026"


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Round numbers inside low..high, at most `most`."""
    span = high - low
    if span <= 0 or not math.isfinite(span):
        return [low]
    power = 10.0 ** math.floor(math.log10(span / most))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10, 20) if span / (power * factor) <= most - 1 + 1e-9)
    first = math.ceil(low / step - 1e-9)
    return [round(index * step, 12) for index in range(first, math.floor(high / step + 1e-9) + 1)]


@dataclass(frozen=True)
class Scale:
    """Linear map of low..high to start..end."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low) if self.high > self.low else 0.5
        return self.start + share * (self.end - self.start)

    def clipped(self, value: float) -> float:
        return self(min(self.high, max(self.low, value)))


class Picture:
    """SVG elements in order; `render` closes the file."""

    def __init__(self, name: str, alternative: str) -> None:
        self.id = f"octavo-{name}"
        self.alternative = alternative
        self.height = 0.0
        self._parts: list[str] = []

    def line(self, x1: float, y1: float, x2: float, y2: float, kind: str, colour: int | None = None, title: str = "") -> None:
        inner = f"><title>{escape(title)}</title></line>" if title else "/>"
        ends = " ".join(f'{key}="{number(value)}"' for key, value in zip(("x1", "y1", "x2", "y2"), (x1, y1, x2, y2), strict=True))
        self._parts.append(f"<line {ends}{_class(kind, colour)}{inner}")

    def curve(self, points: Sequence[tuple[float, float]], kind: str, colour: int, title: str = "") -> None:
        """A broken line; a single point becomes a short dash, so that it can be seen."""
        if len(points) == 1:
            points = [(points[0][0] - 1.5, points[0][1]), (points[0][0] + 1.5, points[0][1])]
        inner = f"<title>{escape(title)}</title>" if title else ""
        self._parts.append(f'<path d="{_path(points)}"{_class("line " + kind, colour)}>{inner}</path>')

    def box(self, x: float, y: float, width: float, height: float, kind: str, colour: int | None = None, title: str = "") -> None:
        inner = f"<title>{escape(title)}</title>" if title else ""
        place = f'x="{number(x)}" y="{number(y)}" width="{number(max(0.0, width))}" height="{number(height)}"'
        filled = f' fill="url(#{self.id}-hatch)"' if kind == "hatch" else ""
        self._parts.append(f"<rect {place}{_class(kind, colour)}{filled}>{inner}</rect>")

    def dot(self, x: float, y: float, radius: float, kind: str, colour: int, title: str = "") -> None:
        inner = f"<title>{escape(title)}</title>" if title else ""
        place = f'cx="{number(x)}" cy="{number(y)}" r="{number(radius)}"'
        self._parts.append(f"<circle {place}{_class(kind, colour)}>{inner}</circle>")

    def shape(self, points: Iterable[tuple[float, float]], kind: str, colour: int | None = None, title: str = "") -> None:
        path = " ".join(f"{number(x)},{number(y)}" for x, y in points)
        inner = f"<title>{escape(title)}</title>" if title else ""
        self._parts.append(f'<polygon points="{path}"{_class(kind, colour)}>{inner}</polygon>')

    def text(self, x: float, y: float, text: str, kind: str = "", size: float | None = None) -> None:
        scaled = f' style="font-size:{number(size)}px"' if size else ""
        self._parts.append(f'<text x="{number(x)}" y="{number(y)}"{_class(kind, None)}{scaled}>{escape(text)}</text>')

    @contextmanager
    def group(self, kind: str, name: str) -> Iterator[None]:
        """What is drawn inside belongs together: a `g` whose `data-<kind>` is the name."""
        self._parts.append(f"<g data-{kind}={quoteattr(name)}>")
        yield
        self._parts.append("</g>")

    def render(self) -> str:
        """The whole file."""
        box = f"0 0 {number(WIDTH)} {number(self.height)}"
        hatch = _HATCH.format(id=self.id) if any(" url(" in part or '"url(' in part for part in self._parts) else ""
        head = f'<svg xmlns="http://www.w3.org/2000/svg" id="{self.id}" class="octavo-figure" viewBox="{box}" width="100%" role="img"'
        body = "\n".join(self._parts)
        return f"{head} aria-label={quoteattr(self.alternative)}>\n<style>{_style()}</style>\n{hatch}{body}\n</svg>\n"


def _path(points: Sequence[tuple[float, float]]) -> str:
    """A line as steps from point to point, in tenths that do not drift: a third shorter than absolute places."""
    tenths = [(round(x * 10), round(y * 10)) for x, y in points]
    steps = ((x - before_x, y - before_y) for (before_x, before_y), (x, y) in pairwise(tenths))
    first = f"M{number(tenths[0][0] / 10)} {number(tenths[0][1] / 10)}"
    return first + "l" + " ".join(f"{number(x / 10)} {number(y / 10)}" for x, y in steps).replace(" -", "-")


def _style() -> str:
    """The rules with their scope before each selector, and the colours of conditions."""
    scoped = re.sub(r"([^{}\n]*)\{", lambda match: f"{_SCOPE}{match[1].rstrip()}{{", _RULES.strip())
    colours = "".join(f"\n{_SCOPE} .c{i}{{--c:var(--octavo-c{i},{colour})}}" for i, colour in enumerate(PALETTE, start=1))
    return scoped + colours


def _class(kind: str, colour: int | None) -> str:
    """`colour` counts conditions from 0; there are eight colours, later ones begin again."""
    words = kind if colour is None else f"{kind} c{colour % len(PALETTE) + 1}"
    return f' class="{words}"' if words else ""


def legend(picture: Picture, names: Sequence[str], top: float) -> float:
    """Colour chips with names, wrapped to the width. Returns the y below them."""
    x, y = 0.0, top + FONT
    for index, name in enumerate(names):
        label = shorten(name, WIDTH - 24)
        width = 24 + text_width(label) + 14
        if x and x + width > WIDTH:
            x, y = 0.0, y + FONT + 6
        picture.line(x, y - 4, x + 18, y - 4, "bar", index)
        picture.text(x + 23, y, label)
        x += width
    return y + 8


def note(picture: Picture, text: str, top: float) -> float:
    """Soft text, wrapped at words. Returns the y below it."""
    line, y = "", top
    for word in text.split():
        if line and text_width(f"{line} {word}") > WIDTH:
            y += FONT + 4
            picture.text(0, y, line, "soft")
            line = word
        else:
            line = f"{line} {word}".strip()
    if line:
        y += FONT + 4
        picture.text(0, y, line, "soft")
    return y + 6
