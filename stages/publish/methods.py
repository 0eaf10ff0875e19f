"""How it was done: versions, machines, commands, data and code, each as it stands in cards and ledgers."""

from __future__ import annotations

from dataclasses import dataclass

from stages.contracts.analysis_card import ConcludeCard
from stages.contracts.artifact import load_json
from stages.contracts.model_card import DataCard
from stages.publish import carried, numbers
from stages.publish.experiment import ExperimentFiles
from stages.publish.passports import commits


@dataclass(frozen=True)
class Pinned:
    """A file or model that a result depends on."""

    what: str
    name: str
    pin: str


@dataclass(frozen=True)
class Methods:
    pinned: tuple[Pinned, ...]
    machines: tuple[tuple[str, str], ...]
    versions: tuple[tuple[str, str], ...]
    """Versions that attempts ran with; more than one of a library are all named."""
    codes: tuple[tuple[str, str], ...]
    commits: tuple[str, ...]
    commands: tuple[str, ...]
    statistics: tuple[str, ...]
    waivers: tuple[carried.Waiver, ...]


def methods(experiment: ExperimentFiles) -> Methods:
    starts = [attempt.started for run in experiment.runs for attempt in run.attempts]
    versions: dict[str, dict[str, None]] = {}
    for start in starts:
        for library, version in start.versions.items():
            versions.setdefault(library, {})[version] = None
    machines = {
        "machine": ", ".join(sorted({start.host for start in starts})),
        "devices": ", ".join(sorted({device for start in starts for device in start.devices})),
        "sandbox of model-written code": ", ".join(sorted({start.sandbox for start in starts})),
    }
    known = commits(experiment.runs)
    pipeline = experiment.folder.pipeline.as_posix()
    checkout = [f"git checkout {known[0].removesuffix('+')}"] if len(known) == 1 else []
    return Methods(
        pinned=_pinned(experiment),
        machines=tuple((name, text) for name, text in machines.items() if text),
        versions=tuple((library, ", ".join(found)) for library, found in sorted(versions.items())),
        codes=_codes(experiment),
        commits=tuple(known),
        commands=(*checkout, "octavo compile", f"dvc repro {pipeline}"),
        statistics=_statistics(experiment.conclude),
        waivers=carried.waivers(experiment),
    )


def _pinned(experiment: ExperimentFiles) -> tuple[Pinned, ...]:
    found: dict[tuple[str, str], Pinned] = {}
    for run in experiment.runs:
        if run.card:
            data, model = run.card.data, run.card.model
            found.setdefault(("data", data.path), Pinned("training data", data.path, data.pin))
            found.setdefault(("model", model.base), Pinned("base model", model.base, f"revision {model.revision}"))
        if run.import_card:
            source = run.import_card.source
            found.setdefault(("log", source.path), Pinned("imported log", source.path, f"sha256 {source.sha256}"))
    if experiment.folder.evaluate_card.exists():
        data = DataCard.model_validate(load_json(experiment.folder.evaluate_card)["data"])
        found.setdefault(("evaluation", data.path), Pinned("evaluation data", data.path, data.pin))
    return tuple(found.values())


def _codes(experiment: ExperimentFiles) -> tuple[tuple[str, str], ...]:
    """(stage, code hash); training of conditions with different gates has different code."""
    trained: dict[str, dict[str, None]] = {}
    for run in experiment.runs:
        if run.card:
            trained.setdefault(run.card.code_hash, {})[run.ref.condition] = None
    imports = {run.import_card.code_hash for run in experiment.runs if run.import_card}
    every = len(trained) == 1
    found = [("train" if every else f"train, {numbers.listed(list(conditions))}", code) for code, conditions in trained.items()]
    found += [("import", code) for code in sorted(imports)]
    if experiment.conclude:
        found.append(("conclude", experiment.conclude.code_hash))
    return (*found, ("page", experiment.card.code_hash))


def _statistics(card: ConcludeCard | None) -> tuple[str, ...]:
    if card is None:
        return ()
    gold = [condition.name for condition in card.conditions if condition.supervised]
    rewarded = len(gold) < len(card.conditions)
    learnt = (
        f"{numbers.listed(gold)} learned gold answers: no completions and no reward in training, the same shared evaluation afterwards."
    )
    initial, final = (numbers.percent(share) for share in (card.windows.initial, card.windows.final))
    level = numbers.percent(card.level)
    return (
        f"Windows: initial is the first {initial} of a run's target steps, final the last {final}.",
        f"Intervals are {level} intervals; the seed is the unit, and each number's passport names its method.",
        *(
            ["Conditions with different rewards are never ranked by reward; they are compared on the shared evaluation."]
            if rewarded
            else []
        ),
        *(["GRPO's logged loss is not progress and decides nothing here."] if rewarded else []),
        *([learnt] if gold else []),
    )
