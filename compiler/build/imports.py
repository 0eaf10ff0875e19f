"""An import section -> setups, runs and the source of each: what an experiment of imported runs stands for."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from compiler.build.snapshots import snapshot_of
from compiler.document.node import Node
from compiler.document.validate import key_place
from compiler.language.expand import MAX_RUNS, Expansion, Run, Setup, too_many
from compiler.language.experiment import Experiment
from compiler.language.rewards import RewardUse
from compiler.language.spec_command import CommandSpec
from compiler.language.spec_imports import Import, ImportedSpec
from compiler.problems import problem, unknown
from stages.contracts.artifact import file_digest
from stages.contracts.diagnostic import Diagnostic
from stages.contracts.import_card import SourceCard
from stages.contracts.layout import RUNS, RunFolder
from stages.contracts.model import Adapter, TrainData
from stages.contracts.names import PATH
from stages.contracts.training import TrainSettings


@dataclass(frozen=True)
class NoLog(Diagnostic):
    """E389 of a run whose log is not there."""

    log: str = ""


_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
KNOWN = ("condition", "seed")


class ImportedTraining(TrainSettings):
    """What is known of how the runs were trained: how far they were meant to go, and which metrics the import maps."""

    metrics: tuple[str, ...]


@dataclass(frozen=True)
class ImportedRuns:
    """The whole import."""

    expansion: Expansion
    sources: dict[str, SourceCard]
    """Run -> its source; runs whose source is wrong are missing, and a problem says so."""


def section(of: Experiment) -> Import:
    """How logs are read: the import section, or what a command's history says in the same words."""
    if isinstance(of.spec, CommandSpec):
        train = of.spec.train
        history = {key: getattr(train.history, key) for key in type(train.history).model_fields if key != "file"}
        return Import.model_validate({**history, "steps": train.max_steps, "path": train.history.file})
    assert isinstance(of.spec, ImportedSpec)
    return of.spec.runs.import_


def block_of(of: Experiment) -> Node:
    """The block of that section."""
    return of.node("train", "history") if isinstance(of.spec, CommandSpec) else of.node("runs", "import")


def metric_node(of: Experiment, name: str) -> Node:
    """Where a metric is mapped."""
    return block_of(of).get("metrics", name) or block_of(of)


def expand_imports(of: Experiment, locked: Mapping[str, str] | None = None, absent: bool = False) -> ImportedRuns:
    """Setups, runs and sources, and what is wrong with them. `locked`: hashes of snapshots by their paths; `absent`: whether a log may be
    missing whose hash is known."""
    problems: list[Diagnostic] = []
    use, spec = section(of), of.spec
    train = ImportedTraining(algorithm="import", max_steps=use.steps, metrics=tuple(use.metrics))
    block, setups = block_of(of), []
    for name, condition in spec.conditions.items():
        node = of.node("conditions", name)
        reward = RewardUse(str(condition.reward) or name, None, (), node.get("reward") or Node(None, node.key or node.place))
        setups.append(Setup(name, condition, node, train, block, TrainData(path="none"), block, Adapter(), block, reward))
    seeds = [of.node("seeds", index) for index in range(len(spec.seeds))]
    if len(setups) * len(seeds) > MAX_RUNS:
        problems.append(too_many(len(setups), len(seeds), of.node("seeds").key))
        seeds = []
    runs = tuple(Run(setup, seed.value, seed) for setup in setups for seed in seeds)
    sources = {} if isinstance(spec, CommandSpec) else dict(_sources(of, use, runs, problems, locked or {}, absent))
    return ImportedRuns(Expansion(tuple(setups), runs, {}, (), {}, problems=problems), sources)


def filled(text: str, use: Import, run: Run) -> str:
    """A text with the run's condition and seed in place of `{condition}` and `{seed}`."""
    name = use.names.get(run.setup.name, run.setup.name)
    return text.replace("{condition}", name).replace("{seed}", str(run.seed))


def misplaced(text: str) -> list[str]:
    """Placeholders of a text that mean nothing."""
    return [name for name in _PLACEHOLDER.findall(text) if name not in KNOWN]


def wandb_run(use: Import, run: str) -> str:
    """`entity/project/id` of a run."""
    return f"{use.entity or '<entity>'}/{use.project or '<project>'}/{use.ids.get(run, '<run id>')}"


def snapshot(experiment: str, run: str) -> str:
    """Where the snapshot of a run of a W&B project lies, when the spec names no path."""
    return f"data/imports/{experiment}/{run}.jsonl"


def is_fetched(use: Import) -> bool:
    """Whether the snapshots lie where octavo puts them, because the spec names no place."""
    return use.format == "wandb" and use.path is None and not use.files


def path_of(of: Experiment, use: Import, run: Run) -> str | None:
    """Where the log of a run lies; None when the spec does not say."""
    if is_fetched(use):
        return snapshot(of.stem, run.name)
    return filled(use.path, use, run) if use.path else use.files.get(run.name)


def _sources(
    of: Experiment, use: Import, runs: tuple[Run, ...], problems: list[Diagnostic], locked: Mapping[str, str], absent: bool
) -> Iterator[tuple[str, SourceCard]]:
    block = block_of(of)
    from_wandb = is_fetched(use)
    if not from_wandb and (use.path is None) == (not use.files):
        problems.append(_neither(block))
        return
    if use.path is not None and misplaced(use.path):
        return  # a rule says so
    names = [run.name for run in runs]
    for name in use.files:
        if name not in names:
            problems.append(_no_run(of, name, names))
    seen: dict[str, str] = {}
    digests: dict[str, str] = {}
    for run in runs:
        path = path_of(of, use, run)
        said = (block.get("path"), block.get("ids", run.name), block.get("files", run.name), block.get("files"), block.get("format"))
        node = next((one for one in said if one is not None), block)
        if path is None:
            problems.append(_without(run.name, node))
        elif not PATH.fullmatch(path):
            problems.append(_bad_path(path, run.name, node))
        elif use.format != "summary" and path in seen:
            problems.append(_shared(path, seen[path], run.name, node))
            return
        elif absent and not os.path.exists(Path(path)) and (pin := _recorded(of, run.name, path)):
            seen[path] = run.name
            yield run.name, SourceCard(path=path, sha256=pin)
        elif not os.path.exists(Path(path)):
            problems.append(_missing(path, run.name, of.name if from_wandb else None, node))
        else:
            seen[path] = run.name
            if path not in digests:
                digests[path] = file_digest(Path(path))
            if use.format == "wandb" and locked.get(path, digests[path]) != digests[path]:
                problems.append(_not_as_locked(path, run.name, of.name, node))
            elif use.format == "wandb" and run.name in use.ids:
                found = snapshot_of(path)
                if found is not None and found.name.rpartition("/")[2] != use.ids[run.name]:  # W&B may write other names of a team
                    problems.append(_of_another_run(path, found.name, wandb_run(use, run.name), of.name, node))
            yield run.name, SourceCard(path=path, sha256=digests[path])


def _recorded(of: Experiment, run: str, path: str) -> str | None:
    """The hash of a log, as the run's card has it; None where no card names the path."""
    try:
        source = json.loads(RunFolder(RUNS / of.name / run).import_card.read_bytes())["source"]
        return str(source["sha256"]) if source["path"] == path else None
    except (OSError, ValueError, TypeError, LookupError):
        return None


def _neither(block: Node) -> Diagnostic:
    return problem("E389.neither", key_place(block))


def _no_run(of: Experiment, name: str, known: list[str]) -> Diagnostic:
    return unknown("E389.run", name, known, of.node("runs", "import", "files", name).key)


def _without(run: str, node: Node) -> Diagnostic:
    return problem("E389.log", key_place(node), run=run)


def _bad_path(path: str, run: str, node: Node) -> Diagnostic:
    return problem("E389.path", node.place, path=path[:120], run=run)


def _shared(path: str, first: str, second: str, node: Node) -> Diagnostic:
    return problem("E389.shared", node.place, path=path, run=first, other=second)


def _missing(path: str, run: str, fetched: str | None, node: Node) -> Diagnostic:
    folder, renamed = Path(path).parent.as_posix(), _renamed(run, node)
    missing = problem("E389.missing", node.place, path=path, run=run, folder=folder, renamed=renamed)
    if fetched:
        missing = problem("E389.fetched", node.place, path=path, run=run, experiment=fetched)
    return NoLog(missing.code, missing.what, missing.why, missing.fix, node.place, log=path)


def _renamed(run: str, node: Node) -> str:
    """Logs keep their names when a condition gets another."""
    condition = run.rpartition("-s")[0]
    return f"; or, of a renamed condition: names: {{{condition}: <its name in the paths>}}" if "{condition}" in str(node.value) else ""


def _of_another_run(path: str, found: str, named: str, experiment: str, node: Node) -> Diagnostic:
    return problem("E493", node.place, path=path, held=found[:120], named=named, experiment=experiment)


def _not_as_locked(path: str, run: str, experiment: str, node: Node) -> Diagnostic:
    return problem("E493.edited", node.place, path=path, run=run, experiment=experiment)
