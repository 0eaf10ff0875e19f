"""matplotlib figures as SVG that a page can inline: text stays text in the page's font, and one file works in light and dark.

Colours are CSS variables with colour-blind-safe fallbacks (Okabe and Ito). Equal figures give equal bytes.
"""

from __future__ import annotations

import io
import re
from typing import Any
from xml.sax.saxutils import quoteattr

import matplotlib
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

WIDTH = 440
"""Units. On a phone one unit is about 0.8 px, on a desktop 1.4 px."""
TEXT = "#010101"
"""Stands for the colour of the page's text."""
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#999999", "#b8a800")
STATES = {"pass": "#009e74", "fail": "#d55e01", "unknown": "#767676"}
SOFT = 0.78
"""Opacity of text that explains."""
matplotlib.rcParams.update(
    dict.fromkeys(("text.color", "axes.edgecolor", "xtick.color", "ytick.color", "hatch.color"), TEXT)
    | {
        "svg.fonttype": "none",
        "svg.hashsalt": "octavo",
        "text.parse_math": False,
        "font.size": 12,
        "axes.linewidth": 0.6,
        "hatch.linewidth": 0.6,
    }
    | {f"axes.spines.{side}": False for side in ("top", "right", "left")}
    | {"xtick.major.size": 0, "ytick.major.size": 0, "axes.axisbelow": True, "path.simplify": False, "grid.color": TEXT, "grid.alpha": 0.13}
    | {"legend.frameon": False, "legend.borderaxespad": 0, "legend.handlelength": 1.2, "legend.columnspacing": 1.2}
)
_STYLE = "<style>.octavo-figure{max-width:34rem;font-family:inherit}.octavo-figure text{fill:currentColor}</style>"
_GROUP = re.compile(r'<g data-run="[^"]*">(?:(?!</?g\b).|<g\b[^>]*>(?:(?!</?g\b).)*</g>)*</g>', re.DOTALL)
_ARTISTS = r"figure|axes|patch|line2d|text|matplotlib\.axis|xtick|ytick|legend|FillBetween\w+"


def figure(height: float, title: str, soft: str = "", colour: str = TEXT) -> Any:
    """An empty figure of WIDTH x height units with a strong title, and soft words behind it."""
    canvas = Figure(figsize=(WIDTH / 72, height / 72), dpi=72)
    canvas.text(0, 1 - 13 / height, title, weight="bold", size=13, color=colour)
    canvas.text((len(title) * 7.6 + 12) / WIDTH, 1 - 13 / height, soft, size=11, alpha=SOFT)
    return canvas


def axes(canvas: Any, left: float, top: float, right: float, bottom: float) -> Any:
    """Axes inside these margins, in units."""
    height = canvas.get_figheight() * 72
    plot = canvas.add_axes((left / WIDTH, bottom / height, (WIDTH - left - right) / WIDTH, (height - top - bottom) / height))
    plot.xaxis.set_major_locator(MaxNLocator(5, steps=(1, 2, 5, 10)))
    plot.yaxis.set_major_locator(MaxNLocator(4, steps=(1, 2, 2.5, 5, 10)))
    return plot


def number(value: float) -> str:
    """A value as a label: three significant digits, a real minus sign."""
    text = f"{value:.3g}" if value == 0 or 1e-3 <= abs(value) < 1e5 else f"{value:.1e}"
    return text.replace("-", "\u2212")


def share(value: float) -> str:
    """A share as a label: two decimals, and never a zero for what is more than none."""
    return "<0.01" if 0 < value < 0.005 else f"{value:.2f}"


def shorten(text: str, width: float) -> str:
    """The text, cut with an ellipsis where it would be wider than the limit."""
    letters = max(2, int(width / 6.8))
    return text if len(text) <= letters else text[: letters - 1] + "\u2026"


def svg(canvas: Any, name: str, alternative: str) -> str:
    """The file. A group whose artist has the gid `run:<name>` has the name as its hover title and as `data-run`."""
    buffer = io.StringIO()
    canvas.savefig(buffer, format="svg", transparent=True, metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    body = buffer.getvalue().partition("</defs>")[2].rpartition("</svg>")[0]  # matplotlib's own style would reach the whole page
    body = re.sub(rf' id="(?:{_ARTISTS})_\d+"', "", body)  # the same in every figure
    body = re.sub(r'<g id="run:([^"]*)">', r'<g data-run="\1"><title>\1</title>', body)
    body = _GROUP.sub(lambda group: group[0].replace("\n", ""), body)  # a line a run: the page of one run leaves the others' out
    body = re.sub(r"font-family: [^;\"]*(?:; )?", "", body)
    body = re.sub(r' (?:d|x|y|transform|width|height)="[^"]*"', lambda places: _TENTHS.sub(_tenth, places[0]), body)
    for index, colour in enumerate(PALETTE, 1):
        body = body.replace(colour, f"var(--octavo-c{index},{colour})")
    for state, colour in STATES.items():
        body = body.replace(colour, f"var(--octavo-{state},{colour})")
    ids = re.sub(r'(id="|href="#|url\(#)(?=\w)', rf"\g<1>octavo-{name}-", body.replace(TEXT, "currentColor"))
    head = '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
    box = f'viewBox="0 0 {WIDTH} {canvas.get_figheight() * 72:g}" width="100%" role="img" aria-label={quoteattr(alternative)}'
    return f'{head} id="octavo-{name}" class="octavo-figure" {box}>\n{_STYLE}\n{ids.strip()}\n</svg>\n'


_TENTHS = re.compile(r"-?\d+\.\d+(?: \n)?|\n")


def _tenth(digits: re.Match[str]) -> str:
    """A coordinate: one decimal is finer than a screen shows."""
    return f"{float(digits[0]):.1f}".removesuffix(".0") if digits[0].strip() else ""
