"""What of which file an imported number was read from: for passports, for `octavo trace`, for programs."""

from __future__ import annotations

from typing import Any

from stages.contracts.import_card import ColumnCard, ImportCard, SummaryCard
from stages.publish import numbers
from stages.publish.experiment import RunFiles
from stages.publish.numbers import plural

_KINDS = {"last": "last value", "mean": "mean over the run", "final": "mean over the end", "initial": "mean over the beginning"}


def source(run: RunFiles) -> str:
    """File, rows and steps of a run that was imported; `` for any other."""
    card, found = run.import_card, run.imported
    if card is None:
        return ""
    parts = [card.source.path if card.command is None else f"{card.command.log}, written by the program"]
    if found and found.first_step is not None:
        parts.append(f"{plural(found.rows, 'row')}, steps {found.first_step} to {found.last_step}, every {_nth(found.stride)}")
        parts += [f"gaps: {found.gap_count}"] if found.gap_count else []
    elif found and found.summary:
        parts.append("the object that holds " + ", ".join(f"{key} {value}" for key, value in card.read.where.items()))
    else:
        parts.append("nothing was read")
    pin = found.source.sha256 if found and found.source.sha256 else card.source.sha256
    return "; ".join([*parts, f"sha256 {pin[:16]}"] if pin else parts)


def mapped(card: ImportCard, metric: str) -> str:
    """What a metric was read from, in the log's unit and with the factor; `` for a metric that is not mapped."""
    found = _mapped(card, metric)
    if found is None:
        return ""
    if isinstance(found, ColumnCard):
        name = f"column {found.column}"
    else:
        name = "; ".join(f"{says}: key {key}" for kind, says in _KINDS.items() if (key := getattr(found, kind)))
    return f"{name}, in {found.unit}" + ("" if found.factor == 1 else f", times {numbers.number(found.factor)}")


def for_programs(run: RunFiles, metric: str) -> dict[str, Any]:
    """The same as values; {} for a run that octavo trained."""
    card, found = run.import_card, run.imported
    if card is None:
        return {}
    column = _mapped(card, metric)
    steps = {"rows": found.rows, "first_step": found.first_step, "last_step": found.last_step, "stride": found.stride} if found else {}
    read = {"source": card.source.model_dump(mode="json"), "format": card.read.format, **steps}
    return {"imported": {**read, "mapped": column.model_dump(mode="json") if column else None}}


def _mapped(card: ImportCard, metric: str) -> ColumnCard | SummaryCard | None:
    both: tuple[ColumnCard | SummaryCard, ...] = (*card.read.columns, *card.read.summary)
    return next((one for one in both if one.metric == metric), None)


def _nth(stride: int) -> str:
    return "step" if stride == 1 else f"{stride} steps"
