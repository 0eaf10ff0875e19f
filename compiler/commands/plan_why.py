"""Why a stage is not up to date, in the words of the spec: the key with its old and new value and its place, the function, the file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from compiler.build.plan_values import Difference, differences, nearest
from compiler.lock.dvc_lock import Entry
from compiler.lock.files import Files
from compiler.lock.status import Cause, Status, command
from compiler.problems import sentence
from stages.contracts.code import Judgement
from stages.contracts.layout import RunFolder
from stages.contracts.origin import Origin
from stages.contracts.plan import Reason, ReasonKind

CARD = ".card.json"
RETRY = RunFolder(Path()).retry.name
SHOWN = 3
"""So many names of a folder's changed files are told."""


_SAYS: dict[str, tuple[ReasonKind, str]] = {
    "new": ("new", "new: no earlier run to compare with"),
    "upstream": ("upstream", "reads what {1} writes"),
    "missing": ("missing", "{0} is missing"),
    "output_missing": ("output", "its output {1} is missing"),
    "output_changed": ("output", "its output {1} is not what it wrote"),
    "not_in_cache": ("output", "its output {1} is not in DVC's cache"),
}
"""Words of a cause; {0} is its path, {1} the end of it."""


class Past(Protocol):
    """Where older texts come from."""

    def text(self, path: str, entry: Entry) -> str | None:
        """The text that had this hash; None when it is gone."""

    def listing(self, path: str, entry: Entry) -> dict[str, str]:
        """Files of a folder that had this hash; {} when nobody knows."""


class Why:
    """Turns causes into reasons."""

    def __init__(
        self,
        files: Files,
        past: Past,
        origins: Callable[[str], Mapping[str, Origin]],
        judgements: Sequence[Judgement],
    ) -> None:
        """`judgements`: all lines of `code_versions.jsonl`."""
        self.files, self.past, self.origins, self.judgements = files, past, origins, judgements

    def reasons(self, decision: Status) -> tuple[Reason, ...]:
        """All reasons of a stage, in the order of its causes. What comes in hundreds, such as files of new runs, is one reason."""
        found: list[Reason] = []
        together: dict[str, list[str]] = {}
        changed = {cause.path for cause in decision.causes if cause.kind == "changed"}
        own = _own_card(decision)
        for cause in decision.causes:
            if cause.kind == "added":
                together.setdefault("also reads {} now", []).append(cause.path)
            elif cause.kind == "output_added":
                together.setdefault("also writes {} now", []).append(cause.path)
            elif cause.kind == "changed" and cause.path.endswith(CARD) and cause.path != own:
                together.setdefault("reads {}, changed", []).append(cause.path)
            else:
                found += self._of(decision, cause, changed)
        for words, paths in together.items():
            more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
            kind: ReasonKind = "output" if "writes" in words else "file"
            found.append(Reason(kind=kind, says=words.format(f"{sentence(paths[0])}{more}"), path=paths[0]))
        return tuple(found)

    def _of(self, decision: Status, cause: Cause, changed: set[str]) -> Iterator[Reason]:
        path, name = cause.path, sentence(cause.path)
        says = _SAYS.get(cause.kind)
        if says is not None:
            kind, words = says
            yield Reason(kind=kind, says=words.format(name, _short(name)), path=path or None)
        elif cause.kind == "command":
            old, new = sentence(decision.locked.cmd if decision.locked else ""), command(decision.stage)
            yield Reason(kind="command", says=f"command `{old[:80]}` -> `{new[:80]}`", old=old, new=new)
        elif path.endswith(CARD):
            yield from self._card(decision, path, changed)
        elif path.rpartition("/")[2] == RETRY:
            yield self._retry(path)
        else:
            yield self._file(decision, path)

    def _card(self, decision: Status, path: str, changed: set[str]) -> Iterator[Reason]:
        entry = decision.locked.deps.get(path) if decision.locked else None
        text = self.past.text(path, entry) if entry else None
        old, new = _object(text), _object(self.files.text(path))
        if old is None or new is None:
            says = "its card changed; the card it ran with is neither on disk nor in git, so the keys are not known"
            yield Reason(kind="card", says=says, path=path)
            return
        origins = dict(self.origins(path))
        for found in differences(old, new):
            if found.pointer.startswith("/code/"):
                yield self._code(path, found)
            elif not (found.key.endswith("data.sha256") and changed & _data_paths(new)):
                place = nearest(origins, found.pointer)
                yield Reason(kind="card", says=found.says, path=path, key=found.key, old=found.old, new=found.new, place=place)

    def _code(self, path: str, change: Difference) -> Reason:
        """A unit's new version with the reason of the line that began it; of a unit without versions, that its code changed."""
        unit = change.key.removeprefix("code.")
        why = ""
        if change.new and change.new.isdigit():
            lines = [judgement for judgement in self.judgements if judgement.results == "new" and unit in judgement.digests]
            if len(lines) >= int(change.new):
                why = f": {sentence(lines[int(change.new) - 1].why)}"
            says = f"code of {sentence(unit)}: version {change.old or 'none'} -> {change.new}{why}"
        else:
            says = f"code of {sentence(unit)} changed" if change.new else f"code of {sentence(unit)} is no longer used"
        return Reason(kind="code", says=says, path=f"stages/{unit.replace('.', '/')}.py", key=unit, old=change.old, new=change.new)

    def _retry(self, path: str) -> Reason:
        after = (_object(self.files.text(path)) or {}).get("after")
        says = f"a retry is due after attempt {sentence(after)[:80]}" if after else f"{RETRY} changed: no retry is due any more"
        return Reason(kind="retry", says=says, path=path)

    def _file(self, decision: Status, path: str) -> Reason:
        entry = decision.locked.deps.get(path) if decision.locked else None
        kind: ReasonKind = "data" if path in _data_paths(self._new_card(decision)) else "file"
        name = sentence(path)
        names = []
        if entry and entry.md5.endswith(".dir") and (before := self.past.listing(path, entry)):
            after = self.files.listing(path)
            names = [file for file in sorted({*before, *after}) if before.get(file) != after.get(file)]
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        return Reason(kind=kind, says=f"{name} changed{': ' if names else ''}{', '.join(map(sentence, names[:SHOWN]))}{more}", path=path)

    def _new_card(self, decision: Status) -> dict[str, Any]:
        card = _own_card(decision)
        return _object(self.files.text(card)) or {} if card else {}


def _own_card(decision: Status) -> str | None:
    """The card that the stage is run with: the first that it reads. The page shows others too."""
    return next((dep for dep in decision.stage.deps if dep.endswith(CARD)), None)


def _data_paths(card: Any) -> set[str]:
    """Paths of data files that a card pins."""
    found: set[str] = set()
    if isinstance(card, dict):
        if isinstance(card.get("path"), str) and "sha256" in card:
            found.add(card["path"])
        for value in card.values():
            found |= _data_paths(value)
    elif isinstance(card, list):
        for value in card:
            found |= _data_paths(value)
    return found


def _object(text: str | None) -> dict[str, Any] | None:
    try:
        found = json.loads(text) if text is not None else None
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _short(path: str) -> str:
    return path.rpartition("/")[2].rpartition(":")[2]
