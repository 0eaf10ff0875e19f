"""`octavo plan`: what the specs would run now, compared with what lies on disk or with another revision, why, and at what cost."""

from __future__ import annotations

import argparse
import hashlib
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import chdir, suppress
from dataclasses import dataclass
from pathlib import Path

from compiler.build.inputs import Inputs
from compiler.build.pipeline import LIVE, SPECS, Reference, live, named
from compiler.build.revisions import LOCK
from compiler.commands.git import commit, extract, git, older_contents
from compiler.commands.plan_claims import claims_at_risk, cost, held_against, undated
from compiler.commands.plan_reasons import CARD, Reasons, json_object
from compiler.commands.plan_report import ExperimentPlan, Forecast, PageState, Plan, StagePlan, markdown, text
from compiler.compile import Compiled, Project, compile_all, left_over, project
from compiler.lock.files import Cache, Files
from compiler.lock.status import Status, command, readable_locks, statuses
from compiler.problems import Rejected, errors, listed, sentence
from compiler.running.launch import machine
from compiler.running.machines import DEFAULT, Machine
from compiler.running.schedule import makespan
from compiler.running.tasks import due
from stages.contracts.artifact import ArtifactError, dump, read
from stages.contracts.code import VERSIONS, read_judgements
from stages.contracts.code_tree import CodeTree
from stages.contracts.dvc_lock import Entry, Lock, Locked
from stages.contracts.files import links_to, read_bytes
from stages.contracts.layout import RUNS, ExperimentFolder
from stages.contracts.preflight_card import Permission
from stages.contracts.stage import ROOT

PRETRAINS = "stages.train.pretrain"
COMMITS, CARDS = 60, 60
"""Newest commits, and cards, that are searched for the cards that stages ran with: a thousand cards change for one reason."""
_PAGE: dict[str, PageState] = {"runs": "changes", "restored": "changes", "may_run": "may_change", "stays": "stays"}


@dataclass(frozen=True)
class _Baseline:
    """The older side of the comparison. `cache` is None for another revision: what stages wrote there is not known."""

    locks: dict[str, Lock]
    files: Files
    cache: Cache | None
    experiments: tuple[str, ...]
    notes: tuple[str, ...] = ()

    def texts(self, entries: Mapping[str, Entry]) -> dict[str, str]:
        """Path -> content that a stage ran with. What was compiled last lies on disk until the next compile; after it, in git."""
        there = {path: self.files.text(path) for path, entry in entries.items() if self.files.md5(path) == entry.md5}
        texts = {path: content for path, content in there.items() if content is not None}
        gone = [path for path in entries if path not in texts][:CARDS]
        for path, content in older_contents(gone, COMMITS) if gone and self.cache else ():
            if hashlib.md5(content.encode(), usedforsecurity=False).hexdigest() == entries[path].md5:
                texts[path] = content
        return texts

    def listing(self, path: str, entry: Entry) -> dict[str, str]:
        """Name -> MD5 of the files of a folder; {} if nothing is known of them."""
        return self.cache.listing(entry.md5) if self.cache else self.files.listing(path)


def run(options: argparse.Namespace, inputs: Inputs) -> int:
    """Print what would run. 4 with --exit-code if something would train."""
    report = plan(options.specs, inputs, options.base)
    if options.on or DEFAULT in os.environ:
        references = [named(name) for name in options.specs] or live(inputs)
        report = report.model_copy(update={"forecast": _forecast(references, machine(options.on, inputs), inputs)})
    print(dump(report) if options.json else markdown(report) if options.markdown else text(report), end="")
    return 4 if options.exit_code and report.training else 0


def _forecast(references: Sequence[Reference], place: Machine, inputs: Inputs) -> Forecast:
    """When the machine would have trained what is due, if all of it were begun now."""
    trained = [task for tasks in due(references, inputs).tasks.values() for task in tasks if task.trains]
    hours = [task.hours for task in trained if task.hours is not None]
    gpus = max((task.gpus for task in trained), default=0)
    at_once = place.capacity(gpus)
    is_known = len(hours) == len(trained)
    return Forecast(
        machine=place.name,
        runs=len(trained),
        at_once=at_once,
        gpus=gpus,
        device_hours=sum((task.hours or 0.0) * max(1, task.gpus) for task in trained) if is_known else None,
        hours=makespan(hours, at_once) if is_known and at_once else None,
    )


def plan(names: Sequence[str], inputs: Inputs, base: str | None = None) -> Plan:
    """Compare the named specs, or all that are live, with the disk or with revision `base`. Writes nothing. Raises Rejected."""
    revision = commit(base) if base is not None else None
    references = [named(name) for name in names] or live(inputs)
    compiled = compile_all(references, inputs)
    texts = project(compiled, with_site=not names)
    if revision is None:
        report = _compared(compiled, texts, _on_disk(texts, names), None, None)
        making = {
            experiment.name: {stage.makes for stage in experiment.stages if stage.state == "runs"} for experiment in report.experiments
        }
        notes = (*undated(compiled, making), *held_against(compiled, making), *_refused(compiled, report.experiments))
        return report.model_copy(update={"notes": notes})
    with tempfile.TemporaryDirectory(prefix="octavo-base-") as folder:
        report = _compared(compiled, texts, _at_revision(Path(folder), revision, names), revision, base)
    return report if names else report.model_copy(update={"notes": (*report.notes, *_not_live(revision, references, base or ""))})


def _refused(compiled: Sequence[Compiled], plans: Sequence[ExperimentPlan]) -> Iterator[str]:
    """Runs that stay because preflight refused their condition: that nothing trains is no sign that all is well."""
    for each, planned in zip(compiled, plans, strict=True):
        folder, conditions = ExperimentFolder(RUNS / planned.name), set()
        for setup in each.expansion.setups:
            with suppress(ArtifactError):  # without a preflight, or before it
                if not read(Permission, folder.permission(setup.name)).train:
                    conditions.add(setup.name)
        staying = {stage.run for stage in planned.stages if stage.state == "stays"}
        if refused := [run.name for run in each.expansion.runs if run.setup.name in conditions and run.name in staying]:
            yield f"{planned.name}: {listed(refused, 6)} stay refused by preflight; {folder.preflight.as_posix()} says why"


def _not_live(revision: str, references: Sequence[Reference], base: str) -> Iterator[str]:
    """Specs that differ and are in no plan: a reviewer would take silence for no change."""
    names = git("diff", "--name-only", "--relative", "--no-renames", "-z", revision, "--", SPECS.as_posix()) or b""
    planned = {*(reference.path for reference in references), LIVE, LOCK}
    for path in map(Path, filter(None, names.decode("utf-8", "replace").split("\0"))):
        if path.parent == SPECS and path.suffix == ".yaml" and path not in planned and path.exists():
            yield f"{path.as_posix()} differs and is not live, so nothing of it is here: octavo plan {path.stem} --base {base}"


def _compared(compiled: list[Compiled], texts: Project, before: _Baseline, base: str | None, base_name: str | None) -> Plan:
    once = texts.once if base else {path: content for path, content in texts.once.items() if not os.path.lexists(path)}
    files = Files(Path(), {**texts.files, **once})
    decided = statuses(texts.pipelines, before.locks, files, before.cache)
    older = before.texts(dict(_cards_before(compiled, decided, before.locks)))
    origins = {each.experiment.name: each.origins for each in compiled}
    reasons = Reasons(files, older, before.listing, origins, read_judgements(ROOT / VERSIONS))
    stages: dict[str, list[StagePlan]] = {}
    for status in decided:
        name, state, pipeline = status.stage.name, status.state, status.pipeline
        run = name.removeprefix("train-") if name.startswith("train-") else None
        trains, why = run is not None or status.stage.module == PRETRAINS, reasons.of_stage(status)
        stage = StagePlan(pipeline=pipeline, stage=name, run=run, trains=trains, state=state, reasons=why)
        stages.setdefault(pipeline, []).append(stage)
    experiments = tuple(_experiment(each, stages.pop(f"{RUNS}/{each.experiment.name}/dvc.yaml"), before, older) for each in compiled)
    return Plan(
        base=base,
        base_name=base_name,
        experiments=experiments,
        shared=tuple(stage for rest in stages.values() for stage in rest),
        removed_experiments=tuple(sorted(set(before.experiments) - {experiment.name for experiment in experiments})),
        notes=before.notes,
    )


def _cards_before(compiled: Sequence[Compiled], decided: Sequence[Status], locks: Mapping[str, Lock]) -> Iterator[tuple[str, Entry]]:
    """(path, record) of the cards whose older content is asked for: those that changed, and what declares claims and health gates."""
    for each in compiled:
        folder = ExperimentFolder(RUNS / each.experiment.name)
        lock = locks.get(folder.pipeline.as_posix(), {})
        for stage, card in (("conclude", folder.conclude_card.as_posix()), ("screen", folder.screen_card.as_posix())):
            if stage in lock and card in lock[stage].deps:
                yield card, lock[stage].deps[card]
    for status in decided:
        for cause in status.causes:
            if status.locked and cause.kind == "changed" and cause.path.endswith(CARD):
                yield cause.path, status.locked.deps[cause.path]


def _experiment(compiled: Compiled, stages: Sequence[StagePlan], before: _Baseline, older: Mapping[str, str]) -> ExperimentPlan:
    folder = ExperimentFolder(RUNS / compiled.experiment.name)
    lock = before.locks.get(folder.pipeline.as_posix(), {})
    runs = [run.name for run in compiled.expansion.runs]
    ran = {stage.partition("-")[2] for stage in lock if stage.startswith(("train-", "import-"))}
    ran |= set(left_over(compiled)) if before.cache is not None else set()
    new, removed = [run for run in runs if run not in ran], sorted(ran - set(runs))
    concluded, screened = (json_object(older.get(card.as_posix())) for card in (folder.conclude_card, folder.screen_card))
    page = next(stage for stage in stages if stage.stage == "page")
    return ExperimentPlan(
        name=folder.name,
        spec=compiled.experiment.document.file,
        stages=tuple(stages),
        new_runs=tuple(new),
        removed_runs=tuple(removed),
        cost=cost(compiled, [stage.run for stage in stages if stage.run and stage.state == "runs"]),
        claims=tuple(claims_at_risk(compiled, concluded, screened, stages, new, removed)),
        page=_PAGE[page.state] if "page" in lock else "new",
    )


def _on_disk(texts: Project, names: Sequence[str]) -> _Baseline:
    """What DVC recorded, and what was compiled last."""
    experiments = [path.parent.name for path in RUNS.glob("*/dvc.lock") if not path.parent.name.startswith("_")] if not names else []
    return _Baseline(readable_locks(texts.pipelines), Files(Path(), {}), Cache(Path()), tuple(experiments))


def _at_revision(folder: Path, revision: str, names: Sequence[str]) -> _Baseline:
    """Another revision, compiled in a folder of its own with its specs, data and stages. What does not compile is noted and left out."""
    extract(revision, folder)
    _link_tracked(folder, Path.cwd())
    with links_to(Path.cwd()):
        with chdir(folder):
            code = CodeTree(Path.cwd() if Path("stages").is_dir() else ROOT)  # a project may use octavo without holding its code
            compiled, notes = _compilable(names, Inputs(code))
            texts = project(compiled, with_site=not names)
        files = Files(folder, {**texts.files, **texts.once})
        written = {out for pipeline in texts.pipelines for stage in pipeline.stages for out in stage.outs}
        locks: dict[str, Lock] = {}
        for pipeline in texts.pipelines:
            lock = locks[pipeline.path.as_posix()] = {}
            for stage in pipeline.stages:
                deps = {dep: Entry("" if dep in written else files.md5(dep) or "") for dep in stage.deps}
                lock[stage.name] = Locked(command(stage), deps, {out: Entry("") for out in stage.outs})
    return _Baseline(locks, files, None, tuple(each.experiment.name for each in compiled), tuple(notes))


def _compilable(names: Sequence[str], inputs: Inputs) -> tuple[list[Compiled], list[str]]:
    """The experiments that compile, and sentences about those that do not: an older spec need not fit today's language."""
    compiled: list[Compiled] = []
    notes: list[str] = []
    references: list[Reference] = []
    try:
        for name in names:
            with suppress(Rejected):  # a spec that the revision does not have is new
                references.append(named(name))
        references += live(inputs) if not names and LIVE.is_file() else []
    except Rejected as rejected:
        notes.append(_unfit(LIVE.as_posix(), rejected))
    for reference in references:
        try:
            compiled += compile_all([reference], inputs)
        except Rejected as rejected:
            notes.append(_unfit(reference.name, rejected))
    return compiled, notes


def _unfit(name: str, rejected: Rejected) -> str:
    first = errors(rejected.diagnostics)[0]
    place = f"{first.place.file}:{first.place.line}: " if first.place else ""
    return sentence(f"{name} of that revision does not compile, so all of it counts as new: {place}{first.code} {first.what}")


def _link_tracked(folder: Path, here: Path) -> None:
    """Data that DVC tracks is not in git: where its `.dvc` file is the same as today's, today's data stands for it."""
    for pointer in folder.rglob("*.dvc"):
        target, now = pointer.with_suffix(""), here / pointer.relative_to(folder)
        is_same = pointer.is_file() and now.is_file() and read_bytes(now) == read_bytes(pointer)
        if is_same and now.with_suffix("").exists() and not target.exists():
            target.symlink_to(now.with_suffix(""))
