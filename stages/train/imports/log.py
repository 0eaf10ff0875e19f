"""A log as a table: what each reader makes of a file, the bytes of a file, and a cell as a number."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from stages.contracts.files import FileRefused, load_table, parse_json, read_bytes
from stages.contracts.history import LARGEST
from stages.train.attempts import Stopped

WANDB_STEP = "train/global_step"
"""Where transformers logs the step to W&B, whose own `_step` counts calls."""
EVENT_STEP = "step of the event"
LINE_STEP = "step of the line"
"""Where TensorBoard's events, and lines of a console beside a progress bar, have their step: no names that a log itself has."""
STEPS = ("step", "global_step", "train/global_step", "training/global_step", "trainer/global_step", "global_step/max_steps")
"""Where the step is when a spec does not say: the first that the log has. `_step` and `Step` of W&B count calls of log()."""
MOST_CELLS, MOST_COLUMNS, LONGEST_NAME = 10_000_000, 100_000, 300
FEW = 5
_SENTENCES: dict[str, str] = load_table(Path(__file__).with_suffix(".yaml"))
NAN, INFINITE = math.inf, -math.inf
"""Cells that were logged as NaN and as Infinity of either sign: a NaN in a table stands for "not logged"."""
_NULL = {"null", "none", "n/a", ""}
_WRAPPED = re.compile(r"(?:np\.)?(?:float|int|bfloat|tensor|array)[0-9_]*\(\[?([^\s,()\[\]]{1,60})\]?(?:, [^()]{0,100})?\)", re.IGNORECASE)
"""A number as numpy and torch print it: `np.float64(0.1)`, `tensor(0.39, device='cuda:0')`."""
_THOUSANDS = re.compile(r"[-+]?[1-9][0-9]{0,2}(?:(?:,[0-9]{3})+\.[0-9]+|(?:,[0-9]{3}){2,})")
"""`1,234.5` and `1,234,567`; `1,234` alone may be a decimal comma, and is no number."""
_NO_LOG = {"no log", "n/a", "na", "-", "--", "–", "—"}
"""What tables for people write where nothing was logged."""
_PACKED = (b"\x1f\x8b", b"PK\x03\x04", b"\xfd7zXZ", b"BZh", b"\x28\xb5\x2f\xfd")
"""First bytes of gzip, zip, xz, bzip2 and zstd."""


def sentence(key: str, /, **values: Any) -> str:
    """A sentence of log.yaml. Values are untrusted text."""
    return _SENTENCES[key].format(**values)


class Unreadable(Stopped):
    """A log that cannot be used, with a sentence of log.yaml that names the place in the log."""

    def __init__(self, key: str, /, **values: Any) -> None:
        super().__init__("data", sentence(key, **values))


class NoNumber(Exception):
    """A cell that is no number; the message shows it."""


@dataclass
class Log:
    """A whole log. Rows count from 0, in the order of the log."""

    table: pd.DataFrame
    """One column a name. A cell is a float (or NAN, or INFINITE), a text that is no number, None (does not apply) or NaN (not logged)."""
    index: str
    """Column of the step or the epoch."""
    steps_done: int | None = None
    """The last step, as the trainer itself says; None when the log merely ends."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Numbers and switches of the run's config; empty when the log has none."""
    finished: str = ""
    """What the source says of a run that ended well, such as `W&B says finished`."""
    failed: str = ""
    """What the source says of a run that did not end well, such as `exit code 1`."""
    running: str = ""
    """What the source says of a run that may go on, such as `W&B said running`."""
    unusable: dict[str, Unreadable] = field(default_factory=dict)
    """Name in the log -> why it is no series of numbers."""
    starts: set[int] = field(default_factory=set)
    """Rows at which a file begins, of logs of several files: a program began anew there."""
    elsewhere: set[int] = field(default_factory=set)
    """Those of them at which a file of another folder begins."""
    is_one_run: bool = False
    """Whether a program that octavo runs wrote it for this run alone, however often it began anew."""
    decimals: dict[str, int] = field(default_factory=dict)
    """Of a console: name -> digits behind the point, for names that were all printed with the same few."""
    cut: str = ""
    """Where the file breaks off; everything before was read."""
    notes: list[str] = field(default_factory=list)

    @property
    def columns(self) -> list[str]:
        """Names that the log has."""
        return [name for name in self.table.columns if name not in (EVENT_STEP, LINE_STEP)]

    def logged(self, column: str) -> pd.Series[Any]:
        """Cells of a column in the rows that hold it; empty for a column that the log lacks."""
        cells = self.table[column] if column in self.table else pd.Series(dtype=object)
        return cells[[cell == cell for cell in cells]]

    def no_numbers(self, names: Iterable[str]) -> None:
        """These names hold histograms, tables, texts or media, at least where the log has no column of them."""
        self.unusable |= {name: Unreadable("no_numbers", column=name) for name in names if name not in self.table}


def from_rows(rows: Iterable[Mapping[str, Any]], index: str) -> Log:
    """A log of rows such as JSON objects. Raises Unreadable for rows that share so few columns that a short file would be a table beyond
    all memory."""
    cells = [{name: _cell(cell) for name, cell in row.items()} for row in rows]
    columns = len(set[str]().union(*cells))
    if columns > MOST_COLUMNS or len(cells) * columns > MOST_CELLS:
        raise Unreadable("large_table", rows=len(cells), columns=columns, most_columns=MOST_COLUMNS, most_cells=MOST_CELLS)
    return Log(pd.DataFrame(cells, dtype=object), index)


def joined(logs: Sequence[Log]) -> Log:
    """Logs that go on with each other, in their order, as one; how the run stands is what the last one says."""
    last, offset, starts, elsewhere = logs[-1], 0, set[int](), set[int]()
    for log in logs:
        starts |= {offset} | {offset + start for start in log.starts}
        elsewhere |= {offset + start for start in log.elsewhere}
        log.table = log.table.set_axis(log.table.index + offset)
        offset = int(log.table.index.max()) + 1
    table = pd.concat([log.table for log in logs])
    return replace(
        last,
        table=table,
        starts=starts,
        elsewhere=elsewhere,
        unusable={name: fault for log in logs for name, fault in log.unusable.items()},
        cut="; ".join(log.cut for log in logs if log.cut),
        notes=list(dict.fromkeys(note for log in logs for note in log.notes)),
    )


def _cell(cell: Any) -> float | str | None:
    if isinstance(cell, str) and cell.strip().lower() in _NO_LOG:
        return math.nan
    try:
        return number(cell)
    except NoNumber:
        return str(cell)


def flat(row: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Cells of a row whose values may be maps: `{"train": {"loss": 1}}` has the column `train.loss`. A list, and W&B's tables, files and
    media (maps with `_type`), become a text that says so. Raises Unreadable for a map in a map with a name that is none: each of its cells
    would repeat it."""
    if len(prefix) > LONGEST_NAME:
        raise Unreadable("long_name", shown=prefix[:60], most=LONGEST_NAME)
    for name, cell in row.items():
        if isinstance(cell, Mapping) and "_type" not in cell:
            yield from flat(cell, f"{prefix}{name}.")
        elif isinstance(cell, (list, Mapping)):
            yield f"{prefix}{name}", f"a list of {len(cell)}" if isinstance(cell, list) else f"a medium of type {cell['_type']}"
        else:
            yield f"{prefix}{name}", cell


def content(path: Path) -> bytes:
    """The whole file, read once: a file that grows is read up to its length now. UTF-16, as a shell of Windows writes it, becomes UTF-8.
    Raises Unreadable for a folder, and for an empty or packed file."""
    if path.is_dir():
        raise Unreadable("folder", path=path)
    data = bytes_of(path)
    if not data:
        raise Unreadable("empty", path=path)
    if data.startswith(_PACKED):
        raise Unreadable("packed", path=path)
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace").encode("utf-8")
    return data.removeprefix(b"\xef\xbb\xbf")


def bytes_of(path: Path) -> bytes:
    """The bytes of a file. Raises Unreadable for one that is a link, no file or too large."""
    try:
        return read_bytes(path)
    except FileRefused as refused:
        raise Unreadable("refused", path=path, what=f"{refused.strerror}; {refused.why}") from None


def load_json(text: bytes) -> Any:
    """The value of a JSON text as other programs write it, with bare NaN and Infinity. Raises ValueError."""
    return parse_json(text, nonfinite=True)


def number(cell: Any) -> float | None:
    """The cell as a number, NAN or INFINITE for one that is not finite; None when it was logged as "does not apply". Raises NoNumber."""
    if cell is None or (isinstance(cell, str) and cell.strip().lower() in _NULL):
        return None
    if isinstance(cell, str):
        wrapped = _WRAPPED.fullmatch(cell.strip())
        cell = wrapped[1] if wrapped else cell.replace(",", "") if _THOUSANDS.fullmatch(cell.strip()) else cell
    try:
        value = float(cell)  # true and false count as 1 and 0; a text may be nan or infinity
    except OverflowError:  # an integer of more than 308 digits
        return INFINITE
    except (TypeError, ValueError):
        raise NoNumber(repr(cell)[:60]) from None
    return NAN if math.isnan(value) else INFINITE if math.isinf(value) else value


def whole(cell: Any) -> int | None:
    """The cell as a step: a whole number from 0; None when there is none. Raises NoNumber."""
    value = number(cell)
    if value is not None and not (0 <= value < 1 << 53 and value == int(value)):
        raise NoNumber(f"{value:g}")
    return None if value is None else int(value)


def value_and_state(logged: float | None, factor: float) -> tuple[float | None, str]:
    """A number in the unit of its metric, with its state (stages/contracts/history.py); beyond LARGEST it counts as infinite."""
    if logged is None or logged == NAN:
        return None, "null" if logged is None else "nonfinite"
    value = logged * factor
    return (value, "value") if abs(value) <= LARGEST else (math.inf, "nonfinite")


def shortened(names: Sequence[str], limit: int = FEW) -> str:
    """The first few names of a list."""
    return ", ".join(names[:limit]) + (", ..." if len(names) > limit else "")
