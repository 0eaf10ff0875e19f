"""Cards -> the graph of stages that DVC runs. Each file has one producer, and nothing waits for itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from stages.contracts.algorithms import SFT, stage_of
from stages.contracts.layout import BUILD, MODELS, RUNS, ExperimentFolder, ModelFolder, RunFolder

SITE = Path("site")
TEMPLATES = Path("stages/publish/templates")
"""Templates are no Python, so no code hash covers them."""
SITE_CODE = (TEMPLATES, *(Path(f"stages/publish/{name}.py") for name in ("site", "home", "leaves", "compare")))
"""The site stage has no card, so DVC watches its code."""


@dataclass(frozen=True)
class Stage:
    """One DVC stage. Paths are relative to the project's root; `module` is run with `arguments`, nothing else."""

    name: str
    module: str
    arguments: tuple[str, ...]
    deps: tuple[str, ...]
    outs: tuple[str, ...]
    desc: str
    cache: bool = True


@dataclass(frozen=True)
class Pipeline:
    """One dvc.yaml."""

    path: Path
    spec: str
    """What it was made from, for its first line."""
    stages: tuple[Stage, ...]


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


class GraphError(Exception):
    """The compiler's own fault: two stages write one file, or a stage waits for itself."""


_RUN = RunFolder(Path())
"""Names of a run's files; a thousand runs as paths of their own would be most of a compile's time."""


def experiment(of: Wanted) -> Pipeline:
    """The stages of one experiment, in the order in which a reader follows them."""
    folder = ExperimentFolder(RUNS / of.name)
    root = folder.root.as_posix()
    argument = (root,)
    names = [name for name, _, _ in of.runs]

    def of_runs(*files: Path) -> list[str]:
        texts = paths(*files)
        return [f"{root}/{name}/{file}" for name in names for file in texts]

    healths, histories = of_runs(_RUN.health), of_runs(_RUN.history)
    evaluations: list[Path | str] = [folder.untrained.evaluation, *of_runs(_RUN.evaluation)] if of.evaluates else []
    prose = [of.prose] if of.prose else []
    sampled = {name: path for name, path in of.train_data.items() if of.algorithms[name] != SFT}
    before = [folder.preflight] if sampled else []
    facts: list[Path | str] = [
        folder.findings,
        folder.figures,
        *before,
        *([folder.preflight_card] if sampled else []),
        folder.conclude_card,
    ]
    facts += of_runs(_RUN.card, _RUN.outcome, _RUN.completions, _RUN.health)
    facts += [folder.evaluate_card, *evaluations] if of.evaluates else []
    stages = [_preflight(folder, of, sampled)] if sampled else []
    stages += _train(folder, of)
    if of.evaluates:
        stages.append(
            Stage(
                "evaluate",
                "stages.train.evaluate",
                argument,
                paths(folder.evaluate_card, of.evaluation_data, of.model_path, *of_runs(_RUN.adapter, _RUN.outcome)),
                paths(*evaluations),
                "shared evaluation of the untrained model and every run",
            )
        )
    stages += [
        Stage(
            "screen",
            "stages.analyse.screen",
            argument,
            paths(folder.screen_card, *of_runs(_RUN.history, _RUN.completions, _RUN.outcome, _RUN.adapter)),
            paths(*healths),
            "health of every run",
        ),
        Stage(
            "conclude",
            "stages.analyse.conclude",
            argument,
            paths(folder.conclude_card, *before, *histories, *of_runs(_RUN.completions), *evaluations, *healths),
            paths(folder.findings),
            "findings and verdicts",
        ),
        Stage(
            "draw",
            "stages.analyse.draw",
            argument,
            paths(folder.draw_card, folder.findings, *before, *histories, *healths),
            paths(folder.figures),
            "figures",
        ),
        Stage(
            "page",
            "stages.publish.page",
            argument,
            paths(folder.page_card, TEMPLATES, folder.origins, *prose, *facts),
            paths(folder.page),
            "the page, with the lineage of every number",
        ),
    ]
    return Pipeline(folder.pipeline, of.spec, tuple(stages))


def base_model(name: str, spec: str) -> Pipeline:
    """The stage that makes a base model."""
    folder = ModelFolder(MODELS / name)
    stage = Stage(
        "pretrain",
        "stages.train.sft",
        (folder.root.as_posix(),),
        paths(folder.card),
        paths(folder.model, folder.history),
        f"base model {name}, made from nothing",
    )
    return Pipeline(folder.root / "dvc.yaml", spec, (stage,))


def site(experiments: Sequence[Sited], spec: str) -> Pipeline:
    """The top level: the site of all live experiments, then a check that every run is finished."""
    folders = [ExperimentFolder(RUNS / of.name) for of in experiments]
    healths = [f"{RUNS.as_posix()}/{of.name}/{name}/{_RUN.health.as_posix()}" for of in experiments for name, _, _ in of.runs]
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


def checked(pipelines: Iterable[Pipeline]) -> tuple[Pipeline, ...]:
    """The same pipelines. Raises GraphError when two stages write one file or a stage waits for itself."""
    found = tuple(pipelines)
    stages = {f"{pipeline.path.as_posix()}:{stage.name}": stage for pipeline in found for stage in pipeline.stages}
    if len(stages) != sum(len(pipeline.stages) for pipeline in found):
        raise GraphError("two stages of one pipeline have one name")
    producer: dict[str, str] = {}
    for name, stage in stages.items():
        for out in stage.outs:
            if out in producer:
                raise GraphError(f"{out} is written by {producer[out]} and by {name}")
            producer[out] = name
    for out in producer:
        parent = out
        while parent := parent.rpartition("/")[0]:
            if parent in producer:
                raise GraphError(f"{out} is written by {producer[out]} inside {parent}, which {producer[parent]} writes")
    waiting = {name: {producer[dep] for dep in stage.deps if dep in producer} for name, stage in stages.items()}
    _no_cycle(waiting)
    return found


def _no_cycle(waiting: dict[str, set[str]]) -> None:
    followers: dict[str, list[str]] = {}
    for name, before in waiting.items():
        for other in before:
            followers.setdefault(other, []).append(name)
    missing = {name: len(before) for name, before in waiting.items()}
    ready = [name for name, count in missing.items() if count == 0]
    done = 0
    while ready:
        name = ready.pop()
        done += 1
        for follower in followers.get(name, ()):
            missing[follower] -= 1
            if missing[follower] == 0:
                ready.append(follower)
    if done != len(waiting):
        raise GraphError(f"stages wait for each other: {', '.join(sorted(name for name, count in missing.items() if count))}")


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
    given, made = paths(_RUN.card, _RUN.retry), paths(_RUN.outcome, _RUN.history, _RUN.completions, _RUN.adapter)
    shared = {
        name: paths(None if of.algorithms[name] == SFT else folder.permission(name), of.model_path, data)
        for name, data in of.train_data.items()
    }
    for name, condition, seed in of.runs:
        root = f"{folder.root.as_posix()}/{name}"
        yield Stage(
            f"train-{name}",
            stage_of(of.algorithms[condition]),
            (root,),
            (*(f"{root}/{file}" for file in given), *shared[condition]),
            tuple([f"{root}/{file}" for file in made]),
            f"condition {condition}, seed {seed}",
        )


def paths(*files: Path | str | None) -> tuple[str, ...]:
    """As text, without those that are None: what lies on the hub is no dependency of DVC, cards pin it."""
    return tuple(path if isinstance(path, str) else path.as_posix() for path in files if path is not None)
