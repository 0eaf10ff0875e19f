"""Formats `jsonl`, `trainer_state` (what transformers' Trainer saves) and `wandb` (a snapshot of a W&B run, see wandb_api.py)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from stages.contracts.import_card import ENDED_BADLY, RUNNING, SNAPSHOT
from stages.train.imports.log import WANDB_STEP, Log, NoNumber, Unreadable, content, flat, from_rows, load_json, shortened, whole


def read_jsonl(path: Path, index: str = "step", first: int = 1) -> Log:
    """One JSON object a line, from line `first` on. A torn last line (a killed writer) is left out and reported. Raises Unreadable for
    another line that is no JSON object."""
    lines = content(path).split(b"\n")
    rows: list[dict[str, Any]] = []
    cut = ""
    for place, line in enumerate(lines[first - 1 :], start=first):
        if not line.strip():
            continue
        try:
            row = load_json(line)
        except ValueError as error:
            if place == len(lines):  # only a line without its newline can be torn
                cut = f"line {place} is torn"
                break
            raise Unreadable(f"line {place} of {path} is not JSON: {error}; the format has one object a line") from None
        if not isinstance(row, dict):
            raise Unreadable(f"line {place} of {path} is not a JSON object; the format has one object a line")
        rows.append(dict(flat(row)))
    log = from_rows(rows, index)
    log.cut = cut
    return log


def read_trainer_state(path: Path, index: str = "step") -> Log:
    """Rows of `log_history`; `global_step` is what the trainer itself says of its last step. Raises Unreadable."""
    try:
        state = load_json(content(path))
        rows = state["log_history"]
        log = from_rows((dict(flat(row)) for row in rows), index)
        log.steps_done = whole(state.get("global_step"))
    except ValueError as error:
        raise Unreadable(f"{path} is not JSON: {error}") from None
    except NoNumber as text:
        raise Unreadable(f"`global_step` of {path} is no number of steps: {text}") from None
    except (KeyError, TypeError, AttributeError):
        raise Unreadable(f"{path} has no `log_history` of rows, so it is no trainer_state.json") from None
    log.planned = _planned(state)
    if "train_loss" in log.table:
        del log.table["train_loss"]
        log.notes.append("`train_loss` is left out: it sums only the steps since the last resume")
    return log


def _planned(settings: dict[str, Any]) -> int | None:
    planned = settings.get("max_steps")
    return planned if isinstance(planned, int) and planned > 0 else None


def read_snapshot(path: Path, index: str = WANDB_STEP) -> Log:
    """The first line says which run it is, how it ended and how far its history goes; then one line a row of history, all of them.
    Raises Unreadable for a file that is no snapshot, or that holds fewer rows than it says."""
    try:
        head = load_json(content(path).partition(b"\n")[0])
    except ValueError:
        head = None
    if not isinstance(head, dict) or head.get("schema") != SNAPSHOT:
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
    log.no_numbers = set(head.get("left_out", []))
    if log.running:
        log.notes.append(f"{log.running}: octavo compile --update fetches it again when it has ended")
    if log.no_numbers:
        log.notes.append(f"columns of W&B that hold no numbers are not in the snapshot: {shortened(sorted(log.no_numbers))}")
    return log
