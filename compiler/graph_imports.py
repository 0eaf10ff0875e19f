"""The stages of an experiment of imported runs: one import a run, then analysis and the page as for any other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from compiler.graph import TEMPLATES, Pipeline, Stage, paths
from stages.contracts.layout import RUNS, ExperimentFolder, RunFolder

_RUN = RunFolder(Path())


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

    def of_runs(*files: Path) -> list[str]:
        return [f"{root}/{name}/{file}" for name in names for file in paths(*files)]

    histories, healths, imported = of_runs(_RUN.history), of_runs(_RUN.health), of_runs(_RUN.imported)
    facts = of_runs(_RUN.import_card, _RUN.outcome, _RUN.completions, _RUN.imported, _RUN.health)
    prose = [of.prose] if of.prose else []
    argument = (root,)
    stages = [
        *(_import(root, *run, of.sources[run[0]]) if of.code is None else _command(root, *run, of.code) for run in of.runs),
        Stage(
            "screen",
            "stages.analyse.screen",
            argument,
            paths(folder.screen_card, *of_runs(_RUN.history, _RUN.completions, _RUN.imported, _RUN.outcome)),
            paths(*healths),
            "health of every run",
        ),
        Stage(
            "conclude",
            "stages.analyse.conclude",
            argument,
            paths(folder.conclude_card, *histories, *of_runs(_RUN.completions), *imported, *healths),
            paths(folder.findings),
            "findings and verdicts",
        ),
        Stage(
            "draw",
            "stages.analyse.draw",
            argument,
            paths(folder.draw_card, folder.findings, *histories, *healths),
            paths(folder.figures),
            "figures",
        ),
        Stage(
            "page",
            "stages.publish.page",
            argument,
            paths(folder.page_card, TEMPLATES, folder.origins, *prose, folder.findings, folder.figures, folder.conclude_card, *facts),
            paths(folder.page),
            "the page, with the lineage of every number",
        ),
    ]
    return Pipeline(folder.pipeline, of.spec, tuple(stages))


_MADE = (_RUN.outcome, _RUN.history, _RUN.completions, _RUN.imported)


def _command(root: str, name: str, condition: str, seed: int, code: tuple[str, ...]) -> Stage:
    return Stage(
        f"train-{name}",
        "stages.train.command",
        (f"{root}/{name}",),
        paths(f"{root}/{name}/{_RUN.import_card}", f"{root}/{name}/{_RUN.retry}", *code),
        tuple(f"{root}/{name}/{file}" for file in _MADE),
        f"condition {condition}, seed {seed}",
    )


def _import(root: str, name: str, condition: str, seed: int, source: str) -> Stage:
    return Stage(
        f"import-{name}",
        "stages.train.collect",
        (f"{root}/{name}",),
        paths(f"{root}/{name}/{_RUN.import_card}", source),
        tuple(f"{root}/{name}/{file}" for file in _MADE),
        f"import of condition {condition}, seed {seed}",
    )
