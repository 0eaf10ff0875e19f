"""Pages of the site that MkDocs does not read: passports, pages of runs, comparisons. A thousand of them cost seconds, not a minute.

A page's folder holds them in `static/<name>.html`, as the HTML between a site's header and its footer with one `<h1>`. MkDocs builds one
empty page at their depth, the frame; each static page is set into a copy of it. They are out of navigation and search.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from stages.contracts.diagnostic import StageError

FOLDER = "static"
FRAME = "experiments/octavo_frame/frame"
_TITLE, _BODY = "octavo-frame-title", "octavo-frame-body"
_SOURCE = f'---\ntitle: {_TITLE}\nhide:\n  - navigation\n  - toc\nsearch:\n  exclude: true\n---\n<h1 id="{_BODY}"></h1>\n'
_TAB = re.compile(r'<li class="md-tabs__item">(\s*<a href="\.\./index\.html")')
"""The tab of the experiments, which the theme does not mark: static pages are in no navigation."""
_HEADING = re.compile(r"<h1\b[^>]*>(.*?)</h1>", re.DOTALL)


def put_frame(docs: Path) -> None:
    """The page that MkDocs shall build for the static pages."""
    path = (docs / FRAME).with_suffix(".md")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_SOURCE, encoding="utf-8")


def write_static_pages(site: Path, bodies: Mapping[str, str]) -> None:
    """Set each body (place under `experiments/` -> HTML) into the frame that MkDocs built in `site`, and remove the frame.

    Raises StageError S383 when the theme lost the frame's places.
    """
    path = (site / FRAME).with_suffix(".html")
    parts = re.split(
        f'({_TITLE}|<h1 id="{_BODY}"></h1>)',
        _TAB.sub(r'<li class="md-tabs__item md-tabs__item--active">\1', path.read_text(encoding="utf-8"), count=1),
    )
    if len([part for part in parts if _BODY in part]) != 1 or _TITLE not in parts:
        raise StageError(
            "S383",
            f"{path}: the theme shows the frame of static pages without its title or its body",
            why="passports and run pages are set into a page that MkDocs built; without its places they cannot be",
            fix="use the theme of site/mkdocs.yml as it was, or report the version of mkdocs-material",
        )
    for place, body in bodies.items():
        (site / "experiments" / place).write_text(_framed(parts, body), encoding="utf-8")
    path.unlink()
    path.parent.rmdir()


def _framed(parts: list[str], body: str) -> str:
    """The title is the text of the heading, whose letters are character references already."""
    heading = _HEADING.search(body)
    title = re.sub(r"<[^>]*>", "", heading[1]).strip() if heading else ""
    return "".join(title if part == _TITLE else body if _BODY in part else part for part in parts)
