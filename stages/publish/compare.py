"""Experiments of one family side by side: what differed, what was gained and what was lost, on the metrics that they share.

Made by the stage `site` from what the pages carry (summary.json and passports.json), because no experiment's own page may wait for
another one. A child is compared with its parent; an experiment that several others change is compared with all of them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from stages.contracts.finding import Finding
from stages.publish.claims import MARKS, WORDS
from stages.publish.entries import Entry
from stages.publish.facts import Facts
from stages.publish.page_summary import PageSummary
from stages.publish.render import render

LEAF = "compare.html"
MARKER = "<!-- octavo: compare -->"
_YARDSTICK = ("evaluation", "data.evaluation")
"""Where these differ, the shared evaluation is another one, and its numbers are not comparable."""


@dataclass(frozen=True)
class Cell:
    """A number of one experiment, and how it stands against the first experiment's."""

    number: Markup
    moved: str
    """`gained`, `lost`, `open`, or empty in the first column and where there is nothing to compare."""


@dataclass(frozen=True)
class Row:
    condition: str
    score: str
    cells: tuple[Cell, ...]


def comparisons(found: list[Entry]) -> dict[str, tuple[str, ...]]:
    """Experiment -> what it is compared with, itself among them; the first one is what the others change."""
    known = {entry.summary.experiment: entry.summary for entry in found if not entry.summary.profile}
    of_parent: dict[str, list[str]] = {}
    for name in sorted(known):
        of_parent.setdefault(known[name].parent or "", []).append(name)
    made: dict[str, tuple[str, ...]] = {}
    for name, summary in sorted(known.items()):
        children = tuple(of_parent.get(name, ()))
        if children:
            made[name] = (name, *children)
        elif summary.parent in known:
            made[name] = (summary.parent, name)
    return made


def comparison(names: tuple[str, ...], pages: dict[str, Path], summaries: dict[str, PageSummary]) -> str:
    """The HTML of one page. Raises ArtifactError or KeyError on a page folder that is not whole."""
    findings = [_findings(pages[name] / "passports.json") for name in names]
    facts = [Facts(known, page=f"../{name}/numbers.html") for name, known in zip(names, findings, strict=True)]
    columns = [summaries[name] for name in names]
    differing = {
        name: [change.key for change in summaries[name].changes if change.key.split(":")[0].startswith(_YARDSTICK)] for name in names
    }
    rows = _rows(facts, findings, [bool(differing[name]) for name in names])
    return render(
        "compare.html.j2",
        names=names,
        columns=columns,
        settings=_settings(columns),
        rows=rows,
        moved={name: _counted(rows, index) for index, name in enumerate(names) if index and not differing[name]} if rows else {},
        differing={name: keys for name, keys in differing.items() if keys and name != names[0]},
        claims=_claims(columns),
        words=WORDS,
        marks=MARKS,
    )


def _findings(path: Path) -> dict[str, Finding]:
    passports = json.loads(path.read_text(encoding="utf-8"))
    return {name: Finding.model_validate(made["finding"]) for name, made in passports.items()}


def _settings(columns: list[PageSummary]) -> list[tuple[str, list[str]]]:
    """(key, value in each experiment) of everything that a child changes; the first column holds what it was before."""
    first = {change.key: change.before for summary in columns[1:] for change in summary.changes}
    values = [{change.key: change.after for change in summary.changes} for summary in columns]
    return [(key, [before, *(known.get(key, before) for known in values[1:])]) for key, before in first.items()]


def _rows(facts: list[Facts], findings: list[dict[str, Finding]], other_yardstick: list[bool]) -> list[Row]:
    """Pass shares of the shared evaluation that the first experiment and at least one other have."""
    shares = [{name: f for name, f in known.items() if f.metric.startswith("evaluation.") and f.statistic == "final"} for known in findings]
    shares = [{name: f for name, f in known.items() if "-vs-" not in f.subject and f.value is not None} for known in shares]
    runs = {seed.run for known in findings for finding in known.values() for seed in finding.seeds}
    rows = []
    for name, base in shares[0].items():
        if base.subject in runs or not any(name in other for other in shares[1:]):
            continue  # single runs are not compared across experiments: their seeds have nothing in common but a number
        cells = [Cell(facts[0].interval(base), "")]
        for fact, known, changed in zip(facts[1:], shares[1:], other_yardstick[1:], strict=True):
            other = known.get(name)
            moved = "" if other is None or changed else _moved(base, other)
            cells.append(Cell(fact.interval(other), moved))
        rows.append(Row(base.subject, base.metric.removeprefix("evaluation.").removesuffix(".pass_share"), tuple(cells)))
    return rows


def _moved(base: Finding, other: Finding) -> str:
    """Clear only when the two intervals do not touch; numbers without an interval decide nothing."""
    if base.low is None or base.high is None or other.low is None or other.high is None:
        return "open"
    return "gained" if other.low > base.high else "lost" if other.high < base.low else "open"


def _counted(rows: list[Row], index: int) -> str:
    """`4 shares gained, 1 lost, 3 without a clear difference.` of one experiment against the first."""
    moved = [row.cells[index].moved for row in rows]
    told = [
        f"{moved.count(word)} {said}" for word, said in (("gained", "gained"), ("lost", "lost"), ("open", "without a clear difference"))
    ]
    return f"Shares that pass the shared evaluation: {', '.join(told)}."


def _claims(columns: list[PageSummary]) -> list[tuple[str, str, list[str | None]]]:
    """(id, sentence, verdict in each experiment) of every claim; None where it is not declared."""
    says = {claim.id: claim.says for summary in columns for claim in summary.claims}
    verdicts = [{claim.id: claim.verdict for claim in summary.claims} for summary in columns]
    return [(id_, said, [known.get(id_) for known in verdicts]) for id_, said in says.items()]
