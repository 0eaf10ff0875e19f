"""The page of two experiments side by side: settings that differ, what moved on the metrics that both measured, curves, claims.

The stage `compare` has computed every number; this module shows them, each with its passport on the same page.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from markupsafe import Markup

from stages.contracts.artifact import read
from stages.contracts.comparison import Comparison, Row
from stages.contracts.figure import Figure
from stages.contracts.files import read_text
from stages.contracts.layout import COMPARISONS
from stages.publish.facts import Facts
from stages.publish.figures import MEAN, inlined, read_curve, script_of
from stages.publish.header import PageSummary
from stages.publish.numbers import column_decimals
from stages.publish.passports import OTHER_FILES, Record, passports_text, plain_passport
from stages.publish.text import render

MARKER = "<!-- octavo: compare -->"
DECIDED = ("gained", "lost", "higher", "lower")
_SHOWN = 6
"""Curves that are not folded."""


class Curve(NamedTuple):
    figure: Figure
    svg: Markup
    place: str
    """Address of its files without their ending."""
    decided: bool
    """Whether a condition's number at the end moved."""


def page_name(other: str) -> str:
    """File of the page that compares an experiment with another one, in the experiment's folder."""
    return f"compare-{other}.html"


def read_comparisons(folder: Path = COMPARISONS) -> list[Comparison]:
    """All that were computed. Raises ArtifactError for a broken one."""
    return [read(Comparison, path) for path in sorted(folder.glob("*/*/comparison.json"))]


def partners(comparisons: list[Comparison]) -> dict[str, list[tuple[str, str]]]:
    """Experiment -> each one that it is compared with, and the address of that page from its own."""
    links: dict[str, list[tuple[str, str]]] = {}
    for each in comparisons:
        links.setdefault(each.experiment, []).append((each.other, page_name(each.other)))
        links.setdefault(each.other, []).append((each.experiment, f"../{each.experiment}/{page_name(each.other)}"))
    return links


def comparison_page(comparison: Comparison, summaries: Mapping[str, PageSummary], folder: Path = COMPARISONS) -> str:
    """The HTML of the page."""
    findings = [finding for row in comparison.rows for finding in (row.before, row.after, row.difference)]
    facts = Facts({finding.id: finding for finding in findings}, page="")
    counts = Counter(row.moved for row in comparison.rows)
    columns = [summaries[name] for name in (comparison.other, comparison.experiment)]
    return render(
        "compare.html.j2",
        comparison=comparison,
        columns=columns,
        facts=facts,
        counts=counts,
        decided=sorted((row for row in comparison.rows if row.moved in DECIDED), key=lambda row: DECIDED.index(row.moved)),
        rows_of=rows_of,
        conditions=list(dict.fromkeys(row.condition for row in comparison.rows if row.moved != "same")),
        digits=lambda row: column_decimals((f.value, f.low, f.high) for f in (row.before, row.after, row.difference)),
        curves=_curves(comparison, folder / comparison.experiment / comparison.other),
        most=_SHOWN,
        claims=_claims(columns),
        passports=lambda: _passports(comparison, facts),
    )


def _curves(comparison: Comparison, folder: Path) -> list[Curve]:
    """Curves of metrics that moved first."""
    decided = {row.metric for row in comparison.rows if row.moved in DECIDED}
    figures = [read(Figure, path) for path in sorted(folder.glob("curves-*.json"))]
    place = f"comparisons/{comparison.other}"
    curves = [
        Curve(figure, inlined(folder / f"{figure.name}.svg"), f"{place}/{figure.name}", figure.name.removeprefix("curves-") in decided)
        for figure in figures
    ]
    return sorted(curves, key=lambda curve: (not curve.decided, curve.figure.name))


def curve_files(comparison: Comparison, folder: Path = COMPARISONS) -> Iterator[tuple[str, str]]:
    """Name and text of the files of each curve: table, picture, and the numbers of the form that a reader can zoom."""
    place, colours = folder / comparison.experiment / comparison.other, {comparison.other: 0, comparison.experiment: 1}
    for path in sorted(place.glob("curves-*.json")):
        figure, table = read(Figure, path), read_curve(path.with_suffix(".csv"))
        table = table.assign(condition=table["experiment"] + " " + table["condition"])
        runs = table["run"].where(table["run"] == MEAN, table["experiment"] + " " + table["run"])
        table = table.assign(run=runs, is_counted=(table["counts"] == "true").groupby(runs).transform("any"))
        by_condition = {name: colours[name.partition(" ")[0]] for panel in figure.panels for name in panel}
        left_out = dict.fromkeys(table["run"][~table["is_counted"]], "")
        titles = [panel[0].partition(" ")[2] for panel in figure.panels]
        if script := script_of(figure, table, by_condition, left_out, titles):
            yield f"{figure.name}.js", script
        yield f"{figure.name}.svg", f"{inlined(path.with_suffix('.svg'))}\n"
        yield f"{figure.name}.csv", read_text(path.with_suffix(".csv"))


def _passports(comparison: Comparison, facts: Facts) -> Markup:
    sources = {source.path: source for finding in facts.used.values() for source in finding.sources}
    head = {"experiment": comparison.experiment, "recompute": "dvc repro --force --single-item compare", "analysis_card": "none"}
    shared = {OTHER_FILES: Record(rows=(), files=tuple(sources.values()))}
    return Markup(passports_text(head, map(plain_passport, facts.used.values()), shared))


def _claims(columns: list[PageSummary]) -> list[tuple[str, str, list[str | None]]]:
    """(id, sentence, verdict in each experiment) of every claim; None where it is not declared."""
    says = {claim.id: claim.says for summary in columns for claim in summary.claims}
    verdicts = [{claim.id: claim.pill for claim in summary.claims} for summary in columns]
    return [(id_, sentence, [by_claim.get(id_) for by_claim in verdicts]) for id_, sentence in says.items()]


def rows_of(rows: tuple[Row, ...], condition: str) -> list[Row]:
    """Of a condition, what moved first."""
    order = (*DECIDED, "undecided", "same")
    return sorted((row for row in rows if row.condition == condition), key=lambda row: order.index(row.moved))
