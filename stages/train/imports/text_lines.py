"""Format `text`: lines of a log that follow a declared pattern, such as `[Epoch {epoch}]  loss={loss}  reward={reward}±{spread}`.

`{name}` stands for a number (`nan` and `inf` among them, and `None` or `null` for what does not apply), the rest for itself; a run of
blanks for any run of blanks. Lines that do not follow the pattern are counted and left out. A `±` that was decoded wrongly (`Â±`, or
twice: `Ã‚Â±`) is repaired, and what colours a terminal is no part of a line.
"""

from __future__ import annotations

import re
from pathlib import Path

from stages.contracts.import_card import PART, pattern_names
from stages.train.imports.log import Log, Unreadable, content, from_rows, number

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
            digits = _NUMBER.replace(r"\.[0-9]*", r"\.[0-9]+") if after.startswith(".") else _NUMBER
            expressions.append(f"{'' if place else _BEGINS}((?>{digits})){'' if after.startswith(',') else _ENDS}")
        elif part["blanks"]:
            expressions.append(r"\s++" if place else r"(?<!\s)\s++")
        else:
            expressions.append(re.escape(part["text"] or part["stray"]))
    return re.compile("".join(expressions))


def read_text(path: Path, pattern: str, index: str) -> Log:
    """Every place of a line that follows the pattern is a row. Raises Unreadable when there is none."""
    data = _COLOURS.sub(b"", content(path))
    columns, expression = pattern_names(pattern), line_expression(pattern)
    others = too_long = repaired = 0
    first, rows = "", []
    matches: list[re.Match[str]] = []
    for raw in data.split(b"\n"):
        (line, is_repaired), matches = _decoded(raw), []
        repaired += is_repaired
        if len(line) > _LONGEST:
            too_long += 1
            continue
        matches = list(expression.finditer(line))
        if not matches and line.strip():
            others += 1
            first = first or line.strip()[:80]
        rows += [dict(zip(columns, map(number, match.groups()), strict=True)) for match in matches]
    if not rows:
        raise Unreadable(f"no line of {path} follows the pattern `{pattern}`; its first line is {first!r}")
    log = from_rows(rows, index)
    if others:
        log.notes.append(f"{others} of {others + len(rows)} lines do not follow the pattern and were left out")
    if too_long:
        log.notes.append(f"lines of more than {_LONGEST:,} characters, which were left out: {too_long}")
    if repaired:
        log.notes.append(f"{repaired} lines were written in a wrong encoding and repaired")
    if matches:  # those of the last line, which is empty in a whole file
        log.notes.append("the last line has no line end, so its last number may be cut")
    return log


def _decoded(line: bytes) -> tuple[str, bool]:
    """The line as a terminal shows it (of a progress bar that writes over itself, the end), and whether it was repaired."""
    line = line.rstrip(b"\r").rpartition(b"\r")[2]
    try:
        text, is_utf8 = line.decode("utf-8"), True
    except UnicodeDecodeError:
        text, is_utf8 = line.decode("cp1252", "replace"), False
    right = text.replace("Ã‚Â±", "±").replace("Â±", "±")  # UTF-8 that was read as Latin-1 and written again, twice or once
    return right, not is_utf8 or right != text
