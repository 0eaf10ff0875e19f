"""Reads dvc.lock: what each stage last ran with. The one reader of plan, verify and merge-lock, for the shape that DVC writes."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from stages.contracts.files import read_text

HEAD = "schema: '2.0'\nstages:\n"


class Entry(NamedTuple):
    """A file or folder as DVC recorded it. `md5` ends with `.dir` for a folder. Sizes in bytes; None: not recorded."""

    md5: str
    size: int | None = None
    files: int | None = None
    """Number of files of a folder."""


@dataclass
class Locked:
    """A stage's record: its command, path -> entry of what it read and wrote, and the record's own text."""

    cmd: str
    deps: dict[str, Entry] = field(default_factory=dict)
    outs: dict[str, Entry] = field(default_factory=dict)
    text: str = field(default="", compare=False)


Lock = dict[str, Locked]

_PART = re.compile(
    r"    - path: (?P<path>.+)\n"
    r"      hash: md5\n      md5: '?(?P<md5>[0-9a-f]{32}(?:\.dir)?)'?\n(?:      size: (?P<size>[0-9]+)\n)?"
    r"(?:      nfiles: (?P<files>[0-9]+)\n|      isexec: true\n)*"
    r"|    (?P<side>deps|outs):\n"
    r"|  (?P<stage>[A-Za-z0-9_-]+):\n    cmd: (?P<cmd>.+(?:\n      .+)*)\n"
)


def read_lock(path: Path) -> Lock:
    """Stage -> record; {} if there is no lock. Raises ValueError with the place where the file stops to be a lock, or OSError."""
    try:
        return parse_lock(read_text(path))
    except FileNotFoundError:
        return {}


def parse_lock(text: str) -> Lock:
    """The same for a text. Raises ValueError: a lock that a person edited, or a merge left open, says nothing reliable."""
    end = len(HEAD) if text.startswith(HEAD) else 0
    lock: Lock = {}
    stage, start = Locked(""), end
    side: dict[str, Entry] = {}
    for match in _PART.finditer(text, end) if end else ():
        if match.start() != end:
            break
        end = match.end()
        path, md5, size, files, which, name, cmd = match.groups()
        if path is not None:
            side[_plain(path)] = Entry(md5, int(size) if size else None, int(files) if files else None)
        elif which is not None:
            side = stage.deps if which == "deps" else stage.outs
        elif name in lock:
            end = match.start()
            break
        else:
            stage.text, start = text[start : match.start()], match.start()
            stage, side = Locked(_plain(re.sub(r"(?<! ) *\n +", " ", cmd))), {}
            lock[name] = stage
    if not end or end != len(text):
        raise ValueError(f"it is no dvc.lock as DVC writes it, from line {text.count(chr(10), 0, end) + 1}")
    stage.text = text[start:]
    return lock


def read_record(path: Path) -> Locked | None:
    """A file of DVC's run cache: the record of one stage; None if it cannot be read."""
    try:
        text = read_text(path, 1 << 20)
        return parse_lock(f"{HEAD}  run:\n" + "".join(f"    {line}\n" for line in text.splitlines()))["run"]
    except (OSError, ValueError):
        return None


def place(text: str, stage: str = "", side: str = "", path: str = "", key: str = "") -> tuple[int, int]:
    """Line and column, from 1, of a record, of its `deps` or `outs`, of a path in them, or of a key's value. What is missing is skipped."""
    at = indent = 0
    for name, pattern in ((stage, "  {}:$"), (side, "    {}:$"), (path, "    - path: ['\"]?{}['\"]?$"), (key, "    (?:  )?{}: ")):
        if name and (match := re.compile(f"^{pattern.format(re.escape(name))}", re.MULTILINE).search(text, at)):
            at, line = match.start(), match[0]
            indent = len(line) if name == key else len(line) - len(line.lstrip())
    return text.count("\n", 0, at) + 1, indent + 1


def _plain(scalar: str) -> str:
    """A YAML scalar on one line, without its quotes."""
    quote = scalar[:1]
    if quote not in ("'", '"') or len(scalar) < 2 or not scalar.endswith(quote):
        return scalar
    return scalar[1:-1].replace("''", "'") if quote == "'" else scalar[1:-1]
