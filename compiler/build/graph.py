"""Cards -> the graph of stages that DVC runs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from compiler.build.cards import Cards
from compiler.language.expand import Expansion, Run
from compiler.language.experiment import Experiment
from compiler.language.outside import CommandSpec, OutsideSpec
from stages.contracts.algorithms import ALGORITHMS, SFT
from stages.contracts.analysis_card import OtherCondition
from stages.contracts.import_card import ImportCard
from stages.contracts.layout import BUILD, COMPARISONS, MODELS, RUNS, ExperimentFolder, ModelFolder, RunFolder

TEMPLATES = Path("stages/publish/templates")
"""Templates are no Python, so no code version covers them."""
SITE = Path("site")
COMPARED = Path("stages/contracts/comparison.py")
SITE_CODE = (TEMPLATES, *(Path(f"stages/publish/{name}.py") for name in ("site", "home", "compare", "family", "policy")), COMPARED)
"""The site stage has no card, so DVC watches its code: all that no page card covers."""
COMPARE_CODE = (COMPARED, *(Path(f"stages/analyse/{name}.py") for name in ("compare", "picture", "plots", "statistics")))
"""Nor has the stage that compares experiments."""
TRACKING = ExperimentFolder(Path()).tracking.name
FINISHED = "says which runs are finished; fails when one is not"
RUN = RunFolder(Path())
"""Names of a run's files; a thousand runs as paths of their own would be most of a compile's time."""

Files = Sequence[Path | str]


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
    """One dvc.yaml. `spec`: what it was made from, for its first line."""

    path: Path
    spec: str
    stages: tuple[Stage, ...]

    @property
    def planned(self) -> tuple[Stage, ...]:
        """What plans and records are about. An experiment's `complete` writes nothing, and the one at the top level does the same."""
        return tuple(stage for stage in self.stages if stage.outs or self.path.parent == Path())


def paths(*files: Path | str | None) -> tuple[str, ...]:
    """As text, without those that are None: what lies on the hub is no dependency of DVC, cards pin it."""
    return tuple(path if isinstance(path, str) else path.as_posix() for path in files if path is not None)


def experiment_pipeline(experiment: Experiment, expansion: Expansion, cards: Cards) -> Pipeline:
    """The stages of one experiment, in the order in which a reader follows them."""
    build = _Stages(experiment, expansion, cards)
    stages = build.outside() if isinstance(experiment.spec, OutsideSpec) else build.trained()
    return Pipeline(build.folder.pipeline, experiment.document.file, tuple(stages))


def base_model(name: str, spec: str) -> Pipeline:
    """The stage that makes a base model."""
    folder = ModelFolder(MODELS / name)
    arguments, outs, desc = (folder.root.as_posix(),), paths(folder.model, folder.history), f"base model {name}, made from nothing"
    stage = Stage("pretrain", "stages.train.pretrain", arguments, paths(folder.card), outs, desc)
    return Pipeline(folder.root / "dvc.yaml", spec, (stage,))


def site(experiments: Mapping[str, Sequence[str]], compared: Collection[str], tracked: Iterable[str], spec: str) -> Pipeline:
    """The top level: live experiments beside each other where any are `compared`, the site of all (name -> its runs), then a check that
    every run is finished. It comes after W&B has got the results of those that are `tracked`."""
    folders = [ExperimentFolder(RUNS / name) for name in experiments]
    healths = [path for folder, runs in zip(folders, experiments.values(), strict=True) for path in _of_runs(folder, runs, RUN.health)]
    beside = [COMPARISONS] if compared else []
    built, watched = BUILD / "site", paths(SITE, *SITE_CODE, *(folder.page for folder in folders), *beside)
    desc = "the static site of all live experiments"
    arguments, sent = tuple(folder.root.as_posix() for folder in folders), [ExperimentFolder(RUNS / name).wandb_results for name in tracked]
    of_each = [path for name in compared for path in _read_to_compare(ExperimentFolder(RUNS / name))]
    side_by_side = ("compare", "stages.analyse.compare", (RUNS.as_posix(),), paths(*COMPARE_CODE, *of_each), paths(COMPARISONS))
    stages = (
        *([Stage(*side_by_side, "experiments beside their parents and others", cache=False)] if compared else []),
        Stage("site", "stages.publish.site", (RUNS.as_posix(),), watched, paths(built), desc, cache=False),
        Stage("complete", "stages.publish.complete", arguments, paths(built, *healths, *sent), (), FINISHED),
    )
    return Pipeline(Path("dvc.yaml"), spec, stages)


def _read_to_compare(folder: ExperimentFolder) -> tuple[Path, ...]:
    return folder.page_card, folder.conclude_card, folder.findings, folder.figures


def _of_runs(folder: ExperimentFolder, runs: Iterable[str], *files: Path) -> list[str]:
    """The files of every run, run by run."""
    root, texts = folder.root.as_posix(), paths(*files)
    return [f"{root}/{run}/{file}" for run in runs for file in texts]


def _of_other(other: OtherCondition) -> list[str]:
    """The files of another experiment's condition that a claim rests on."""
    folder, measured = ExperimentFolder(RUNS / other.experiment), RUN.imported if other.imported else RUN.evaluation
    evaluated = [measured] if other.imported or other.evaluation else []
    untrained = paths(folder.untrained.evaluation) if other.evaluation else ()
    return [*untrained, *_of_runs(folder, (run.name for run in other.runs), RUN.history, RUN.completions, *evaluated, RUN.health)]


class _Stages:
    """The stages of one experiment."""

    def __init__(self, experiment: Experiment, expansion: Expansion, cards: Cards) -> None:
        self.experiment, self.expansion, self.cards = experiment, expansion, cards
        self.folder = ExperimentFolder(RUNS / experiment.name)
        self.names = [run.name for run in expansion.runs]

    def trained(self) -> Iterator[Stage]:
        """Stages of runs that octavo trains. Conditions that learn from gold answers have no preflight: there is nothing to refuse."""
        folder, spec, setups = self.folder, self.experiment.spec, self.expansion.setups
        model = None if self.cards.model.hub else self.cards.model.path
        sampled = {setup.name: setup.data.path for setup in setups if setup.train.algorithm != SFT}
        before = [folder.preflight] if sampled else []
        facts: list[Path | str] = [*before, *([folder.preflight_card] if sampled else []), folder.conclude_card]
        facts += self._of_runs(RUN.card, RUN.outcome, RUN.completions, RUN.health)
        prompts = sorted({path for path in sampled.values() if path})
        facts += prompts  # the page shows their texts
        if sampled:
            outs = (folder.preflight, folder.preflight_completions, *map(folder.permission, sampled))
            desc = "each condition's reward on completions of the untrained model"
            yield self._stage("train.preflight", (folder.preflight_card, model, *prompts), outs, desc)
        inputs = {setup.name: paths(folder.permission(setup.name) if setup.name in sampled else None, model) for setup in setups}
        for run in self.expansion.runs:
            module, deps = ALGORITHMS[run.setup.train.algorithm].stage, (*inputs[run.setup.name], run.setup.data.path)
            outs = (RUN.outcome, RUN.history, RUN.completions, RUN.adapter)
            yield self._run_stage("train", run, module, (RUN.card, RUN.retry), deps, outs)
        evaluations: list[Path | str] = []
        if spec.evaluation and spec.data.evaluation:
            evaluations = [folder.untrained.evaluation, *self._of_runs(RUN.evaluation)]
            facts += [folder.evaluate_card, *evaluations, *([spec.data.evaluation.path] if spec.data.evaluation.path else [])]
            module, watched = "stages.train.evaluate", paths(folder.evaluate_card, spec.data.evaluation.path, model)
            place, made = folder.untrained.root.as_posix(), paths(folder.untrained.evaluation)
            yield Stage("evaluate-untrained", module, (place,), watched, made, "shared evaluation of the untrained model")
            for run in self.expansion.runs:
                own = (RUN.adapter, RUN.outcome)
                yield self._run_stage("evaluate", run, module, own, watched, (RUN.evaluation,), "shared evaluation of ")
        yield from self._analysis((RUN.outcome, RUN.adapter), before, evaluations, facts)

    def outside(self) -> Iterator[Stage]:
        """One import a run, or one start of the author's program; then analysis and the page as for any other experiment."""
        spec, outs = self.experiment.spec, (RUN.outcome, RUN.history, RUN.completions, RUN.imported)
        for run in self.expansion.runs:
            card = self.cards.single[f"{run.name}/{RUN.import_card}"]
            if isinstance(spec, CommandSpec):
                yield self._run_stage("train", run, "stages.train.command", (RUN.import_card, RUN.retry), spec.train.code, outs)
            elif isinstance(card, ImportCard):
                logs = tuple(source.path for source in card.sources)
                yield self._run_stage("import", run, "stages.train.collect", (RUN.import_card,), logs, outs, "import of ")
        facts = self._of_runs(RUN.import_card, RUN.outcome, RUN.completions, RUN.imported, RUN.health)
        yield from self._analysis((RUN.imported, RUN.outcome), (), self._of_runs(RUN.imported), (self.folder.conclude_card, *facts))

    def _analysis(self, screened: Sequence[Path], before: Files, compared: Files, facts: Files) -> Iterator[Stage]:
        """Screen, conclude, draw and page. They read, beside histories: `screened`, of each run; `before`, what preflight found;
        `compared`, shared evaluations or what was imported; `facts`, what the page shows beside findings and figures."""
        folder, page = self.folder, self.cards.page
        histories, completions, healths = (self._of_runs(file) for file in (RUN.history, RUN.completions, RUN.health))
        files = self._of_runs(RUN.history, RUN.completions, *screened)
        yield self._stage("analyse.screen", (folder.screen_card, *files), healths, "health of every run")
        others = [path for other in self.cards.conclude.elsewhere for path in _of_other(other)]
        deps = (folder.conclude_card, *before, *histories, *completions, *compared, *healths, *others)
        yield self._stage("analyse.conclude", deps, (folder.findings,), "findings and verdicts")
        deps = (folder.draw_card, folder.conclude_card, folder.findings, *before, *histories, *healths)
        yield self._stage("analyse.draw", deps, (folder.figures,), "figures")
        cited = [ExperimentFolder(RUNS / name).findings for name in page.cited]
        replays = folder.replays if folder.replays.is_file() else None
        watched = (folder.page_card, TEMPLATES, page.prose, folder.findings, folder.figures, *facts, *cited, replays)
        yield self._stage("publish.page", watched, (folder.page,), "the page, with the lineage of every number")
        # without it, a pipeline whose runs all failed would end well: stages that train end well, so that the page is written all the same
        yield self._stage("publish.complete", (folder.page, *healths), (), FINISHED)
        if TRACKING in self.cards.single:
            deps = (folder.tracking, folder.findings, folder.page, *healths)
            yield self._stage(
                "train.wandb_results", deps, (folder.wandb_results,), "verdicts and evaluation for the runs at Weights and Biases"
            )

    def _of_runs(self, *files: Path) -> list[str]:
        return _of_runs(self.folder, self.names, *files)

    def _stage(self, module: str, deps: Sequence[Path | str | None], outs: Files, desc: str) -> Stage:
        name, arguments = module.partition(".")[2], (self.folder.root.as_posix(),)
        return Stage(name, f"stages.{module}", arguments, paths(*deps), paths(*outs), desc)

    def _run_stage(
        self, verb: str, run: Run, module: str, own: Sequence[Path], deps: Sequence[str | None], outs: Sequence[Path], words: str = ""
    ) -> Stage:
        """A stage of one run. `own` and `outs` lie in its folder."""
        root, desc = f"{self.folder.root.as_posix()}/{run.name}", f"{words}condition {run.setup.name}, seed {run.seed}"
        inputs = (*(f"{root}/{file}" for file in paths(*own)), *paths(*deps))
        return Stage(f"{verb}-{run.name}", module, (root,), inputs, tuple(f"{root}/{file}" for file in paths(*outs)), desc)
