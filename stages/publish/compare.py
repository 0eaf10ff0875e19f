"""Experiments of one family side by side: settings that differ, gains and losses on the metrics that they share, claims.

Made by the stage `site` from summary.json and passports.js of the pages, because no experiment's own page may wait for another one.
A child is compared with its parent; an experiment that several others change is compared with all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from stages.contracts.finding import Finding
from stages.publish.facts import Facts
from stages.publish.header import PageSummary
from stages.publish.passports import FILE, finding_of, read_passports
from stages.publish.text import render

PLACE = "compare.html"
MARKER = "<!-- octavo: compare -->"
_YARDSTICK = ("evaluation", "data.evaluation")
"""Where these differ, the shared evaluation is another one, and its numbers are not comparable."""


Row = tuple[str, str, list[tuple[Markup, str]]]
"""Condition, score, and of each experiment its number and how it moved against the first: `gained`, `lost`, `open`, or empty."""


def comparisons(summaries: Sequence[PageSummary]) -> dict[str, tuple[str, ...]]:
    """Experiment -> what it is compared with, itself included; the first one is what the others change."""
    parents = {summary.experiment: summary.parent for summary in summaries if not summary.profile}
    compared: dict[str, tuple[str, ...]] = {}
    for name, parent in sorted(parents.items()):
        if children := sorted(child for child, its in parents.items() if its == name):
            compared[name] = (name, *children)
        elif parent in parents:
            compared[name] = (parent or "", name)
    return compared


def comparison(names: tuple[str, ...], pages: Mapping[str, Path], summaries: Mapping[str, PageSummary]) -> str:
    """The HTML of one page. Raises ArtifactError on a page folder that is not whole."""
    columns = [summaries[name] for name in names]
    other = {name: [c.key for c in summaries[name].changes if c.key.split(":")[0].startswith(_YARDSTICK)] for name in names[1:]}
    rows = _rows(names, [read_passports(pages[name] / FILE) for name in names], other)
    return render(
        "compare.html.j2",
        names=names,
        columns=columns,
        rows=rows,
        differing=other,
        claims=_claims(columns),
    )


def _rows(names: Sequence[str], contents: Sequence[Mapping[str, Any]], other: Mapping[str, list[str]]) -> list[Row]:
    """Pass shares of the shared evaluation that the first experiment and at least one other have. Single runs are not compared: seeds of
    two experiments have nothing in common."""
    shares = [_shares(content) for content in contents]
    facts = [Facts(numbers, page=f"../{name}/numbers.html") for name, numbers in zip(names, shares, strict=True)]
    rows = []
    for id_, base in shares[0].items():
        numbers = [numbers.get(id_) for numbers in shares]
        cells = []
        for name, fact, number in zip(names, facts, numbers, strict=True):
            compared = number is not None and not other.get(name, True)
            cells.append((fact.interval(number), _moved(base, number) if compared and number else ""))
        if any(numbers[1:]):
            rows.append((base.subject, base.metric.removeprefix("evaluation.").removesuffix(".pass_share"), cells))
    return rows


def _shares(content: Mapping[str, Any]) -> dict[str, Finding]:
    wanted = (id_ for id_ in content["passports"] if id_.endswith(".pass_share/final") and "-vs-" not in id_.split("/")[0])
    conditions = (id_ for id_ in wanted if id_.split("/")[0] not in content["records"])
    findings = {id_: finding_of(content["passports"][id_]) for id_ in conditions}
    return {id_: finding for id_, finding in findings.items() if finding.value is not None}


def _moved(base: Finding, other: Finding) -> str:
    """Clear only where the two intervals do not touch; numbers without an interval decide nothing."""
    if base.low is None or base.high is None or other.low is None or other.high is None:
        return "open"
    return "gained" if other.low > base.high else "lost" if other.high < base.low else "open"


def _claims(columns: Sequence[PageSummary]) -> list[tuple[str, str, list[str | None]]]:
    """(id, sentence, verdict in each experiment) of every claim; None where it is not declared."""
    says = {claim.id: claim.says for summary in columns for claim in summary.claims}
    verdicts = [{claim.id: claim.verdict for claim in summary.claims} for summary in columns]
    return [(id_, sentence, [by_claim.get(id_) for by_claim in verdicts]) for id_, sentence in says.items()]
