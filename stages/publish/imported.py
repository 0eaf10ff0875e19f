"""Runs that octavo did not train: where their numbers come from, how they were read, and what a reader must know of it."""

from __future__ import annotations

from dataclasses import dataclass

from stages.contracts.import_card import Gap, Imported
from stages.contracts.metric_words import words
from stages.publish import numbers
from stages.publish.experiment import ExperimentFiles
from stages.publish.numbers import plural

_FORMATS = {
    "trainer_state": "trainer_state.json of transformers",
    "wandb": "W&B run, full scan of its history",
    "wandb_file": "offline .wandb file",
    "tensorboard": "TensorBoard events",
    "jsonl": "JSON lines",
    "csv": "CSV table",
    "text": "text log",
    "summary": "summary, final values only",
}


@dataclass(frozen=True)
class ImportRow:
    """One run's source."""

    run: str
    path: str
    pin: str
    read_as: str
    rows: str
    steps: str
    stride: str
    gaps: str
    known: str
    notes: tuple[str, ...]


@dataclass(frozen=True)
class MappedRow:
    """One of octavo's metrics and what it was read from."""

    metric: str
    name: str
    source: str
    unit: str
    place: str


def commands(experiment: ExperimentFiles) -> tuple[tuple[str, str], ...]:
    """(program with its arguments, files that its cards pin) when a program of the author trained the runs."""
    made = [run.import_card.command for run in experiment.runs if run.import_card and run.import_card.command]
    return tuple(dict.fromkeys((" ".join(one.arguments), numbers.listed([source.path for source in one.code])) for one in made))


def rows(experiment: ExperimentFiles) -> tuple[ImportRow, ...]:
    """One a run that was imported; () when octavo trained them all."""
    return tuple(_row(run.ref.name, run.imported, run.outcome.unknown if run.outcome else "") for run in experiment.runs if run.imported)


def _row(run: str, found: Imported, unknown: str) -> ImportRow:
    series = found.first_step is not None
    ends = f"unknown ({unknown})" if unknown else "unknown"
    return ImportRow(
        run=run,
        path=found.source.path,
        pin=found.source.sha256[:16],
        read_as=_FORMATS[found.read.format],
        rows=str(found.rows) if series else numbers.NONE,
        steps=f"{found.first_step} to {found.last_step}" if series else f"{found.last_step}" if found.last_step else numbers.NONE,
        stride=str(found.stride) if series else numbers.NONE,
        gaps=_gaps(found.gaps, found.gap_count) if series else numbers.NONE,
        known="not imported" if not (series or found.summary) else "known" if found.steps == "known" else ends,
        notes=found.notes,
    )


def _gaps(gaps: tuple[Gap, ...], count: int) -> str:
    if not count:
        return "none"
    few = ", ".join(f"{gap.after + 1} to {gap.before - 1}" for gap in gaps)
    return f"{count}: {few}" + (", ..." if count > len(gaps) else "")


def mapping(experiment: ExperimentFiles) -> tuple[MappedRow, ...]:
    """octavo's metrics with their columns; runs of an import share one mapping."""
    run = next((run for run in experiment.runs if run.import_card), None)
    if run is None or run.import_card is None:
        return ()
    read = run.import_card.read
    found = []
    for kind in ("columns", "summary"):
        for index, card in enumerate(getattr(read, kind)):
            place = experiment.origin(run.ref, f"/read/{kind}/{index}")
            unit = card.unit if card.factor == 1 else f"{card.unit}, times {numbers.number(card.factor)}"
            found.append(MappedRow(card.metric, words(card.metric), _source(card), unit, str(place) if place else ""))
    return tuple(found)


def _source(card: object) -> str:
    column = getattr(card, "column", None)
    if column is not None:
        return f"column {column}"
    kinds = {"last": "last value", "mean": "mean over the run", "final": "mean over the end", "initial": "mean over the beginning"}
    parts = [f"{says}: {key}" for kind, says in kinds.items() if (key := getattr(card, kind))]
    since = getattr(card, "nonfinite_from", None)
    return "; ".join([*parts, *([f"first step that is not finite: {since}"] if since else [])])


MOST_HELD = 12
"""Runs whose rows are shown; `imported.json` of every run holds the same."""


@dataclass(frozen=True)
class HeldRow:
    """What the rows of one run's log hold of a metric."""

    run: str
    metric: str
    rows: str
    first: str
    last: str
    lowest: str
    highest: str
    mean: str


def held(experiment: ExperimentFiles) -> tuple[HeldRow, ...]:
    """Of the first runs: every mapped metric over all rows, in the digits that its numbers need."""
    runs = [(run.ref.name, run.imported) for run in experiment.runs if run.imported and run.imported.held][:MOST_HELD]
    found = []
    for run, record in runs:
        for one in record.held:
            values = (one.first, one.last, one.lowest, one.highest, one.mean)
            small = max(map(abs, values)) < 1e-3  # as of learning rates, of which no fixed number of digits shows anything
            digits = None if small else numbers.column_decimals(((value, None, None) for value in values), most=4)
            first, last, lowest, highest, mean = (numbers.number(value, "1" if small else "", decimals=digits) for value in values)
            found.append(HeldRow(run, words(one.metric), str(one.rows), first, last, lowest, highest, mean))
    return tuple(found)


def unavailable(experiment: ExperimentFiles) -> str:
    """Metrics that the author says the source does not have."""
    return numbers.listed(list(experiment.card.unavailable)) if experiment.card.unavailable else ""


def at_the_end(experiment: ExperimentFiles) -> str:
    """What the columns of final values hold."""
    only = [run for run in experiment.runs if run.imported and run.imported.summary]
    return "Source's summary" if only and len(only) == len(experiment.runs) else "Last window"


def banners(experiment: ExperimentFiles) -> list[tuple[str, str, str]]:
    """(tone, title, text) of what a reader must know before the first number."""
    found = [run for run in experiment.runs if run.imported and (run.import_card is None or run.only_read)]
    if not found:
        return []
    formats = list(dict.fromkeys(_FORMATS[run.imported.read.format] for run in found if run.imported))
    only = all(run.imported.summary for run in found if run.imported)
    text = f"octavo did not train these runs; their numbers were read from: {numbers.listed(formats)}."
    text += " There are no series, so no number is a window mean and no detector could look." if only else ""
    if experiment.card.claims:
        text += " Rules are dated against octavo's first look at the logs: whether the author knew the results by then, it cannot tell."
    made = [("smoke", f"Imported: {plural(len(found), 'run')}", text)]
    open_ = [run for run in found if run.state == "unknown"]
    if open_:
        ends = sorted({run.outcome.unknown for run in open_ if run.outcome})
        seen = f"{'; '.join(ends[:3])}{' ...' if len(ends) > 3 else ''}"
        made.append(("hole", f"Whether they finished is unknown: {len(open_)} of {len(found)} runs", f"{seen}."))
    uneven = [run.ref.name for run in found if run.imported and run.imported.stride > 1]
    if uneven:
        strides = sorted({run.imported.stride for run in found if run.imported and run.imported.stride > 1})
        about = "about " if any(run.imported.read.epoch for run in found if run.imported) else ""  # steps of printed epochs are near ones
        said = f"logged {about}every {numbers.listed([str(stride) for stride in strides])} steps: {numbers.listed(uneven)}."
        made.append(("hole", f"Not every step was logged: {len(uneven)} of {len(found)} runs", said))
    return made
