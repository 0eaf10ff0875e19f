"""Lists of experiments in pages of a size that a phone loads: all of them, those of a tag, and families. All but the first are leaves.

Places are relative to the site's `experiments/`; their folder has a `_` in its name, which no experiment has.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from stages.contracts.artifact import digest
from stages.publish.entries import MOST_CHANGES, Entry, Member, family, size
from stages.publish.render import render

ON_A_PAGE = 48
MEMBERS = 150
"""So many members of families begin a new page."""
_FOLDER = "octavo_list"
ALL_TAGS = f"{_FOLDER}/tags.html"
FAMILIES = f"{_FOLDER}/families.html"
_FEW = 40
"""Tags that a list begins with; the others are on the page of all tags."""


@dataclass(frozen=True)
class Tag:
    name: str
    place: str
    entries: tuple[Entry, ...]


def tag_place(tag: str) -> str:
    """The page of a tag; tags that differ only in letters of no address have different ones."""
    plain = re.sub(r"[^a-z0-9]+", "-", tag.lower()).strip("-")[:40]
    return f"{_FOLDER}/tag-{plain if plain == tag else f'{plain}-{digest(tag)[:6]}'}.html"


def tags(found: Sequence[Entry]) -> tuple[Tag, ...]:
    """The tags of all experiments, the most used first."""
    used: dict[str, list[Entry]] = {}
    for entry in found:
        for tag in dict.fromkeys(entry.summary.tags):
            used.setdefault(tag, []).append(entry)
    return tuple(Tag(name, tag_place(name), tuple(of)) for name, of in sorted(used.items(), key=lambda item: (-len(item[1]), item[0])))


def few(found: tuple[Tag, ...]) -> tuple[tuple[Tag, ...], str]:
    """(tags to begin with, where all of them are, if these are not all)."""
    return found[:_FEW], ALL_TAGS if len(found) > _FEW else ""


def overview(found: list[Entry]) -> str:
    """`experiments/index.md`: the newest experiments."""
    shown, rest = few(tags(found))
    made = _list("", found[:ON_A_PAGE], _places("all", "index.html", found), 1, base="", tags=shown, all_tags=rest, leaf=False)
    return f"---\nhide:\n  - navigation\n  - toc\n---\n# Experiments\n\n{made}"


def listings(found: list[Entry]) -> dict[str, str]:
    """Place -> HTML of every other page with a list."""
    made = dict(_pages("Experiments", found, "all", "index.html"))
    made.pop("index.html", None)  # that is a page of MkDocs
    known = tags(found)
    for tag in known:
        made |= _pages(
            f"Experiments tagged {tag.name}", tag.entries, tag.place.removeprefix(f"{_FOLDER}/").removesuffix(".html"), tag.place
        )
    if known:
        made[ALL_TAGS] = _list("Tags", (), [], 1, tags=known)
    trees = list(_by_size(family(found)))
    places = [FAMILIES, *(f"{_FOLDER}/families-{number}.html" for number in range(2, len(trees) + 1))]
    compared = {entry.summary.experiment for entry in found if not entry.summary.profile}
    for number, (place, part) in enumerate(zip(places, trees, strict=False), 1):
        made[place] = _list("Families of experiments", (), places, number, family=part, compared=compared)
    return made


def _pages(title: str, found: Sequence[Entry], name: str, first: str) -> Iterable[tuple[str, str]]:
    places = _places(name, first, found)
    for number, place in enumerate(places, 1):
        yield place, _list(title, found[(number - 1) * ON_A_PAGE : number * ON_A_PAGE], places, number)


def _places(name: str, first: str, found: Sequence[Entry]) -> list[str]:
    count = -(-len(found) // ON_A_PAGE)
    return [first, *(f"{_FOLDER}/{name}_{number}.html" for number in range(2, count + 1))]  # no page of a tag has `_` in its name


def _list(
    title: str, entries: Sequence[Entry], places: list[str], current: int, *, base: str = "../", leaf: bool = True, **more: object
) -> str:
    heading = title if current == 1 else f"{title}, page {current}"
    values = {"tags": (), "all_tags": "", "family": (), "compared": (), "most": MOST_CHANGES, **more}
    pages = [f"{base}{place}" for place in places]
    return render("list.html.j2", title=heading, entries=entries, pages=pages, current=current, base=base, leaf=leaf, **values)


def _by_size(trees: Iterable[Member]) -> Iterable[tuple[Member, ...]]:
    part: list[Member] = []
    for tree in trees:
        part.append(tree)
        if sum(map(size, part)) >= MEMBERS:
            yield tuple(part)
            part = []
    if part:
        yield tuple(part)
