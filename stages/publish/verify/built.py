"""The built site beside the pages it was built from: the same words, numbers and marks in the HTML, the same bytes in the data files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple

from stages.contracts.artifact import ArtifactError
from stages.contracts.layout import BUILD, RUNS, ExperimentFolder
from stages.contracts.verification import Difference
from stages.publish.entries import entries
from stages.publish.home import BEGINS, ENDS, computed
from stages.publish.leaves import FOLDER
from stages.publish.lists import overview
from stages.publish.site import AGE, age, generated
from stages.publish.verify.parts import Part, parts

SITE = BUILD / "site"
MOST = 12
_FIX = "dvc repro builds the site again"
_HEADINGS = {f"h{level}" for level in range(1, 7)}


class Token(NamedTuple):
    """A word, or a tag with its attributes; with its place and the finding whose number it stands in."""

    text: str
    line: int
    column: int
    finding: str


_MARK = re.compile(r"^#+(?=[ \t])", re.MULTILINE)
"""A heading's mark in Markdown; a # within a line is a comment in a command."""


class _Reader(HTMLParser):
    """Tokens of a page, or of what lies in MkDocs' article of a built one."""

    def __init__(self, whole: bool) -> None:
        super().__init__(convert_charrefs=True)
        self.tokens: list[Token] = []
        self._whole, self._inside, self._depth = whole, whole, 0
        self._skip, self._finding = "", ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if not self._whole and tag == "article":
            self._depth += 1
            if "md-content__inner" in given.get("class", ""):
                self._inside, self._depth = True, 0
                return
        if not self._inside or self._skip:
            return
        if tag == "a" and "headerlink" in given.get("class", "").split():
            self._skip = tag
            return
        if tag == "a":
            self._finding = given.get("data-finding", "")
        if tag not in _HEADINGS:
            kept = " ".join(f"{name}={value}" for name, value in sorted(given.items()))
            self._add(f"<{tag} {kept}>" if kept else f"<{tag}>")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        if tag == self._skip:
            self._skip = ""
        elif tag == "a":
            self._finding = ""
        elif tag == "article" and not self._whole and self._inside:
            self._inside = self._depth > 0
            self._depth -= 1

    def handle_data(self, data: str) -> None:
        if self._inside and not self._skip:
            for word in (_MARK.sub("", data) if self._whole else data).split():
                self._add(word)

    def _add(self, text: str) -> None:
        line, column = self.getpos()
        self.tokens.append(Token(text, line, column + 1, self._finding))


def of_page(markdown: str) -> list[Token]:
    """Tokens of a page as it is written: HTML with headings in Markdown, front matter left out."""
    if markdown.startswith("---\n"):
        markdown = markdown.partition("\n---\n")[2]
    return _tokens(markdown, True)


def of_site(text: str) -> list[Token]:
    """Tokens of the article of a built page."""
    return _tokens(text, False)


def _tokens(text: str, whole: bool) -> list[Token]:
    reader = _Reader(whole)
    reader.feed(text)
    reader.close()
    return reader.tokens


def differences(experiment: ExperimentFolder, made: dict[str, bytes]) -> tuple[list[Difference], int]:
    """(where the built site does not carry the page that `made` holds, number of its files); nothing when no site was built."""
    folder = SITE / "experiments" / experiment.name
    if not SITE.is_dir():
        return [], 0
    if not folder.is_dir():
        return [Difference(code="S489", path=folder.as_posix(), what="the site was built without this experiment", fix=_FIX)], 0
    found: list[Difference] = []
    page = f"{experiment.page.as_posix()}/"
    files = {name.removeprefix(page): content for name, content in made.items() if name.startswith(page)}
    for name, content in files.items():
        built = folder / _built(name)
        path = experiment.page / name
        published = path.read_bytes() if path.is_file() else content  # where the page itself is wrong, that is told already
        if not built.is_file():
            found.append(Difference(code="S489", path=built.as_posix(), what="the site lacks this file of the page", fix=_FIX))
        elif built.suffix == ".html":
            shown, banner = of_site(built.read_text(encoding="utf-8")), _banner(experiment.page)
            if not any(_same(_page(published, said), shown) for said in ("", banner)):  # a site is older than what made its pages old
                found += _told(built, _page(content, ""), shown)
        elif built.read_bytes() != published:
            for part in parts(name, content, built.read_bytes()):
                found.append(_difference(built, part.line, part.column, part.cell, part.expected, part.found))
    return found, len(files)


def _banner(page: Path) -> str:
    """ "" of a page whose lineage is not there or broken: that is told of the page."""
    try:
        return age(page)
    except ArtifactError:
        return ""


def overviews() -> tuple[list[Difference], int]:
    """(where pages about several experiments differ from what the summaries give, number of these pages): home, lists, tags, families
    and comparisons; nothing when no site was built."""
    if not SITE.is_dir():
        return [], 0
    pages = sorted(path for path in RUNS.glob("*/page") if (path / "summary.json").exists())
    try:
        experiments = entries(pages)
        made = {"index.md": overview(experiments), **generated(pages, experiments)}
        home = computed(experiments)
    except ArtifactError as error:  # told of its experiment too
        return [Difference(code="S489", path=error.path, what=error.what, fix=error.fix)], 0
    found: list[Difference] = []
    for name, content in made.items():
        path = SITE / "experiments" / _built(name)
        if path.is_file():
            found += _told(path, of_page(content), of_site(path.read_text(encoding="utf-8")))
        else:
            found.append(Difference(code="S489", path=path.as_posix(), what="the site lacks this page", fix=_FIX))
    path = SITE / "index.html"
    if path.is_file():
        found += _told(path, of_page(home), _between(of_site(path.read_text(encoding="utf-8"))))
    else:
        found.append(Difference(code="S489", path=path.as_posix(), what="the site lacks its home page", fix=_FIX))
    return found, len(made) + 1


def _between(tokens: list[Token]) -> list[Token]:
    """The computed part of the home page, its marks among them; what the author wrote around it is left out."""
    marks = [at for at, token in enumerate(tokens) if f"class={BEGINS}" in token.text or f"class={ENDS}" in token.text]
    return tokens[marks[0] : marks[-1] + 1] if marks else []


def _built(name: str) -> str:
    """Where the site has a file of a page's folder: Markdown as HTML, leaves beside the page, all others as they are."""
    return name.removeprefix(f"{FOLDER}/") if name.startswith(f"{FOLDER}/") else re.sub(r"\.md$", ".html", name)


def _page(content: bytes, banner: str) -> list[Token]:
    return of_page(content.decode(errors="replace").replace(AGE, banner))


def _same(one: list[Token], other: list[Token]) -> bool:
    return [token.text for token in one] == [token.text for token in other]


def _told(path: Path, expected: list[Token], found: list[Token]) -> Iterator[Difference]:
    """The first difference, and each further one as long as the tokens stand one for one."""
    told = 0
    for one, other in zip(expected, found, strict=False):
        if one.text != other.text:
            yield _difference(path, other.line, other.column, other.finding, one.text, other.text)
            told += 1
            if told == MOST or len(expected) != len(found):
                return
    if len(expected) != len(found) and not told:
        longer = (expected if len(expected) > len(found) else found)[min(len(expected), len(found))]
        more = len(expected) > len(found)
        yield _difference(
            path,
            None if more else longer.line,
            None if more else longer.column,
            "",
            longer.text if more else "",
            "" if more else longer.text,
        )


def _difference(path: Path, line: int | None, column: int | None, cell: str, expected: str, found: str) -> Difference:
    part = Part(line, column, cell, expected or "nothing", found or "nothing")
    return part.difference("S489", path.as_posix(), "what the page says", _FIX)
