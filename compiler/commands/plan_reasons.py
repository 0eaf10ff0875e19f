"""Why a stage is not up to date, in the words of the spec: the key with its values and its place, the code, the file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from compiler.build.origins import nearest_origin
from compiler.lock.card_diff import Change, changes
from compiler.lock.dvc_lock import Entry
from compiler.lock.files import Files
from compiler.lock.status import Cause, Status, command
from compiler.problems import listed, sentence
from stages.contracts.artifact import Frozen
from stages.contracts.code import Judgement
from stages.contracts.lineage import Origin

CARD = ".card.json"
SHOWN = 3
"""Names of a folder's changed files that are shown."""
ReasonKind = Literal["new", "card", "code", "data", "file", "retry", "command", "missing", "output", "upstream"]
_SAYS: dict[str, tuple[ReasonKind, str]] = {
    "new": ("new", "new: no earlier run to compare with"),
    "upstream": ("upstream", "reads what {1} writes"),
    "missing": ("missing", "{0} is missing"),
    "output_missing": ("output", "its output {1} is missing"),
    "output_changed": ("output", "its output {1} is not what it wrote"),
    "not_in_cache": ("output", "its output {1} is not in DVC's cache"),
}
"""Words of a cause; {0} is its path, {1} the end of it."""
_TOGETHER: dict[str, tuple[ReasonKind, str]] = {
    "added": ("file", "also reads {} now"),
    "output_added": ("output", "also writes {} now"),
    "changed": ("file", "reads {}, changed"),
}
"""Words of causes that come in hundreds, such as the files of new runs."""


class Reason(Frozen):
    """Why a stage is not up to date. Strings come from specs, cards and file names: escape before showing."""

    kind: ReasonKind
    says: str
    """One line, such as `train.learning_rate 0.001 -> 0.0005`."""
    path: str | None = None
    """File concerned; of kind upstream: the stage that may change what this one reads."""
    key: str | None = None
    """Key of the card, such as `train.learning_rate`."""
    old: str | None = None
    new: str | None = None
    """Values as JSON, cut if long; null: the key is not there."""
    place: str | None = None
    """file:line:column in a spec."""


class StagePlan(Frozen):
    """One stage. runs: certain. may_run: only if a stage before it writes other bytes. restored: DVC puts back what it remembers."""

    pipeline: str
    stage: str
    run: str | None = None
    """Name of the run that it trains."""
    trains: bool
    """Whether it trains a model: a run, or a base model."""
    state: Literal["runs", "may_run", "restored", "stays"]
    reasons: tuple[Reason, ...] = ()


@dataclass(frozen=True)
class Past:
    """Where older content comes from, by path and record."""

    text: Callable[[str, Entry], str | None]
    """The text of a file; None if it is gone."""
    listing: Callable[[str, Entry], dict[str, str]]
    """Name -> MD5 of the files of a folder; {} if nothing is known of them."""


@dataclass(frozen=True)
class Reasons:
    """Turns causes into reasons. `origins`: path of a card -> places of its values; `judgements`: all lines of code_versions.jsonl."""

    files: Files
    past: Past
    origins: Callable[[str], Mapping[str, Origin]]
    judgements: Sequence[Judgement]

    def of_stage(self, status: Status) -> tuple[Reason, ...]:
        """All reasons of a stage, in the order of its causes."""
        reasons: list[Reason] = []
        together: dict[str, list[str]] = {}
        own = own_card(status)
        for cause in status.causes:
            if cause.kind in _TOGETHER and (cause.kind != "changed" or (cause.path.endswith(CARD) and cause.path != own)):
                together.setdefault(cause.kind, []).append(cause.path)
            else:
                reasons += self._reasons(status, cause)
        for name, paths in together.items():
            kind, words = _TOGETHER[name]
            reasons.append(Reason(kind=kind, says=words.format(listed(map(sentence, paths), 1)), path=paths[0]))
        return tuple(reasons)

    def _reasons(self, status: Status, cause: Cause) -> Iterator[Reason]:
        path, name = cause.path, sentence(cause.path)
        if cause.kind in _SAYS:
            kind, words = _SAYS[cause.kind]
            yield Reason(kind=kind, says=words.format(name, name.rpartition("/")[2].rpartition(":")[2]), path=path or None)
        elif cause.kind == "command":
            old, new = sentence(status.locked.cmd if status.locked else ""), command(status.stage)
            yield Reason(kind="command", says=f"command `{old[:80]}` -> `{new[:80]}`", old=old, new=new)
        elif path.endswith(CARD):
            yield from self._card(status, path)
        elif path.rpartition("/")[2] == "retry.json":
            after = (_object(self.files.text(path)) or {}).get("after")
            says = f"a retry is due after attempt {sentence(after)[:80]}" if after else "retry.json changed: no retry is due any more"
            yield Reason(kind="retry", says=says, path=path)
        else:
            yield self._file(status, path)

    def _card(self, status: Status, path: str) -> Iterator[Reason]:
        entry = status.locked.deps.get(path) if status.locked else None
        old, new = _object(self.past.text(path, entry) if entry else None), _object(self.files.text(path))
        if old is None or new is None:
            says = "its card changed; the card it ran with is neither on disk nor in git, so the keys are not known"
            yield Reason(kind="card", says=says, path=path)
            return
        named_already = {cause.path for cause in status.causes if cause.kind == "changed"} & _data_paths(new)
        origins = self.origins(path)
        for change in changes(old, new):
            if change.pointer.startswith("/code/"):
                yield self._code(change)
            elif not (change.key.endswith("data.sha256") and named_already):
                origin = nearest_origin(origins, change.pointer)
                place = origin.position if origin.file else None
                yield Reason(kind="card", says=change.says, path=path, key=change.key, old=change.old, new=change.new, place=place)

    def _code(self, change: Change) -> Reason:
        """A unit's new version with the reason of the line that began it; for a unit without versions, that its code changed."""
        unit = change.key.removeprefix("code.")
        if change.new and change.new.isdigit():
            lines = [judgement for judgement in self.judgements if judgement.results == "new" and unit in judgement.digests]
            why = f": {sentence(lines[int(change.new) - 1].why)}" if len(lines) >= int(change.new) else ""
            says = f"code of {sentence(unit)}: version {change.old or 'none'} -> {change.new}{why}"
        else:
            says = f"code of {sentence(unit)} changed" if change.new else f"code of {sentence(unit)} is no longer used"
        return Reason(kind="code", says=says, path=f"stages/{unit.replace('.', '/')}.py", key=unit, old=change.old, new=change.new)

    def _file(self, status: Status, path: str) -> Reason:
        card, entry = own_card(status), status.locked.deps.get(path) if status.locked else None
        kind: ReasonKind = "data" if card and path in _data_paths(_object(self.files.text(card))) else "file"
        before = self.past.listing(path, entry) if entry and entry.md5.endswith(".dir") else {}
        after = self.files.listing(path) if before else {}
        names = [name for name in sorted({*before, *after}) if before.get(name) != after.get(name)]
        words = f": {listed(map(sentence, names), SHOWN)}" if names else ""
        return Reason(kind=kind, says=f"{sentence(path)} changed{words}", path=path)


def own_card(status: Status) -> str | None:
    """The card that the stage is run with: the first that it reads. The page shows others too."""
    return next((dep for dep in status.stage.deps if dep.endswith(CARD)), None)


def _data_paths(card: Any) -> set[str]:
    """Paths of data files that a card pins."""
    if isinstance(card, dict):
        own = {card["path"]} if isinstance(card.get("path"), str) and "sha256" in card else set()
        return own.union(*map(_data_paths, card.values()))
    return set[str]().union(*map(_data_paths, card)) if isinstance(card, list) else set()


def _object(text: str | None) -> dict[str, Any] | None:
    try:
        content = json.loads(text) if text is not None else None
    except ValueError:
        return None
    return content if isinstance(content, dict) else None
