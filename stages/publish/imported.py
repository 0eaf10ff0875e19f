"""Runs that octavo did not train: the files their numbers were read from, how, and what a reader must know of it."""

from __future__ import annotations

from collections.abc import Iterator

from stages.contracts.import_card import ColumnCard, ColumnStats, Gap, ImportCard, Imported, SummaryCard
from stages.publish import numbers
from stages.publish.experiment import ExperimentFiles, RunFiles
from stages.publish.numbers import listed, plural

FORMATS = {
    "trainer_state": "trainer_state.json of transformers",
    "wandb": "W&B run, full scan of its history",
    "wandb_file": "offline .wandb file",
    "tensorboard": "TensorBoard events",
    "jsonl": "JSON lines",
    "csv": "CSV table",
    "text": "text log",
    "summary": "summary, final values only",
}
MOST_HELD = 12
"""Runs whose rows are shown; `imported.json` of every run holds the same."""
_KINDS = {"last": "last value", "mean": "mean over the run", "final": "mean over the end", "initial": "mean over the beginning"}


def commands(experiment: ExperimentFiles) -> dict[str, str]:
    """Program with its arguments -> files that its cards pin, when a program of the author trained the runs."""
    cards = [run.import_card.command for run in experiment.runs if run.import_card and run.import_card.command]
    return {" ".join(card.arguments): listed([source.path for source in card.code]) for card in cards}


def runs(experiment: ExperimentFiles) -> list[tuple[str, Imported, str]]:
    """(run, what was read, whether its end is known); [] when octavo trained them all."""
    return [(run.ref.name, run.imported, _end(run, run.imported)) for run in experiment.runs if run.imported]


def _end(run: RunFiles, read: Imported) -> str:
    if read.first_step is None and not read.summary:
        return "not imported"
    if read.steps == "known":
        return "known"
    return f"unknown ({run.outcome.unknown})" if run.outcome and run.outcome.unknown else "unknown"


def gaps(few: tuple[Gap, ...], count: int) -> str:
    """`2: 11 to 19, 41 to 49`."""
    steps = ", ".join(f"{gap.after + 1} to {gap.before - 1}" for gap in few)
    return f"{count}: {steps}" + (", ..." if count > len(few) else "") if count else "none"


def mapping(experiment: ExperimentFiles) -> Iterator[tuple[str, str, str, str]]:
    """(metric, what it was read from, unit there, place in the spec); runs of an import share one mapping."""
    run = next((run for run in experiment.runs if run.import_card), None)
    for kind in ("columns", "summary") if run else ():
        assert run and run.import_card
        for index, card in enumerate(getattr(run.import_card.read, kind)):
            unit = card.unit if card.factor == 1 else f"{card.unit}, times {numbers.number(card.factor)}"
            yield card.metric, _read_from(card), unit, str(experiment.origin(run.ref, f"/read/{kind}/{index}") or "")


def _read_from(card: ColumnCard | SummaryCard) -> str:
    if isinstance(card, ColumnCard):
        return f"column {card.column}"
    parts = [f"{words}: {key}" for kind, words in _KINDS.items() if (key := getattr(card, kind))]
    return "; ".join([*parts, *([f"first step that is not finite: {card.nonfinite_from}"] if card.nonfinite_from else [])])


def held(experiment: ExperimentFiles) -> dict[str, tuple[ColumnStats, ...]]:
    """Run -> every mapped metric over all rows, of the first runs."""
    rows = {run.ref.name: run.imported.held for run in experiment.runs if run.imported and run.imported.held}
    return dict(list(rows.items())[:MOST_HELD])


def held_numbers(row: ColumnStats) -> list[str]:
    """First, last, lowest, highest and mean in the digits that they need."""
    values = (row.first, row.last, row.lowest, row.highest, row.mean)
    small = max(map(abs, values)) < 1e-3  # learning rates: no fixed number of digits shows anything of them
    digits = None if small else numbers.column_decimals(((value, None, None) for value in values), most=4)
    return [numbers.number(value, "1" if small else "", decimals=digits) for value in values]


def at_the_end(experiment: ExperimentFiles) -> str:
    """What the columns of final values hold."""
    only = experiment.runs and all(run.imported and run.imported.summary for run in experiment.runs)
    return "Source's summary" if only else "Last window"


def banners(experiment: ExperimentFiles) -> Iterator[tuple[str, str, str]]:
    """(tone, title, text) of what a reader must know before the first number."""
    logs = [(run, run.imported) for run in experiment.runs if run.imported and (run.import_card is None or run.only_read)]
    if not logs:
        return
    formats = dict.fromkeys(FORMATS[read.read.format] for _, read in logs)
    text = f"octavo did not train these runs; their numbers were read from: {listed(list(formats))}."
    if all(read.summary for _, read in logs):
        text += " There are no series, so no number is a window mean and no detector could look."
    if experiment.card.claims:
        text += " Rules are dated against octavo's first look at the logs; octavo cannot tell whether the author knew the results by then."
    yield "smoke", f"Imported: {plural(len(logs), 'run')}", text
    ends = [run.outcome.unknown for run, _ in logs if run.state == "unknown" and run.outcome]
    if ends:
        different = sorted(set(ends))
        text = f"{'; '.join(different[:3])}{' ...' if len(different) > 3 else ''}."
        yield "hole", f"Whether they finished is unknown: {len(ends)} of {len(logs)} runs", text
    uneven = {run.ref.name: str(read.stride) for run, read in logs if read.stride > 1}
    if uneven:
        about = "about " if any(read.read.epoch for _, read in logs) else ""  # steps of printed epochs are near ones
        strides = sorted(set(uneven.values()), key=int)
        text = f"logged {about}every {listed(strides)} steps: {listed(list(uneven))}."
        yield "hole", f"Not every step was logged: {len(uneven)} of {len(logs)} runs", text


def source(run: RunFiles) -> str:
    """File, rows and steps of a run that was imported; empty for any other."""
    card, read = run.import_card, run.imported
    if card is None:
        return ""
    parts = [card.source.path if card.command is None else f"{card.command.log}, written by the program"]
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


def mapped(card: ImportCard, metric: str) -> str:
    """What a metric was read from, in the log's unit and with the factor; empty for a metric that is not mapped."""
    columns: tuple[ColumnCard | SummaryCard, ...] = (*card.read.columns, *card.read.summary)
    column = next((column for column in columns if column.metric == metric), None)
    if column is None:
        return ""
    return f"{_read_from(column)}, in {column.unit}" + ("" if column.factor == 1 else f", times {numbers.number(column.factor)}")
