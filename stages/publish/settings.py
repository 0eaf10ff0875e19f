"""Hyperparameters with the place in the spec that each value came from; where conditions differ, each is shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from stages.contracts.algorithms import AnyTrainCard
from stages.publish.experiment import ExperimentFiles, RunFiles
from stages.publish.numbers import setting

GROUPS = ("train", "model", "data", "versions")
_TITLES = {"train": "Training", "model": "Model", "data": "Training data", "versions": "Versions that the result depends on"}


@dataclass(frozen=True)
class Setting:
    key: str
    value: str
    place: str
    layer: str
    only: str
    """Conditions that hold this value; empty when all do."""


@dataclass(frozen=True)
class SettingGroup:
    title: str
    rows: tuple[Setting, ...]


def setting_groups(experiment: ExperimentFiles) -> tuple[SettingGroup, ...]:
    """Every value of the train cards but the reward (shown by itself) and the seed, in groups."""
    first = {c.name: run for c in experiment.card.conditions for run in experiment.of_condition(c.name)[:1] if run.card}
    groups = []
    for name in GROUPS:
        rows = _rows(experiment, first, name)
        if rows:
            groups.append(SettingGroup(_TITLES[name], rows))
    return tuple(groups)


def _rows(experiment: ExperimentFiles, first: dict[str, RunFiles], group: str) -> tuple[Setting, ...]:
    values: dict[str, dict[str, Any]] = {}
    for condition, run in first.items():
        assert run.card is not None
        for pointer, value in flat(run.card, group).items():
            values.setdefault(pointer, {})[condition] = value
    rows = []
    for pointer, by_condition in values.items():
        holders: dict[str, list[str]] = {}
        for condition, value in by_condition.items():
            holders.setdefault(setting(value), []).append(condition)
        for text, conditions in holders.items():
            origin = experiment.origin(first[conditions[0]].ref, pointer)
            rows.append(
                Setting(
                    key=pointer.removeprefix(f"/{group}/").replace("/", "."),
                    value=text,
                    place=str(origin) if origin else "",
                    layer=origin.layer if origin else "",
                    only="" if len(conditions) == len(first) else ", ".join(conditions),
                )
            )
    return tuple(rows)


def flat(card: AnyTrainCard, group: str) -> dict[str, Any]:
    """JSON pointer -> value for every leaf of a part of the card; lists are leaves."""
    return _flat(card.model_dump(mode="json")[group], f"/{group}")


def _flat(value: Any, pointer: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        return {pointer: value}
    return {deep: leaf for key, inner in value.items() for deep, leaf in _flat(inner, f"{pointer}/{key}").items()}
