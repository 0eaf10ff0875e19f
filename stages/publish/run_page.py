"""One page a run, when the spec asks for them (`page: {runs: true}`): numbers, curves, health, attempts, completions, card.

They are leaves: out of navigation and search. A run is shown against the mean of every condition, on the axes of the experiment's page.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from markupsafe import Markup

from stages.contracts.metric_words import words
from stages.publish import numbers
from stages.publish.anomalies import evidence_texts, evidence_words
from stages.publish.browser import browse
from stages.publish.exclusions import left_out
from stages.publish.experiment import ExperimentFiles, RunFiles
from stages.publish.explain import clipped_at, explain
from stages.publish.facts import Facts
from stages.publish.ledger import attempt_rows
from stages.publish.numbers import setting
from stages.publish.overview import Movement, movement, steps_done
from stages.publish.passports import passport, records
from stages.publish.pictures import STYLE, Picture, inlined
from stages.publish.render import render
from stages.publish.settings import GROUPS, flat

_TITLE = re.compile(r"<title>([^<]*)</title>")
_RUN = re.compile(r"(?P<run>\S+?)(?::| \(|$)")


@dataclass(frozen=True)
class Line:
    """A setting of the run with the place it was written at."""

    key: str
    value: str
    place: str


def leaf(run: str) -> str:
    """The file name of a run's page; run names are slugs."""
    return f"run-{run}.html"


def run_pages(experiment: ExperimentFiles) -> dict[str, str]:
    """File name -> HTML of each run's page; nothing when the spec does not ask for them."""
    if not experiment.card.run_pages:
        return {}
    return {leaf(run.ref.name): _page(experiment, index) for index, run in enumerate(experiment.runs)}


def _page(experiment: ExperimentFiles, index: int) -> str:
    run, name = experiment.runs[index], experiment.runs[index].ref.name
    facts, detections = Facts(experiment.findings, page=""), run.health.detections if run.health else ()
    signals = [(detection.detector, signal) for detection in detections for signal in detection.signals]
    values = {
        "card": experiment.card,
        "experiment": experiment.folder.name,
        "run": run,
        "name": name,
        "colour": [c.name for c in experiment.card.conditions].index(run.ref.condition),
        "before": experiment.runs[index - 1].ref.name if index else None,
        "after": experiment.runs[index + 1].ref.name if index + 1 < len(experiment.runs) else None,
        "leaf": leaf,
        "left_out": left_out(run),
        "done": steps_done(facts, run),
        "moved": _moved(experiment, facts, name),
        "evaluated": [
            (score, facts.interval(found))
            for score in experiment.card.evaluation
            if (found := facts.find(name, f"evaluation.{score}.pass_share", "final", "share"))
        ],
        "pictures": curves_of(experiment, name),
        "gates": run.health.gates if run.health else (),
        "signals": [
            (of.replace("_", " "), signal, evidence_words(signal), evidence_texts(signal), explain([signal], clipped_at(run.card)))
            for of, signal in signals
        ],
        "looked": sum(d.state == "looked" for d in detections),
        "attempts": [row for row in attempt_rows(experiment) if row.run == name],
        "completions": browse(experiment.condition(run.ref.condition), run),
        "settings": _settings(experiment, run),
        "made": run.card or run.import_card,
    }
    used = facts.used.values()
    return render("run.html.j2", **values, passports=[passport(experiment, finding) for finding in used], records=records(experiment, used))


def _moved(experiment: ExperimentFiles, facts: Facts, run: str) -> list[tuple[str, str, Movement]]:
    """(metric, its words, first and last window with the change) of the page's curves that have any."""
    found = []
    for metric in experiment.card.curves:
        ends = facts.moved(run, metric)
        if any(ends):
            row = tuple(end.value if end else None for end in ends)
            digits = numbers.agreed_rows([(row[0], row[1], row[2])])
            found.append((metric, words(metric), movement(facts, run, metric, digits[0])))
    return found


def curves_of(experiment: ExperimentFiles, run: str) -> tuple[Picture, ...]:
    """The experiment's curves with the lines and marks of one run and every condition's mean; rules of style in the first one."""
    others = {ref.name for ref in experiment.card.runs} - {run}
    found: list[Picture] = []
    order = [f"curves-{name}" for name in experiment.card.curves]
    for drawing in sorted((d for d in experiment.drawings if d.figure.name in order), key=lambda d: order.index(d.figure.name)):
        lines = [line for line in inlined(drawing.svg).splitlines() if not _of_another(line, others)]
        svg = "\n".join(lines)
        found.append(Picture(drawing.figure, Markup(STYLE.sub("", svg, count=1) if found else svg), drawing.csv.name))
    return tuple(found)


def _of_another(line: str, others: set[str]) -> bool:
    """Whether a line of a picture is about one of the other runs; draw writes an element a line, and whose it is in its title."""
    title = _TITLE.search(line)
    named = _RUN.match(title[1]) if title else None
    return named is not None and named["run"] in others


def _settings(experiment: ExperimentFiles, run: RunFiles) -> list[tuple[str, tuple[Line, ...]]]:
    if run.card is None:
        return []
    groups: list[tuple[str, tuple[Line, ...]]] = []
    for group in GROUPS:
        lines = tuple(
            Line(pointer.removeprefix(f"/{group}/").replace("/", "."), setting(value), str(experiment.origin(run.ref, pointer) or ""))
            for pointer, value in flat(run.card, group).items()
        )
        if lines:
            groups.append((group, lines))
    return groups
