"""The small picture of a page's lineage: spec and inputs, conditions with their runs, what was computed, the page.

Four columns of at most a dozen boxes; each box opens to what it stands for. All files behind the page are in lineage.json.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from stages.contracts.finding import Finding
from stages.publish import judged
from stages.publish.claims import ClaimView
from stages.publish.experiment import ExperimentFiles, RunFiles
from stages.publish.numbers import plural
from stages.publish.text import figure_id, passport_address, record_anchor, verdict_id

MOST_BOXES = 12
_MOST_CONDITIONS = 5
"""Boxes of conditions; with more conditions the last box holds the rest."""


class Line(NamedTuple):
    """A line in an opened box. `address` is where the page tells more; empty for plain text."""

    text: str
    address: str = ""
    note: str = ""


class Box(NamedTuple):
    name: str
    text: str
    lines: Sequence[Line]
    colour: int | None = None
    """Of a condition, as in the figures."""
    tone: str = ""
    """`hole` where something of it is missing."""


class Column(NamedTuple):
    says: str
    boxes: Sequence[Box]


def flow(experiment: ExperimentFiles, claims: Sequence[ClaimView], used: Mapping[str, Finding]) -> tuple[Column, ...]:
    """From the spec to the page, left to right."""
    places = [Line(str(place), note=f"condition {name}") for name, place in experiment.origins.conditions.items()]
    places += [Line(str(claim.place), note=f"claim {claim.id}") for claim in claims if claim.place]
    inputs = list(dict.fromkeys(_inputs(experiment)))
    findings = [
        Line("passports of all of them", "numbers.html"),
        Line("analysis card", note=experiment.conclusions.card_id or "none"),
        *([Line("code of the analysis", note=judged.versions(experiment.conclude.code))] if experiment.conclude else []),
    ]
    figures = [Line(d.figure.title, passport_address(figure_id(d.figure.name))) for d in experiment.drawings]
    verdicts = [Line(claim.id, passport_address(verdict_id(claim.id)), claim.word) for claim in claims]
    page = [
        Line("its files and their digests", "lineage.json"),
        Line("summary for programs", "summary.json"),
        Line("code of the page", note=judged.versions(experiment.card.code)),
    ]
    declared = (Box("spec", experiment.card.spec, places), Box("data and model", plural(len(inputs), "input"), inputs))
    computed = (
        Box("findings", f"{plural(len(used), 'number')} on this page", findings),
        Box("figures", plural(len(figures), "figure"), figures),
        Box("verdicts", plural(len(verdicts), "claim"), verdicts),
    )
    return (
        Column("what was declared", [box for box in declared if box.lines or box.name == "spec"]),
        Column("what was run", _conditions(experiment)),
        Column("what was computed", [box for box in computed if box.lines]),
        Column("what is published", (Box("page", "this page", page),)),
    )


def _inputs(experiment: ExperimentFiles) -> Iterable[Line]:
    for run in experiment.runs:
        if run.card:
            data, model = run.card.data, run.card.model
            yield Line(data.name, note=data.pin if data.hub else f"sha256 {(data.sha256 or '')[:12]}")
            yield Line(model.base, note=f"revision {model.revision[:12]}")
        if run.import_card:
            yield Line(run.import_card.source.path, note=f"sha256 {run.import_card.source.sha256[:12]}")


def _conditions(experiment: ExperimentFiles) -> list[Box]:
    names = [condition.name for condition in experiment.card.conditions]
    alone = names if len(names) <= _MOST_CONDITIONS else names[: _MOST_CONDITIONS - 1]
    boxes = [_box(experiment, name, experiment.of_condition(name), colour % 8) for colour, name in enumerate(alone)]
    rest = [run for name in names[len(alone) :] for run in experiment.of_condition(name)]
    return [*boxes, *([_box(experiment, plural(len(names) - len(alone), "more condition"), rest)] if rest else [])]


def _box(experiment: ExperimentFiles, name: str, runs: Sequence[RunFiles], colour: int | None = None) -> Box:
    text = f"{sum(run.included for run in runs)} of {plural(len(runs), 'run')} {'counts' if len(runs) == 1 else 'count'}"
    lines = [_run(experiment, run) for run in runs]
    return Box(name, text, lines, colour, "" if all(run.included for run in runs) else "hole")


def _run(experiment: ExperimentFiles, run: RunFiles) -> Line:
    name = run.ref.name
    counts = "" if run.included else ", left out" if run.state == "finished" else ""
    place = f"run-{name}.html" if experiment.card.run_pages else f"numbers.html#{record_anchor(name)}"
    return Line(name, place, f"{run.state}{counts}, {plural(len(run.attempts), 'attempt')}")
