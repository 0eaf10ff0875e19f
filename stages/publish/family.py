"""The page of a family: experiments that change one another, what each changed, and what came out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from stages.contracts.comparison import Comparison, Moved
from stages.publish.compare import page_name
from stages.publish.header import PageSummary
from stages.publish.home import Member
from stages.publish.text import render

PAGE = "family.html"
"""In the folder of the first experiment."""


class FamilyRow(NamedTuple):
    summary: PageSummary
    depth: int
    moved: Mapping[Moved, int] | None
    """Against its parent: how many metrics moved which way; None where they were not compared."""
    address: str


def addresses(trees: Sequence[Sequence[Member]]) -> dict[str, str]:
    """Experiment -> the address of its family's page, from its own page."""
    return {member.experiment: f"../{tree[0][0].experiment}/{PAGE}" for tree in trees if len(tree) > 1 for member, _ in tree}


def family_page(tree: Sequence[Member], comparisons: Sequence[Comparison]) -> str:
    """The HTML of one family's page."""
    compared = {(each.experiment, each.other): Counter(row.moved for row in each.rows) for each in comparisons}
    rows = [
        FamilyRow(
            summary=summary,
            depth=depth,
            moved=compared.get((summary.experiment, summary.parent or "")),
            address=f"../{summary.experiment}/{page_name(summary.parent or '')}",
        )
        for summary, depth in tree
    ]
    return render("family_page.html.j2", root=tree[0][0], rows=rows)
