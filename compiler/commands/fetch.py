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

from compiler.build.files import write
from compiler.build.imports import Snapshot, block_of, expand_imports, is_fetched, paths_of, section, snapshot_of, wandb_runs
from compiler.build.inputs import Inputs
from compiler.build.pipeline import Reference, everything, live, named
from compiler.build.revisions import LOCK, UPDATE, Lock, files, named_in, spec_files
from compiler.build.revisions import Reference as Repository
from compiler.document.node import Node
from compiler.document.validate import key_place
from compiler.language.expand import Run
from compiler.language.experiment import Experiment, experiment
from compiler.language.outside import ImportedSpec
from compiler.problems import Rejected, listed, nearest, problem
from stages.contracts.diagnostic import Diagnostic
from stages.contracts.files import file_digest, make_folder
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


@dataclass(frozen=True)
class WandbRun:
    """A run that an experiment imports from W&B: `name` is `entity/project/id`, `path` that of its snapshot."""

    experiment: str
    run: str
    name: str
    path: str
    node: Node


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


def _report(line: str) -> None:
    print(line, file=sys.stderr)


def _commits(ids: Sequence[str], specs: Sequence[str], old: Lock, inputs: Inputs) -> dict[Repository, str]:
    """Repository -> commit for all that specs name. Those in `ids` or used by `specs` move to their newest commit."""
    everywhere = {repository for path in spec_files() for repository in named_in(inputs.document(path).root)}
    remote = (repository for repository in everywhere if repository.kind == "datasets" or not Inputs.is_local(repository.name))
    used = sorted(remote, key=lambda repository: (repository.kind, repository.name))
    moving = {repository for name in specs for repository in named_in(_read(named(name), inputs).root)}
    moving |= {repository for name in ids for repository in _called(name, used)}
    commits: dict[Repository, str] = {}
    problems: list[Diagnostic] = []
    for repository in used:
        before = old.commits.get(repository)
        try:
            commits[repository] = newest(repository) if before is None or repository in moving else before
        except Rejected as rejected:
            problems += rejected.diagnostics
            if problems[-1].code == "E475":  # a hub that does not answer once would cost the same time again
                break
    if problems:
        raise Rejected(problems)
    for repository, commit in commits.items():
        before, now = old.commits.get(repository), commit[:12]
        if before is None:
            _report(f"{repository.name}: pinned to {now}")
        elif repository in moving:
            _report(f"{repository.name}: {f'{now} is still the newest' if before == commit else f'moved from {before[:12]} to {now}'}")
    for repository in old.commits.keys() - commits.keys():
        _report(f"{repository.name}: dropped, no spec names it")
    return commits


def _read(reference: Reference, inputs: Inputs) -> Experiment:
    return experiment(inputs.document(reference.path), reference.stem, reference.profile, inputs.document)


def _called(name: str, used: Sequence[Repository]) -> list[Repository]:
    """The repositories of a hub id. Raises Rejected E479 when no spec names one."""
    repositories, names = [repository for repository in used if repository.name == name], [repository.name for repository in used]
    if not repositories:
        fix, meant = f"write it in a spec first, as `base` or `hub`, then {UPDATE}", nearest(name, names)
        suggestion, fix = (f", did you mean `{meant}`?", f"{UPDATE} {meant}") if meant else ("", fix)
        raise Rejected([problem("E479", name=name, meant=suggestion, lock=LOCK.as_posix(), known=listed(names), fix=fix)])
    return repositories


def newest(repository: Repository) -> str:
    """The newest commit of its main branch. Raises Rejected: E475 the hub cannot be reached, E476 no such repository for this account,
    E477 its files are gated, E478 an answer that names no commit."""
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    from huggingface_hub import HfApi, constants, errors

    seconds, name, kind = constants.HF_HUB_ETAG_TIMEOUT, repository.name, repository.kind.removesuffix("s")
    api = HfApi(endpoint=os.environ.get("HF_ENDPOINT"), library_name="octavo")
    page = f"{api.endpoint}/{'datasets/' if kind == 'dataset' else ''}{name}"
    try:
        commit = api.repo_info(name, repo_type=kind, timeout=seconds).sha
    except errors.OfflineModeIsEnabled:
        reason, fix = "HF_HUB_OFFLINE is set, and this needs the network", f"HF_HUB_OFFLINE=0 {UPDATE}"
    except errors.HfHubHTTPError as error:
        status = error.response.status_code
        if status == 403 or isinstance(error, errors.GatedRepoError):
            raise Rejected([problem("E477", name=name, page=page, update=UPDATE)]) from None
        if status in (401, 404):
            raise Rejected([problem("E476", name=name, kind=kind, page=page)]) from None
        reason, fix = f"the hub answered with status {status}", f"try again: {UPDATE}"
    except (KeyError, ValueError, TypeError):
        raise Rejected([problem("E478", name=name, update=UPDATE)]) from None
    except Exception as error:  # the kinds of a transport's errors differ between versions of the client
        reason = f"it did not answer in {seconds} s" if "Timeout" in type(error).__name__ else "no connection"
        fix = f"check the network and HF_ENDPOINT, then {UPDATE}"
    else:
        if not re.fullmatch(r"[0-9a-f]{40}", str(commit)):
            raise Rejected([problem("E478", name=name, update=UPDATE)])
        return str(commit)
    raise Rejected([problem("E475", name=name, reason=reason, fix=fix)])


def _snapshots(references: Sequence[Reference], old: Lock, inputs: Inputs) -> Fetched:
    """Fetch the runs of these experiments, each moved into its place whole. One that cannot be fetched stays as it was."""
    specs = [_read(reference, inputs) for reference in references]
    if unnamed := [problem for spec in specs for problem in _unnamed(spec)]:
        raise Rejected(unnamed)
    runs = [run for spec in specs for run in _wandb_runs(spec)]
    pins = _pins_in_use(old.snapshots, {run.path for run in runs}, inputs)
    for path in sorted(old.snapshots.keys() - pins.keys()):
        _report(f"{path}: dropped, no spec names it")
    done: set[str] = set()
    problems: list[Diagnostic] = []
    try:
        for run in runs:
            try:
                make_folder(Path(run.path).parent)
            except OSError as error:  # a history that cannot be written need not be asked for
                raise Rejected([_unwritten(run, error)]) from None
        for run, answer in _answers(runs) if runs else ():
            before = snapshot_of(run.path)
            if answer.fault:
                problems.append(_unfetched(run, answer, before))
                continue
            try:
                os.replace(run.path + SUFFIX, run.path)
            except OSError as error:
                problems.append(_unwritten(run, error))
                continue
            done.add(run.path)
            pins[run.path] = file_digest(Path(run.path))
            _report(_change(run, before, snapshot_of(run.path)))
    finally:
        for run in runs:
            with suppress(OSError):
                os.unlink(run.path + SUFFIX)
        lock = replace(old, snapshots=pins)
        if runs and pins != old.snapshots:
            write(files(lock), {})  # now, so that lock and snapshots agree also if a spec does not compile
    if left := len(runs) - len(done) - len(problems):
        _report(f"{left} more {'run was' if left == 1 else 'runs were'} not asked for")
    return Fetched(lock, (), tuple(problems), frozenset(run.path for run in runs) - done)


def _wandb_runs(spec: Experiment) -> Iterator[WandbRun]:
    for run, paths in _snapshot_paths(spec):
        node = block_of(spec).get("ids", run.name) or block_of(spec)
        for path, name in zip(paths, wandb_runs(section(spec), run.name), strict=False):
            yield WandbRun(spec.name, run.name, name, path, node)


def _snapshot_paths(spec: Experiment) -> list[tuple[Run, list[str]]]:
    """The runs that `--update` fetches, with the paths of their snapshots; none where the author makes the snapshots, or without W&B."""
    if not isinstance(spec.spec, ImportedSpec) or (use := section(spec)).format != "wandb" or not (is_fetched(use) or use.ids):
        return []
    return [(run, paths_of(spec, use, run)) for run in expand_imports(spec).expansion.runs]


def _unnamed(spec: Experiment) -> Iterator[Diagnostic]:
    """E389 for each part of a run's name at W&B that is missing, and for each id of no run."""
    runs = [run.name for run, _ in _snapshot_paths(spec)]
    if not runs:
        return
    block, use = block_of(spec), section(spec)
    missing = [key for key in ("entity", "project") if not getattr(use, key)]
    faults = [(block.get("format"), f"`runs.import` has no `{key}`", f"{key}: <name>") for key in missing]
    faults += [(block.get("ids"), f"no W&B id for the run `{run}`", f"add `{run}: <id>` to `ids`") for run in runs if run not in use.ids]
    for name in [name for name in use.ids if name not in runs]:
        suggestion = f", did you mean `{meant}`?" if (meant := nearest(name, runs)) else ""
        what, fix = f"`ids` names `{name}`, which is no run{suggestion}", "delete it, or add its condition or seed"
        faults.append((block.get("ids", name), what, fix))
    for node, what, fix in faults:
        yield problem("E389.wandb", key_place(node or block), what=what, fix=fix, lock=LOCK.as_posix())


def _pins_in_use(old: Mapping[str, str], fetching: Set[str], inputs: Inputs) -> dict[str, str]:
    """Pins of snapshots that are fetched now or that a spec imports; all of them while a spec cannot be read."""
    imported = set(fetching)
    try:
        for reference in everything() if old.keys() - imported else ():
            spec = _read(replace(reference, profile=None), inputs)  # an import has no profiles
            imported.update(path for _, paths in _snapshot_paths(spec) for path in paths)
    except Rejected:
        return dict(old)
    return {path: pin for path, pin in old.items() if path in imported}


def _answers(runs: Sequence[WandbRun]) -> Iterator[tuple[WandbRun, Answer]]:
    """Each run with its answer, as they come, up to the first that W&B does not answer: the next would wait as long."""
    asks = "".join(Ask(run=run.name, file=run.path + SUFFIX).model_dump_json() + "\n" for run in runs)
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    pipe, environment = subprocess.PIPE, {**os.environ, "PYTHONPATH": path, "WANDB_SILENT": "true"}
    command = [sys.executable, "-P", "-m", MODULE, "-"]  # -P: no module of the project's root
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True, env=environment) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            with suppress(BrokenPipeError), process.stdin:
                process.stdin.write(asks)
            for run in runs:
                answer = _next_answer(process.stdout, run)
                yield run, answer
                if answer.fault == "away":
                    return
        finally:
            process.kill()


def _next_answer(lines: Iterator[str], run: WandbRun) -> Answer:
    """The next line that is an answer; a client of W&B may print lines of its own."""
    for line in lines:
        with suppress(ValueError):
            return Answer.model_validate_json(line)
    return Answer(run=run.name, fault="away", text="the process that asks W&B ended without an answer")


def _change(run: WandbRun, before: Snapshot | None, now: Snapshot | None) -> str:
    if now is None:
        return f"{run.experiment}/{run.run} ({run.name}): fetched"
    word = "fetched" if before is None else "as before" if before.digest == now.digest else "changed"
    earlier = f" (before: {before.state}, {before.rows} rows)" if before and word == "changed" else ""
    running = "; it is still running, so fetch it again when it has ended" if now.running else ""
    return f"{run.experiment}/{run.run} ({run.name}): {word}, {now.state}, {now.rows} rows{earlier}{running}"


def _unfetched(run: WandbRun, answer: Answer, before: Snapshot | None) -> Diagnostic:
    code = {"away": "E490", "unknown": "E491", "unclear": "E492"}[str(answer.fault)]
    kept = f"; the snapshot of {before.rows} rows stays" if before else ""
    keep = "; or keep the snapshot, which pages go on to be made from" if before else ""
    again = f"{UPDATE} {run.experiment}"
    return problem(code, run.node.place, run=run.run, name=run.name, reason=answer.text, kept=kept, again=again, keep=keep)


def _unwritten(run: WandbRun, error: OSError) -> Diagnostic:
    place = str(error.filename or run.path).removesuffix(SUFFIX)
    folder, reason = Path(place).parent.as_posix(), error.strerror or error
    return problem("E401.snapshot", run.node.place, run=run.run, where=place, reason=reason, path=run.path, folder=folder)
