"""An import section -> setups, runs and the source of each: what an experiment of imported runs stands for."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from compiler.document.node import Node
from compiler.document.validate import key_place
from compiler.language.expand import Expansion, RewardUse, Run, Setup, runs_of
from compiler.language.experiment import Experiment
from compiler.language.outside import CommandSpec, Import, ImportedSpec, MetricUse
from compiler.language.presets import preset_metrics
from compiler.problems import problem, unknown
from stages.contracts.diagnostic import Diagnostic
from stages.contracts.files import file_digest, open_file, parse_json, read_json
from stages.contracts.history import METRICS
from stages.contracts.import_card import RUNNING, SNAPSHOT, SourceCard
from stages.contracts.layout import RUNS, RunFolder
from stages.contracts.model import Adapter, TrainData
from stages.contracts.names import PATH
from stages.contracts.training import TrainSettings


@dataclass(frozen=True)
class NoLog(Diagnostic):
    """E389 of a run whose log is not there."""

    log: str = ""


class ImportedTraining(TrainSettings):
    """What is known of how the runs were trained: how far they were meant to go, and which metrics the import maps."""

    metrics: tuple[str, ...]


@dataclass(frozen=True)
class ImportedRuns:
    """The whole import."""

    expansion: Expansion
    sources: dict[str, list[SourceCard]]
    """Run -> its sources, one of each try to train it; those that are wrong are missing, and a problem says so."""


def section(experiment: Experiment) -> Import:
    """How logs are read: the import section, or what a command's history says in the same words. Metrics are in an order of their own, so
    that no card changes with the order of lines in a spec."""
    if isinstance(experiment.spec, CommandSpec):
        train = experiment.spec.train
        history = {key: getattr(train.history, key) for key in type(train.history).model_fields if key != "file"}
        read = Import.model_validate({**history, "steps": train.max_steps, "path": train.history.file})
    else:
        assert isinstance(experiment.spec, ImportedSpec)
        read = experiment.spec.runs.import_
    mapped: dict[str, MetricUse] = {**preset_metrics(read.preset)} if read.preset else {}
    mapped = {name: column for name, column in mapped.items() if name not in read.unavailable} | read.metrics
    order = {name: place for place, name in enumerate(METRICS)}
    return read.model_copy(
        update={"metrics": {name: mapped[name] for name in sorted(mapped, key=lambda name: (order.get(name, len(order)), name))}}
    )


def block_of(experiment: Experiment) -> Node:
    """The block of that section."""
    return experiment.node("train", "history") if isinstance(experiment.spec, CommandSpec) else experiment.node("runs", "import")


def metric_node(experiment: Experiment, name: str) -> Node:
    """Where a metric is mapped."""
    block = block_of(experiment)
    return block.get("metrics", name) or block.get("preset") or block


def expand_imports(experiment: Experiment, locked: Mapping[str, str] | None = None, absent: bool = False) -> ImportedRuns:
    """Setups, runs and sources, and what is wrong with them. `locked`: hashes of snapshots by their paths; `absent`: whether a log may be
    missing whose hash is known."""
    problems: list[Diagnostic] = []
    read, spec, block = section(experiment), experiment.spec, block_of(experiment)
    train = ImportedTraining(algorithm="import", max_steps=read.steps, metrics=tuple(read.metrics))
    setups = []
    for name, condition in spec.conditions.items():
        node = experiment.node("conditions", name)
        reward = RewardUse(str(condition.reward) or name, None, (), node.get("reward") or Node(None, node.key or node.place))
        setups.append(Setup(name, condition, node, train, block, TrainData(path="none"), block, Adapter(), block, reward, spec.metrics))
    runs = runs_of(experiment, setups, problems)
    sources: dict[str, list[SourceCard]] = {}
    for run, source in () if isinstance(spec, CommandSpec) else _sources(experiment, read, runs, problems, locked or {}, absent):
        sources.setdefault(run, []).append(source)
    return ImportedRuns(Expansion(tuple(setups), runs, problems=problems), sources)


def filled(text: str, read: Import, run: Run) -> str:
    """A text with the run's condition and seed in place of `{condition}` and `{seed}`."""
    name = read.names.get(run.setup.name, run.setup.name)
    return text.replace("{condition}", name).replace("{seed}", str(run.seed))


def where_of(value: bool | int | float | str, read: Import, run: Run) -> bool | int | float | str:
    """What the rows of a run hold: of a text with `{condition}` and `{seed}` filled, `{seed}` alone is the number, as sources write it."""
    text = filled(value, read, run) if isinstance(value, str) else value
    return run.seed if text == str(run.seed) else text


def misplaced(text: str) -> list[str]:
    """Placeholders of a text that mean nothing."""
    return [name for name in re.findall(r"\{([^{}]*)\}", text) if name not in ("condition", "seed")]


def wandb_runs(read: Import, run: str) -> list[str]:
    """`entity/project/id` of each of a run's tries."""
    return [f"{read.entity or '<entity>'}/{read.project or '<project>'}/{each}" for each in _each(read.ids.get(run, "<run id>"))]


def is_fetched(read: Import) -> bool:
    """Whether the snapshots lie where octavo puts them, because the spec names no place."""
    return read.format == "wandb" and read.path is None and not read.files


def paths_of(experiment: Experiment, read: Import, run: Run) -> list[str]:
    """Where the logs of a run lie, one of each try; none when the spec does not say."""
    if is_fetched(read):
        tries = range(1, len(wandb_runs(read, run.name)) + 1)
        return [f"data/imports/{experiment.stem}/{run.name}{'' if number == 1 else f'.{number}'}.jsonl" for number in tries]
    return [filled(read.path, read, run)] if read.path else _each(read.files.get(run.name, ()))


def _each(tries: str | tuple[str, ...]) -> list[str]:
    return [tries] if isinstance(tries, str) else [*tries]


def _sources(
    experiment: Experiment, read: Import, runs: Sequence[Run], problems: list[Diagnostic], locked: Mapping[str, str], absent: bool
) -> Iterator[tuple[str, SourceCard]]:
    """The source of each run, and E389 or E493 for what is wrong with one."""
    block = block_of(experiment)
    if not is_fetched(read) and (read.path is None) == (not read.files):
        problems.append(problem("E389.neither", key_place(block)))
        return
    if read.path is not None and misplaced(read.path):
        return  # a check says so
    names = [run.name for run in runs]
    problems += [unknown("E389.run", name, names, (block.get("files", name) or block).key) for name in read.files if name not in names]
    readers: dict[tuple[str, ...], str] = {}
    digests: dict[str, str] = {}
    for run in runs:
        rows = tuple(f"{key}={where_of(value, read, run)}" for key, value in sorted(read.where.items()))
        paths, node = paths_of(experiment, read, run), _written(block, run)
        if not paths:
            problems.append(problem("E389.log", key_place(node), run=run.name))
        for number, path in enumerate(paths):
            pin, place = None, (node.get(number) or node).place
            if not PATH.fullmatch(path):
                problems.append(problem("E389.path", place, path=path[:120], run=run.name))
            elif read.format != "summary" and (path, *rows) in readers:
                problems.append(problem("E389.shared", place, path=path, run=readers[path, *rows], other=run.name))
                return
            elif os.path.exists(path):
                pin = digests[path] = digests.get(path) or file_digest(Path(path))
                problems += _of_wandb(experiment, read, run, number, SourceCard(path=path, sha256=pin), locked, node)
            elif not absent or (pin := _recorded(experiment, run.name, path)) is None:
                problems.append(_missing(path, run.name, experiment.name if is_fetched(read) else None, node))
            if pin is not None:
                readers[path, *rows] = run.name
                yield run.name, SourceCard(path=path, sha256=pin)


def _written(block: Node, run: Run) -> Node:
    """Where the spec says which log is the run's."""
    keys = (("path",), ("ids", run.name), ("files", run.name), ("files",), ("format",))
    return next((node for key in keys if (node := block.get(*key)) is not None), block)


def _of_wandb(
    experiment: Experiment, read: Import, run: Run, number: int, source: SourceCard, locked: Mapping[str, str], node: Node
) -> Iterator[Diagnostic]:
    """E493 for a snapshot that was edited, or that is of another run than the spec names."""
    if read.format != "wandb":
        return
    if locked.get(source.path, source.sha256) != source.sha256:
        yield problem("E493.edited", node.place, path=source.path, run=run.name, experiment=experiment.name)
        return
    snapshot, named = snapshot_of(source.path) if run.name in read.ids else None, wandb_runs(read, run.name)
    if snapshot is None or number >= len(named):
        return
    if snapshot.name.rpartition("/")[2] != named[number].rpartition("/")[2]:  # W&B may write other names of a team
        yield problem("E493", node.place, path=source.path, held=snapshot.name[:120], named=named[number], experiment=experiment.name)


def _recorded(experiment: Experiment, run: str, path: str) -> str | None:
    """The hash of a log, as the run's card has it; None where no card names the path."""
    try:
        card = read_json(RunFolder(RUNS / experiment.name / run).import_card)
        return next((str(source["sha256"]) for source in [card["source"], *card.get("others", [])] if source["path"] == path), None)
    except (OSError, ValueError, TypeError, LookupError):
        return None


def _missing(path: str, run: str, fetched: str | None, node: Node) -> Diagnostic:
    """E389 for a log that is not there. `fetched`: the experiment whose runs octavo fetches."""
    facts = {"path": path, "run": run, "folder": Path(path).parent.as_posix(), "experiment": fetched}
    missing = problem("E389.fetched" if fetched else "E389.missing", node.place, None, **facts)
    return NoLog(missing.code, missing.what, missing.why, missing.fix, node.place, log=path)


_MOST = 1 << 20
"""Bytes of a first line: numbers of a config and a summary."""


@dataclass(frozen=True)
class Snapshot:
    """A snapshot on disk."""

    rows: int
    state: str
    digest: str
    name: str = ""
    """`entity/project/id`."""

    @property
    def running(self) -> bool:
        return self.state in RUNNING


def snapshot_of(path: str) -> Snapshot | None:
    """The snapshot at a path; None when none is there."""
    try:
        with open_file(path) as stream:
            head = parse_json(stream.readline(_MOST))
        if head["schema"] != SNAPSHOT:
            return None
        name = "/".join(str(head.get(key)) for key in ("entity", "project", "id"))
        return Snapshot(int(head["rows"]), str(head["state"]), file_digest(Path(path)), name)
    except (OSError, ValueError, KeyError, TypeError):
        return None
