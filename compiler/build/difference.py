"""What two experiments do differently: every setting that can change a result, defaults filled in, by dotted key.

Words, claims, examples, profiles and plans for resources are left out: they change no result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from compiler.document.node import Node
from compiler.document.validate import key_place
from compiler.language.algorithms import train_settings
from compiler.language.experiment import Experiment
from compiler.language.family import at, changes
from compiler.language.outside import OutsideSpec
from compiler.language.rewards import Reward, gate_use
from compiler.problems import problem, shown
from stages.contracts.diagnostic import Diagnostic, Place

SECTIONS = ("model", "data", "prompt", "preflight", "health", "evaluation")
ABSENT = "(nothing)"


@dataclass(frozen=True)
class Difference:
    """One setting: its value in each of two experiments (ABSENT where there is none) and where each was written (None: a default)."""

    key: str
    before: Any
    after: Any
    before_node: Node | None
    after_node: Node | None


def differences(before: Experiment, after: Experiment) -> list[Difference]:
    """All settings that differ, in the order of the keys."""
    trains = [experiment.root.get("train") for experiment in (before, after)]
    # keys that only conditions give have no default: then the two are compared as written
    filled_in = all(node is not None and train_settings(node)[0] is not None for node in trains)
    old, new = (dict(_leaves("", _settings(experiment, filled_in))) for experiment in (before, after))
    return [
        Difference(key, old.get(key, ABSENT), new.get(key, ABSENT), at(before.root, key), at(after.root, key))
        for key in dict.fromkeys([*old, *new])
        if old.get(key, ABSENT) != new.get(key, ABSENT)
    ]


def _settings(experiment: Experiment, filled_in: bool) -> dict[str, Any]:
    """Everything that can change a result. Gates are maps by name, beside their order. `filled_in`: `train` with its defaults."""
    spec, root = experiment.spec, experiment.root
    is_outside = isinstance(spec, OutsideSpec)  # sections that octavo has no use for are not of such a spec
    sections = {key: getattr(spec, key) for key in SECTIONS if not is_outside or root.get(key)}
    sections |= {"runs": getattr(spec, "runs", None), "stop": spec.stop}  # runs: of those that octavo does not train
    settings: dict[str, Any] = {key: section and section.model_dump(**_DUMP) for key, section in sections.items()}
    node = root.get("train")
    train = train_settings(node)[0] if filled_in and node else None
    settings["train"] = train.model_dump(**_DUMP) if train else node.plain() if node else None
    if train and train.early_stop:  # no part of the settings on cards
        settings["train"]["early_stop"] = train.early_stop.model_dump(**_DUMP)
    settings["seeds"] = list(spec.seeds)
    settings["rewards"] = {name: _reward(experiment, name, reward) for name, reward in spec.rewards.items()}
    settings["conditions"] = {name: condition.model_dump(mode="json") for name, condition in spec.conditions.items()}
    settings["resources"] = {"gpus": spec.resources.gpus}
    return settings


_DUMP: dict[str, Any] = {"mode": "json", "exclude_none": True, "by_alias": True}


def _reward(experiment: Experiment, name: str, reward: Reward) -> dict[str, Any]:
    settings = reward.model_dump(**_DUMP, exclude={"gates", "examples"})
    order: list[str] = []
    for index in range(len(reward.gates)):
        entry = experiment.node("rewards", name, "gates", index)
        gate, node = next(entry.items())
        use, _ = gate_use(entry, "gates")
        card = use.card.model_dump(mode="json", exclude={"name"}) if use is not None else node.plain()
        settings[f"gates.{gate}"] = card | card.pop("settings", {})
        order.append(gate)
    return {**settings, "gates": order}


def _leaves(key: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Dotted keys of everything below a value; lists are leaves, and so are empty maps."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _leaves(f"{key}.{name}" if key else str(name), inner)
    elif value is not None:
        yield key, value


def parent_differences(experiment: Experiment, parent: Experiment) -> Iterator[Diagnostic]:
    """E339 for each difference that is not declared, E340 for each declared one that is none, E341 for a change that the spec
    itself contradicts."""
    differing = differences(parent, experiment)
    block, declared = experiment.document.root.get("changes"), dict(changes(experiment.document.root))
    for path, change in declared.items():
        for key, node in _declared_leaves(path, change):
            now, before = at(experiment.root, key), at(parent.root, key)
            if now is not None and now.place != node.place and now.plain() != node.plain():
                yield problem("E341", node.place, now.place, key=key, declared=shown(node.plain()), now=shown(now.plain()))
            elif not any(_covers(key, difference.key) for difference in differing):
                value = shown(before.plain()) if before is not None else "its default"
                facts = {"key": key, "value": shown(node.plain()), "parent": parent.stem, "before": value}
                yield problem("E340", node.key or node.place, _place(before), **facts)
    for difference in differing:
        if not any(_covers(path, difference.key) for path in declared):
            facts = {"key": difference.key, "after": shown(difference.after), "before": shown(difference.before), "parent": parent.stem}
            form, default = "E339" if difference.after is not ABSENT else "E339.removed", "" if difference.before_node else ", a default"
            place = _place(difference.after_node) or (block.key if block else None)
            yield problem(form, place, _place(difference.before_node), **facts, default=default)


def _declared_leaves(path: str, node: Node) -> Iterator[tuple[str, Node]]:
    if isinstance(node.value, dict) and node.value:
        for key, inner in node.value.items():
            yield from _declared_leaves(f"{path}.{key}", inner)
    else:
        yield path, node


def _covers(path: str, key: str) -> bool:
    """Whether a declared path is about a setting: they are equal, or one lies below the other."""
    return path == key or key.startswith(f"{path}.") or path.startswith(f"{key}.")


def _place(node: Node | None) -> Place | None:
    return None if node is None else key_place(node)


def lines(differing: Iterable[Difference]) -> str:
    """Text of differences: key, both values, both places."""
    rows = [(row.key, shown(row.before), shown(row.after), _where(row.before_node), _where(row.after_node)) for row in differing]
    if not rows:
        return "no difference\n"
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return "".join(
        f"{key:<{widths[0]}}  {before:<{widths[1]}} -> {after:<{widths[2]}}  {where} -> {now}\n" for key, before, after, where, now in rows
    )


def _where(node: Node | None) -> str:
    place = _place(node)
    return f"{place.file}:{place.line}:{place.column}" if place else "default"
