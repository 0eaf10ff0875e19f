"""`octavo plan`: what the specs would run now, compared with what lies on disk or with another revision, why, and at what cost."""

from __future__ import annotations

import argparse
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import chdir, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compiler.build.inputs import Inputs
from compiler.build.pipeline import LIVE, SPECS, Reference, live, named
from compiler.build.revisions import LOCK
from compiler.commands.plan_claims import MAKES_DATA, OlderRules, claims_at_risk, undated
from compiler.commands.plan_cost import attempts_of, cost
from compiler.commands.plan_git import commit, extract, git
from compiler.commands.plan_past import AtRevision, OnDisk
from compiler.commands.plan_why import Past, Why
from compiler.compile import Compiled, Project, compile_all, left_over, project
from compiler.lock.dvc_lock import Entry, Lock, Locked, read_lock
from compiler.lock.files import Cache, Files
from compiler.lock.status import State, Status, command, statuses
from compiler.problems import Rejected, errors, sentence
from stages.contracts.artifact import dump
from stages.contracts.attempt import Attempt
from stages.contracts.code import VERSIONS, read_judgements
from stages.contracts.code_tree import CodeTree
from stages.contracts.layout import RUNS, ExperimentFolder
from stages.contracts.origin import Origin
from stages.contracts.plan import ExperimentPlan, PageState, Plan, StagePlan
from stages.contracts.stage import ROOT

CARD = "train.card.json"
PRETRAINS = "stages.train.pretrain"
_COMMIT = re.compile(r"[0-9a-f]{7,40}")


@dataclass(frozen=True)
class _Before:
    """The older side of the comparison. `rules` maps experiment -> claim -> rule, as far as known."""

    locks: dict[str, Lock]
    past: Past
    cache: Cache | None
    experiments: tuple[str, ...]
    notes: tuple[str, ...] = ()


def run(options: argparse.Namespace, inputs: Inputs) -> int:
    """Print what would run. 4 with --exit-code if something would train."""
    from compiler.commands.plan_markdown import markdown
    from compiler.commands.plan_text import text

    found = plan(options.specs, inputs, options.base)
    print(dump(found) if options.json else markdown(found) if options.markdown else text(found), end="")
    return 4 if options.exit_code and found.training else 0


def plan(names: Sequence[str], inputs: Inputs, base: str | None = None) -> Plan:
    """Compare the named specs, or all that are live, with the disk or with revision `base`. Writes nothing. Raises Rejected."""
    revision = commit(base) if base is not None else None
    references = [named(name) for name in names] or live(inputs)
    compiled = compile_all(references, inputs)
    made = project(compiled, with_site=not names)
    if revision is None:
        cache = Cache(Path())
        locks = {pipeline.path.as_posix(): _lock(pipeline.path) for pipeline in made.pipelines}
        before = _Before(locks, OnDisk(cache), cache, () if names else _on_disk())
        found = _compared(compiled, made, before, inputs, None, None)
        return found.model_copy(update={"notes": tuple(undated(compiled, found.experiments))})
    with tempfile.TemporaryDirectory(prefix="octavo-base-") as folder:
        older = _older(Path(folder), revision, names)
        found = _compared(compiled, made, older, inputs, revision, base)
    return found if names else found.model_copy(update={"notes": (*found.notes, *_not_live(revision, references, base or ""))})


def _not_live(revision: str, references: Sequence[Reference], base: str) -> Iterator[str]:
    """Specs that differ and are in no plan: a reviewer would take silence for no change."""
    names = git("diff", "--name-only", "--relative", "--no-renames", "-z", revision, "--", SPECS.as_posix()) or b""
    planned = {*(reference.path for reference in references), LIVE, LOCK}
    for path in map(Path, filter(None, names.decode("utf-8", "replace").split("\0"))):
        if path.parent == SPECS and path.suffix == ".yaml" and path not in planned and path.exists():
            yield f"{path.as_posix()} differs and is not live, so nothing of it is here: octavo plan {path.stem} --base {base}"


def _compared(compiled: list[Compiled], made: Project, before: _Before, inputs: Inputs, base: str | None, base_name: str | None) -> Plan:
    once = made.once if base else {path: text for path, text in made.once.items() if not os.path.lexists(path)}
    files = Files(Path(), {**made.files, **once})
    decisions = statuses(made.pipelines, before.locks, files, before.cache)
    attempts = {one.experiment.name: attempts_of(one.experiment.name) for one in compiled}
    why = Why(files, before.past, _origins(compiled), read_judgements(ROOT / VERSIONS))
    stages: dict[str, list[StagePlan]] = {}
    by_key: dict[tuple[str, str], Status] = {}
    for decision in decisions:
        stages.setdefault(decision.pipeline, []).append(_stage(decision, why))
        by_key[decision.pipeline, decision.stage.name] = decision
    experiments = [
        _experiment(one, stages.pop(f"{RUNS}/{one.experiment.name}/dvc.yaml"), by_key, before, attempts[one.experiment.name])
        for one in compiled
    ]
    kept = {one.experiment.name for one in compiled}
    return Plan(
        base=base,
        base_name=base_name,
        experiments=tuple(experiments),
        shared=tuple(stage for rest in stages.values() for stage in rest),
        removed_experiments=tuple(name for name in before.experiments if name not in kept),
        notes=before.notes,
    )


def _stage(decision: Status, why: Why) -> StagePlan:
    stage = decision.stage
    return StagePlan(
        pipeline=decision.pipeline,
        stage=stage.name,
        run=stage.name.removeprefix("train-") if stage.name.startswith("train-") else None,
        trains=stage.module == PRETRAINS or stage.name.startswith("train-"),
        state=decision.state,
        reasons=why.reasons(decision),
    )


def _experiment(
    of: Compiled, stages: list[StagePlan], decisions: Mapping[tuple[str, str], Status], before: _Before, attempts: list[Attempt]
) -> ExperimentPlan:
    name = of.experiment.name
    pipeline = f"{RUNS}/{name}/dvc.yaml"
    lock = before.locks.get(pipeline, {})
    runs = [run.name for run in of.expansion.runs]
    ran = {MAKES_DATA.sub("", stage) for stage in lock if MAKES_DATA.match(stage)}
    if before.cache is not None:
        ran |= set(left_over(of))
    new = [run for run in runs if run not in ran]
    removed = sorted(ran - set(runs))
    page = decisions[pipeline, "page"]
    states: dict[State, PageState] = {"runs": "changes", "restored": "changes", "may_run": "may_change", "stays": "stays"}
    trained = [stage.run for stage in stages if stage.run and stage.state == "runs"]
    return ExperimentPlan(
        name=name,
        spec=of.experiment.document.file,
        stages=tuple(stages),
        new_runs=tuple(new),
        removed_runs=tuple(removed),
        cost=cost(of, trained, attempts),
        claims=tuple(claims_at_risk(of, _rules(name, lock, before), stages, new, removed)),
        page="new" if page.locked is None else states[page.state],
    )


def _older_card(name: str, stage: str, lock: Lock, before: _Before) -> dict[str, Any] | None:
    """The card that a stage of the analysis last ran with; None when it is gone."""
    card = (ExperimentFolder(RUNS / name).root / f"analysis/{stage}.card.json").as_posix()
    entry = lock[stage].deps.get(card) if stage in lock else None
    text = before.past.text(card, entry) if entry else None
    return dict(json.loads(text)) if text else None


def _rules(name: str, lock: Lock, before: _Before) -> OlderRules | None:
    """Claims and health gates of the older cards; None when the claims' card is gone."""
    concluded, screened = (_older_card(name, stage, lock, before) for stage in ("conclude", "screen"))
    if concluded is None:
        return None
    return OlderRules({claim["id"]: claim for claim in concluded["claims"]}, screened["gates"] if screened else None)


def _origins(compiled: list[Compiled]) -> Callable[[str], Mapping[str, Origin]]:
    """A function from a card's path to its origins."""
    runs = {f"{RUNS}/{one.experiment.name}/{run.name}/{CARD}": (one, run) for one in compiled for run in one.expansion.runs}
    single = {f"{RUNS}/{one.experiment.name}/{path}": found for one in compiled for path, found in one.cards.single_origins.items()}

    def origins(path: str) -> Mapping[str, Origin]:
        if path in runs and runs[path][1].setup.name in runs[path][0].cards.train_origins:
            one, run = runs[path]
            place = run.seed_node.place
            seed = Origin(file=place.file, line=place.line, column=place.column, layer=run.seed_node.layer)
            return {**one.cards.train_origins[run.setup.name], "/seed": seed}
        return single.get(path, {})

    return origins


def _lock(pipeline: Path) -> Lock:
    try:
        return read_lock(pipeline.with_name("dvc.lock"))
    except (ValueError, OSError):
        return {}


def _on_disk() -> tuple[str, ...]:
    """Experiments that have been run here."""
    return tuple(sorted(path.parent.name for path in RUNS.glob("*/dvc.lock") if not path.parent.name.startswith("_")))


def _older(folder: Path, revision: str, names: Sequence[str]) -> _Before:
    """Another revision, compiled in a folder of its own with its specs, data and stages. What does not compile is noted and left out."""
    extract(revision, folder)
    here = Path.cwd()
    _link_tracked(folder, here)
    with chdir(folder):
        inputs = Inputs(CodeTree(Path.cwd()))
        compiled, notes = _compiling(names, inputs)
        made = project(compiled, with_site=not names)
    files = Files(folder, {**made.files, **made.once})
    locks: dict[str, Lock] = {}
    outs = {out for pipeline in made.pipelines for stage in pipeline.stages for out in stage.outs}
    for pipeline in made.pipelines:
        locks[pipeline.path.as_posix()] = {
            stage.name: Locked(
                command(stage),
                {dep: Entry("" if dep in outs else files.md5(dep) or "") for dep in stage.deps},
                {out: Entry("") for out in stage.outs},
            )
            for stage in pipeline.stages
        }
    return _Before(locks, AtRevision(files), None, tuple(one.experiment.name for one in compiled), tuple(notes))


def _compiling(names: Sequence[str], inputs: Inputs) -> tuple[list[Compiled], list[str]]:
    """The experiments that compile, and sentences about those that do not: an older spec need not fit today's language."""
    compiled: list[Compiled] = []
    notes: list[str] = []
    try:
        references = list(_existing(names)) if names else live(inputs) if LIVE.is_file() else []
    except Rejected as rejected:
        return [], [_unfit(LIVE.as_posix(), rejected)]
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


def _existing(names: Sequence[str]) -> Iterator[Reference]:
    for name in names:
        with suppress(Rejected):  # a spec that the revision does not have is new
            yield named(name)


def _link_tracked(folder: Path, here: Path) -> None:
    """Data that DVC tracks is not in git: where its `.dvc` file is the same as today's, today's data stands for it."""
    for pointer in folder.rglob("*.dvc"):
        target = pointer.with_suffix("")
        now = here / pointer.relative_to(folder)
        if pointer.is_file() and not target.exists() and now.is_file() and now.read_bytes() == pointer.read_bytes():
            today = now.with_suffix("")
            if today.exists():
                target.symlink_to(today)
