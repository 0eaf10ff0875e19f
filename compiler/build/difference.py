"""What two experiments do differently: every setting that can change a result, defaults filled in, by dotted key.

Words, claims, examples, profiles and plans for resources are left out: they change no result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from compiler.document.node import Node
from compiler.language.algorithms import early_stop, plain_train, train_settings
from compiler.language.experiment import Experiment
from compiler.language.family import at, changes
from compiler.language.gates import gate_use
from compiler.language.spec_imports import OutsideSpec
from compiler.language.spec_rewards import Reward
from compiler.problems import problem, sentence
from stages.contracts.diagnostic import Diagnostic, Place
from stages.contracts.training import TrainSettings

SECTIONS = ("model", "data", "preflight", "health", "evaluation")
ABSENT = "(nothing)"
SHOWN = 80


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
    trains = [of.root.get("train") for of in (before, after)]
    # keys that only conditions give have no default: then the two are compared as written
    filled_in = all(node is not None and train_settings(node)[0] is not None for node in trains)
    one, other = (dict(leaves("", settings(of, filled_in))) for of in (before, after))
    return [
        Difference(key, one.get(key, ABSENT), other.get(key, ABSENT), at(before.root, key), at(after.root, key))
        for key in dict.fromkeys([*one, *other])
        if one.get(key, ABSENT) != other.get(key, ABSENT)
    ]


def settings(of: Experiment, filled_in: bool = True) -> dict[str, Any]:
    """Everything that can change a result. Gates are maps by name, beside their order. `filled_in`: `train` with its defaults."""
    outside = isinstance(of.spec, OutsideSpec)  # sections that octavo has no use for are not of such a spec
    found: dict[str, Any] = {key: _dumped(getattr(of.spec, key)) for key in SECTIONS if not outside or of.root.get(key)}
    node = of.root.get("train")
    value = train_settings(node)[0] if filled_in and node else None
    found["train"] = _train(value) if value else plain_train(node) if node else None
    found["runs"] = _dumped(getattr(of.spec, "runs", None))  # of runs that octavo does not train
    found["stop"] = _dumped(of.spec.stop)
    found["seeds"] = list(of.spec.seeds)
    found["rewards"] = {name: _reward(of, name, reward) for name, reward in of.spec.rewards.items()}
    found["conditions"] = {name: condition.model_dump(mode="json") for name, condition in of.spec.conditions.items()}
    found["resources"] = {"gpus": of.spec.resources.gpus}
    return found


def _dumped(part: Any) -> Any:
    return None if part is None else part.model_dump(mode="json", exclude_none=True, by_alias=True)


def _train(section: TrainSettings) -> dict[str, Any]:
    """The settings, and its stop rule when it has one."""
    found = section.model_dump(mode="json", exclude={"early_stop"})
    rule = early_stop(section)
    return found if rule is None else {**found, "early_stop": _dumped(rule)}


def _reward(of: Experiment, name: str, reward: Reward) -> dict[str, Any]:
    found = reward.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"gates", "examples"})
    order: list[str] = []
    for index in range(len(reward.gates)):
        entry = of.node("rewards", name, "gates", index)
        gate, node = next(entry.items())
        use, _ = gate_use(entry, "gates")
        card = use.card.model_dump(mode="json", exclude={"name"}) if use is not None else node.plain()
        card |= card.pop("settings", {})
        found[f"gates.{gate}"] = card
        order.append(gate)
    return {**found, "gates": order}


def leaves(key: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Dotted keys of everything below a value; lists are leaves, and so are empty maps."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from leaves(f"{key}.{name}" if key else str(name), inner)
    elif value is not None:
        yield key, value


def parent_differences(of: Experiment, parent: Experiment) -> Iterator[Diagnostic]:
    """E339 for each difference that is not declared, E340 for each declared one that is none, E341 for a change that the spec
    itself contradicts."""
    found = differences(parent, of)
    declared = dict(changes(of.document.root))
    contradicted: set[str] = set()
    for path, over in declared.items():
        for key, node in _declared_leaves(path, over):
            now = at(of.root, key)
            if now is not None and now.place != node.place and now.plain() != node.plain():
                contradicted.add(path)
                yield _contradiction(key, node, now)
            elif not any(_covers(key, one.key) for one in found):
                yield _no_difference(key, node, at(parent.root, key), parent)
    for one in found:
        if not any(_covers(path, one.key) for path in declared):
            yield _undeclared(one, of, parent)


def _declared_leaves(path: str, node: Node) -> Iterator[tuple[str, Node]]:
    if isinstance(node.value, dict) and node.value:
        for key, inner in node.value.items():
            yield from _declared_leaves(f"{path}.{key}", inner)
    else:
        yield path, node


def _covers(path: str, key: str) -> bool:
    """Whether a declared path is about a setting: they are equal, or one lies below the other."""
    return path == key or key.startswith(f"{path}.") or path.startswith(f"{key}.")


def _undeclared(one: Difference, of: Experiment, parent: Experiment) -> Diagnostic:
    after, before = shown(one.after), shown(one.before)
    place = of.document.root.get("changes")
    default = "" if one.before_node else ", a default"
    form = "E339" if one.after is not ABSENT else "E339.removed"
    where = _place(one.after_node) or (place.key if place else None)
    return problem(form, where, _place(one.before_node), key=one.key, after=after, before=before, parent=parent.stem, default=default)


def _no_difference(key: str, node: Node, before: Node | None, parent: Experiment) -> Diagnostic:
    said = shown(before.plain()) if before is not None else "its default"
    place = node.key if node.key is not None else node.place
    return problem("E340", place, _place(before), key=key, value=shown(node.plain()), parent=parent.stem, before=said)


def _contradiction(key: str, declared: Node, now: Node) -> Diagnostic:
    return problem("E341", declared.place, now.place, key=key, declared=shown(declared.plain()), now=shown(now.plain()))


def _place(node: Node | None) -> Place | None:
    return None if node is None else node.key if node.key is not None and isinstance(node.value, dict | list) else node.place


def shown(value: Any) -> str:
    """A value as it could stand in a spec, on one line and not too long."""
    text = _text(value)
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}..."


def _text(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_text, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {_text(inner)}' for key, inner in value.items())}}}"
    return sentence(value)


def lines(found: Iterable[Difference]) -> str:
    """Text of differences: key, both values, both places."""
    rows = [(one.key, shown(one.before), shown(one.after), _where(one.before_node), _where(one.after_node)) for one in found]
    if not rows:
        return "no difference\n"
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return "".join(
        f"{key:<{widths[0]}}  {before:<{widths[1]}} -> {after:<{widths[2]}}  {where} -> {now}\n" for key, before, after, where, now in rows
    )


def _where(node: Node | None) -> str:
    place = _place(node)
    return f"{place.file}:{place.line}:{place.column}" if place else "default"
