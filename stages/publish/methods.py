"""How it was done: settings, data, models, versions, machines, code and commands, as they stand in cards and ledgers; and how to cite it.

Results may stand for newer code, where a person judged that a change of octavo's code changes none of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from pydantic import BaseModel

from stages.contracts.algorithms import AnyTrainCard
from stages.contracts.artifact import load_json
from stages.contracts.code import Judgement
from stages.contracts.finding import Finding
from stages.contracts.lineage import Origin
from stages.contracts.model import DatasetRef
from stages.publish.experiment import ExperimentFiles, RunFiles
from stages.publish.numbers import code_words, listed, setting
from stages.publish.text import reveal_hidden

GROUPS = {"train": "Training", "model": "Model", "data": "Training data", "versions": "Versions that the result depends on"}
PASSED_ON = {"trl": "TRL", "peft": "PEFT"}
"""Sections of a card whose keys octavo does not know -> the library that does."""
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_TEX = {"\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}


def pinned(experiment: ExperimentFiles) -> list[tuple[str, str, str]]:
    """(what, name, pin) of the files and models that the results depend on."""
    pins: dict[tuple[str, str], str] = {}
    for run in experiment.runs:
        if run.card:
            data, model = run.card.data, run.card.model
            pins |= {("training data", data.name): data.pin, ("base model", model.base): f"revision {model.revision}"}
        if run.import_card:
            pins |= {("imported log", source.path): f"sha256 {source.sha256}" for source in run.import_card.sources}
    if experiment.folder.evaluate_card.exists():
        data = DatasetRef.model_validate(load_json(experiment.folder.evaluate_card)["data"])
        pins["evaluation data", data.name] = data.pin
    return [(what, name, pin) for (what, name), pin in pins.items()]


def versions(experiment: ExperimentFiles) -> dict[str, str]:
    """Library -> the versions that attempts ran with."""
    pairs = dict.fromkeys(pair for start in experiment.starts for pair in start.versions.items())
    return {library: ", ".join(version for name, version in pairs if name == library) for library in sorted({name for name, _ in pairs})}


def codes(experiment: ExperimentFiles) -> list[tuple[str, str]]:
    """(stage, version of its code); conditions with different gates train with different code."""
    trained: dict[str, dict[str, None]] = {}
    for run in experiment.runs:
        if run.card:
            trained.setdefault(code_words(run.card.code), {})[run.ref.condition] = None
    rows = [("train" if len(trained) == 1 else f"train, {listed(list(names))}", code) for code, names in trained.items()]
    rows += [("import", code) for code in sorted({code_words(run.import_card.code) for run in experiment.runs if run.import_card})]
    rows += [("conclude", code_words(experiment.conclude.code))] if experiment.conclude else []
    return [*rows, ("page", code_words(experiment.card.code))]


class Setting(NamedTuple):
    """A value of the train cards."""

    key: str
    value: str
    means: str
    """What the key is for, as the reference of specs says it; empty where it says nothing."""
    origin: Origin | None
    only: str
    """Conditions that hold the value; empty when all do."""

    @property
    def is_default(self) -> bool:
        return not self.only and str(self.origin) == "default"


def setting_groups(experiment: ExperimentFiles) -> dict[str, list[Setting]]:
    """Title -> settings of every value of the train cards but the reward
    (a section of its own) and the seed."""
    groups = {title: list(_settings(experiment, group)) for group, title in GROUPS.items()}
    return {title: rows for title, rows in groups.items() if rows}


def _settings(experiment: ExperimentFiles, group: str) -> Iterator[Setting]:
    cards = {run.ref.condition: (run.ref, run.card) for run in reversed(experiment.runs) if run.card}
    first = {condition.name: cards[condition.name] for condition in experiment.card.conditions if condition.name in cards}
    holders: dict[str, dict[str, list[str]]] = {}
    for condition, (_, card) in first.items():
        for pointer, value in flat(card, group).items():
            holders.setdefault(pointer, {}).setdefault(setting(value), []).append(condition)
    for pointer, conditions_by_value in holders.items():
        for value, conditions in conditions_by_value.items():
            only = "" if len(conditions) == len(first) else ", ".join(conditions)
            ref, card = first[conditions[0]]
            yield Setting(setting_key(pointer, group), value, _meaning(card, pointer), experiment.origin(ref, pointer), only)


def _meaning(card: BaseModel, pointer: str) -> str:
    """The description of the field at a pointer, without what a spec's author would need: the text after the first `;`."""
    *way, last = pointer.removeprefix("/").split("/")
    library = next((PASSED_ON[part] for part in way if part in PASSED_ON), None)
    if library is not None:
        return f"Passed on to {library} as it is. Not audited by octavo."
    model: Any = card
    for part in way:
        model = getattr(model, part, None)
    field = type(model).model_fields.get(last) if isinstance(model, BaseModel) else None  # versions are no model
    return (field.description or "").partition(";")[0] if field else ""


def setting_key(pointer: str, group: str) -> str:
    """`optimizer.name` of `/train/optimizer/name`."""
    return pointer.removeprefix(f"/{group}/").replace("/", ".")


def flat(card: AnyTrainCard, group: str) -> dict[str, Any]:
    """JSON pointer -> value for every leaf of a part of the card; lists are leaves."""

    def leaves(value: Any, pointer: str) -> Iterator[tuple[str, Any]]:
        for key, inner in value.items():
            yield from leaves(inner, f"{pointer}/{key}") if isinstance(inner, dict) else ((f"{pointer}/{key}", inner),)

    return dict(leaves(card.model_dump(mode="json")[group], f"/{group}"))


def judged_page(experiment: ExperimentFiles) -> tuple[Judgement, ...]:
    """Judgements made since the first run began, oldest first."""
    began = min((start.at for start in experiment.starts), default=None)
    return tuple(judgement for judgement in experiment.card.judged if began and judgement.at > began)


def judged_run(experiment: ExperimentFiles, run: RunFiles) -> tuple[Judgement, ...]:
    """Judgements about the code of a run, made since its last attempt began."""
    card = run.card or run.import_card
    if card is None or not run.attempts:
        return ()
    began = run.attempts[-1].started.at
    return tuple(judgement for judgement in experiment.card.judged if judgement.at > began and set(judgement.digests) & set(card.code))


def judged_finding(experiment: ExperimentFiles, finding: Finding) -> tuple[Judgement, ...]:
    """Judgements that a number rests on: of its runs, and of the evaluation or preflight that it came through."""
    runs = {run.ref.name for run in experiment.runs_of_subject(finding.subject)} | {seed.run for seed in finding.seeds}
    judgements = {judgement.at: judgement for run in experiment.runs if run.ref.name in runs for judgement in judged_run(experiment, run)}
    stage = "train.preflight" if finding.statistic == "preflight" else "train.evaluate" if finding.metric.startswith("evaluation.") else ""
    judgements |= {judgement.at: judgement for judgement in judged_page(experiment) if stage in judgement.digests}
    return tuple(judgements[at] for at in sorted(judgements))


def judged_words(judgements: tuple[Judgement, ...]) -> str:
    """`code change judged equal on 2026-11-28 by A`; empty without one."""
    return "; ".join(dict.fromkeys(f"code change judged equal on {judgement.at[:10]} by {judgement.who}" for judgement in judgements))


class Citation(NamedTuple):
    bibtex: str
    cff: str


def citation(experiment: ExperimentFiles) -> Citation:
    """Both forms. Without data there is no date; attempts from several commits name each of them."""
    card = experiment.card
    date, made_by = (experiment.data_until or "")[:10], experiment.commits
    note = f"octavo experiment {experiment.folder.name}" + (f", commit {', '.join(made_by)}" if made_by else "")
    fields = {"title": f"{{{_tex(card.title)}}}", "author": f"{{{_tex(card.owner)}}}", "note": _tex(note)}
    if date:
        fields |= {"year": date[:4], "month": _MONTHS[int(date[5:7]) - 1]}
    key = re.sub(r"[^A-Za-z0-9-]", "-", f"octavo-{experiment.folder.name}")
    lines = (f"  {name} = {text if name == 'month' else f'{{{text}}}'}," for name, text in fields.items())
    bibtex = "\n".join([f"@misc{{{key},", *lines, "}"]) + "\n"
    entries: list[tuple[str, object]] = [
        ("cff-version", "1.2.0"),
        ("message", "If you use these results, please cite the experiment."),
        ("type", "dataset"),
        ("title", card.title),
        ("abstract", card.question.strip()),
        ("authors", [{"name": card.owner}]),
    ]
    entries += [("keywords", list(card.tags))] if card.tags else []
    entries += [("date-released", date)] if date else []
    entries += [("commit", made_by[0].removesuffix("+"))] if len(made_by) == 1 else []
    return Citation(bibtex, "".join(f"{name}: {_yaml(value)}\n" for name, value in entries))


def _tex(text: str) -> str:
    plain = " ".join(reveal_hidden(text).split())
    return re.sub(r"[\\{}~^]|[#$%&_]", lambda match: _TEX.get(match[0], f"\\{match[0]}"), plain)


def _yaml(value: object) -> str:
    """JSON is YAML, and quotes whatever a title may hold. What cannot be seen is named, so every reader takes it."""
    return reveal_hidden(json.dumps(value, ensure_ascii=False))
