"""`octavo waive`: a person records that a code change changes no result, so that nothing trains again because of it."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from compiler.build.base_models import MADE
from compiler.build.inputs import MODEL_SPECS, Inputs
from compiler.build.pipeline import Reference, every_spec, live, named
from compiler.build.plan_values import differences
from compiler.build.waivers import SHOWN, stages
from compiler.commands.plan_git import git, no_git
from compiler.commands.plan_past import OnDisk
from compiler.compile import compile_all
from compiler.lock.dvc_lock import Lock, read_lock
from compiler.lock.files import Cache
from compiler.problems import SECRET, Rejected, listed, nearest, sentence
from stages.contracts.artifact import ArtifactError, digest, dump, read, write_text
from stages.contracts.attempt import Outcome, read_attempts
from stages.contracts.diagnostic import Diagnostic
from stages.contracts.layout import MODELS, RUNS, ModelFolder, RunFolder
from stages.contracts.waiver import NAME, Waiver, chain, coded, identity

MOST = 2000
"""Characters of a reason."""
_WHY = "a waiver keeps results that exist, while only the code of their stage has changed"


@dataclass(frozen=True)
class Made:
    """What was written: paths, and a line a stage."""

    files: tuple[str, ...]
    said: tuple[str, ...]


@dataclass(frozen=True)
class _Stage:
    """One stage that can be waived: its card below `folder`, as it would be compiled without a waiver of its own."""

    name: str
    folder: Path
    card: str
    text: str
    run: RunFolder | None = None


@dataclass(frozen=True)
class _Kept:
    """Why a stage gets no waiver; `changed` when its card differs in more than the code."""

    says: str
    changed: bool = False


def run(options: argparse.Namespace, inputs: Inputs) -> int:
    """Record that a code change is judged to change no result."""
    made = waive(options.what, options.why, inputs)
    print("".join(f"{line}\n" for line in made.said), end="")
    print(f"{', '.join(made.files)} written. Commit it, then: octavo compile && dvc repro", file=sys.stderr)
    return 0


def waive(what: str, why: str, inputs: Inputs) -> Made:
    """Append waivers for a run, an experiment or a base model. Raises Rejected: E470 unknown name, E471 no reason, E271 nobody to sign,
    E472 nothing to waive, E474 a card that changes otherwise."""
    reason, who = _reason(why), _who()
    at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    made: list[tuple[Path, Waiver]] = []
    refused: dict[str, _Kept] = {}
    past = OnDisk(Cache(Path()))

    def judge(stage: _Stage) -> None:
        found = _judged(stage, past, inputs)
        if isinstance(found, _Kept):
            refused[stage.name] = found
            return
        before, after = found, coded(stage.text)
        waiver = Waiver(card=stage.card, identity=identity(stage.text), code_from=before, code_to=after, who=who, why=reason, at=at)
        inputs.waive(stage.folder, [waiver])
        made.append((stage.folder, waiver))

    target = _target(what, inputs)
    for base in target.models:  # its card id is part of every other card, so it comes first
        judge(_model(base, inputs))
        if base != what:
            refused.pop(base, None)
    for stage in _stages(target, inputs):
        judge(stage)
    changed = {name: kept.says for name, kept in refused.items() if kept.changed}
    if changed:
        raise Rejected([_changes_otherwise(what, changed)])
    if not made:
        raise Rejected([_nothing(what, refused)])
    for folder in dict.fromkeys(folder for folder, _ in made):
        _append(folder / NAME, [waiver for at_folder, waiver in made if at_folder == folder])
    lines = [f"{(folder / waiver.card).as_posix()}: code {waiver.code_from} -> {waiver.code_to}" for folder, waiver in made]
    lines += [f"not waived: {name}: {kept.says}" for name, kept in refused.items()]
    return Made(tuple(dict.fromkeys((folder / NAME).as_posix() for folder, _ in made)), tuple(lines))


@dataclass(frozen=True)
class _Target:
    """What was named. `run` when it is a single one."""

    models: tuple[str, ...]
    reference: Reference | None
    run: str | None = None


def _target(what: str, inputs: Inputs) -> _Target:
    wanted = what.removeprefix("runs/").rstrip("/")
    if wanted.startswith(MADE):
        known = [f"{MADE}{path.stem}" for path in sorted(MODEL_SPECS.glob("*.yaml"))]
        if wanted in known:
            return _Target((wanted,), None)
        raise Rejected([_unknown(wanted, known)])
    specs = every_spec()
    stem, _, rest = wanted.partition("/")
    if not rest and stem.partition("@")[0] in {spec.stem for spec in specs}:
        reference = named(stem)
        return _Target(_models([reference], inputs), reference)
    references = [named(stem)] if rest else live(inputs)
    compiled = compile_all(references, inputs)
    runs = {f"{one.experiment.name}/{run.name}": (one, run.name) for one in compiled for run in one.expansion.runs}
    found = [full for full, (_, run) in runs.items() if wanted in (full, run)]
    if len(found) != 1:
        known = found or [*dict.fromkeys(run for _, run in runs.values()), *(spec.stem for spec in specs)]
        raise Rejected([_unknown(wanted, known, several=bool(found))])
    one, run = runs[found[0]]
    reference = next(reference for reference in references if reference.name == one.experiment.name)
    return _Target(_models([reference], inputs), reference, run)


def _models(references: list[Reference], inputs: Inputs) -> tuple[str, ...]:
    bases = [one.experiment.spec.model.base for one in compile_all(references, inputs)]
    return tuple(dict.fromkeys(base for base in bases if base.startswith(MADE)))


def _model(base: str, inputs: Inputs) -> _Stage:
    model = inputs.model(base)
    assert model.card is not None
    folder = ModelFolder(MODELS / model.card.name)
    return _Stage(base, folder.root, folder.card.name, dump(model.card.model_copy(update={"code_hash": model.code})))


def _stages(target: _Target, inputs: Inputs) -> Iterator[_Stage]:
    if target.reference is None:
        return
    one = compile_all([target.reference], inputs)[0]
    folder = RUNS / one.experiment.name
    for found in stages(one.expansion, one.cards):
        if target.run in (None, found.run):
            run = RunFolder(folder / found.run) if found.run else None
            yield _Stage(found.run or found.kind, folder, found.card, found.text, run)


def _judged(stage: _Stage, past: OnDisk, inputs: Inputs) -> str | _Kept:
    """The code hash that the stage ran with, to be kept; or why there is none."""
    path = (stage.folder / stage.card).as_posix()
    entries = [found.deps[path] for found in _lock(stage.folder).values() if path in found.deps and _own(found.cmd, stage)]
    if not entries:
        return _Kept("it has never run")
    ran = past.text(path, entries[0])
    if ran is None:
        return _Kept(
            "the card that it ran with is neither on disk nor in git; "
            "undo the change, octavo compile, make it again, and waive before compiling"
        )
    if identity(ran) != identity(stage.text):
        found = [change.says for change in differences(json.loads(ran), json.loads(stage.text)) if change.key != "code_hash"]
        more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
        return _Kept(f"{'; '.join(found[:SHOWN])}{more}", changed=True)
    if coded(ran) == coded(stage.text):
        return _Kept(f"its code is the one that it ran with, {coded(ran)}")
    waived = chain(inputs.waivers(stage.folder), stage.card, identity(stage.text), coded(stage.text))
    if waived and waived[-1].code_from == coded(ran):
        return _Kept(f"waived already, on {waived[0].at[:10]} by {waived[0].who}")
    if stage.run is not None and not _finished(stage.run, digest(ran)[:16]):
        return _Kept("it has never finished with that card")
    return coded(ran)


def _own(command: str, stage: _Stage) -> bool:
    """Whether the card is the command's own; the page reads others' cards too."""
    folder = stage.run.root if stage.run else stage.folder
    return command.endswith(f" {folder.as_posix()}") and "stages.train." in command


def _lock(folder: Path) -> Lock:
    try:
        return read_lock(folder / "dvc.lock")
    except (OSError, ValueError):
        return {}


def _finished(run: RunFolder, card: str) -> bool:
    try:
        if any(attempt.state == "finished" and attempt.started.card_id == card for attempt in read_attempts(run.attempts)):
            return True
        outcome = read(Outcome, run.outcome)
        return outcome.finished and outcome.card_id == card
    except (ArtifactError, OSError, UnicodeDecodeError):
        return False


def _append(path: Path, waivers: list[Waiver]) -> None:
    """Whole lines at the end, all of them or none."""
    old = path.read_text(encoding="utf-8") if path.exists() else ""
    start = old if not old or old.endswith("\n") else f"{old}\n"
    lines = (json.dumps(waiver.model_dump(mode="json"), sort_keys=True, ensure_ascii=False) for waiver in waivers)
    write_text(path, start + "".join(f"{line}\n" for line in lines))


def _who() -> str:
    found = {key: (git("config", "--get", f"user.{key}") or b"").decode("utf-8", "replace").strip() for key in ("name", "email")}
    if not found["name"] and shutil.which("git") is None:
        raise Rejected([no_git("E271", "a waiver is signed with the name that git knows, and readers of the page see whose it is")])
    if not found["name"]:
        raise Rejected(
            [
                Diagnostic(
                    "E271",
                    "nobody to sign the waiver: git knows no `user.name`",
                    why="a waiver is a person's judgement, and readers of the page see whose",
                    fix='git config user.name "Your Name" && git config user.email you@example.org',
                )
            ]
        )
    return f"{found['name']} <{found['email']}>" if found["email"] else found["name"]


def _reason(why: str) -> str:
    reason = " ".join(why.split())
    if not reason or len(reason) > MOST or SECRET.search(reason):
        long = "the reason is too long" if len(reason) > MOST else "the reason holds what looks like a secret key"
        raise Rejected(
            [
                Diagnostic(
                    "E471",
                    long if reason else "a waiver without a reason",
                    why=f"readers of the page must be able to judge it too: one or two sentences, at most {MOST:,} characters",
                    fix='--why "only a log message changed"',
                )
            ]
        )
    return reason


def _unknown(what: str, known: list[str], several: bool = False) -> Diagnostic:
    meant = nearest(what, known)
    said = (
        f"`{sentence(what)[:80]}` is a run of several experiments"
        if several
        else f"no run, experiment or base model `{sentence(what)[:80]}`"
    )
    return Diagnostic(
        "E470",
        said + (f", did you mean `{meant}`?" if meant and not several else ""),
        why=f"known: {listed(known, 12)}",
        fix=f'octavo waive {known[0] if several else meant or (known[0] if known else "...")} --why "..."',
    )


def _changes_otherwise(what: str, changed: dict[str, str]) -> Diagnostic:
    (name, says), *rest = changed.items()
    more = f", and {len(rest)} more" if rest else ""
    return Diagnostic(
        "E474",
        f"the card of `{name}` changes in more than its code{more}: {says}",
        why="a waiver is about code alone; what else changes must run, or be undone first",
        fix="undo the change, waive, and make it again; or waive single runs whose cards do not change",
    )


def _nothing(what: str, refused: dict[str, _Kept]) -> Diagnostic:
    reasons: dict[str, list[str]] = {}
    for name, kept in refused.items():
        reasons.setdefault(kept.says, []).append(name)
    said = "; ".join(f"{listed(names, 4)}: {says}" for says, names in list(reasons.items())[:4])
    return Diagnostic("E472", f"nothing to waive in `{sentence(what)[:80]}`: {said}", why=_WHY, fix="octavo plan")
