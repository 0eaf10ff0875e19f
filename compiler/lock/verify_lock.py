"""dvc.lock against the disk: each stage's command, and each file with the hash and size that were recorded of it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from compiler.build.stage import Pipeline, Stage
from compiler.lock.plan_decide import command
from compiler.lock.plan_files import Cache, Files
from compiler.lock.verify_due import Due
from stages.contracts.verification import Difference

_LINE = re.compile(r"  (?P<stage>[^\s:]+):$|    (?P<side>deps|outs):$|    - path: (?P<path>.+)$|\s+(?P<key>cmd|hash|md5|size|nfiles): ")
RETRY = "retry.json"
MOST = 12


class Place(NamedTuple):
    """Where a lock speaks of a path: stage, `deps` or `outs`, path, key; "" for what a stage has none of."""

    stage: str
    side: str = ""
    path: str = ""
    key: str = ""


@dataclass
class Checked:
    """`files`: path that was hashed -> its bytes."""

    differences: list[Difference] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    files: dict[str, int] = field(default_factory=dict)


def against_locks(
    pipelines: Iterable[Pipeline], files: Files, cache: Cache, due: Due | None = None, absent: Set[str] = frozenset()
) -> Checked:
    """Every record of the pipelines' locks. Each file is read once. What follows from a stage being due is left out: that is told of it.
    `absent`: files that need not be here."""
    checked = Checked()
    for pipeline in pipelines:
        _Lock(pipeline, files, cache, checked, due or Due(), absent).check()
    return checked


class _Lock:
    def __init__(self, pipeline: Pipeline, files: Files, cache: Cache, checked: Checked, due: Due, absent: Set[str]) -> None:
        self.absent = absent
        self.pipeline, self.files, self.cache, self.checked = pipeline, files, cache, checked
        self.path = (pipeline.path.parent / "dvc.lock").as_posix()
        self.due = {stage for path, stage in due.stages if path == pipeline.path.as_posix()}
        self.cards = due.cards
        self.wrong: dict[tuple[str, str], list[Place]] = {}
        """(path, md5 as recorded) -> records that are not what lies there."""
        self.right: dict[str, int] = {}
        """Path -> number of records that are."""
        self.places: dict[Place, tuple[int, int]] = {}

    def check(self) -> None:
        text = self.files.text(self.path)
        if text is None:
            self._add(Place(""), f"{self.pipeline.path} has never run: there is no lock", fix=f"dvc repro {self.pipeline.path}")
            return
        content = _yaml(text)
        if not isinstance(content, Mapping) or not isinstance(content.get("stages"), Mapping):
            self._add(Place(""), "it is no dvc.lock", fix=f"git checkout {self.path}")
            return
        self.places = _places(text)
        if content.get("schema") != "2.0":
            self._add(Place(""), "the lock's schema", "2.0", str(content.get("schema")), fix=f"git checkout {self.path}")
        recorded = content["stages"]
        new = [stage.name for stage in self.pipeline.stages if not isinstance(recorded.get(stage.name), Mapping)]
        if untold := [name for name in new if name not in self.due]:
            more = " and others have" if len(untold) > 1 else " has"
            self._add(Place(""), f"{untold[0]}{more} never run: the lock has no record", fix=f"dvc repro {self.pipeline.path}")
        for stage in self.pipeline.stages:
            if stage.name not in new:
                self._stage(stage, recorded[stage.name])
        names = {stage.name for stage in self.pipeline.stages}
        for name in (name for name in recorded if name not in names):
            line = self.places.get(Place(str(name)), (1, 1))[0]
            self.checked.notes.append(f"{self.path}:{line}: {name} is a stage that the spec no longer has")
        for (path, md5), places in self.wrong.items():
            self._other_file(path, md5, places)

    def _stage(self, stage: Stage, record: Mapping[str, Any]) -> None:
        redo = self._repro(stage.name)
        is_due = stage.name in self.due
        if record.get("cmd") != command(stage) and not is_due:
            place = Place(stage.name, key="cmd")
            self._add(place, f"the command of {stage.name}", command(stage), str(record.get("cmd")), redo)
        for side, wanted in (("deps", stage.deps), ("outs", stage.outs)):
            entries = {str(e.get("path")): e for e in record.get(side) or () if isinstance(e, Mapping)}
            for path in wanted:
                if path in entries:
                    if not (is_due and side == "deps" and path in self.cards):
                        self._entry(Place(stage.name, side, path), entries[path])
                elif not is_due:
                    self._add(Place(stage.name, side), f"{stage.name} has no record of {path}", path, "no record", redo)
            for path in entries:
                if path not in wanted and not is_due:
                    self._add(Place(stage.name, side, path), f"{stage.name} has no {path} in {side}", "no record", path, redo)

    def _entry(self, place: Place, entry: Mapping[str, Any]) -> None:
        path, md5 = place.path, str(entry.get("md5"))
        now = self.files.md5(path)
        if now is None:
            if path not in self.absent and (place.side == "outs" or not self._is_out(path)):
                self._add(place, f"{path} is missing", f"md5 {md5}", "nothing", f"dvc checkout {self.pipeline.path}, or dvc pull")
            return
        size, count = self._size(path)
        self.checked.files[path] = size
        if md5 != now:
            if path.endswith(f"/{RETRY}") and not self._finished(path):
                self.checked.notes.append(f"{path}: the run failed and is due again")
                return
            self.wrong.setdefault((path, md5), []).append(place._replace(key="md5"))
            return
        self.right[path] = self.right.get(path, 0) + 1
        wanted = {"hash": "md5", "size": size, **({"nfiles": count} if md5.endswith(".dir") else {})}
        for key, value in wanted.items():
            if entry.get(key) != value:
                fix = f"git checkout {self.path}, or dvc commit {self.pipeline.path}"
                self._add(place._replace(key=key), f"{key} of {path}", str(value), str(entry.get(key, "no such line")), fix)

    def _finished(self, retry: str) -> bool:
        """Whether the run of a retry.json is finished; screen makes a failed one due again."""
        return '"finished": true' in (self.files.text(f"{retry.removesuffix(RETRY)}outcome.json") or "")

    def _is_out(self, path: str) -> bool:
        return any(path in stage.outs for stage in self.pipeline.stages)

    def _size(self, path: str) -> tuple[int, int]:
        if not os.path.isdir(path):
            return os.path.getsize(path), 1
        names = self.files.listing(path)
        return sum(os.path.getsize(f"{path}/{name}") for name in names), len(names)

    def _other_file(self, path: str, md5: str, places: list[Place]) -> None:
        """A file that is another one than its records say; of a folder, the files in it, when the cache still knows them."""
        now = self.files.md5(path)
        others = self.right.get(path, 0)
        stages = ", ".join(dict.fromkeys(place.stage for place in places[:3])) + (" ..." if len(places) > 3 else "")
        if others:
            fix = f"{others} other records name the file that is here: git checkout {self.path}"
        elif any(place.side == "outs" for place in places):
            fix = f"dvc checkout {path} gives back the recorded one; if the new one is meant, dvc repro {self.pipeline.path}"
        else:
            fix = f"git diff -- {path}; if the new one is meant, dvc repro {self.pipeline.path}"
        known, listed = self.cache.listing(md5) if md5.endswith(".dir") else {}, self.files.listing(path)
        changed = sorted(name for name in {*known, *listed} if known.get(name) != listed.get(name)) if known else []
        for name in changed[:MOST] or [""]:
            full, before, after = (f"{path}/{name}", known.get(name), listed.get(name)) if name else (path, md5, now)
            self._add(
                places[0], f"{full} is not the file that {stages} recorded", f"md5 {before or 'none'}", f"md5 {after or 'none'}", fix, full
            )

    def _repro(self, stage: str) -> str:
        return f"dvc repro {self.pipeline.path}:{stage}"

    def _add(self, place: Place, what: str, expected: str = "", found: str = "", fix: str = "", cell: str = "") -> None:
        candidates = (place, place._replace(key=""), Place(place.stage))
        line, column = next((self.places[found] for found in candidates if found in self.places), (None, None))
        cell = cell or " ".join(part for part in place if part)
        self.checked.differences.append(
            Difference(code="E487", path=self.path, line=line, column=column, cell=cell, what=what, expected=expected, found=found, fix=fix)
        )


def _places(text: str) -> dict[Place, tuple[int, int]]:
    """(line, column of the value) in a lock as DVC writes it."""
    found: dict[Place, tuple[int, int]] = {}
    place = Place("")
    for number, line in enumerate(text.splitlines(), start=1):
        match = _LINE.match(line)
        if match is None:
            continue
        if match["stage"]:
            place = Place(match["stage"])
        elif match["side"]:
            place = Place(place.stage, match["side"])
        elif match["path"]:
            place = Place(place.stage, place.side, match["path"].strip("'\""))
        start = match.end() if match["key"] else len(line) - len(line.lstrip())
        found.setdefault(place._replace(key=match["key"]) if match["key"] else place, (number, start + 1))
    return found


def _yaml(text: str) -> Any:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        return YAML(typ="safe").load(text)
    except YAMLError:
        return None
