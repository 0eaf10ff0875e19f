"""Format `text`: lines of a log that follow a declared pattern, such as `[Epoch {epoch}]  loss={loss}  reward={reward}±{spread}`.

`{name}` stands for a number (`nan` and `inf` among them, and `None` or `null` for what does not apply), the rest for itself; a run of
blanks for any run of blanks. Lines that do not follow the pattern are counted and left out. A `±` that was decoded wrongly (`Â±`, or
twice: `Ã‚Â±`) is repaired, and what colours a terminal is no part of a line.
"""

from __future__ import annotations

import re
from pathlib import Path

from stages.contracts.line_pattern import PART, names
from stages.train.imports.content import content
from stages.train.imports.log import Log, Unreadable, by_column

_NUMBER = (
    r"(?:[-+]?(?:[0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?|\.[0-9]+(?:[eE][-+]?[0-9]+)?|[nN]a[nN]|[iI]nf(?:inity)?)"
    r"|(?<![A-Za-z])(?:None|null))"
)
_BEGINS = r"(?:(?<![0-9.])|(?=[-+]))"
"""Where a number may begin that nothing of the pattern stands before: not inside of another one."""
_ENDS = r"(?!,[0-9]{3})"
"""No number ends before a comma and three digits: 1,000.5 is not 1."""
_COLOURS = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")
_NULL = {"None", "null"}
_LONGEST = 20_000
"""Characters of a line that is looked at."""


def compiled(pattern: str) -> re.Pattern[str]:
    """The pattern as a regular expression that never goes back: what a number or a run of blanks has taken it keeps, and none begins
    inside of another. So a line is read in a time that grows with its length, whatever it holds."""
    parts, found = [], list(PART.finditer(pattern))
    for index, part in enumerate(found):
        after = found[index + 1]["text"] if index + 1 < len(found) else None
        if part["name"] is not None:
            number = _NUMBER.replace(r"\.[0-9]*", r"\.[0-9]+") if (after or "").startswith(".") else _NUMBER
            parts.append(f"{'' if index else _BEGINS}((?>{number})){'' if (after or '').startswith(',') else _ENDS}")
        elif part["blanks"]:
            parts.append(r"\s++" if index else r"(?<!\s)\s++")
        else:
            parts.append(re.escape(part["text"] or part["stray"]))
    return re.compile("".join(parts))


def read(path: Path, pattern: str, index: str) -> Log:
    """Every place of a line that follows the pattern is a row. Raises Unreadable when there is none."""
    data = content(path)
    lines, covered, repaired = _decoded(_COLOURS.sub(b"", data) if b"\x1b" in data else data)
    groups, line_pattern = names(pattern), compiled(pattern)
    other = long = 0
    rows: list[dict[str, float | None]] = []
    last = False
    for line in lines:
        if len(line) > _LONGEST:
            long += 1
            continue
        found = line_pattern.findall(line)
        last = bool(found)
        if not found:
            other += bool(line.strip())
        for numbers in found if len(groups) > 1 else ((number,) for number in found):
            try:
                rows.append(dict(zip(groups, map(float, numbers), strict=True)))
            except ValueError:
                rows.append({name: None if number in _NULL else float(number) for name, number in zip(groups, numbers, strict=True)})
    if not rows:
        first = next((line.strip()[:80] for line in lines if line.strip()), "")
        raise Unreadable(f"no line of {path} follows the pattern `{pattern}`; its first line is {first!r}")
    log = by_column(rows, index)
    if other:
        log.notes.append(f"{other} of {other + len(rows)} lines do not follow the pattern and were left out")
    hidden = sum(len(line_pattern.findall(text)) for text in covered if len(text) <= _LONGEST)
    if hidden:
        log.notes.append(f"places that follow the pattern and were written over in their line, as by a progress bar, left out: {hidden}")
    if long:
        log.notes.append(f"lines of more than {_LONGEST:,} characters, which were left out: {long}")
    if repaired:
        log.notes.append(f"{repaired} lines were written in a wrong encoding and repaired")
    if last and not data.endswith(b"\n"):
        log.notes.append("the last line has no line end, so its last number may be cut")
    return log


def _decoded(data: bytes) -> tuple[list[str], list[str], int]:
    """Lines as text; what was written over in them; and how many had to be repaired."""
    found, covered, repaired = [], [], 0
    for line in data.split(b"\n"):
        if b"\r" in line:
            before, _, line = line.rstrip(b"\r").rpartition(b"\r")  # of a progress bar that writes over itself, what remains to be seen
            covered += before.decode("utf-8", "replace").split("\r") if before else []
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError:
            text, repaired = line.decode("cp1252", "replace"), repaired + 1
        if not text.isascii() and (better := _repair(text)) != text:
            text, repaired = _repair(better), repaired + 1
        found.append(text)
    return found, covered, repaired


def _repair(text: str) -> str:
    """`Â±` -> `±`: UTF-8 that was read as Latin-1 and written again. Text that is right as it stands does not survive the way back."""
    try:
        return text.encode("cp1252").decode("utf-8")
    except UnicodeError:
        return text.replace("Ã‚Â±", "±").replace("Â±", "±")
