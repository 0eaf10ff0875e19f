"""What of a W&B run enters its snapshot: numbers, and nothing else.

Texts, tables, files and media stay at W&B: no detector reads them, and a text may hold a key or a name. Of the config, numbers and
switches are kept, but for names that look like those of secrets.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stages.contracts.artifact import write_text
from stages.contracts.import_card import SNAPSHOT
from stages.train.imports.cells import NoNumber, number
from stages.train.imports.log import Unreadable

_SECRET = re.compile(r"(?:api|access|private|auth)[._-]?key|secret|passw|pwd|credential|(?:^|[._-])(?:auth|access|api)?[._-]?token$", re.I)


@dataclass
class Rows:
    """Rows of a history by their `_step`, and names of what was left out."""

    cells: dict[int, dict[str, Any]] = field(default_factory=dict)
    left_out: set[str] = field(default_factory=set)

    def add(self, row: Mapping[str, Any]) -> None:
        """Raises Unreadable for a row without its `_step`, or one that differs from an earlier row of the same `_step`."""
        step = row.get("_step")
        if not isinstance(step, int):
            raise Unreadable(f"row {len(self.cells) + 1} of the scan has no `_step`")
        kept = {}
        for name, cell in _flat(row):
            if _is_number(cell):
                kept[name] = cell
            else:
                self.left_out.add(name)
        if step in self.cells and repr(sorted(self.cells[step].items())) != repr(sorted(kept.items())):
            raise Unreadable(f"the scan gives `_step` {step} twice, with different numbers")
        self.cells[step] = kept


def numbers_of(values: Mapping[str, Any]) -> dict[str, Any]:
    """Numbers of a map, by dotted names."""
    return {name: cell for name, cell in _flat(values) if _is_number(cell)}


def settings_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """Numbers and switches of a config, without what looks like a secret by its name. Numbers that were written as text are text."""
    return {name: cell for name, cell in numbers_of(config).items() if not isinstance(cell, str) and not _SECRET.search(name)}


def write_snapshot(path: Path, head: Mapping[str, Any], rows: Rows) -> None:
    """Write the file at once; equal runs give equal bytes."""
    lines = [{"schema": SNAPSHOT, **head}, *(rows.cells[step] for step in sorted(rows.cells))]
    write_text(path, "".join(json.dumps(_strict(line), ensure_ascii=False, sort_keys=True, allow_nan=False) + "\n" for line in lines))


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Cells by dotted names; a map with `_type` is a table, a file or a medium, and stays whole."""
    for name, cell in values.items():
        if isinstance(cell, Mapping) and "_type" not in cell:
            yield from _flat(cell, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", cell


def _is_number(cell: Any) -> bool:
    try:
        number(cell)
    except NoNumber:
        return False
    return not isinstance(cell, str) or len(cell) < 40


def _strict(value: Any) -> Any:
    """NaN and Infinity as text, which the reader takes back."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: _strict(inner) for key, inner in value.items()}
    return [_strict(inner) for inner in value] if isinstance(value, list) else value
