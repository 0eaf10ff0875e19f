"""Leaf pages: pages of the site that MkDocs does not read, such as the passports of an experiment or the page of a run.

A page's folder holds them in `leaves/<name>.html`, as the HTML between a site's header and its footer with one `<h1>`. MkDocs builds a
single empty page at their depth, the frame; each leaf is set into a copy of it. They are out of navigation and search, and a thousand
of them cost seconds, where MkDocs needs a minute and more.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from stages.contracts.diagnostic import StageError

FOLDER = "leaves"
FRAME = "experiments/octavo_frame/frame"
_TITLE, _BODY = "octavo-frame-title", "octavo-frame-body"
SOURCE = f'---\ntitle: {_TITLE}\nhide:\n  - navigation\n  - toc\nsearch:\n  exclude: true\n---\n<h1 id="{_BODY}"></h1>\n'
_TAB = re.compile(r'<li class="md-tabs__item">(\s*<a href="\.\./index\.html")')
_ACTIVE = r'<li class="md-tabs__item md-tabs__item--active">\1'
"""Leaves are part of the experiments, which the theme cannot know: they are in no navigation."""
_HEADING = re.compile(r"<h1\b[^>]*>(.*?)</h1>", re.DOTALL)


def put_frame(docs: Path) -> None:
    """The page that MkDocs shall build for the leaves."""
    path = (docs / FRAME).with_suffix(".md")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(SOURCE, encoding="utf-8")


def write_leaves(site: Path, pages: Mapping[Path, str], more: Mapping[str, str], mark: str) -> int:
    """Set the leaves of every page folder, and `more` (place under `experiments/` -> HTML), into the frame that MkDocs built in `site`,
    and remove it. What `pages` say of the age of a folder takes the place of `mark`. Returns how many there are.

    Raises StageError S383 when the theme lost the frame's places.
    """
    path = (site / FRAME).with_suffix(".html")
    parts = re.split(f'({_TITLE}|<h1 id="{_BODY}"></h1>)', _TAB.sub(_ACTIVE, path.read_text(encoding="utf-8"), count=1))
    if len([part for part in parts if _BODY in part]) != 1 or _TITLE not in parts:
        raise StageError(
            "S383",
            f"{path}: the theme shows the frame of leaf pages without its title or its body",
            why="passports and run pages are set into a page that MkDocs built; without its places they cannot be",
            fix="use the theme of site/mkdocs.yml as it was, or report the version of mkdocs-material",
        )
    written = 0
    for page, said in pages.items():
        for leaf in sorted((page / FOLDER).glob("*.html")):
            target = site / "experiments" / page.parent.name / leaf.name
            target.write_text(framed(parts, leaf.read_text(encoding="utf-8").replace(mark, said)), encoding="utf-8")
            written += 1
    for place, body in more.items():
        target = site / "experiments" / place
        target.parent.mkdir(exist_ok=True)
        target.write_text(framed(parts, body), encoding="utf-8")
        written += 1
    path.unlink()
    path.parent.rmdir()
    return written


def framed(parts: list[str], body: str) -> str:
    """A leaf in its frame; the title is the text of its heading, whose letters are character references already."""
    heading = _HEADING.search(body)
    title = re.sub(r"<[^>]*>", "", heading[1]).strip() if heading else ""
    return "".join(title if part == _TITLE else body if _BODY in part else part for part in parts)
