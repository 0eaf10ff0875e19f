"""The main line: spec -> experiment -> runs -> cards -> stage graph -> text. Nothing is written before all of it holds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from compiler.build import graph
from compiler.build.cards import CARD, Cards, resolve, resolve_imports
from compiler.build.epochs import expanded
from compiler.build.files import Files, card_files, first_files, pipeline_text
from compiler.build.graph import Pipeline
from compiler.build.imports import expand_imports
from compiler.build.inputs import MODEL_SPECS, Inputs
from compiler.build.origins import experiment_origins, places_digest
from compiler.build.others import with_others
from compiler.build.pipeline import LIVE, Reference
from compiler.build.tracking import tracking_file
from compiler.checks import elsewhere
from compiler.checks.sections import check
from compiler.language.expand import Expansion
from compiler.language.experiment import Experiment, experiment
from compiler.language.outside import OutsideSpec
from compiler.problems import Rejected, errors, in_order
from stages.contracts.artifact import dump
from stages.contracts.diagnostic import Diagnostic
from stages.contracts.layout import RUNS, ExperimentFolder
from stages.contracts.lineage import Origins


@dataclass(frozen=True)
class Compiled:
    """One experiment, all the way to its cards."""

    experiment: Experiment
    expansion: Expansion
    cards: Cards
    warnings: tuple[Diagnostic, ...]
    origins: Origins


@dataclass(frozen=True)
class Project:
    """Texts of all files; `once` holds those that are written only when they do not exist."""

    files: Files
    once: Files
    origins: dict[str, Origins]
    """By the path of their file."""
    warnings: tuple[Diagnostic, ...]
    pipelines: tuple[Pipeline, ...] = ()

    @property
    def ignored(self) -> Files:
        """Files that git ignores; no stage depends on them."""
        return Files({path: dump(origins) for path, origins in self.origins.items()})


def compile_experiment(reference: Reference, inputs: Inputs) -> Compiled:
    """One spec to cards. Raises Rejected with all errors of the file, warnings among them."""
    document = inputs.document(reference.path)
    spec = experiment(document, reference.stem, reference.profile, inputs.document)
    imported = expand_imports(spec, inputs.lock().snapshots, inputs.sources_may_be_absent) if isinstance(spec.spec, OutsideSpec) else None
    expansion = imported.expansion if imported else expanded(spec, inputs)
    problems = [*expansion.problems, *check(spec, expansion, inputs)]
    if errors(problems):
        raise Rejected(problems)
    cards = resolve_imports(spec, imported, inputs) if imported else resolve(spec, expansion, inputs)
    others, wrong = elsewhere.read_others(spec, inputs)
    problems += [*wrong, *elsewhere.check(spec, expansion, cards.evaluate, others)]
    if errors(problems):
        raise Rejected(problems)
    if others:
        cards = with_others(cards, expansion, others)
    origins = experiment_origins(spec, expansion, cards, inputs)
    page = cards.page.model_copy(update={"places": places_digest(origins), "judged": inputs.judgements(cards.code())})
    tracking = tracking_file(spec, inputs)
    followed = {} if tracking is None else {ExperimentFolder(RUNS).tracking.name: tracking}
    cards = replace(cards, single={**cards.single, "page.card.json": page, **followed})
    return Compiled(spec, expansion, cards, tuple(in_order(problems)), origins)


def compile_all(references: Iterable[Reference], inputs: Inputs) -> list[Compiled]:
    """Several specs. Raises Rejected with the errors of all of them."""
    experiments: list[Compiled] = []
    problems: list[Diagnostic] = []
    sources: dict[str, list[str]] = {}
    for reference in references:
        try:
            experiments.append(compile_experiment(reference, inputs))
        except Rejected as rejected:
            problems.extend(rejected.diagnostics)
            sources |= rejected.sources
    if problems:
        warnings = [warning for compiled in experiments for warning in compiled.warnings]
        raise Rejected([*problems, *warnings], sources)
    return experiments


def project(experiments: Sequence[Compiled], with_site: bool) -> Project:
    """All files of the compiled experiments, and the top-level dvc.yaml when they are all that is live."""
    models = sorted({card.name for compiled in experiments if (card := compiled.cards.model.card)})
    pipelines = [graph.base_model(name, (MODEL_SPECS / f"{name}.yaml").as_posix()) for name in models]
    files, once, origins = Files(), Files(), dict[str, Origins]()
    for compiled in experiments:
        parts = (compiled.experiment, compiled.expansion, compiled.cards)
        pipelines.append(graph.experiment_pipeline(*parts))
        files |= card_files(*parts)
        once |= first_files(*parts)
        origins[ExperimentFolder(RUNS / compiled.experiment.name).origins.as_posix()] = compiled.origins
    if with_site:
        runs = {compiled.experiment.name: [run.name for run in compiled.expansion.runs] for compiled in experiments}
        tracked = [each.experiment.name for each in experiments if graph.TRACKING in each.cards.single]
        pipelines.append(graph.site(runs, _compared(experiments), tracked, LIVE.as_posix()))
    files |= {pipeline.path.as_posix(): pipeline_text(pipeline) for pipeline in pipelines}
    warnings = tuple(warning for compiled in experiments for warning in compiled.warnings)
    return Project(files, once, origins, warnings, tuple(pipelines))


def _compared(experiments: Sequence[Compiled]) -> list[str]:
    """Names of experiments that are set beside each other: children and parents, and those that specs name."""
    live = {compiled.experiment.name for compiled in experiments}
    names = dict[str, None]()
    for compiled in experiments:
        page = compiled.cards.page
        for other in filter(None, (page.parent, *(each.experiment for each in page.compared))):
            name = f"{other}@{page.profile}" if page.profile else other
            if name in live:
                names |= {name: None, compiled.experiment.name: None}
    return list(names)


def left_over(compiled: Compiled) -> list[str]:
    """Names of run folders with a card that no run of the spec has."""
    runs = {run.name for run in compiled.expansion.runs}
    folder = RUNS / compiled.experiment.name
    return sorted(card.parent.name for card in folder.glob(f"*/{CARD}") if card.parent.name not in runs)
