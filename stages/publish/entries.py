"""Experiments as lists show them, from the summaries that their pages carry, and the families that they are in."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path

from stages.contracts.artifact import read
from stages.publish.claims import MARKS, ORDER, WORDS
from stages.publish.page_summary import PageSummary

MOST_CHANGES = 4
"""So many changes of a child are told in a family tree; its own page tells all."""


@dataclass(frozen=True)
class Pill:
    verdict: str
    mark: str
    count: int

    @property
    def text(self) -> str:
        return f"{self.count} {WORDS[self.verdict].lower()}"


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
    return Entry(summary, pills([claim.verdict for claim in summary.claims]))


def pills(verdicts: list[str]) -> tuple[Pill, ...]:
    """Counts of verdicts, in their order; what was never reached is left out."""
    counts = Counter(verdicts)
    return tuple(Pill(verdict, MARKS[verdict], counts[verdict]) for verdict in ORDER if counts[verdict])


@dataclass(frozen=True)
class Member:
    """An experiment in the family tree, with those that change it."""

    entry: Entry
    children: tuple[Member, ...]

    @property
    def whole(self) -> tuple[Member, ...]:
        """It and all below it, each before its children. A line of children may be longer than Python recurses."""
        found, waiting = [], [self]
        while waiting:
            found.append(waiting.pop())
            waiting += reversed(found[-1].children)
        return tuple(found)


def family(found: list[Entry]) -> tuple[Member, ...]:
    """Trees of experiments with parents or children; an experiment whose parent has no page begins a tree. Profiles are left out."""
    known = {entry.summary.experiment: entry for entry in found if not entry.summary.profile}
    children: dict[str, list[str]] = defaultdict(list)
    for name in sorted(known):
        children[known[name].summary.parent or ""].append(name)

    roots = [name for name in sorted(known) if known[name].summary.parent not in known]
    line = list(roots)
    for name in line:  # it grows: each comes before its children
        line += children.get(name, ())
    made: dict[str, Member] = {}
    for name in reversed(line):
        made[name] = Member(known[name], tuple(made[child] for child in children.get(name, ())))
    trees = [made[name] for name in roots]
    return tuple(tree for tree in trees if tree.children or tree.entry.summary.parent)


def size(tree: Member) -> int:
    """Members of a family."""
    return len(tree.whole)
