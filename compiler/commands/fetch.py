"""`octavo compile --update`: pins for hub repositories, and snapshots of the W&B runs that specs import.

The one command that uses the network. huggingface_hub is asked in this process; HF_ENDPOINT, HF_TOKEN and its other settings apply. W&B is
asked by a process of its own (stages/contracts/import_card.py holds the words), so that neither wandb nor its output enters this one.
Neither a token nor what a server says is printed.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from compiler.build.imports import Snapshot, block_of, expand_imports, is_fetched, path_of, section, snapshot_of, wandb_run
from compiler.build.inputs import Inputs
from compiler.build.pipeline import Reference, everything, live, named
from compiler.build.revisions import LOCK, UPDATE, Lock, files, named_in, spec_files
from compiler.build.revisions import Reference as Repository
from compiler.build.write import write
from compiler.document.node import Node
from compiler.document.validate import key_place
from compiler.language.expand import Run
from compiler.language.experiment import Experiment, experiment
from compiler.language.outside import ImportedSpec
from compiler.problems import Rejected, listed, nearest, problem
from stages.contracts.artifact import file_digest
from stages.contracts.diagnostic import Diagnostic
from stages.contracts.import_card import Answer, Ask
from stages.contracts.names import is_hub_id
from stages.contracts.stage import ROOT

MODULE = "stages.train.imports.wandb_api"
SUFFIX = ".octavo-new"


@dataclass(frozen=True)
class Fetched:
    """The new lock; the experiments that were named beside hub ids; which runs could not be fetched, and the paths of their snapshots."""

    lock: Lock
    specs: tuple[str, ...] = ()
    problems: tuple[Diagnostic, ...] = ()
    unfetched: frozenset[str] = frozenset()


def fetch(names: Sequence[str], inputs: Inputs) -> Fetched:
    """Fetch for the named experiments and hub ids, or for all that is live; say on standard error what changed.

    The commits in the new lock are written with everything else, or not at all; the hashes of snapshots at once, with the snapshots.
    Raises Rejected: E475-E478 from the hub, E479 for a hub id that no spec names, E389 for a run without an id, E401.
    """
    ids = [name for name in names if is_hub_id(name) and not name.startswith("specs/")]
    specs = tuple(name for name in names if name not in ids)
    old = inputs.lock()
    commits = _commits(ids, specs, old, inputs)
    references = [] if ids and not specs else [named(name) for name in specs] or live(inputs)
    fetched = _snapshots(references, old, inputs)
    return replace(fetched, lock=replace(fetched.lock, commits=commits), specs=specs)


def _say(lines: Sequence[str]) -> None:
    print("".join(f"{line}\n" for line in lines), file=sys.stderr, end="")


def _commits(ids: Sequence[str], specs: Sequence[str], old: Lock, inputs: Inputs) -> dict[Repository, str]:
    """Repository -> commit for all that specs name. Those in `ids` or used by `specs` move to their newest commit."""
    used = _repositories(inputs)
    moving = {repository for name in ids for repository in _called(name, used)}
    for name in specs:
        reference = named(name)
        spec = experiment(inputs.document(reference.path), reference.stem, None, inputs.document)
        moving |= {repository for repository in named_in(spec.root) if repository in used}
    new: dict[Repository, str] = {}
    problems: list[Diagnostic] = []
    for repository in used:
        if repository in moving or repository not in old.commits:
            try:
                new[repository] = newest(repository)
            except Rejected as rejected:
                problems += rejected.diagnostics
                if problems[-1].code == "E475":  # a hub that does not answer once would cost the same time again
                    break
    if problems:
        raise Rejected(problems)
    commits = {repository: new.get(repository) or old.commits[repository] for repository in used}
    _say([_moved(repository, old.commits.get(repository), commit) for repository, commit in new.items()])
    _say([f"{repository.name}: dropped, no spec names it" for repository in old.commits if repository not in commits])
    return commits


def _repositories(inputs: Inputs) -> list[Repository]:
    """Hub repositories that the specs name, each once, sorted; models that lie in the project are none."""
    repositories = {repository for path in spec_files() for repository in named_in(inputs.document(path).root)}
    remote = [repository for repository in repositories if repository.kind == "datasets" or not Inputs.is_local(repository.name)]
    return sorted(remote, key=lambda repository: (repository.kind, repository.name))


def _called(name: str, used: Sequence[Repository]) -> list[Repository]:
    matches = [repository for repository in used if repository.name == name]
    if not matches:
        names = [repository.name for repository in used]
        meant = nearest(name, names)
        said = f", did you mean `{meant}`?" if meant else ""
        fix = f"{UPDATE} {meant}" if meant else f"write it in a spec first, as `base` or `hub`, then {UPDATE}"
        raise Rejected([problem("E479", name=name, meant=said, lock=LOCK.as_posix(), known=listed(names), fix=fix)])
    return matches


def _moved(repository: Repository, before: str | None, now: str) -> str:
    if before is None:
        return f"{repository.name}: pinned to {now[:12]}"
    stays = f"{now[:12]} is still the newest" if before == now else f"moved from {before[:12]} to {now[:12]}"
    return f"{repository.name}: {stays}"


def newest(repository: Repository) -> str:
    """The newest commit of its main branch. Raises Rejected: E475 the hub cannot be reached, E476 no such repository for this account,
    E477 its files are gated, E478 an answer that names no commit."""
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    from huggingface_hub import HfApi, constants, errors

    seconds, name, kind = constants.HF_HUB_ETAG_TIMEOUT, repository.name, repository.kind.removesuffix("s")
    api = HfApi(endpoint=os.environ.get("HF_ENDPOINT"), library_name="octavo")
    page = f"{api.endpoint}/{'datasets/' if kind == 'dataset' else ''}{name}"
    status: int | None = None
    try:
        commit = (api.dataset_info if kind == "dataset" else api.model_info)(name, timeout=seconds).sha
    except errors.OfflineModeIsEnabled:
        reason = "HF_HUB_OFFLINE is set, and this needs the network"
        raise Rejected([problem("E475", name=name, reason=reason, fix=f"HF_HUB_OFFLINE=0 {UPDATE}")]) from None
    except errors.GatedRepoError:
        status = 403
    except errors.RepositoryNotFoundError:
        status = 404
    except errors.HfHubHTTPError as error:
        status = getattr(getattr(error, "response", None), "status_code", None)
        if status not in (401, 403, 404):
            reason = f"the hub answered with status {status or 'none'}"
            raise Rejected([problem("E475", name=name, reason=reason, fix=f"try again: {UPDATE}")]) from None
    except (KeyError, ValueError, TypeError):
        commit = None
    except Exception as error:  # the kinds of a transport's errors differ between versions of the client
        reason = f"it did not answer in {seconds} s" if "Timeout" in type(error).__name__ else "no connection"
        fix = f"check the network and HF_ENDPOINT, then {UPDATE}"
        raise Rejected([problem("E475", name=name, reason=reason, fix=fix)]) from None
    if status == 403:
        raise Rejected([problem("E477", name=name, page=page, update=UPDATE)])
    if status is not None:
        raise Rejected([problem("E476", name=name, kind=kind, page=page)])
    if not isinstance(commit, str) or not re.fullmatch(r"[0-9a-f]{40}", commit):
        raise Rejected([problem("E478", name=name, update=UPDATE)])
    return commit


@dataclass(frozen=True)
class Wanted:
    """A run that an experiment imports from W&B: `name` is `entity/project/id`, `path` that of its snapshot."""

    experiment: str
    run: str
    name: str
    path: str
    node: Node


def _snapshots(references: Sequence[Reference], old: Lock, inputs: Inputs) -> Fetched:
    """Fetch the runs of these experiments, each moved into its place whole. One that cannot be fetched stays as it was."""
    wanted = [one for reference in references for one in _wanted(reference, inputs)]
    kept = _kept(old.snapshots, {one.path for one in wanted}, inputs)
    _say([f"{path}: dropped, no spec names it" for path in old.snapshots if path not in kept])
    if not wanted:
        return Fetched(replace(old, snapshots=kept))
    new: dict[str, str] = {}
    problems: list[Diagnostic] = []
    try:
        for one in wanted:  # begin each file: a history that cannot be written need not be asked for
            try:
                Path(one.path).parent.mkdir(parents=True, exist_ok=True)
                Path(one.path + SUFFIX).touch()
            except OSError as error:
                raise Rejected([_unwritten(one, error)]) from None
        for one, answer in _asked(wanted):
            if answer.fault:
                problems.append(_unfetched(one, answer))
                continue
            before = snapshot_of(one.path)
            try:
                os.replace(one.path + SUFFIX, one.path)
            except OSError as error:
                problems.append(_unwritten(one, error))
                continue
            new[one.path] = file_digest(Path(one.path))
            _say([_change(one, before, snapshot_of(one.path))])
    finally:
        for one in wanted:
            with suppress(OSError):
                os.unlink(one.path + SUFFIX)
        lock = replace(old, snapshots=kept | new)
        if lock.snapshots != old.snapshots:
            write(files(lock), {})  # now, so that lock and snapshots agree also if a spec does not compile
    if left := len(wanted) - len(new) - len(problems):
        _say([f"{left} more {'run was' if left == 1 else 'runs were'} not asked for"])
    return Fetched(lock, (), tuple(problems), frozenset(one.path for one in wanted) - new.keys())


def _wanted(reference: Reference, inputs: Inputs) -> Iterator[Wanted]:
    spec = experiment(inputs.document(reference.path), reference.stem, reference.profile, inputs.document)
    runs = _fetched(spec)
    if problems := list(_unnamed(spec, [run.name for run, _ in runs])) if runs else []:
        raise Rejected(problems)
    for run, path in runs:
        if path is not None:
            node = block_of(spec).get("ids", run.name) or block_of(spec)
            yield Wanted(spec.name, run.name, wandb_run(section(spec), run.name), path, node)


def _fetched(spec: Experiment) -> list[tuple[Run, str | None]]:
    """The runs that `--update` fetches, with the paths of their snapshots; none where the author makes the snapshots, or without W&B."""
    if not isinstance(spec.spec, ImportedSpec) or (use := section(spec)).format != "wandb" or not (is_fetched(use) or use.ids):
        return []
    return [(run, path_of(spec, use, run)) for run in expand_imports(spec).expansion.runs]


def _unnamed(spec: Experiment, runs: Sequence[str]) -> Iterator[Diagnostic]:
    """E389 for each part of a run's name at W&B that is missing, and for each id of no run."""
    block, use, lock = block_of(spec), section(spec), LOCK.as_posix()
    for key in ("entity", "project"):
        if getattr(use, key) is None:
            place = key_place(block.get("format") or block)
            yield problem("E389.wandb", place, what=f"`runs.import` has no `{key}`", fix=f"{key}: <name>", lock=lock)
    for run in runs:
        if run not in use.ids:
            place = key_place(block.get("ids") or block)
            yield problem("E389.wandb", place, what=f"no W&B id for the run `{run}`", fix=f"add `{run}: <id>` to `ids`", lock=lock)
    for name in use.ids:
        if name not in runs:
            meant = nearest(name, runs)
            what = f"`ids` names `{name}`, which is no run" + (f", did you mean `{meant}`?" if meant else "")
            place = key_place(block.get("ids", name) or block)
            yield problem("E389.wandb", place, what=what, fix="delete it, or add its condition or seed", lock=lock)


def _kept(old: Mapping[str, str], wanted: Set[str], inputs: Inputs) -> dict[str, str]:
    """Pins of snapshots that are wanted or that a spec imports; all of them while a spec cannot be read."""
    imported = set(wanted)
    try:
        for reference in everything() if old.keys() - imported else ():
            spec = experiment(inputs.document(reference.path), reference.stem, None, inputs.document)  # an import has no profiles
            imported.update(path for _, path in _fetched(spec) if path is not None)
    except Rejected:
        return dict(old)
    return {path: pin for path, pin in old.items() if path in imported}


def _asked(wanted: Sequence[Wanted]) -> Iterator[tuple[Wanted, Answer]]:
    """Each run with its answer, as they come, up to the first that W&B does not answer: the next would wait as long."""
    asks = "".join(Ask(run=one.name, file=one.path + SUFFIX).model_dump_json() + "\n" for one in wanted)
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    pipe, environment = subprocess.PIPE, {**os.environ, "PYTHONPATH": path, "WANDB_SILENT": "true"}
    command = [sys.executable, "-m", MODULE, "-"]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True, env=environment) as process:
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


def _change(one: Wanted, before: Snapshot | None, now: Snapshot | None) -> str:
    subject = f"{one.experiment}/{one.run} ({one.name})"
    if now is None:
        return f"{subject}: fetched"
    if before is None:
        change = f"fetched, {now.state}, {now.rows} rows"
    elif before.digest == now.digest:
        change = f"as before, {now.state}, {now.rows} rows"
    else:
        state = now.state if before.state == now.state else f"{before.state} before, now {now.state}"
        change = f"changed, {state}, {before.rows} rows before, now {now.rows}"
    return f"{subject}: {change}" + ("; it is still running, so fetch it again when it has ended" if now.running else "")


def _unfetched(one: Wanted, answer: Answer) -> Diagnostic:
    before = snapshot_of(one.path)
    return problem(
        {"away": "E490", "unknown": "E491", "unclear": "E492"}[str(answer.fault)],
        one.node.place,
        run=one.run,
        name=one.name,
        reason=answer.text,
        kept=f"; the snapshot of {before.rows} rows stays" if before else "",
        again=f"{UPDATE} {one.experiment}",
        keep="; or keep the snapshot, which pages go on to be made from" if before else "",
    )


def _unwritten(one: Wanted, error: OSError) -> Diagnostic:
    place = str(error.filename or one.path).removesuffix(SUFFIX)
    folder, reason = Path(place).parent.as_posix(), error.strerror or error
    return problem("E401.snapshot", one.node.place, run=one.run, where=place, reason=reason, path=one.path, folder=folder)
