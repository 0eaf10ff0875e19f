"""dvc.lock: what each stage was last run with. DVC's own plain shape is read line by line; any other shape is read as YAML."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from compiler.document.read import events


class Entry(NamedTuple):
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


_PART = re.compile(
    r"    - path: (?P<path>[A-Za-z0-9_][A-Za-z0-9._/@-]*)\n"
    r"(?:      hash: md5\n)?      md5: '?(?P<md5>[0-9a-f]{32}(?:\.dir)?)'?\n(?:      size: (?P<size>[0-9]+)\n)?"
    r"(?:      nfiles: [0-9]+\n|      isexec: true\n)*"
    r"|    (?P<side>deps|outs):\n"
    r"|  (?P<stage>[A-Za-z0-9_-]+):\n    cmd: (?P<cmd>[A-Za-z0-9_][A-Za-z0-9._/@ -]*)\n"
    r"|schema: '2\.0'\n|stages:\n"
)


def _plain(text: str) -> Lock | None:
    """None when some part has another shape, such as a command folded over two lines."""
    lock: Lock = {}
    stage = Locked("")
    side = stage.deps
    end = 0
    for found in _PART.finditer(text):
        if found.start() != end:
            return None
        end = found.end()
        path, md5, size, which, name, cmd = found.groups()
        if path is not None:
            side[path] = Entry(md5, int(size) if size else None)
        elif which is not None:
            side = stage.deps if which == "deps" else stage.outs
        elif name is not None:
            stage = lock[name] = Locked(cmd)
            side = stage.deps
    return lock if end == len(text) else None


_DEEPEST = 20
"""DVC writes six levels. The C composer calls itself for each level, and ends the process where the stack does."""


def _is_shallow(text: str) -> bool:
    """Raises what the parser raises for a text that is no YAML."""
    following, _ = events(text)
    depth = 0
    while (kind := type(following()).__name__) != "StreamEndEvent":
        depth += kind.endswith("StartEvent") - kind.endswith("EndEvent")
        if depth > _DEEPEST:
            return False
    return True


def _yaml(text: str, name: str) -> Lock:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        if not _is_shallow(text):
            raise ValueError(f"{name} is nested more than {_DEEPEST} levels deep")
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
