"""Format `text`: lines of a log that follow a declared pattern, such as `[Epoch {epoch}]  loss={loss}  reward={reward}±{spread}`.

`{name}` stands for a number (`nan` and `inf` among them), the rest for itself; a run of blanks for any run of blanks. Lines that do
not follow the pattern are counted and left out. A `±` that was decoded wrongly once (`Â±`) is repaired.
"""

from __future__ import annotations

import re
from pathlib import Path

from stages.contracts.line_pattern import PART, names
from stages.train.imports.log import Log, Unreadable, by_column

_NUMBER = r"[-+]?(?:[0-9]+\.?[0-9]*(?:[eE][-+]?[0-9]+)?|\.[0-9]+(?:[eE][-+]?[0-9]+)?|[nN]a[nN]|[iI]nf(?:inity)?)"


def compiled(pattern: str) -> re.Pattern[str]:
    """The pattern as a regular expression without choices to go back on: it is linear in a line's length."""
    parts = []
    for part in PART.finditer(pattern):
        if part["name"] is not None:
            parts.append(f"({_NUMBER})")
        elif part["blanks"]:
            parts.append(r"\s+")
        else:
            parts.append(re.escape(part["text"] or part["stray"]))
    return re.compile("".join(parts))


def read(path: Path, pattern: str, index: str) -> Log:
    """Raises Unreadable when no line follows the pattern."""
    text, repaired = _decoded(path.read_bytes())
    groups, line_pattern = names(pattern), compiled(pattern)
    other = 0
    rows: list[dict[str, float]] = []
    for line in text:
        found = line_pattern.search(line)
        if found is None:
            other += bool(line.strip())
        else:
            rows.append({name: float(number) for name, number in zip(groups, found.groups(), strict=True)})
    if not rows:
        raise Unreadable(f"no line of {path} follows the pattern `{pattern}`")
    log = by_column(rows, index)
    if other:
        log.notes.append(f"{other} of {other + len(rows)} lines do not follow the pattern and were left out")
    if repaired:
        log.notes.append(f"{repaired} lines were written in a wrong encoding and repaired")
    return log


def _decoded(content: bytes) -> tuple[list[str], int]:
    """Lines as text, and how many of them had to be repaired."""
    found, repaired = [], 0
    for line in content.split(b"\n"):
        line = line.rstrip(b"\r").rpartition(b"\r")[2]  # of a progress bar that writes over itself, what remains to be seen
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError:
            text, repaired = line.decode("cp1252", "replace"), repaired + 1
        if not text.isascii() and (better := _repair(text)) != text:
            text, repaired = better, repaired + 1
        found.append(text)
    return found, repaired


def _repair(text: str) -> str:
    """`Â±` -> `±`: UTF-8 that was read as Latin-1 and written again. Text that is right as it stands does not survive the way back."""
    try:
        return text.encode("cp1252").decode("utf-8")
    except UnicodeError:
        return text.replace("Â±", "±")
