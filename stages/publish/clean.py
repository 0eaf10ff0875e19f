"""Untrusted HTML and SVG by allow-list: elements and attributes that are not named here are gone, whatever wrote them.

`nh3` reads markup as browsers do. It leaves no id that the page or its theme could look up, no class, no style, no event and no address
that a page would load from elsewhere.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from functools import partial

import nh3
from markupsafe import Markup

from stages.publish.markdown import CLOSE, OPEN
from stages.publish.text import escape

_PLAIN = ("p", "br", "hr", "h3", "h4", "h5", "h6", "ul", "li", "blockquote", "pre", "code", "em", "strong", "table", "thead", "tbody", "tr")
_PROSE = {tag: set[str]() for tag in _PLAIN} | {
    "a": {"href", "title"},
    "img": {"src", "alt", "title"},
    "ol": {"start"},
    "th": {"align"},
    "td": {"align"},
}
_STYLED = {"fill", "fill-opacity", "fill-rule", "opacity", "font-size", "font-weight", "font-style", "text-anchor", "stroke"} | {
    f"stroke-{part}" for part in ("width", "opacity", "linecap", "linejoin", "dasharray", "dashoffset", "miterlimit")
}
"""Properties of style that are attributes of SVG too."""
_PLACES = {"x", "y", "width", "height", "transform", "id", "clip-path", "data-run", *_STYLED}
_FIGURE = dict.fromkeys(("g", "text", "tspan", "title", "defs", "clipPath", "rect"), _PLACES) | {
    "svg": {"xmlns", "class", "viewBox", "width", "height", "role", "aria-label"},
    "path": _PLACES | {"d"},
    "use": _PLACES | {"href"},
}
_USED = {"path", "clipPath"}
"""What may have an id: a `use` that draws other ones could be a thousand bytes and a million shapes."""
_FREE = {"aria-label", "data-run", "xmlns", "href"}
_VALUE = re.compile(r"[\w ,.%#()+;-]*")
"""Values of a figure's attributes: numbers, names, and functions without an address."""
_STYLE = re.compile(r' style="([^"<>]*)"')
_PIECE = re.compile(r'(<(?:[^<>"]|"[^"]*")*>)')
_IN_TAGS = str.maketrans({letter: f"&#{ord(letter)};" for letter in "\n`{}~"} | dict.fromkeys(f"{OPEN}{CLOSE}", ""))


def clean_prose(markup: str) -> str:
    """HTML of prose. Links lead to http(s), mail and places of the site; pictures come from the site."""
    tags = set(_PROSE)
    return nh3.clean(markup, tags=tags, attributes=_PROSE, attribute_filter=_prose_attribute, url_schemes={"http", "https", "mailto"})


def _prose_attribute(tag: str, name: str, value: str) -> str | None:
    return None if name == "src" and not re.fullmatch(r"(?:\.\./)*\w[\w./-]*", value) else value


def clean_figure(svg: str, name: str) -> Markup:
    """The `<svg>` element of the figure `name`: drawing only, with ids that begin with `octavo-<name>-`, a tag or more a line."""
    styled = _STYLE.sub(lambda style: "".join(_attribute(*part.partition(":")[::2]) for part in style[1].split(";")), svg)
    styled = styled.replace(" xlink:href=", " href=")
    kept: Callable[[str, str, str], str | None] = partial(_figure_attribute, f"octavo-{name}-")
    return inert(nh3.clean(styled, tags=set(_FIGURE), attributes=_FIGURE, attribute_filter=kept))


def _attribute(name: str, value: str) -> str:
    return f' {name.strip()}="{value.strip()}"' if name.strip() in _STYLED else ""


def _figure_attribute(prefix: str, tag: str, name: str, value: str) -> str | None:
    if name == "class":
        return "octavo-figure"
    if name == "id":
        return value if tag in _USED and value.startswith(prefix) else None
    if name == "href":
        return value if value.startswith(f"#{prefix}") else None
    return value if name in _FREE or _VALUE.fullmatch(value) else None


def inert(markup: str, text: Callable[[str], Markup] = escape) -> Markup:
    """Clean HTML in which Markdown finds nothing to read: `text` writes the words of an element, and no line is blank."""
    pieces: list[str] = _PIECE.split(markup)
    for at, piece in enumerate(pieces):
        if at % 2:
            pieces[at] = piece.translate(_IN_TAGS).replace("&nbsp;", "&#160;")
        elif piece.strip():
            pieces[at] = text(html.unescape(piece))
        else:
            pieces[at] = "\n" if "\n" in piece else piece
    return Markup("".join(pieces).strip())
