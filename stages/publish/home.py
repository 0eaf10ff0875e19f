"""The home page and the list of all experiments, from the summaries that pages carry."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from stages.contracts.artifact import read
from stages.publish.claims import bar
from stages.publish.header import ClaimLine, PageSummary
from stages.publish.text import TEXTS, render

MARKER = "<!-- octavo: experiments -->"
SMALL = "<!-- octavo: small runs -->"
"""Where the guide's page of examples names the pages of profiles."""
ORDER = tuple(TEXTS["verdicts"])
_FINDINGS, _FINDINGS_OF_ONE = 8, 4
_CARDS, _PROFILE_CARDS = 6, 2
MEMBERS = 30
"""Members of families on the home page; the list of experiments has all."""


Member = tuple[PageSummary, int]
"""An experiment in a family tree, and its depth (0 of one that changes no other)."""
Links = Sequence[tuple[str, str]]
"""Names and addresses, from the page of an experiment."""


def summaries(pages: Iterable[Path]) -> list[PageSummary]:
    """Of page folders: full experiments first, then those with the newest data. Raises ArtifactError on a broken page."""
    ordered = sorted((read(PageSummary, page / "summary.json") for page in pages), key=lambda summary: summary.experiment)
    ordered.sort(key=lambda summary: summary.data_until or "", reverse=True)
    return sorted(ordered, key=lambda summary: summary.profile is not None)


def pills(experiments: Iterable[PageSummary]) -> dict[str, int]:
    """How often each verdict was given, in the order of verdicts; those to read with care by themselves."""
    counts = Counter(claim.pill for summary in experiments for claim in summary.claims)
    return {pill: counts[pill] for pill in TEXTS["pills"] if counts[pill]}


def families(experiments: Iterable[PageSummary]) -> list[list[Member]]:
    """Trees of experiments that have parents or children, each parent before its children. An experiment whose parent has no page begins
    a tree. Profiles are left out."""
    by_name = {summary.experiment: summary for summary in experiments if not summary.profile}
    children: dict[str | None, list[str]] = defaultdict(list)
    for name in sorted(by_name, reverse=True):
        children[by_name[name].parent].append(name)
    trees: list[list[Member]] = []
    for root in sorted(name for name, summary in by_name.items() if summary.parent not in by_name):
        tree, waiting = list[Member](), [(root, 0)]
        while waiting:  # a line of children may be longer than Python recurses
            name, depth = waiting.pop()
            tree.append((by_name[name], depth))
            waiting += [(child, depth + 1) for child in children[name]]
        if len(tree) > 1 or tree[0][0].parent:
            trees.append(tree)
    return trees


def newest(experiments: Iterable[PageSummary]) -> list[tuple[PageSummary, ClaimLine]]:
    """Claims with the newest day's data first, on a day what is decided first. Profiles decide nothing and are left out."""
    full = [summary for summary in experiments if not summary.profile]
    lines = [(summary, claim) for summary in full for claim in sorted(summary.claims, key=_decided)[:_FINDINGS_OF_ONE]]
    lines.sort(key=lambda line: _decided(line[1]))
    return sorted(lines, key=lambda line: (line[0].data_until or "")[:10], reverse=True)[:_FINDINGS]


def _decided(claim: ClaimLine) -> int:
    """Supported and refuted before inconclusive before void."""
    return max(1, ORDER.index(claim.verdict))


def home(text: str, experiments: Sequence[PageSummary], beside: Mapping[str, Links]) -> str:
    """The home page with its computed part in place of the marker, or at its end. `beside`: comparisons of each experiment."""
    full = [summary for summary in experiments if not summary.profile]
    profiles = [summary for summary in experiments if summary.profile]
    groups = (full[:_CARDS], profiles[: _PROFILE_CARDS if full else _CARDS])
    trees = families(experiments)
    members = [member for tree in trees for member in tree]
    computed = _render(
        "home.html.j2",
        experiments,
        groups=groups,
        left=len(experiments) - sum(map(len, groups)),
        full=len(full),
        runs=sum(summary.runs for summary in full),
        newest=newest(experiments),
        bar=bar,
        family=members[:MEMBERS],
        more_family=len(members) > MEMBERS,
        base="experiments/",
        beside=beside,
    )
    return text.replace(MARKER, computed) if MARKER in text else f"{text.rstrip()}\n\n{computed}"


def examples(text: str, experiments: Sequence[PageSummary]) -> str:
    """The guide's page of examples with the pages of profiles in place of the marker."""
    small = sorted((summary for summary in experiments if summary.profile), key=lambda summary: summary.experiment)
    return text.replace(SMALL, render("examples.html.j2", experiments=small))


def overview(experiments: Sequence[PageSummary], beside: Mapping[str, Links]) -> str:
    """`experiments/index.md`: all experiments, all families, and the listing of tags, which Material fills in."""
    members = [member for tree in families(experiments) for member in tree]
    tagged = any(summary.tags for summary in experiments)
    return _render("experiments.html.j2", experiments, family=members, tagged=tagged, base="", beside=beside)


def _render(template: str, experiments: Sequence[PageSummary], **values: object) -> str:
    return render(template, experiments=experiments, pills=pills, **values)
