"""Files of rows as logs: formats `csv`, `parquet`, `jsonl`, `trainer_state`, `wandb` (a snapshot of W&B, see wandb_api.py), `text`."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stages.contracts.files import require_few
from stages.contracts.import_card import PART, SNAPSHOT, ending, pattern_names
from stages.train.imports.log import (
    MOST_CELLS,
    MOST_COLUMNS,
    WANDB_STEP,
    Log,
    NoNumber,
    Unreadable,
    content,
    flat,
    from_rows,
    load_json,
    number,
    sentence,
    shortened,
    whole,
)

_MOST_HEADER = 1 << 20


def read_csv(path: Path, index: str = "step") -> Log:
    """A table with a header. An empty cell was not logged; `NaN` was logged and is not finite; `null` does not apply. A torn last line
    and a header that stands again are left out and reported. Raises Unreadable for a file that is no UTF-8 or no CSV, a header that is
    none, and a row with more or fewer cells than the header."""
    try:
        data = content(path)
        _require_few(path, data, b",;\t\n")
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Unreadable("no_utf8", path=path, error=error) from None
    separator = max(",\t;", key=data.partition(b"\n")[0][:_MOST_HEADER].decode("utf-8", "replace").count)
    reader = csv.reader(io.TextIOWrapper(io.BytesIO(data), "utf-8", newline=""), delimiter=separator, strict=True)
    try:
        (_, header), *lines = [(reader.line_num, cells) for cells in reader if cells] or [(1, [])]
    except csv.Error as error:
        raise Unreadable("no_csv", line=reader.line_num, path=path, error=error) from None
    names = [name.strip() for name in header]
    repeated, times = Counter(filter(None, names)).most_common(1)[0] if any(names) else ("", 1)
    if times > 1:
        raise Unreadable("repeated_column", path=path, column=repeated, count=times)
    if len(names) == 1 or (names and all(_is_number(name) for name in names)):
        raise Unreadable("no_header", path=path, shown=", ".join(names)[:60])
    headers = [line for line, cells in lines if cells == header]
    lines = [(line, cells) for line, cells in lines if cells != header]
    is_whole = data.endswith((b"\n", b"\r"))
    torn = lines.pop()[0] if lines and len(lines[-1][1]) < len(names) and not is_whole else 0  # its last number may lack digits
    for line, cells in lines:
        if len(cells) != len(names):
            raise Unreadable("other_width", line=line, path=path, cells=len(cells), columns=len(names))
    rows = [{name: cell for name, cell in zip(names, cells, strict=True) if name and cell.strip()} for _, cells in lines]
    log = _with_columns(from_rows(rows, index), names)
    log.cut = f"line {torn} is torn" if torn else ""
    log.notes += [sentence("maybe_cut")] if rows and not torn and not is_whole else []
    log.notes += [sentence("header_again", line=headers[0], count=len(headers))] if headers else []
    return log


def _require_few(path: Path, data: bytes, marks: bytes) -> None:
    try:
        require_few(data, marks)
    except ValueError as error:
        raise Unreadable("refused", path=path, what=error) from None


def _is_number(text: str) -> bool:
    try:
        return number(text) is not None
    except NoNumber:
        return False


def read_jsonl(path: Path, index: str = "step", first: int = 1) -> Log:
    """One JSON object a line, from line `first` on. A torn last line (a killed writer) is left out and reported. Raises Unreadable for
    another line that is no JSON object."""
    data = content(path)
    _require_few(path, data, b",{\n")
    lines = data.split(b"\n")
    rows, cut = [], ""
    for place, line in enumerate(lines[first - 1 :], start=first):
        if not line.strip():
            continue
        try:
            row = load_json(line)
        except ValueError as error:
            if place < len(lines):  # only a line without its newline can be torn
                raise Unreadable("no_json_line", line=place, path=path, error=error) from None
            cut = f"line {place} is torn"
            break
        if not isinstance(row, dict):
            raise Unreadable("no_object", line=place, path=path)
        rows.append(dict(flat(row)))
    log = from_rows(rows, index)
    log.cut = cut
    return log


def read_trainer_state(path: Path, index: str = "step") -> Log:
    """Rows of `log_history`, alone or in trainer_state.json. `global_step` is what transformers' Trainer itself says of its last step: of a
    checkpoint the steps done so far, and the end of the run where it is `max_steps`. Raises Unreadable."""
    try:
        state = load_json(content(path))
        state = {"log_history": state} if isinstance(state, list) else state
        log = from_rows((dict(flat(row)) for row in state["log_history"]), index)
        log.steps_done = whole(state.get("global_step"))
        planned = whole(state.get("max_steps"))
    except ValueError as error:
        raise Unreadable("no_json", path=path, error=error) from None
    except NoNumber as text:
        raise Unreadable("no_global_step", path=path, text=text) from None
    except (KeyError, TypeError, AttributeError):
        raise Unreadable("no_trainer_state", path=path) from None
    log.settings = {"max_steps": planned}
    if log.steps_done is not None and planned and log.steps_done >= planned:
        log.finished = f"its own state says {log.steps_done} of {planned} steps"
    if "train_loss" in log.table:
        del log.table["train_loss"]
        log.notes.append(sentence("no_train_loss"))
    return log


def read_parquet(path: Path, index: str = "step") -> Log:
    """A table whose cells are numbers or texts. A null was not logged: data frames fill with it. NaN was logged. Raises Unreadable."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    data = content(path)
    try:
        file = pq.ParquetFile(io.BytesIO(data))
        names, rows = file.schema_arrow.names, file.metadata.num_rows
        if len(names) > MOST_COLUMNS or rows * len(names) > MOST_CELLS:
            raise Unreadable("large_table", rows=rows, columns=len(names), most_columns=MOST_COLUMNS, most_cells=MOST_CELLS)
        table = file.read().to_pylist()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise Unreadable("no_parquet", path=path, error=str(error)[:200]) from None
    return _with_columns(from_rows(({name: cell for name, cell in flat(row) if cell is not None} for row in table), index), names)


def _with_columns(log: Log, names: Sequence[str]) -> Log:
    """The log with all columns of its header: one without a cell is there and was never logged."""
    empty = [name for name in dict.fromkeys(names) if name and name not in log.table]
    if len(log.table) * (log.table.shape[1] + len(empty)) <= MOST_CELLS:
        log.table = log.table.reindex(columns=[*log.table.columns, *empty])
    return log


def read_snapshot(path: Path, index: str = WANDB_STEP) -> Log:
    """The first line says which run it is, how it ended and how far its history goes; then one line a row of history, all of them.
    Raises Unreadable for a file that is no snapshot, or that holds fewer rows than it says."""
    try:
        head = load_json(content(path).partition(b"\n")[0])
    except ValueError:
        head = None
    if not isinstance(head, dict) or head.get("schema") != SNAPSHOT:
        raise Unreadable("no_snapshot", path=path)
    log = read_jsonl(path, index, first=2)
    if len(log.table) != head.get("rows"):
        raise Unreadable("cut_snapshot", path=path, rows=head.get("rows"), count=len(log.table))
    state, left_out = head.get("state"), sorted(head.get("left_out", []))
    log.settings = head.get("config", {})
    log.no_numbers(left_out)
    if ending(state) == "finished":
        log.finished = f"W&B says `{state}`"
    elif ending(state) == "failed":
        log.failed = f"W&B says `{state}`"
    elif ending(state) == "running":
        log.running = f"W&B said `{state}` when the snapshot was made"
        log.notes.append(sentence("still_running", running=log.running))
    log.notes += [sentence("left_out", names=shortened(left_out))] if left_out else []
    return log


_NUMBER = (
    r"(?:[-+]?(?:[0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?|\.[0-9]+(?:[eE][-+]?[0-9]+)?|[nN]a[nN]|[iI]nf(?:inity)?)"
    r"|(?<![A-Za-z])(?:None|null))"
)
_BEGINS = r"(?:(?<![0-9.])|(?=[-+]))"
"""Where a number may begin that nothing of the pattern stands before: not inside of another one."""
_ENDS = r"(?!,[0-9]{3})"
"""No number ends before a comma and three digits: 1,000.5 is not 1."""
_COLOURS = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")
_LONGEST = 20_000
"""Characters of a line that is looked at."""


def read_text(path: Path, pattern: str, index: str) -> Log:
    """Every place of a line that follows a pattern such as `[Epoch {epoch}]  loss={loss}` is a row. `{name}` stands for a number (`nan`,
    `inf`, `None` and `null` among them), a run of blanks for any run of blanks, the rest for itself. A `±` that was decoded wrongly (`Â±`,
    or twice: `Ã‚Â±`) is repaired, and what colours a terminal is no part of a line. Raises Unreadable when no line follows the pattern."""
    columns, expression = pattern_names(pattern), _line_expression(pattern)
    others, repaired, first, rows = 0, 0, "", list[dict[str, Any]]()
    matches: list[re.Match[str]] = []
    data = content(path)
    _require_few(path, data, b"\n")
    for raw in _COLOURS.sub(b"", data).split(b"\n"):
        line, is_repaired = _decoded(raw)
        repaired += is_repaired
        matches = list(expression.finditer(line)) if len(line) <= _LONGEST else []
        if not matches and line.strip():
            others, first = others + 1, first or line.strip()[:80]
        rows += [dict(zip(columns, match.groups(), strict=True)) for match in matches]
    if not rows:
        raise Unreadable("no_line", path=path, pattern=pattern, first=first)
    log = from_rows(rows, index)
    log.notes += [sentence("other_lines", others=others, lines=others + len(rows))] if others else []
    log.notes += [sentence("repaired", count=repaired)] if repaired else []
    log.notes += [sentence("maybe_cut")] if matches else []  # those of the last line, which is empty in a whole file
    return log


def _line_expression(pattern: str) -> re.Pattern[str]:
    """The pattern as a regular expression that never goes back: what a number or a run of blanks has taken it keeps, and none begins
    inside of another. So a line is read in a time that grows with its length, whatever it holds."""
    expressions, parts = [], list(PART.finditer(pattern))
    for place, part in enumerate(parts):
        after = (parts[place + 1]["text"] or "") if place + 1 < len(parts) else ""
        if part["name"] is not None:
            digits = _NUMBER.replace(r"\.[0-9]*", r"\.[0-9]+") if after.startswith(".") else _NUMBER
            expressions.append(f"{'' if place else _BEGINS}((?>{digits})){'' if after.startswith(',') else _ENDS}")
        elif part["blanks"]:
            expressions.append(r"\s++" if place else r"(?<!\s)\s++")
        else:
            expressions.append(re.escape(part["text"] or part["stray"]))
    return re.compile("".join(expressions))


def _decoded(line: bytes) -> tuple[str, bool]:
    """The line as a terminal shows it (of a progress bar that writes over itself, the end), and whether it was repaired."""
    line = line.rstrip(b"\r").rpartition(b"\r")[2]
    try:
        text, is_utf8 = line.decode("utf-8"), True
    except UnicodeDecodeError:
        text, is_utf8 = line.decode("cp1252", "replace"), False
    right = text.replace("Ã‚Â±", "±").replace("Â±", "±")  # UTF-8 that was read as Latin-1 and written again, twice or once
    return right, not is_utf8 or right != text
