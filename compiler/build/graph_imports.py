"""The stages of an experiment of imported runs: one import a run, then analysis and the page as for any other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from compiler.build.graph_analysis import RUN, Analysed, analysis, of_runs
from compiler.build.stage import Pipeline, Stage, paths
from stages.contracts.layout import RUNS, ExperimentFolder


@dataclass(frozen=True)
class WantedImports:
    """What the graph needs to know of an experiment of imported runs. Runs are (name, condition, seed)."""

    name: str
    spec: str
    prose: str | None
    sources: Mapping[str, str]
    """Run -> path of its source."""
    runs: tuple[tuple[str, str, int], ...]
    code: tuple[str, ...] | None = None
    """Files of the program that trains the runs; None when they exist already."""


def imports(of: WantedImports) -> Pipeline:
    """The stages, in the order in which a reader follows them."""
    folder = ExperimentFolder(RUNS / of.name)
    root = folder.root.as_posix()
    names = [name for name, _, _ in of.runs]
    facts: list[Path | str] = [
        folder.conclude_card,
        *of_runs(folder, names, RUN.import_card, RUN.outcome, RUN.completions, RUN.imported, RUN.health),
    ]
    imported = of_runs(folder, names, RUN.imported)
    stages = [_import(root, *run, of.sources[run[0]]) if of.code is None else _command(root, *run, of.code) for run in of.runs]
    stages += analysis(Analysed(folder, names, of.prose, (RUN.imported, RUN.outcome), (), imported, facts))
    return Pipeline(folder.pipeline, of.spec, tuple(stages))


_MADE = (RUN.outcome, RUN.history, RUN.completions, RUN.imported)


def _command(root: str, name: str, condition: str, seed: int, code: tuple[str, ...]) -> Stage:
    return Stage(
        f"train-{name}",
        "stages.train.command",
        (f"{root}/{name}",),
        paths(f"{root}/{name}/{RUN.import_card}", f"{root}/{name}/{RUN.retry}", *code),
        tuple(f"{root}/{name}/{file}" for file in _MADE),
        f"condition {condition}, seed {seed}",
    )


def _import(root: str, name: str, condition: str, seed: int, source: str) -> Stage:
    return Stage(
        f"import-{name}",
        "stages.train.collect",
        (f"{root}/{name}",),
        paths(f"{root}/{name}/{RUN.import_card}", source),
        tuple(f"{root}/{name}/{file}" for file in _MADE),
        f"import of condition {condition}, seed {seed}",
    )
