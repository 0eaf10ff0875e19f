"""`octavo compile --update`: snapshots of the W&B runs that experiments import. Each is moved into its place whole, with its hash in the
lock; one that cannot be fetched stays as it was.

A process of its own asks W&B (stages/contracts/wandb_snapshot.py says in which words), so that neither wandb nor its noise enters this one.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from compiler.build.imports import block_of, expand_imports, is_fetched, path_of, section, wandb_run
from compiler.build.inputs import Inputs
from compiler.build.pipeline import Reference, everything
from compiler.build.revisions import LOCK, UPDATE, files
from compiler.build.snapshots import Renewed, Snapshot, snapshot_of
from compiler.build.write import write
from compiler.document.node import Node
from compiler.document.validate import key_place
from compiler.language.expand import Run
from compiler.language.experiment import Experiment, experiment
from compiler.language.spec_imports import Import, ImportedSpec
from compiler.problems import Rejected, nearest
from stages.contracts.diagnostic import Diagnostic
from stages.contracts.digests import file_digest
from stages.contracts.stage import ROOT
from stages.contracts.wandb_snapshot import Answer, Ask

MODULE = "stages.train.imports.wandb_api"
SUFFIX = ".octavo-new"


@dataclass(frozen=True)
class Wanted:
    """A run of an experiment and what it is at W&B."""

    experiment: str
    run: str
    name: str
    """`entity/project/id`."""
    path: str
    node: Node


def renewed(references: Sequence[Reference], inputs: Inputs) -> Renewed:
    """Fetch the runs of these experiments that are imported from W&B, and drop from the lock what no spec names. Raises Rejected: E389
    for a run without an id, E401 where a snapshot cannot be written; nothing is asked then."""
    wanted = [one for reference in references for one in _wanted(reference, inputs)]
    old = inputs.lock()
    kept = _kept(old.snapshots, {one.path for one in wanted}, inputs)
    print("".join(f"{path}: dropped, no spec names it\n" for path in old.snapshots if path not in kept), file=sys.stderr, end="")
    if not wanted:
        return Renewed(replace(old, snapshots=kept))
    _can_be_written(wanted)
    new: dict[str, str] = {}
    problems: list[Diagnostic] = []
    try:
        for one, answer in _asked(wanted):
            if answer.fault:
                problems.append(_fault(one, answer))
                continue
            before = snapshot_of(one.path)
            try:
                os.replace(one.path + SUFFIX, one.path)
            except OSError as error:
                problems.append(_unwritten(one, error))
                continue
            new[one.path] = file_digest(Path(one.path))
            print(_said(one, before, snapshot_of(one.path)), file=sys.stderr)
    finally:
        for one in wanted:
            with suppress(OSError):
                os.unlink(one.path + SUFFIX)
        lock = replace(old, snapshots=kept | new)
        if lock.snapshots != old.snapshots:
            write(files(lock), {})  # with what was fetched, so that the two agree also when a spec does not compile
    left = len(wanted) - len(new) - len(problems)
    if left:
        print(f"{left} more {'run was' if left == 1 else 'runs were'} not asked for", file=sys.stderr)
    return Renewed(lock, tuple(problems), frozenset(one.path for one in wanted) - new.keys())


def _wanted(reference: Reference, inputs: Inputs) -> Iterator[Wanted]:
    of = experiment(inputs.document(reference.path), reference.stem, reference.profile, inputs.document)
    runs = _fetched(of)
    if not runs:
        return
    use = section(of)
    problems = list(_unnamed(of, use, [run for run, _ in runs]))
    if problems:
        raise Rejected(problems)
    for run, path in runs:
        if path is not None:
            yield Wanted(of.name, run.name, wandb_run(use, run.name), path, block_of(of).get("ids", run.name) or block_of(of))


def _fetched(of: Experiment) -> list[tuple[Run, str | None]]:
    """The runs that `--update` fetches, with the paths of their snapshots; none where these are made elsewhere, or come from no W&B."""
    if not isinstance(of.spec, ImportedSpec) or (use := section(of)).format != "wandb" or not (is_fetched(use) or use.ids):
        return []
    return [(run, path_of(of, use, run)) for run in expand_imports(of).expansion.runs]


def _unnamed(of: Experiment, use: Import, runs: Sequence[Run]) -> Iterator[Diagnostic]:
    block = block_of(of)
    for key in ("entity", "project"):
        if getattr(use, key) is None:
            yield _without(f"`runs.import` has no `{key}`", f"{key}: <name>", block.get("format") or block)
    for run in runs:
        if run.name not in use.ids:
            yield _without(f"no W&B id for the run `{run.name}`", f"add `{run.name}: <id>` to `ids`", block.get("ids") or block)
    names = [run.name for run in runs]
    for name in use.ids:
        if name not in names:
            meant = nearest(name, names)
            what = f"`ids` names `{name}`, which is no run" + (f", did you mean `{meant}`?" if meant else "")
            yield _without(what, "delete it, or add its condition or seed", block.get("ids", name) or block)


def _asked(wanted: Sequence[Wanted]) -> Iterator[tuple[Wanted, Answer]]:
    """Each run with its answer, as they come. The first that W&B does not answer is the last: the next would wait as long for nothing."""
    asks = "".join(Ask(run=one.name, file=one.path + SUFFIX).model_dump_json() + "\n" for one in wanted)
    command = [sys.executable, "-m", MODULE, "-"]
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "WANDB_SILENT": "true"}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            with suppress(BrokenPipeError), process.stdin:
                process.stdin.write(asks)
            for one in wanted:
                answer = _next(process.stdout, one)
                yield one, answer
                if answer.fault == "away":
                    return
        finally:
            process.kill()


def _next(lines: Iterator[str], one: Wanted) -> Answer:
    """The next line that is an answer; a client of W&B may print lines of its own."""
    for line in lines:
        with suppress(ValueError):
            return Answer.model_validate_json(line)
    return Answer(run=one.name, fault="away", text="the process that asks W&B ended without an answer")


def _kept(old: Mapping[str, str], wanted: Set[str], inputs: Inputs) -> dict[str, str]:
    """The pins of snapshots that are wanted, or that a spec imports. All while a spec cannot be read."""
    named = set(wanted)
    try:
        for one in everything() if old.keys() - named else ():
            of = experiment(inputs.document(one.path), one.stem, None, inputs.document)  # an import has no profiles
            named.update(path for _, path in _fetched(of) if path is not None)
    except Rejected:
        return dict(old)
    return {path: pin for path, pin in old.items() if path in named}


def _can_be_written(wanted: Sequence[Wanted]) -> None:
    """Begin each file, so that nobody waits for a history that has no place. Raises Rejected E401."""
    begun: list[str] = []
    for one in wanted:
        try:
            Path(one.path).parent.mkdir(parents=True, exist_ok=True)
            begun.append(one.path + SUFFIX)
            Path(begun[-1]).write_bytes(b"")
        except OSError as error:
            for path in begun:
                with suppress(OSError):
                    os.unlink(path)
            raise Rejected([_unwritten(one, error)]) from None


def _said(one: Wanted, before: Snapshot | None, now: Snapshot | None) -> str:
    subject = f"{one.experiment}/{one.run} ({one.name})"
    if now is None:
        return f"{subject}: fetched"
    grows = "; it is still running, so fetch it again when it has ended" if now.running else ""
    if before is None:
        return f"{subject}: fetched, {now.state}, {now.rows} rows{grows}"
    if before.digest == now.digest:
        return f"{subject}: as before, {now.state}, {now.rows} rows{grows}"
    state = now.state if before.state == now.state else f"{before.state} before, now {now.state}"
    return f"{subject}: changed, {state}, {before.rows} rows before, now {now.rows}{grows}"


_CODES = {"away": "E490", "unknown": "E491", "unclear": "E492"}
_WHYS = {
    "away": "only this command asks W&B; everything else of octavo works with the snapshots that are here",
    "unknown": "a run is fetched by its id, with the rights of the account that WANDB_API_KEY or `wandb login` names",
    "unclear": "a snapshot holds the whole history or is not made: part of it would look like a shorter run",
}


def _fault(one: Wanted, answer: Answer) -> Diagnostic:
    assert answer.fault is not None
    kept = snapshot_of(one.path)
    left = f"; the snapshot of {kept.rows} rows stays" if kept else ""
    fixes = {
        "away": f"check WANDB_BASE_URL and the network, then {UPDATE} {one.experiment}",
        "unknown": f"check the id, export WANDB_API_KEY=..., then {UPDATE} {one.experiment}"
        + ("" if kept is None else "; or keep the snapshot, which pages go on to be made from"),
        "unclear": f"try again: {UPDATE} {one.experiment}",
    }
    return Diagnostic(
        _CODES[answer.fault],
        f"`{one.run}` was not fetched from W&B ({one.name}): {answer.text}{left}",
        why=_WHYS[answer.fault],
        fix=fixes[answer.fault],
        place=one.node.place,
    )


def _unwritten(one: Wanted, error: OSError) -> Diagnostic:
    place = str(error.filename or one.path).removesuffix(SUFFIX)
    return Diagnostic(
        "E401",
        f"the snapshot of `{one.run}` cannot be written: {place}: {error.strerror or error}",
        why=f"what W&B answers is kept as {one.path}; a snapshot that was there stays as it was",
        fix=f"give yourself the right to write, or move away what lies there: ls -ld {Path(place).parent.as_posix()} {place}",
        place=one.node.place,
    )


def _without(what: str, fix: str, node: Node) -> Diagnostic:
    why = f"{LOCK.as_posix()} pins what was fetched, and a run is fetched by entity, project and id: its name may be that of several"
    return Diagnostic("E389", what, why=why, fix=fix, place=key_place(node))
