"""The home page: how much there is, the newest findings, the newest experiments and their families, from the summaries that pages carry."""

from __future__ import annotations

from markupsafe import Markup

from stages.publish.bars import bar
from stages.publish.claims import MARKS, ORDER, WORDS
from stages.publish.entries import MOST_CHANGES, Entry, Member, family, pills, size
from stages.publish.lists import FAMILIES, few, tags
from stages.publish.page_summary import ClaimLine, PageSummary
from stages.publish.render import render

MARKER = "<!-- octavo: experiments -->"
BEGINS, ENDS = "octavo-begins", "octavo-ends"
"""Classes of the empty elements between which the computed part of the home page stands."""
NEWEST, OF_ONE = 8, 4
"""So many findings are told, and so many of one experiment."""
CARDS, SMOKE = 6, 2
TREES, MEMBERS = 6, 30


def newest(found: list[Entry]) -> list[tuple[PageSummary, ClaimLine, str]]:
    """(experiment, claim, mark): the newest day's first, on a day what is decided first. Profiles decide nothing and are left out."""
    lines = []
    for entry in found:
        if not entry.summary.profile:
            claims = sorted(entry.summary.claims, key=lambda claim: _decided(claim))
            lines += [(entry.summary, claim, MARKS[claim.verdict]) for claim in claims[:OF_ONE]]
    lines.sort(key=lambda line: _decided(line[1]))
    return sorted(lines, key=lambda line: (line[0].data_until or "")[:10], reverse=True)[:NEWEST]


def _decided(claim: ClaimLine) -> int:
    """Supported and refuted before inconclusive before void."""
    return max(1, ORDER.index(claim.verdict))


def home(text: str, found: list[Entry]) -> str:
    """The home page with the computed part in place of its marker, or at its end."""
    made = computed(found)
    return text.replace(MARKER, made) if MARKER in text else f"{text.rstrip()}\n\n{made}"


def computed(found: list[Entry]) -> str:
    """The part of the home page that is computed."""
    full = [entry for entry in found if not entry.summary.profile]
    smoke = [entry for entry in found if entry.summary.profile]
    trees = family(found)
    shown: list[Member] = []
    for tree in trees[:TREES]:
        if not shown or sum(map(size, [*shown, tree])) <= MEMBERS:
            shown.append(tree)
    some, all_tags = few(tags(found))
    told = newest(found)
    groups = (full[:CARDS], smoke[: SMOKE if full else CARDS])
    return render(
        "home.html.j2",
        entries=found,
        groups=groups,
        left=len(found) - sum(map(len, groups)),
        full=len(full),
        runs=sum(entry.summary.runs for entry in full),
        verdicts=pills([claim.verdict for entry in full for claim in entry.summary.claims]),
        newest=told,
        bars={f"{summary.experiment}/{claim.id}": _bar(claim) for summary, claim, _ in told},
        tags=some,
        all_tags=all_tags,
        family=shown,
        families=FAMILIES if len(shown) < len(trees) else "",
        compared={entry.summary.experiment for entry in full},
        words=WORDS,
        base="experiments/",
        most=MOST_CHANGES,
    )


def _bar(claim: ClaimLine) -> Markup:
    """The interval of a claim against its margin, in small; an empty place where there is no number."""
    return bar(claim.place, claim.verdict, claim.printed, small=True) if claim.place else Markup('<span class="bar"></span>')
