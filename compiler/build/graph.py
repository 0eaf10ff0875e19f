"""Cards -> the graph of stages that DVC runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from compiler.build.graph_analysis import RUN, TEMPLATES, Analysed, analysis, of_runs
from compiler.build.stage import Pipeline, Stage, paths
from stages.contracts.algorithms import ALGORITHMS, SFT
from stages.contracts.layout import BUILD, MODELS, RUNS, ExperimentFolder, ModelFolder

SITE = Path("site")
SITE_CODE = (TEMPLATES, *(Path(f"stages/publish/{name}.py") for name in ("site", "home", "static_pages", "compare")))
"""The site stage has no card, so DVC watches its code: all that no page card covers."""


@dataclass(frozen=True)
class Wanted:
    """What the graph needs to know of an experiment. Runs are (name, condition, seed)."""

    name: str
    spec: str
    prose: str | None
    model_path: str | None
    """Folder of the base model; None for a model of the hub, which its card pins."""
    made_model: str | None
    """Name of the base model when the repository makes it."""
    train_data: dict[str, str | None]
    """Condition -> path of its prompts; None for rows of a hub dataset."""
    evaluates: bool
    evaluation_data: str | None
    algorithms: dict[str, str]
    """Condition -> algorithm."""
    runs: tuple[tuple[str, str, int], ...]


class Sited(Protocol):
    """What the site needs to know of an experiment, trained or imported."""

    @property
    def name(self) -> str: ...
    @property
    def runs(self) -> tuple[tuple[str, str, int], ...]: ...


def experiment(of: Wanted) -> Pipeline:
    """The stages of one experiment, in the order in which a reader follows them."""
    folder = ExperimentFolder(RUNS / of.name)
    names = [name for name, _, _ in of.runs]
    evaluations: list[Path | str] = [folder.untrained.evaluation, *of_runs(folder, names, RUN.evaluation)] if of.evaluates else []
    sampled = {name: path for name, path in of.train_data.items() if of.algorithms[name] != SFT}
    before = [folder.preflight] if sampled else []
    facts: list[Path | str] = [*before, *([folder.preflight_card] if sampled else []), folder.conclude_card]
    facts += of_runs(folder, names, RUN.card, RUN.outcome, RUN.completions, RUN.health)
    facts += [folder.evaluate_card, *evaluations] if of.evaluates else []
    stages = [_preflight(folder, of, sampled)] if sampled else []
    stages += _train(folder, of)
    if of.evaluates:
        stages.append(
            Stage(
                "evaluate",
                "stages.train.evaluate",
                (folder.root.as_posix(),),
                paths(folder.evaluate_card, of.evaluation_data, of.model_path, *of_runs(folder, names, RUN.adapter, RUN.outcome)),
                paths(*evaluations),
                "shared evaluation of the untrained model and every run",
            )
        )
    stages += analysis(Analysed(folder, names, of.prose, (RUN.outcome, RUN.adapter), before, evaluations, facts))
    return Pipeline(folder.pipeline, of.spec, tuple(stages))


def base_model(name: str, spec: str) -> Pipeline:
    """The stage that makes a base model."""
    folder = ModelFolder(MODELS / name)
    stage = Stage(
        "pretrain",
        "stages.train.pretrain",
        (folder.root.as_posix(),),
        paths(folder.card),
        paths(folder.model, folder.history),
        f"base model {name}, made from nothing",
    )
    return Pipeline(folder.root / "dvc.yaml", spec, (stage,))


def site(experiments: Sequence[Sited], spec: str) -> Pipeline:
    """The top level: the site of all live experiments, then a check that every run is finished."""
    folders = [ExperimentFolder(RUNS / of.name) for of in experiments]
    healths = [f"{RUNS.as_posix()}/{of.name}/{name}/{RUN.health.as_posix()}" for of in experiments for name, _, _ in of.runs]
    built = BUILD / "site"
    stages = [
        Stage(
            "site",
            "stages.publish.site",
            (RUNS.as_posix(),),
            paths(SITE, *SITE_CODE, *(folder.page for folder in folders)),
            paths(built),
            "the static site of all live experiments",
            cache=False,
        ),
        Stage(
            "complete",
            "stages.publish.complete",
            tuple(folder.root.as_posix() for folder in folders),
            paths(built, *healths),
            (),
            "says which runs are finished; fails when one is not",
        ),
    ]
    return Pipeline(Path("dvc.yaml"), spec, tuple(stages))


def _preflight(folder: ExperimentFolder, of: Wanted, sampled: dict[str, str | None]) -> Stage:
    """Only of conditions that are rewarded: gold answers have nothing to refuse."""
    return Stage(
        "preflight",
        "stages.train.preflight",
        (folder.root.as_posix(),),
        paths(folder.preflight_card, of.model_path, *sorted({path for path in sampled.values() if path})),
        paths(folder.preflight, folder.preflight_completions, *(folder.permission(name) for name in sampled)),
        "each condition's reward on completions of the untrained model",
    )


def _train(folder: ExperimentFolder, of: Wanted) -> Iterator[Stage]:
    given, made = paths(RUN.card, RUN.retry), paths(RUN.outcome, RUN.history, RUN.completions, RUN.adapter)
    shared = {
        name: paths(None if of.algorithms[name] == SFT else folder.permission(name), of.model_path, data)
        for name, data in of.train_data.items()
    }
    for name, condition, seed in of.runs:
        root = f"{folder.root.as_posix()}/{name}"
        yield Stage(
            f"train-{name}",
            ALGORITHMS[of.algorithms[condition]].stage,
            (root,),
            (*(f"{root}/{file}" for file in given), *shared[condition]),
            tuple([f"{root}/{file}" for file in made]),
            f"condition {condition}, seed {seed}",
        )
