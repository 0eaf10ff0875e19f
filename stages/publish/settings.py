"""Hyperparameters with the place in the spec that each value came from; where conditions differ, each is listed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from stages.contracts.algorithms import AnyTrainCard
from stages.contracts.lineage import Origin
from stages.publish.experiment import ExperimentFiles
from stages.publish.numbers import setting

GROUPS = {"train": "Training", "model": "Model", "data": "Training data", "versions": "Versions that the result depends on"}


class Setting(NamedTuple):
    key: str
    value: str
    origin: Origin | None
    only: str
    """Conditions that hold this value; empty when all do."""


def setting_groups(experiment: ExperimentFiles) -> dict[str, list[Setting]]:
    """Title -> every value of the train cards but the reward (a section of its own) and the seed."""
    groups = {title: list(_settings(experiment, group)) for group, title in GROUPS.items()}
    return {title: rows for title, rows in groups.items() if rows}


def _settings(experiment: ExperimentFiles, group: str) -> Iterator[Setting]:
    first = {c.name: runs[0] for c in experiment.card.conditions if (runs := experiment.of_condition(c.name)) and runs[0].card}
    holders: dict[str, dict[str, list[str]]] = {}
    for condition, run in first.items():
        for pointer, value in flat(run.card, group).items() if run.card else ():
            holders.setdefault(pointer, {}).setdefault(setting(value), []).append(condition)
    for pointer, conditions_by_value in holders.items():
        for value, conditions in conditions_by_value.items():
            origin = experiment.origin(first[conditions[0]].ref, pointer)
            yield Setting(key(pointer, group), value, origin, "" if len(conditions) == len(first) else ", ".join(conditions))


def key(pointer: str, group: str) -> str:
    """`optimizer.name` of `/train/optimizer/name`."""
    return pointer.removeprefix(f"/{group}/").replace("/", ".")


def flat(card: AnyTrainCard, group: str) -> dict[str, Any]:
    """JSON pointer -> value for every leaf of a part of the card; lists are leaves."""
    return _flat(card.model_dump(mode="json")[group], f"/{group}")


def _flat(value: Any, pointer: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        return {pointer: value}
    return {deep: leaf for key, inner in value.items() for deep, leaf in _flat(inner, f"{pointer}/{key}").items()}
