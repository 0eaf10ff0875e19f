"""The small picture of a page's lineage: the spec, what it pins, conditions with their runs, numbers, verdicts, the page.

At most a dozen boxes in four columns, each of which opens to what it stands for; the whole graph is in lineage.json.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from stages.contracts.finding import Finding
from stages.publish import judged
from stages.publish.claims import ClaimView
from stages.publish.experiment import ExperimentFiles, RunFiles
from stages.publish.numbers import plural
from stages.publish.run_page import leaf
from stages.publish.text import figure_id, slug, verdict_id

MOST = 12
_ALONE = 5
"""So many conditions have a box of their own; with more of them the last box holds the rest."""


@dataclass(frozen=True)
class Line:
    """Something in an opened box. `address` is where the page tells more; empty for plain text."""

    text: str
    address: str = ""
    note: str = ""


@dataclass(frozen=True)
class Box:
    name: str
    text: str
    lines: tuple[Line, ...]
    colour: int | None = None
    """Of a condition, as in the figures."""
    tone: str = ""
    """`hole` where something of it is missing."""


@dataclass(frozen=True)
class Column:
    """Boxes that the next column's come from."""

    says: str
    boxes: tuple[Box, ...]


def flow(experiment: ExperimentFiles, claims: tuple[ClaimView, ...], used: Mapping[str, Finding]) -> tuple[Column, ...]:
    """From the spec to the page, left to right."""
    return (
        Column("what was declared", (_spec(experiment, claims), *_inputs(experiment))),
        Column("what was run", _conditions(experiment)),
        Column("what was computed", tuple(box for box in (_findings(experiment, used), _figures(experiment), _verdicts(claims)) if box)),
        Column("what is published", (_page(experiment),)),
    )


def _spec(experiment: ExperimentFiles, claims: tuple[ClaimView, ...]) -> Box:
    places = [*((f"condition {name}", place) for name, place in experiment.origins.conditions.items())]
    places += [(f"claim {claim.id}", claim.place) for claim in claims if claim.place]
    return Box("spec", experiment.card.spec, tuple(Line(str(place), note=what) for what, place in places))


def _inputs(experiment: ExperimentFiles) -> tuple[Box, ...]:
    found: dict[str, Line] = {}
    for run in experiment.runs:
        if run.card:
            data, model = run.card.data, run.card.model
            found[f"data {data.name}"] = Line(data.name, note=data.pin if data.hub else f"sha256 {(data.sha256 or '')[:12]}")
            found[f"model {model.base}"] = Line(model.base, note=f"revision {model.revision[:12]}")
        if run.import_card:
            source = run.import_card.source
            found[f"source {source.path}"] = Line(source.path, note=f"sha256 {source.sha256[:12]}")
    return (Box("data and model", plural(len(found), "input"), tuple(found.values())),) if found else ()


def _conditions(experiment: ExperimentFiles) -> tuple[Box, ...]:
    names = [condition.name for condition in experiment.card.conditions]
    alone = names if len(names) <= _ALONE else names[: _ALONE - 1]
    boxes = [_condition(experiment, name, names.index(name)) for name in alone]
    rest = [run for name in names[len(alone) :] for run in experiment.of_condition(name)]
    if rest:
        lines = tuple(_run(experiment, run) for run in rest)
        boxes.append(Box(plural(len(names) - len(alone), "more condition"), _counted(rest), lines, tone=_tone(rest)))
    return tuple(boxes)


def _condition(experiment: ExperimentFiles, name: str, colour: int) -> Box:
    runs = experiment.of_condition(name)
    return Box(name, _counted(runs), tuple(_run(experiment, run) for run in runs), colour % 8, _tone(runs))


def _counted(runs: list[RunFiles] | tuple[RunFiles, ...]) -> str:
    return f"{sum(run.included for run in runs)} of {plural(len(runs), 'run')} {'counts' if len(runs) == 1 else 'count'}"


def _tone(runs: list[RunFiles] | tuple[RunFiles, ...]) -> str:
    return "" if all(run.included for run in runs) else "hole"


def _run(experiment: ExperimentFiles, run: RunFiles) -> Line:
    place = leaf(run.ref.name) if experiment.card.run_pages else f"numbers.html#behind-{run.ref.name.replace(' ', '-')}"
    counts = "" if run.included else ", left out" if run.state == "finished" else ""
    return Line(run.ref.name, place, f"{run.state}{counts}, {plural(len(run.attempts), 'attempt')}")


def _findings(experiment: ExperimentFiles, used: Mapping[str, Finding]) -> Box:
    card = experiment.conclude
    lines = [Line("passports of all of them", "numbers.html"), Line("the same for programs", "passports.json")]
    lines += [Line("analysis card", note=experiment.conclusions.card_id or "none")]
    if card:
        lines.append(Line("code of the analysis", note=judged.versions(card.code)))
    return Box("findings", f"{plural(len(used), 'number')} on this page", tuple(lines))


def _figures(experiment: ExperimentFiles) -> Box | None:
    if not experiment.drawings:
        return None
    lines = tuple(Line(d.figure.title, f"numbers.html#{slug(figure_id(d.figure.name))}") for d in experiment.drawings)
    return Box("figures", plural(len(lines), "figure"), lines)


def _verdicts(claims: tuple[ClaimView, ...]) -> Box | None:
    if not claims:
        return None
    return Box(
        "verdicts", plural(len(claims), "claim"), tuple(Line(c.id, f"numbers.html#{slug(verdict_id(c.id))}", c.word) for c in claims)
    )


def _page(experiment: ExperimentFiles) -> Box:
    lines = (
        Line("the whole graph", "lineage.json"),
        Line("as W3C PROV", "prov.json"),
        Line("summary for programs", "summary.json"),
        Line("code of the page", note=judged.versions(experiment.card.code)),
    )
    return Box("page", "this page", lines)
