"""dvc.lock: what each stage was last run with. DVC's own plain shape is read line by line; any other shape is read as YAML."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Entry:
    """A file or folder as DVC recorded it. `md5` ends with `.dir` for a folder; `size` in bytes, None where it is not recorded."""

    md5: str
    size: int | None = None


@dataclass
class Locked:
    """A stage's record: its command, and path -> entry of what it read and wrote."""

    cmd: str
    deps: dict[str, Entry] = field(default_factory=dict)
    outs: dict[str, Entry] = field(default_factory=dict)


Lock = dict[str, Locked]


def read_lock(path: Path) -> Lock:
    """Stage -> record; {} when there is no lock. Raises ValueError for a file that is no lock."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    return parse_lock(text, path.as_posix())


def parse_lock(text: str, name: str = "dvc.lock") -> Lock:
    """The same, of a text."""
    found = _plain(text)
    return found if found is not None else _yaml(text, name)


def read_record(path: Path) -> Locked | None:
    """A file of DVC's run cache: one stage's record; None when it cannot be read."""
    try:
        text = path.read_text(encoding="utf-8")
        indented = "stages:\n  run:\n" + "".join(f"    {line}\n" for line in text.splitlines())
        return parse_lock(indented, path.as_posix())["run"]
    except (OSError, ValueError, KeyError):
        return None


_LINE = re.compile(
    r"  (?P<stage>[A-Za-z0-9_-]+):"
    r"|    cmd: (?P<cmd>[A-Za-z0-9_][A-Za-z0-9._/@ -]*)"
    r"|    (?P<side>deps|outs):"
    r"|    - path: (?P<path>[A-Za-z0-9_][A-Za-z0-9._/@-]*)"
    r"|      md5: (?P<quote>'?)(?P<md5>[0-9a-f]{32}(?:\.dir)?)(?P=quote)"
    r"|      size: (?P<size>[0-9]+)"
    r"|      (?:hash: md5|nfiles: [0-9]+|isexec: true)"
    r"|schema: '2\.0'|stages:"
)


def _plain(text: str) -> Lock | None:
    """None when a line has another shape, such as a command folded over two lines."""
    lock: Lock = {}
    stage: Locked | None = None
    side: dict[str, Entry] = {}
    path, md5 = "", ""
    match = _LINE.fullmatch
    for line in text.splitlines():
        found = match(line)
        if found is None:
            return None
        kind = found.lastgroup
        if kind == "md5":
            md5 = found["md5"]
            side[path] = Entry(md5)
        elif kind == "path":
            path, md5 = found["path"], ""
        elif kind == "size":
            if not md5:
                return None
            side[path] = Entry(md5, int(found["size"]))
        elif kind == "stage":
            stage = lock[found["stage"]] = Locked("")
        elif kind == "cmd" or kind == "side":
            if stage is None:
                return None
            if kind == "cmd":
                stage.cmd = found["cmd"]
            else:
                side = stage.deps if found["side"] == "deps" else stage.outs
    return lock


def _yaml(text: str, name: str) -> Lock:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        content = YAML(typ="safe").load(text)
    except YAMLError as error:
        raise ValueError(f"{name} is not YAML: {error}") from None
    stages = content.get("stages") if isinstance(content, Mapping) else None
    if content is not None and not isinstance(stages, Mapping):
        raise ValueError(f"{name} is no dvc.lock")
    lock: Lock = {}
    for stage, record in (stages or {}).items():
        if isinstance(record, Mapping):
            lock[str(stage)] = Locked(str(record.get("cmd", "")), _entries(record.get("deps")), _entries(record.get("outs")))
    return lock


def _entries(items: Any) -> dict[str, Entry]:
    return {
        str(item["path"]): Entry(str(item["md5"]), item.get("size") if isinstance(item.get("size"), int) else None)
        for item in items or ()
        if isinstance(item, Mapping) and "path" in item and "md5" in item
    }
