"""Why a stage is not up to date, in the words of the spec: the key with its values and its place, the code, the file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compiler.build.origins import nearest_origin, places_of
from compiler.commands.plan_report import Reason, ReasonKind
from compiler.lock.card_diff import Change, changes
from compiler.lock.files import Files
from compiler.lock.status import Cause, Status, command
from compiler.problems import listed, sentence
from stages.contracts.code import Judgement
from stages.contracts.dvc_lock import Entry
from stages.contracts.files import parse_json
from stages.contracts.layout import RUNS
from stages.contracts.lineage import Origins

CARD = ".card.json"
SHOWN = 3
"""Names of a folder's changed files that are shown."""
_SAYS: dict[str, tuple[ReasonKind, str]] = {
    "new": ("new", "new: no earlier run to compare with"),
    "upstream": ("upstream", "reads what {1} writes"),
    "missing": ("missing", "{0} is missing"),
    "output_missing": ("output", "its output {1} is missing"),
    "output_changed": ("output", "its output {1} is not what it wrote"),
    "not_in_cache": ("output", "its output {1} is not in DVC's cache"),
}
"""Words of a cause; {0} is its path, {1} the end of it."""
_TOGETHER = {"added": "also reads {} now", "output_added": "also writes {} now", "changed": "reads {}, changed"}
"""Words of causes that come in hundreds, such as the files of new runs."""
_GONE = "its card changed; the card it ran with is neither on disk nor in git, so the keys are not known"


@dataclass(frozen=True)
class Reasons:
    """Turns causes into reasons. What is known of the past, beside today's `files`: `older`, path of a card -> the text that a stage ran
    with; `listing`, name -> MD5 of the files of a recorded folder, {} if unknown. `origins`: by name of the experiment."""

    files: Files
    older: Mapping[str, str]
    listing: Callable[[str, Entry], dict[str, str]]
    origins: Mapping[str, Origins]
    judgements: Sequence[Judgement]

    def of_stage(self, status: Status) -> tuple[Reason, ...]:
        """All reasons of a stage, in the order of its causes."""
        reasons: list[Reason] = []
        together: dict[str, list[str]] = {}
        # the card that a stage is run with is the first that it reads; the page shows others too
        own = next((dep for dep in status.stage.deps if dep.endswith(CARD)), None)
        for cause in status.causes:
            if cause.kind in _TOGETHER and (cause.kind != "changed" or (cause.path.endswith(CARD) and cause.path != own)):
                together.setdefault(cause.kind, []).append(cause.path)
            else:
                reasons += self._reasons(status, cause, own)
        for name, paths in together.items():
            reasons.append(Reason(kind="file", says=_TOGETHER[name].format(listed(map(sentence, paths), 1)), path=paths[0]))
        return tuple(reasons)

    def _reasons(self, status: Status, cause: Cause, own_card: str | None) -> Iterator[Reason]:
        path, name, locked = cause.path, sentence(cause.path), status.locked
        if cause.kind in _SAYS:
            kind, words = _SAYS[cause.kind]
            yield Reason(kind=kind, says=words.format(name, name.rpartition("/")[2].rpartition(":")[2]), path=path or None)
        elif cause.kind == "command":
            old, new = sentence(locked.cmd if locked else ""), command(status.stage)
            yield Reason(kind="command", says=f"command `{old[:80]}` -> `{new[:80]}`", old=old, new=new)
        elif path.endswith(CARD):
            yield from self._card(status, path)
        elif path.endswith("/retry.json"):
            after = json_object(self.files.text(path)).get("after")
            says = f"a retry is due after attempt {sentence(after)[:80]}" if after else "no retry is due any more"
            yield Reason(kind="retry", says=says, path=path)
        else:
            is_data = own_card is not None and path in _data_paths(json_object(self.files.text(own_card)))
            before = self.listing(path, locked.deps[path]) if locked and locked.deps[path].md5.endswith(".dir") else {}
            after = self.files.listing(path) if before else {}
            names = sorted(file for file in {*before, *after} if before.get(file) != after.get(file))
            words = f": {listed(map(sentence, names), SHOWN)}" if names else ""
            yield Reason(kind="data" if is_data else "file", says=f"{name} changed{words}", path=path)

    def _card(self, status: Status, path: str) -> Iterator[Reason]:
        old, new = json_object(self.older.get(path)), json_object(self.files.text(path))
        if not old or not new:
            yield Reason(kind="card", says=_GONE, path=path)
            return
        named_already = {cause.path for cause in status.causes if cause.kind == "changed"} & _data_paths(new)
        experiment, _, below = path.removeprefix(f"{RUNS}/").partition("/")
        origins = places_of(self.origins[experiment], below) if experiment in self.origins else {}
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
        says = f"code of {sentence(unit)} {'changed' if change.new else 'is no longer used'}"
        if change.new and change.new.isdigit():
            lines = [judgement for judgement in self.judgements if judgement.results == "new" and unit in judgement.digests]
            why = f": {sentence(lines[int(change.new) - 1].why)}" if len(lines) >= int(change.new) else ""
            says = f"code of {sentence(unit)}: version {change.old or 'none'} -> {change.new}{why}"
        return Reason(kind="code", says=says, path=f"stages/{unit.replace('.', '/')}.py", key=unit, old=change.old, new=change.new)


def _data_paths(card: Any) -> set[str]:
    """Paths of data files that a card pins."""
    if isinstance(card, dict):
        own = {card["path"]} if isinstance(card.get("path"), str) and "sha256" in card else set()
        return own.union(*map(_data_paths, card.values()))
    return set[str]().union(*map(_data_paths, card)) if isinstance(card, list) else set()


def json_object(text: str | None) -> dict[str, Any]:
    """An object of JSON; {} for any other text."""
    try:
        content = parse_json(text or "")
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}
