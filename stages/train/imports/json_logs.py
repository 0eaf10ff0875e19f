"""Formats `jsonl`, `trainer_state` (what transformers' Trainer saves) and `wandb` (a snapshot of a W&B run, see wandb_api.py)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stages.contracts.import_card import ENDED_BADLY, RUNNING, SNAPSHOT
from stages.train.imports.cells import NoNumber, whole
from stages.train.imports.log import WANDB_STEP, Log, Unreadable, flat, from_rows
from stages.train.imports.text import content, load_json

FEW = 5


def read_jsonl(path: Path, index: str = "step", first: int = 1) -> Log:
    """One JSON object a line, from line `first` on. A torn last line (a killed writer) is left out and reported. Raises Unreadable for
    another line that is no JSON object."""
    lines = content(path).split(b"\n")
    rows: list[dict[str, Any]] = []
    cut = ""
    for number, line in enumerate(lines[first - 1 :], start=first):
        if not line or line.isspace():
            continue
        try:
            row = load_json(line)
        except ValueError as error:
            if number == len(lines):  # only a line without its newline can be torn
                cut = f"line {number} is torn"
                break
            raise Unreadable(f"line {number} of {path} is not JSON: {error}{_other_format(lines)}") from None
        if not isinstance(row, dict):
            advice = f"; one object a line, such as by: jq -c '.[]' {path}" if isinstance(row, list) else ""
            raise Unreadable(f"line {number} of {path} is not a JSON object{advice}")
        rows.append(dict(flat(row)))
    log = from_rows(rows, index)
    log.cut = cut
    return log


def _other_format(lines: list[bytes]) -> str:
    """Which format a file has that begins like JSON and holds no object a line, as the end of a sentence."""
    if lines[0].strip() not in (b"{", b"["):
        return ""
    is_state = any(b'"log_history"' in line for line in lines[:1_000])
    return "; it is one JSON text over many lines, " + (
        "the format `trainer_state`" if is_state else "and the format has one object a line"
    )


def read_trainer_state(path: Path, index: str = "step") -> Log:
    """Rows of `log_history`; `global_step` is what the trainer itself says of its last step. Raises Unreadable."""
    data = content(path)
    try:
        state = load_json(data)
    except ValueError as error:
        advice = "; one object a line is the format `jsonl`" if data.startswith(b"{") and b"}\n{" in data else ""
        raise Unreadable(f"{path} is not JSON: {error}{advice}") from None
    rows = state.get("log_history") if isinstance(state, dict) else None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise Unreadable(f"{path} has no `log_history` of rows, so it is no trainer_state.json")
    log = from_rows((dict(flat(row)) for row in rows), index)
    try:
        log.steps_done = whole(state.get("global_step"))
    except NoNumber as text:
        log.notes.append(f"`global_step` is no number of steps: {text}")
    log.planned = _planned(state)
    if "train_loss" in log.table:
        del log.table["train_loss"]
        log.notes.append("`train_loss` is left out: it sums only the steps since the last resume")
    return log


def _planned(settings: dict[str, Any]) -> int | None:
    planned = settings.get("max_steps")
    return planned if isinstance(planned, int) and planned > 0 else None


_PARTS: dict[str, Any] = {"config": {}, "summary": {}, "left_out": []}
"""What the first line of a snapshot has besides, with its type."""


def read_snapshot(path: Path, index: str = WANDB_STEP) -> Log:
    """The first line says which run it is, how it ended and how far its history goes; then one line a row of history, all of them.
    Raises Unreadable for a file that is no snapshot, or that holds fewer rows than it says."""
    if path.is_dir():
        raise Unreadable(f"{path} is a folder, and a snapshot is a file")
    with path.open("rb") as stream:
        first = stream.readline()
    try:
        head = load_json(first)
    except ValueError:
        head = None
    has_parts = isinstance(head, dict) and all(isinstance(head.get(name, part), type(part)) for name, part in _PARTS.items())
    if not has_parts or head.get("schema") != SNAPSHOT:
        raise Unreadable(f"{path} is no snapshot of a W&B run; octavo compile --update makes them, from a full scan of the history")
    log = read_jsonl(path, index, first=2)
    if len(log.table) != head.get("rows"):
        raise Unreadable(f"{path} says {head.get('rows')!r} rows and holds {len(log.table)}: it was cut or edited")
    state = head.get("state")
    if state in ENDED_BADLY:
        log.failed = f"W&B says `{state}`"
    elif state in RUNNING:
        log.running = f"W&B said `{state}` when the snapshot was made"
    log.settings = head.get("config", {})
    log.planned = _planned(log.settings)
    log.notes += _snapshot_notes(head, log)
    return log


def _snapshot_notes(head: dict[str, Any], log: Log) -> Iterator[str]:
    """What the first line says beyond the rows."""
    if log.running:
        yield f"{log.running}: octavo compile --update fetches it again when it has ended"
    left_out = [str(name) for name in head.get("left_out", [])]
    log.no_numbers.update(left_out)
    if left_out:
        yield f"columns of W&B that hold no numbers are not in the snapshot: {shortened(left_out)}"
    summary = head.get("summary", {})
    for name in (WANDB_STEP, "_step"):
        last = summary.get(name)
        reached = max((cell for cell in log.logged(name) if type(cell) is int), default=None)
        if type(last) is int and reached is not None and last > reached:
            yield f"W&B's summary says `{name}` {last}, and the history ends at {reached}"


def shortened(names: list[str]) -> str:
    """The first few names of a list."""
    return ", ".join(names[:FEW]) + (", ..." if len(names) > FEW else "")
