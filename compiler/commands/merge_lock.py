"""`octavo merge-lock %O %A %B %P`: git's merge of a `dvc.lock`, stage by stage instead of line by line.

An entry says: this command made these outputs from these inputs. So a merge may keep either side's entry of a stage, whole,
and never mix two: DVC holds every entry against the files and runs a stage again whose inputs are others. Where both sides
ran a stage, the inputs are merged; the side that ran with exactly these is right. When neither did (two branches trained two
runs, and each drew its own page), our entry is kept and the stage is due. Only "same inputs, other outputs" needs a person.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_STAGE = re.compile(r"^  ([A-Za-z0-9_-]+):\n", re.MULTILINE)
_EMPTY = "schema: '2.0'\nstages:\n"


class NotALock(Exception):
    """The text is no dvc.lock as DVC writes it."""


@dataclass(frozen=True)
class Entry:
    """A stage of a lock: its text as DVC wrote it, and what the text says."""

    text: str
    command: str
    deps: Mapping[str, Any]
    """Path -> hash and size; parameter files likewise."""

    @property
    def inputs(self) -> dict[str, Any]:
        return {"": self.command, **self.deps}


@dataclass
class Merged:
    """`text` holds conflict markers around the stages of `conflicts`; the stages of `due` run with the next `dvc repro`."""

    text: str
    conflicts: list[str] = field(default_factory=list)
    due: list[str] = field(default_factory=list)


def merge(base: str, ours: str, theirs: str) -> Merged:
    """Three texts of a lock to one; `base` is empty when both sides made the file. Raises NotALock."""
    old, mine, other = (entries(text or _EMPTY) for text in (base, ours, theirs))
    merged = Merged(_EMPTY)
    for name in {**mine, **other}:
        before, one, two = old.get(name), mine.get(name), other.get(name)
        if one is None or two is None:
            # removed on one side: gone, unless the other side ran it again; an entry without a stage in dvc.yaml harms nothing
            kept = one or two
            merged.text += kept.text if kept is not None and (before is None or kept.text != before.text) else ""
            continue
        chosen = _chosen(before, one, two)
        if chosen is not None:
            merged.text += chosen.text
        elif _together(before, one, two) == one.inputs:
            merged.conflicts.append(name)
            merged.text += f"<<<<<<< ours\n{one.text}=======\n{two.text}>>>>>>> theirs\n"
        else:
            merged.due.append(name)
            merged.text += one.text
    return merged


def entries(text: str) -> dict[str, Entry]:
    """The stages of a lock in their order. Raises NotALock unless every byte of it is accounted for."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        read = YAML(typ="safe").load(text)
    except YAMLError:
        raise NotALock from None
    if not isinstance(read, dict) or list(read) != ["schema", "stages"] or not text.startswith(_EMPTY):
        raise NotALock
    stages, body = read["stages"] or {}, text.removeprefix(_EMPTY)
    names = _STAGE.findall(body)
    pieces = [f"  {name}:\n{piece}" for name, piece in zip(names, _STAGE.split(body)[2::2], strict=True)]
    is_plain = "".join(pieces) == body and all(line.startswith("    ") and line.endswith("\n") for line in _lines(pieces))
    if not isinstance(stages, dict) or names != list(stages) or not is_plain:
        raise NotALock
    try:
        return {name: _entry(piece, stages[name]) for name, piece in zip(names, pieces, strict=True)}
    except (KeyError, TypeError, AttributeError):
        raise NotALock from None


def main(base: Path, ours: Path, theirs: Path, name: str) -> int:
    """Merge into `ours`, as git asks of a driver: 0 clean, 1 conflicts. What is no lock is left to git's merge of lines."""
    try:
        merged = merge(*(path.read_text(encoding="utf-8") for path in (base, ours, theirs)))
    except OSError as error:  # somebody called it by hand; git's own files are there
        print(f"{error.filename}: {error.strerror}\n  fix: git calls this, once it is set: octavo doctor says how", file=sys.stderr)
        return 1
    except (NotALock, UnicodeDecodeError):
        print(f"{name}: not as DVC writes it, so its lines are merged", file=sys.stderr)
        command = ["git", "merge-file", "-L", "ours", "-L", "base", "-L", "theirs", str(ours), str(base), str(theirs)]
        return min(subprocess.run(command, check=False).returncode, 1)
    ours.write_text(merged.text, encoding="utf-8")
    if merged.due:
        print(f"{name}: due with the next dvc repro: {', '.join(merged.due)}", file=sys.stderr)
    if merged.conflicts:
        print(f"{name}: both sides ran from the same inputs to other outputs: {', '.join(merged.conflicts)}", file=sys.stderr)
    return 1 if merged.conflicts else 0


def _lines(pieces: list[str]) -> Iterator[str]:
    """All lines but the names of stages."""
    return (line for piece in pieces for line in piece.splitlines(keepends=True)[1:])


def _entry(text: str, read: dict[str, Any]) -> Entry:
    deps = {dep["path"]: {key: value for key, value in dep.items() if key != "path"} for dep in read.get("deps", [])}
    return Entry(text, str(read["cmd"]), {**deps, **{f"params {file}": values for file, values in read.get("params", {}).items()}})


def _chosen(before: Entry | None, one: Entry, two: Entry) -> Entry | None:
    """The side that is right, or None when neither is or both could be."""
    if two.text in (one.text, before.text if before else None):
        return one
    if before and one.text == before.text:
        return two
    inputs = _together(before, one, two)
    right = [side for side in (one, two) if side.inputs == inputs]
    return right[0] if len(right) == 1 else None


def _together(before: Entry | None, one: Entry, two: Entry) -> dict[str, Any]:
    """Inputs after the merge; one that both sides changed differently is equal to neither."""
    old = before.inputs if before else {}
    found = {key: _input(old.get(key), one.inputs.get(key), two.inputs.get(key)) for key in {**one.inputs, **two.inputs}}
    return {key: value for key, value in found.items() if value is not None}


def _input(before: Any, one: Any, two: Any) -> Any:
    if one == two or two == before:
        return one
    return two if one == before else object()
