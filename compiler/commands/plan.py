"""`octavo plan`: what the specs would run now, compared with what lies on disk or with another revision, why, and at what cost."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import chdir, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from compiler.build.inputs import Inputs
from compiler.build.origins import places_of
from compiler.build.pipeline import LIVE, SPECS, Reference, live, named
from compiler.build.revisions import LOCK
from compiler.commands.git import commit, commits_of, extract, git, show
from compiler.commands.plan_claims import OlderRules, claims_at_risk, undated
from compiler.commands.plan_cost import cost
from compiler.commands.plan_reasons import Past, Reasons
from compiler.commands.plan_report import ExperimentPlan, Plan, StagePlan
from compiler.commands.plan_text import markdown, text
from compiler.compile import Compiled, Project, compile_all, left_over, project
from compiler.lock.dvc_lock import Entry, Lock, Locked, read_lock
from compiler.lock.files import Cache, Files
from compiler.lock.status import State, command, statuses
from compiler.problems import Rejected, errors, sentence
from stages.contracts.artifact import dump
from stages.contracts.code import VERSIONS, read_judgements
from stages.contracts.code_tree import CodeTree
from stages.contracts.layout import RUNS
from stages.contracts.lineage import Origin
from stages.contracts.stage import ROOT

CARD = "train.card.json"
PRETRAINS = "stages.train.pretrain"
DEPTH, CARDS = 8, 60
"""Commits of a card, and cards, that are searched for the card that a stage ran with: a thousand cards change for one reason."""
_PAGE: dict[State, Literal["changes", "may_change", "stays"]] = {
    "runs": "changes",
    "restored": "changes",
    "may_run": "may_change",
    "stays": "stays",
}


@dataclass(frozen=True)
class _Baseline:
    """The older side of the comparison. `cache` is None for another revision: what stages wrote there is not known."""

    locks: dict[str, Lock]
    past: Past
    cache: Cache | None
    experiments: tuple[str, ...]
    notes: tuple[str, ...] = ()


def run(options: argparse.Namespace, inputs: Inputs) -> int:
    """Print what would run. 4 with --exit-code if something would train."""
    report = plan(options.specs, inputs, options.base)
    print(dump(report) if options.json else markdown(report) if options.markdown else text(report), end="")
    return 4 if options.exit_code and report.training else 0


def plan(names: Sequence[str], inputs: Inputs, base: str | None = None) -> Plan:
    """Compare the named specs, or all that are live, with the disk or with revision `base`. Writes nothing. Raises Rejected."""
    revision = commit(base) if base is not None else None
    references = [named(name) for name in names] or live(inputs)
    compiled = compile_all(references, inputs)
    texts = project(compiled, with_site=not names)
    if revision is None:
        report = _compared(compiled, texts, _on_disk(texts, names), None, None)
        stages = {experiment.name: experiment.stages for experiment in report.experiments}
        return report.model_copy(update={"notes": tuple(undated(compiled, stages))})
    with tempfile.TemporaryDirectory(prefix="octavo-base-") as folder:
        report = _compared(compiled, texts, _at_revision(Path(folder), revision, names), revision, base)
    return report if names else report.model_copy(update={"notes": (*report.notes, *_not_live(revision, references, base or ""))})


def _not_live(revision: str, references: Sequence[Reference], base: str) -> Iterator[str]:
    """Specs that differ and are in no plan: a reviewer would take silence for no change."""
    names = git("diff", "--name-only", "--relative", "--no-renames", "-z", revision, "--", SPECS.as_posix()) or b""
    planned = {*(reference.path for reference in references), LIVE, LOCK}
    for path in map(Path, filter(None, names.decode("utf-8", "replace").split("\0"))):
        if path.parent == SPECS and path.suffix == ".yaml" and path not in planned and path.exists():
            yield f"{path.as_posix()} differs and is not live, so nothing of it is here: octavo plan {path.stem} --base {base}"


def _compared(compiled: list[Compiled], texts: Project, before: _Baseline, base: str | None, base_name: str | None) -> Plan:
    once = texts.once if base else {path: text for path, text in texts.once.items() if not os.path.lexists(path)}
    files = Files(Path(), {**texts.files, **once})
    reasons = Reasons(files, before.past, _origins(compiled), read_judgements(ROOT / VERSIONS))
    stages: dict[str, dict[str, StagePlan]] = {}
    for status in statuses(texts.pipelines, before.locks, files, before.cache):
        name = status.stage.name
        run = name.removeprefix("train-") if name.startswith("train-") else None
        stages.setdefault(status.pipeline, {})[name] = StagePlan(
            pipeline=status.pipeline,
            stage=name,
            run=run,
            trains=run is not None or status.stage.module == PRETRAINS,
            state=status.state,
            reasons=reasons.of_stage(status),
        )
    experiments = tuple(_experiment(each, stages.pop(f"{RUNS}/{each.experiment.name}/dvc.yaml"), before) for each in compiled)
    return Plan(
        base=base,
        base_name=base_name,
        experiments=experiments,
        shared=tuple(stage for rest in stages.values() for stage in rest.values()),
        removed_experiments=tuple(sorted(set(before.experiments) - {experiment.name for experiment in experiments})),
        notes=before.notes,
    )


def _experiment(compiled: Compiled, stages: Mapping[str, StagePlan], before: _Baseline) -> ExperimentPlan:
    name, plans = compiled.experiment.name, tuple(stages.values())
    lock = before.locks.get(f"{RUNS}/{name}/dvc.yaml", {})
    runs = [run.name for run in compiled.expansion.runs]
    ran = {stage.partition("-")[2] for stage in lock if stage.startswith(("train-", "import-"))}
    ran |= set(left_over(compiled)) if before.cache is not None else set()
    new, removed = [run for run in runs if run not in ran], sorted(ran - set(runs))
    concluded, screened = (_older_card(name, stage, lock, before.past) for stage in ("conclude", "screen"))
    gates = screened["gates"] if screened else None
    older = OlderRules({claim["id"]: claim for claim in concluded["claims"]}, gates) if concluded else None
    return ExperimentPlan(
        name=name,
        spec=compiled.experiment.document.file,
        stages=plans,
        new_runs=tuple(new),
        removed_runs=tuple(removed),
        cost=cost(compiled, [stage.run for stage in plans if stage.run and stage.state == "runs"]),
        claims=tuple(claims_at_risk(compiled, older, plans, new, removed)),
        page=_PAGE[stages["page"].state] if "page" in lock else "new",
    )


def _older_card(experiment: str, stage: str, lock: Lock, past: Past) -> dict[str, Any] | None:
    """The card that a stage of the analysis last ran with; None if it is gone."""
    card = f"{RUNS}/{experiment}/analysis/{stage}.card.json"
    entry = lock[stage].deps.get(card) if stage in lock else None
    text = past.text(card, entry) if entry else None
    return dict(json.loads(text)) if text else None


def _origins(compiled: list[Compiled]) -> Callable[[str], Mapping[str, Origin]]:
    """A function from a card's path to the places of its values."""
    files = {each.experiment.name: each.origins for each in compiled}

    def origins(path: str) -> Mapping[str, Origin]:
        experiment, _, below = path.removeprefix(f"{RUNS}/").partition("/")
        return places_of(files[experiment], below) if experiment in files else {}

    return origins


def _on_disk(texts: Project, names: Sequence[str]) -> _Baseline:
    """What was compiled last lies on disk until the next compile; after it, in git if it was committed."""
    cache, disk, locks, left = Cache(Path()), Files(Path(), {}), dict[str, Lock](), iter(range(CARDS))
    for pipeline in texts.pipelines:
        with suppress(ValueError, OSError):
            locks[pipeline.path.as_posix()] = read_lock(pipeline.path.with_name("dvc.lock"))

    def text(path: str, entry: Entry) -> str | None:
        if disk.md5(path) == entry.md5:
            return disk.text(path)
        commits = commits_of(path, DEPTH) if next(left, None) is not None else []
        texts = (show(commit, path) for commit in commits)
        return next((old for old in texts if old and hashlib.md5(old.encode(), usedforsecurity=False).hexdigest() == entry.md5), None)

    experiments = [path.parent.name for path in RUNS.glob("*/dvc.lock") if not path.parent.name.startswith("_")] if not names else []
    return _Baseline(locks, Past(text, lambda path, entry: cache.listing(entry.md5)), cache, tuple(experiments))


def _at_revision(folder: Path, revision: str, names: Sequence[str]) -> _Baseline:
    """Another revision, compiled in a folder of its own with its specs, data and stages. What does not compile is noted and left out."""
    extract(revision, folder)
    _link_tracked(folder, Path.cwd())
    with chdir(folder):
        code = CodeTree(Path.cwd() if Path("stages").is_dir() else ROOT)  # a project may use octavo without holding its code
        compiled, notes = _compilable(names, Inputs(code))
        texts = project(compiled, with_site=not names)
    files = Files(folder, {**texts.files, **texts.once})
    outs = {out for pipeline in texts.pipelines for stage in pipeline.stages for out in stage.outs}
    locks = {
        pipeline.path.as_posix(): {
            stage.name: Locked(
                command(stage),
                {dep: Entry("" if dep in outs else files.md5(dep) or "") for dep in stage.deps},
                {out: Entry("") for out in stage.outs},
            )
            for stage in pipeline.stages
        }
        for pipeline in texts.pipelines
    }
    past = Past(lambda path, entry: files.text(path), lambda path, entry: files.listing(path))
    return _Baseline(locks, past, None, tuple(each.experiment.name for each in compiled), tuple(notes))


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
        is_same = pointer.is_file() and now.is_file() and now.read_bytes() == pointer.read_bytes()
        if is_same and now.with_suffix("").exists() and not target.exists():
            target.symlink_to(now.with_suffix(""))
