"""The words of the site's search, in parts: `search/octavo-<n>.js`, beside which MkDocs' own index is emptied.

The theme builds its index in the reader's browser, which takes seconds for some hundred experiments. Ours is plain text that is looked
through: the first part has all titles, claims and questions, and the guide; the further parts have what else experiments say in prose.
Tables of numbers are in none.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import unquote

from stages.publish.claims import WORDS
from stages.publish.entries import Entry
from stages.publish.opened import literal
from stages.publish.page_summary import PageSummary

PART = 400_000
"""Letters of a further part."""
_LONG = 1500
_NUMBERS = {"claims", "conditions", "seeds", "curves", "reward", "completions", "program", "imported-runs", "anomalies", "attempts"}
_NUMBERS |= {"hyperparameters", "lineage", "methods", "octavo-frame-body"}
"""Sections of an experiment whose words repeat on every page or are in the summary."""
_TAG = re.compile(r"<[^>]*>")
Row = tuple[str, str, str]
"""Address, title, text."""


def write_search(site: Path, found: list[Entry]) -> None:
    """Write the parts from the index that MkDocs made of `site`, and empty that one. Raises OSError or ValueError without it."""
    place = site / "search" / "search_index.json"
    index = json.loads(place.read_text(encoding="utf-8"))
    first, rest = rows(index["docs"], found)
    parts = [first, *_parts(rest)]
    for number, part in enumerate(parts):
        words = literal({"parts": len(parts), "rows": [text for row in part for text in row]})
        (place.parent / f"octavo-{number}.js").write_text(f"octavo.words({words});\n", encoding="utf-8")
    empty = json.dumps({"config": index["config"], "docs": []})
    place.write_text(empty, encoding="utf-8")
    place.with_suffix(".js").write_text(f"var __index = {empty}", encoding="utf-8")


def rows(docs: Iterable[dict[str, str]], found: list[Entry]) -> tuple[list[Row], list[Row]]:
    """(rows of the first part, rows of the further ones), experiments in the order of `found`."""
    first: list[Row] = []
    sections: dict[str, list[Row]] = {}
    pages: dict[str, str] = {}
    for doc in docs:
        page, _, anchor = doc["location"].partition("#")
        folder, _, rest = page.partition("/")
        if folder == "experiments" and "/" in rest:
            name = unquote(rest.partition("/")[0])
            pages[name] = page
            if anchor and anchor not in _NUMBERS:
                sections.setdefault(name, []).append((doc["location"], _plain(doc["title"]), _plain(doc["text"])[:_LONG]))
        elif page not in ("index.html", "experiments/index.html"):
            first.append((doc["location"], _plain(doc["title"]), _plain(doc["text"])))
        elif not anchor:
            first.append((page, _plain(doc["title"]), ""))
    rest_rows: list[Row] = []
    for entry in found:
        name = entry.summary.experiment
        if name in pages:
            first += _experiment(pages[name], entry.summary)
            rest_rows += sections.get(name, ())
    return first, rest_rows


def _experiment(page: str, summary: PageSummary) -> Iterator[Row]:
    profile = f" ({summary.profile})" if summary.profile else ""
    about = " ".join(part for part in (summary.question, summary.answer, " ".join(summary.tags), summary.owner, summary.experiment) if part)
    yield page, f"{summary.title}{profile}", about.replace("`", "")
    for claim in summary.claims:
        yield f"{page}#claim-{claim.id}", claim.says.replace("`", ""), f"{WORDS[claim.verdict]} {claim.printed} {claim.id}"


def _parts(found: list[Row]) -> Iterator[list[Row]]:
    part: list[Row] = []
    letters = 0
    for row in found:
        part.append(row)
        letters += sum(map(len, row))
        if letters > PART:
            yield part
            part, letters = [], 0
    if part:
        yield part


def _plain(text: str) -> str:
    """What a reader sees of the index's HTML."""
    return " ".join(html.unescape(_TAG.sub(" ", text)).split())
