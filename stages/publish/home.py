"""The home page's list of experiments and newest findings, from the summaries that pages carry."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from stages.contracts.artifact import read
from stages.publish.claims import MARKS, ORDER, WORDS
from stages.publish.render import render
from stages.publish.summary import ClaimLine, PageSummary

MARKER = "<!-- octavo: experiments -->"
_NEWEST = 8
_MOST = 4
"""So many changes of a child are told in the family tree; its own page tells all."""


@dataclass(frozen=True)
class Pill:
    verdict: str
    mark: str
    text: str


@dataclass(frozen=True)
class Entry:
    """An experiment on the home page."""

    summary: PageSummary
    pills: tuple[Pill, ...]

    @property
    def date(self) -> str:
        return self.summary.data_until[:10] if self.summary.data_until else "no data yet"


def entries(pages: list[Path]) -> list[Entry]:
    """One entry a page folder: full experiments first, then those with the newest data. Raises ArtifactError on a broken page."""
    found = [_entry(read(PageSummary, page / "summary.json")) for page in pages]
    found.sort(key=lambda entry: entry.summary.experiment)
    found.sort(key=lambda entry: entry.summary.data_until or "", reverse=True)
    return sorted(found, key=lambda entry: entry.summary.profile is not None)


def _entry(summary: PageSummary) -> Entry:
    counts = Counter(claim.verdict for claim in summary.claims)
    pills = tuple(Pill(v, MARKS[v], f"{counts[v]} {WORDS[v].lower()}") for v in ORDER if counts[v])
    return Entry(summary, pills)


def newest(found: list[Entry]) -> list[tuple[PageSummary, ClaimLine, str]]:
    """(experiment, claim, mark) of the decided and undecided claims, newest data first; profiles decide nothing and are left out."""
    lines = [(e.summary, claim, MARKS[claim.verdict]) for e in found if not e.summary.profile for claim in e.summary.claims]
    return lines[:_NEWEST]


@dataclass(frozen=True)
class Member:
    """An experiment in the family tree, with those that change it."""

    entry: Entry
    children: tuple[Member, ...]


def family(found: list[Entry]) -> tuple[Member, ...]:
    """Trees of experiments with parents or children; an experiment whose parent has no page begins a tree. Profiles are left out."""
    entries = {entry.summary.experiment: entry for entry in found if not entry.summary.profile}

    def member(name: str) -> Member:
        return Member(entries[name], tuple(member(child) for child in sorted(entries) if entries[child].summary.parent == name))

    roots = [name for name in sorted(entries) if entries[name].summary.parent not in entries]
    trees = [member(name) for name in roots]
    return tuple(tree for tree in trees if tree.children or tree.entry.summary.parent)


def home(text: str, found: list[Entry]) -> str:
    """The home page with the list in place of its marker, or at its end."""
    made = render(
        "home.html.j2",
        entries=found,
        newest=newest(found),
        family=family(found),
        compared={entry.summary.experiment for entry in found if not entry.summary.profile},
        words=WORDS,
        base="experiments/",
        level=3,
        most=_MOST,
    )
    return text.replace(MARKER, made) if MARKER in text else f"{text.rstrip()}\n\n{made}"


def overview(found: list[Entry]) -> str:
    """The page that lists all experiments."""
    made = render("home.html.j2", entries=found, newest=[], family=(), compared=(), words=WORDS, base="", level=2, most=_MOST)
    return f"---\nhide:\n  - navigation\n  - toc\n---\n# Experiments\n\n{made}"
