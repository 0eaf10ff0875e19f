"""Runs that octavo did not train: the files their numbers were read from, and how."""

from __future__ import annotations

from collections.abc import Iterator

from stages.contracts.import_card import ColumnCard, ColumnStats, ReadCard, SummaryCard
from stages.publish import numbers
from stages.publish.experiment import ExperimentFiles, RunFiles
from stages.publish.numbers import listed, plural

_KINDS = {"last": "last value", "mean": "mean over the run", "final": "mean over the end", "initial": "mean over the beginning"}


def commands(experiment: ExperimentFiles) -> dict[str, str]:
    """Program with its arguments -> files that its cards pin, when a program of the author trained the runs."""
    cards = [run.import_card.command for run in experiment.runs if run.import_card and run.import_card.command]
    return {" ".join(card.arguments): listed([source.path for source in card.code]) for card in cards}


def mapping(experiment: ExperimentFiles) -> Iterator[tuple[str, str, str, str]]:
    """(metric, what it was read from, unit there, place in the spec); runs of an import share one mapping."""
    run, card = next(((run, run.import_card) for run in experiment.runs if run.import_card), (None, None))
    if run and card:
        held = run.imported.read.columns if run.imported else card.read.columns  # under the names that the log has
        columns: list[tuple[str, ColumnCard | SummaryCard]] = [(f"columns/{at}", each) for at, each in enumerate(held)]
        columns += [(f"summary/{at}", each) for at, each in enumerate(card.read.summary)]
        logged = {row.metric for each in experiment.runs if each.imported for row in each.imported.held}
        for place, column in columns:
            if isinstance(column, ColumnCard) and column.optional and column.also and column.metric not in logged:
                continue  # a name of a preset that no log has
            unit = column.unit if column.factor == 1 else f"{column.unit}, times {numbers.number(column.factor)}"
            yield column.metric, _read_from(column), unit, str(experiment.origin(run.ref, f"/read/{place}") or "")


def _read_from(card: ColumnCard | SummaryCard) -> str:
    if isinstance(card, ColumnCard):
        return f"column {card.column}"
    parts = [f"{words}: {key}" for kind, words in _KINDS.items() if (key := getattr(card, kind))]
    return "; ".join([*parts, *([f"first step that is not finite: {card.nonfinite_from}"] if card.nonfinite_from else [])])


def held_numbers(row: ColumnStats) -> list[str]:
    """First, last, lowest, highest and mean in the digits that they need."""
    values = (row.first, row.last, row.lowest, row.highest, row.mean)
    small = max(map(abs, values)) < 1e-3  # learning rates: no fixed number of digits shows anything of them
    digits = None if small else numbers.column_decimals(values, most=4)
    return [numbers.number(value, "1" if small else "", decimals=digits) for value in values]


def at_the_end(experiment: ExperimentFiles) -> str:
    """What the columns of final values hold."""
    only = experiment.runs and all(run.imported and run.imported.summary for run in experiment.runs)
    return "Source's summary" if only else "Last window so far" if experiment.card.progress else "Last window"


def source(run: RunFiles) -> str:
    """File, rows and steps of a run that was imported; empty for any other."""
    card, read = run.import_card, run.imported
    if card is None:
        return ""
    path = read.source.path if read and card.only_read else card.source.path
    parts = [path if card.command is None else f"{card.command.log}, written by the program"]
    if read and read.first_step is not None:
        every = "step" if read.stride == 1 else f"{read.stride} steps"
        parts.append(f"{plural(read.rows, 'row')}, steps {read.first_step} to {read.last_step}, every {every}")
        parts += [f"gaps: {read.gap_count}"] if read.gap_count else []
    elif read and read.summary:
        parts.append("the object that holds " + ", ".join(f"{key} {value}" for key, value in card.read.where.items()))
    else:
        parts.append("nothing was read")
    pin = read.source.sha256 if read and read.source.sha256 else card.source.sha256
    return "; ".join([*parts, f"sha256 {pin[:16]}"] if pin else parts)


def mapped(read: ReadCard, metric: str) -> str:
    """What a metric was read from, in the log's unit and with the factor; empty for a metric that is not mapped."""
    columns: tuple[ColumnCard | SummaryCard, ...] = (*read.columns, *read.summary)
    column = next((column for column in columns if column.metric == metric), None)
    if column is None:
        return ""
    return f"{_read_from(column)}, in {column.unit}" + ("" if column.factor == 1 else f", times {numbers.number(column.factor)}")
