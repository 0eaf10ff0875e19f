"""How it was done: data, models, versions, machines, code and commands, as they stand in cards and ledgers."""

from __future__ import annotations

from stages.contracts.artifact import load_json
from stages.contracts.model import DatasetRef
from stages.publish import judged
from stages.publish.experiment import ExperimentFiles
from stages.publish.numbers import listed, percent
from stages.publish.passports import commits


def pinned(experiment: ExperimentFiles) -> list[tuple[str, str, str]]:
    """(what, name, pin) of the files and models that the results depend on."""
    pins: dict[tuple[str, str], str] = {}
    for run in experiment.runs:
        if run.card:
            data, model = run.card.data, run.card.model
            pins |= {("training data", data.name): data.pin, ("base model", model.base): f"revision {model.revision}"}
        if run.import_card:
            pins["imported log", run.import_card.source.path] = f"sha256 {run.import_card.source.sha256}"
    if experiment.folder.evaluate_card.exists():
        data = DatasetRef.model_validate(load_json(experiment.folder.evaluate_card)["data"])
        pins["evaluation data", data.name] = data.pin
    return [(what, name, pin) for (what, name), pin in pins.items()]


def inputs(experiment: ExperimentFiles) -> list[tuple[str, str]]:
    """(name, short pin) of the data, models and logs that runs were made from."""
    pins: dict[tuple[str, str], None] = {}
    for run in experiment.runs:
        if run.card:
            data, model = run.card.data, run.card.model
            pins[data.name, data.pin if data.hub else f"sha256 {(data.sha256 or '')[:12]}"] = None
            pins[model.base, f"revision {model.revision[:12]}"] = None
        if run.import_card:
            pins[run.import_card.source.path, f"sha256 {run.import_card.source.sha256[:12]}"] = None
    return list(pins)


def machines(experiment: ExperimentFiles) -> dict[str, str]:
    starts = [attempt.started for run in experiment.runs for attempt in run.attempts]
    texts = {
        "machine": {start.host for start in starts},
        "devices": {device for start in starts for device in start.devices},
        "sandbox of model-written code": {start.sandbox for start in starts},
    }
    return {name: text for name, values in texts.items() if (text := ", ".join(sorted(values)))}


def versions(experiment: ExperimentFiles) -> dict[str, str]:
    """Library -> the versions that attempts ran with."""
    by_library: dict[str, dict[str, None]] = {}
    for run in experiment.runs:
        for attempt in run.attempts:
            for library, version in attempt.started.versions.items():
                by_library.setdefault(library, {})[version] = None
    return {library: ", ".join(by_library[library]) for library in sorted(by_library)}


def codes(experiment: ExperimentFiles) -> list[tuple[str, str]]:
    """(stage, version of its code); conditions with different gates train with different code."""
    trained: dict[str, dict[str, None]] = {}
    for run in experiment.runs:
        if run.card:
            trained.setdefault(judged.versions(run.card.code), {})[run.ref.condition] = None
    every = len(trained) == 1
    rows = [("train" if every else f"train, {listed(list(conditions))}", code) for code, conditions in trained.items()]
    rows += [("import", code) for code in sorted({judged.versions(run.import_card.code) for run in experiment.runs if run.import_card})]
    rows += [("conclude", judged.versions(experiment.conclude.code))] if experiment.conclude else []
    return [*rows, ("page", judged.versions(experiment.card.code))]


def commands(experiment: ExperimentFiles) -> list[str]:
    """What makes the results again."""
    made_at = commits(experiment.runs)
    checkout = [f"git checkout {made_at[0].removesuffix('+')}"] if len(made_at) == 1 else []
    return [*checkout, "octavo compile", f"dvc repro {experiment.folder.pipeline.as_posix()}"]


def statistics(experiment: ExperimentFiles) -> list[str]:
    """How the numbers were made, a sentence each."""
    card = experiment.conclude
    if card is None:
        return []
    gold = [condition.name for condition in card.conditions if condition.supervised]
    lines = [
        f"Windows: initial is the first {percent(card.windows.initial)} of a run's target steps, final the last "
        f"{percent(card.windows.final)}.",
        f"Intervals are {percent(card.level)} intervals; the seed is the unit, and each number's passport names its method.",
    ]
    if len(gold) < len(card.conditions):
        lines.append("Conditions with different rewards are never ranked by reward; they are compared on the shared evaluation.")
        lines.append("GRPO's logged loss is not progress and decides nothing here.")
    if gold:
        lines.append(f"{listed(gold)} learned gold answers: no completions and no reward in training, then the same shared evaluation.")
    return lines
