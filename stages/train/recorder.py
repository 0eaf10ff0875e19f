"""Our own history: a journal that survives any kill while training, Parquet files at the end.

The journal lies beside the checkpoints, outside DVC's outs (DVC deletes outs before it runs a stage). One JSON line a step holds
the step's cells, one line a step holds its completions. A cell is a number, null ("does not apply"), or {"nonfinite": "nan"}.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from stages.contracts.files import make_folder, open_append, open_file, parse_json
from stages.contracts.history import (
    ANSWER_COLUMN,
    COMPLETIONS_COLUMNS,
    COMPLETIONS_SCHEMA,
    EVALUATION_COLUMNS,
    EVALUATION_SCHEMA,
    HISTORY_COLUMNS,
    HISTORY_SCHEMA,
    INFINITIES,
    PROMPT_COLUMN,
    gate_columns,
)

Cell = float | None | dict[str, str]


def cell(value: float | None) -> Cell:
    """A logged value as the journal holds it: NaN and Infinity stay apart from null."""
    if value is None:
        return None
    number = float(value)
    return number if math.isfinite(number) else {"nonfinite": str(number)}


def value_and_state(value: Cell) -> dict[str, Any]:
    """The columns `value` and `state` of a history row; an Infinity keeps its value."""
    if isinstance(value, dict):
        infinity = float(value["nonfinite"])
        return {"value": infinity if math.isinf(infinity) else None, "state": "nonfinite"}
    return {"value": value, "state": "null" if value is None else "value"}


class Journal:
    """Append-only history and completions of a run under one card. One write a line, flushed: a killed process loses no step."""

    def __init__(self, folder: Path) -> None:
        make_folder(folder)
        self.history = folder / "history.jsonl"
        self.completions = folder / "completions.jsonl"

    def step(self, *, attempt: str, step: int, tokens: int | None, seconds: float, cells: Mapping[str, Cell], in_a_row: int = 0) -> None:
        """Record the cells of one step. `tokens` counts from the start of the run, `seconds` from the start of the attempt, `in_a_row`
        the optimizer steps up to here whose gradient was not finite."""
        line = {"attempt": attempt, "step": step, "tokens": tokens, "seconds": round(seconds, 3), "cells": dict(cells)}
        _append(self.history, line | ({"in_a_row": in_a_row} if in_a_row else {}))

    def batch(self, *, attempt: str, step: int, rows: Sequence[Mapping[str, Any]]) -> None:
        """Record the completions made for one step."""
        _append(self.completions, {"attempt": attempt, "step": step, "rows": list(rows)})

    def history_rows(self) -> list[dict[str, Any]]:
        """The long table: rows of all attempts under this card, as HISTORY_COLUMNS."""
        rows = []
        for line in _lines(self.history):
            shared = {key: line[key] for key in ("attempt", "step", "tokens", "seconds")}
            rows += [{**shared, "metric": metric, **value_and_state(value)} for metric, value in line["cells"].items()]
        return rows

    def steps(self, until: int) -> list[tuple[int, dict[str, Cell]]]:
        """(step, cells) up to a step, rising: what the attempt that goes on from there has behind it."""
        return [(line["step"], line["cells"]) for line in self._counting(until)]

    def in_a_row(self, until: int) -> int:
        """How many optimizer steps in a row, the last one that of the step, had a gradient that was not finite."""
        lines = self._counting(until)
        return int(lines[-1].get("in_a_row", 0)) if lines else 0

    def _counting(self, until: int) -> list[dict[str, Any]]:
        """Lines up to a step. Of a step that two attempts made the later one counts, and nothing that came after it in the earlier."""
        latest: dict[int, dict[str, Any]] = {}
        attempt = None
        for line in _lines(self.history):
            if line["attempt"] != attempt:
                attempt, first = line["attempt"], line["step"]
                latest = {step: earlier for step, earlier in latest.items() if step < first}
            latest[line["step"]] = line
        return [latest[step] for step in sorted(latest) if step <= until]

    def completion_rows(self) -> list[dict[str, Any]]:
        """All completions of all attempts under this card."""
        return [{"attempt": line["attempt"], "step": line["step"], **row} for line in _lines(self.completions) for row in line["rows"]]

    def last_step(self, attempt: str) -> int:
        """Highest step that an attempt has finished; 0 when there is none."""
        return max((line["step"] for line in _lines(self.history) if line["attempt"] == attempt), default=0)

    def has_gradients(self) -> bool:
        """Whether any step had a gradient that was not zero; with a zero reward none has, and nothing may change."""
        return any(cell for line in _lines(self.history) if isinstance(cell := line["cells"].get("grad_norm"), int | float))


def _append(path: Path, entry: Mapping[str, Any]) -> None:
    data = (json.dumps(entry, ensure_ascii=False, allow_nan=False) + "\n").encode("utf-8", "surrogatepass")
    try:
        with open_append(path) as stream:
            end = stream.seek(0, os.SEEK_END)
            stream.seek(max(0, end - 1))
            is_torn = end and stream.read(1) != b"\n"  # by a kill: close that line, so that ours stands alone
            stream.write(b"\n" + data if is_torn else data)
    except OSError as error:
        error.filename = str(path)
        raise


def _lines(path: Path) -> Iterable[dict[str, Any]]:
    if not path.exists():
        return
    with open_file(path) as stream:
        for line in stream:
            try:
                yield parse_json(line.decode("utf-8", "replace"))
            except ValueError:
                continue  # torn by a kill; the step is trained again after the resume


_TEXTS = ("attempt", "metric", "state", "prompt_id", "text", PROMPT_COLUMN, ANSWER_COLUMN)
_TYPES = dict.fromkeys(_TEXTS, "string") | {"truncated": "bool"}
_TYPES |= dict.fromkeys(("step", "tokens", "group", "sample"), "int64") | dict.fromkeys(("seconds", "value", "reward"), "double")


def write_history(path: Path, rows: Sequence[Mapping[str, Any]], *, card_id: str, attempt: str) -> None:
    """Write history.parquet (see stages/contracts/history.py). No rows give an empty table with the right columns."""
    _write(path, rows, HISTORY_COLUMNS, (), HISTORY_SCHEMA, card_id, attempt)


def write_completions(path: Path, rows: Sequence[Mapping[str, Any]], gates: Sequence[str], *, card_id: str, attempt: str) -> None:
    """Write completions.parquet: COMPLETIONS_COLUMNS, then three columns a gate."""
    _write(path, rows, COMPLETIONS_COLUMNS, gates, COMPLETIONS_SCHEMA, card_id, attempt)


def write_evaluation(path: Path, rows: Sequence[Mapping[str, Any]], scores: Sequence[str], *, card_id: str, attempt: str) -> None:
    """Write evaluation.parquet: EVALUATION_COLUMNS, then three columns a score."""
    _write(path, rows, EVALUATION_COLUMNS, scores, EVALUATION_SCHEMA, card_id, attempt)


def _write(
    path: Path, rows: Sequence[Mapping[str, Any]], columns: Sequence[str], gates: Sequence[str], schema: str, card_id: str, attempt: str
) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    kept = [name for name in (PROMPT_COLUMN, ANSWER_COLUMN) if any(name in row for row in rows)]
    fields = [(name, _TYPES[name]) for name in (*columns, *kept)]
    fields += [field for gate in gates for field in zip(gate_columns(gate), ("string", "double", "string"), strict=True)]
    metadata = {"octavo.schema": schema, "octavo.card_id": card_id, "octavo.attempt": attempt}
    metadata |= {INFINITIES: "kept"} if schema == HISTORY_SCHEMA else {}
    layout = pa.schema([(name, pa.type_for_alias(kind)) for name, kind in fields], metadata=metadata)
    table = pa.Table.from_pylist([{name: _without_surrogates(value) for name, value in row.items()} for row in rows], schema=layout)
    make_folder(path.parent)
    temporary = path.with_name(f".{path.name}.partial")
    try:
        pq.write_table(table, temporary, compression="zstd")
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _without_surrogates(value: Any) -> Any:
    """Parquet cannot hold lone surrogates in a text."""
    return value.encode("utf-8", "replace").decode("utf-8") if isinstance(value, str) else value
