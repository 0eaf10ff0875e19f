"""Format `text`: lines of a log that follow a declared pattern, such as `[Epoch {epoch}]  loss={loss}  reward={reward}±{spread}`.

`{name}` stands for a number (`nan` and `inf` among them, and `None` or `null` for what does not apply), the rest for itself; a run of
blanks for any run of blanks. Lines that do not follow the pattern are counted and left out. A `±` that was decoded wrongly (`Â±`, or
twice: `Ã‚Â±`) is repaired, and what colours a terminal is no part of a line.
"""

from __future__ import annotations

import re
from pathlib import Path

from stages.contracts.import_card import PART, names
from stages.train.imports.cells import number
from stages.train.imports.log import Log, Unreadable, from_rows
from stages.train.imports.text import content

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


def line_expression(pattern: str) -> re.Pattern[str]:
    """The pattern as a regular expression that never goes back: what a number or a run of blanks has taken it keeps, and none begins
    inside of another. So a line is read in a time that grows with its length, whatever it holds."""
    expressions, parts = [], list(PART.finditer(pattern))
    for place, part in enumerate(parts):
        after = (parts[place + 1]["text"] or "") if place + 1 < len(parts) else ""
        if part["name"] is not None:
            number = _NUMBER.replace(r"\.[0-9]*", r"\.[0-9]+") if after.startswith(".") else _NUMBER
            expressions.append(f"{'' if place else _BEGINS}((?>{number})){'' if after.startswith(',') else _ENDS}")
        elif part["blanks"]:
            expressions.append(r"\s++" if place else r"(?<!\s)\s++")
        else:
            expressions.append(re.escape(part["text"] or part["stray"]))
    return re.compile("".join(expressions))


def read_text(path: Path, pattern: str, index: str) -> Log:
    """Every place of a line that follows the pattern is a row. Raises Unreadable when there is none."""
    data = content(path)
    lines, hidden, repaired = _decoded(_COLOURS.sub(b"", data) if b"\x1b" in data else data)
    columns, expression = names(pattern), line_expression(pattern)
    others = too_long = 0
    rows: list[dict[str, float | None]] = []
    is_last = False
    for line in lines:
        if len(line) > _LONGEST:
            too_long += 1
            continue
        matches = expression.findall(line)
        is_last = bool(matches)
        others += not matches and bool(line.strip())
        rows += [dict(zip(columns, map(number, match if len(columns) > 1 else [match]), strict=True)) for match in matches]
    if not rows:
        first = next((line.strip()[:80] for line in lines if line.strip()), "")
        raise Unreadable(f"no line of {path} follows the pattern `{pattern}`; its first line is {first!r}")
    log = from_rows(rows, index)
    if others:
        log.notes.append(f"{others} of {others + len(rows)} lines do not follow the pattern and were left out")
    covered = sum(len(expression.findall(text)) for text in hidden if len(text) <= _LONGEST)
    if covered:
        log.notes.append(f"places that follow the pattern and were written over in their line, as by a progress bar, left out: {covered}")
    if too_long:
        log.notes.append(f"lines of more than {_LONGEST:,} characters, which were left out: {too_long}")
    if repaired:
        log.notes.append(f"{repaired} lines were written in a wrong encoding and repaired")
    if is_last and not data.endswith(b"\n"):
        log.notes.append("the last line has no line end, so its last number may be cut")
    return log


def _decoded(data: bytes) -> tuple[list[str], list[str], int]:
    """Lines as text; what was written over in them; and how many had to be repaired."""
    lines, hidden, repaired = [], [], 0
    for line in data.split(b"\n"):
        if b"\r" in line:
            before, _, line = line.rstrip(b"\r").rpartition(b"\r")  # of a progress bar that writes over itself, what remains to be seen
            hidden += before.decode("utf-8", "replace").split("\r") if before else []
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError:
            text, repaired = line.decode("cp1252", "replace"), repaired + 1
        if not text.isascii() and (better := _repair(text)) != text:
            text, repaired = _repair(better), repaired + 1
        lines.append(text)
    return lines, hidden, repaired


def _repair(text: str) -> str:
    """`Â±` -> `±`: UTF-8 that was read as Latin-1 and written again. Text that is right as it stands does not survive the way back."""
    try:
        return text.encode("cp1252").decode("utf-8")
    except UnicodeError:
        return text.replace("Ã‚Â±", "±").replace("Â±", "±")
