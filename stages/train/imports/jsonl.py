"""Format `jsonl`: one JSON object a line. A torn last line (a killed writer) is left out and reported."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stages.train.imports.content import content
from stages.train.imports.json_text import loads
from stages.train.imports.log import Log, Unreadable, by_column, flat


def read(path: Path, index: str = "step", first: int = 1) -> Log:
    """Rows from a line on. Raises Unreadable for a line that is no JSON object."""
    cut: list[str] = []
    log = by_column(_rows(path, cut, first), index)
    log.cut = "; ".join(cut)
    return log


def _rows(path: Path, cut: list[str], first: int) -> Iterator[dict[str, Any]]:
    lines = content(path).split(b"\n")
    for number, line in enumerate(lines, start=1):
        if number < first or not line or line.isspace():
            continue
        try:
            row = loads(line)
        except ValueError as error:
            if number == len(lines):  # only a line without its newline can be torn
                cut.append(f"line {number} is torn")
                return
            raise Unreadable(f"line {number} of {path} is not JSON: {error}{_other(lines)}") from None
        if not isinstance(row, dict):
            hint = f"; one object a line, such as by: jq -c '.[]' {path}" if isinstance(row, list) else ""
            raise Unreadable(f"line {number} of {path} is not a JSON object{hint}")
        yield dict(flat(row)) if any(isinstance(cell, (dict, list)) for cell in row.values()) else row


def _other(lines: list[bytes]) -> str:
    """What a file is that begins like JSON and holds no object a line."""
    if lines[0].strip() in (b"{", b"["):
        whole = any(b'"log_history"' in line for line in lines[:1_000])
        return "; it is one JSON text over many lines" + (
            ", the format `trainer_state`" if whole else ", and the format has one object a line"
        )
    return ""
