"""Where each value of a card came from: JSON pointers into the card -> places in the spec."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from compiler.document.node import Document, Node
from compiler.language.expand import Setup
from compiler.language.experiment import Experiment
from compiler.language.gates import GateUse
from compiler.language.rewards import RewardUse
from stages.contracts.artifact import digest
from stages.contracts.lineage import Origin
from stages.contracts.lineage import Origins as OriginsFile
from stages.contracts.model import PromptData
from stages.contracts.reward import RewardRules

Origins = dict[str, Origin]
DEFAULT = Origin(file=None, line=None, column=None, layer="defaults")


def origin(node: Node | None) -> Origin:
    """The origin of a value: its place and layer; a default when nobody wrote it."""
    return DEFAULT if node is None else _at(node.place.file, node.place.line, node.place.column, node.layer)


@functools.cache
def _at(file: str, line: int, column: int, layer: str) -> Origin:
    """Thousands of values stand at few places."""
    return Origin.model_validate({"file": file, "line": line, "column": column, "layer": layer})


def leaves(pointer: str, plain: Any, node: Node | None) -> Origins:
    """Each leaf below a value, lists counting as leaves, with the place of the node that lies at the same keys."""
    if not (isinstance(plain, dict) and (plain or not pointer)):
        return {pointer: origin(node)}
    found: Origins = {}
    for key, value in plain.items():
        place, inner = f"{pointer}/{escaped(key)}", node.get(key) if node is not None else None
        if isinstance(value, dict):
            found |= leaves(place, value, inner)
        else:
            found[place] = origin(inner)
    return found


def escaped(key: str) -> str:
    """A key as a part of a JSON pointer."""
    return key.replace("~", "~0").replace("/", "~1")


def of_gates(pointer: str, gates: tuple[GateUse, ...]) -> Origins:
    """Of gates in a reward or among scores. A gate's own pointer is the place of its block."""
    found: Origins = {}
    for index, use in enumerate(gates):
        place = f"{pointer}/{index}"
        found[place] = found[f"{place}/name"] = origin(use.node if use.node.key is None else _block(use.node))
        if use.node.get("kind") is None:  # a shorthand such as {constant: 0.0}
            found |= {f"{place}/settings/{key}": origin(use.node.get(_WRITTEN_AS.get(key, key))) for key in use.card.settings}
            found[f"{place}/kind"] = origin(use.node)
        else:
            own = {key: value for key, value in use.card.model_dump(mode="json").items() if key not in ("name", "settings")}
            found |= leaves(place, own, use.node) | leaves(f"{place}/settings", use.card.settings, use.node)
    return found


_WRITTEN_AS = {"score": "constant", "distribution": "random"}


def of_section(pointer: str, section: BaseModel | None, node: Node | None) -> Origins:
    """Of a section that a card embeds as the spec writes it: the keys are the same."""
    return {} if section is None else leaves(pointer, section.model_dump(mode="json", by_alias=True), node)


def of_data(pointer: str, data: PromptData | None, node: Node | None) -> Origins:
    """Of a reference to data: the keys of the spec, and the pin that follows from the path or from the hub's name."""
    found = of_section(pointer, data, node)
    pins = {f"{pointer}/sha256": f"{pointer}/path", f"{pointer}/revision": f"{pointer}/hub"}
    return found | {pin: found[key] for pin, key in pins.items() if key in found}


def of_setup(
    setup: Setup, train: dict[str, Any], base: Node, resources: Node | None, pins: dict[str, Origin], stop: Origins, reward: Origins
) -> Origins:
    """Of a train card, but for its seed. `base` is the spec's `model`, `train` the dumped card, `pins` the places of versions,
    `stop` those of the stop rules, `reward` those of its reward."""
    found: Origins = {}
    found["/condition"] = origin(Node(None, setup.node.key or setup.node.place, layer=setup.node.layer))
    found["/null_control"] = origin(setup.node.get("role"))
    found |= leaves("/model", {key: value for key, value in train["model"].items() if key not in ("path", "revision", "hub")}, base)
    found |= {f"/model/{key}": found["/model/base"] for key in ("path", "revision", "hub") if key in train["model"]}
    found |= leaves("/model/adapter", train["model"]["adapter"], setup.adapter_node)
    found |= of_data("/data", setup.data, setup.data_node)
    if "answer" in train["data"]:
        found["/data/answer"] = origin(setup.data_node.get("answer"))
    found |= leaves("/train", train["train"], setup.train_node)
    found |= reward
    found |= {f"/stop{pointer}": place for pointer, place in stop.items()}
    found["/device"] = origin(resources.get("gpus") if resources else None)
    if train.get("gpus") is not None:
        found["/gpus"] = found["/device"]
    found |= {f"/versions/{escaped(name)}": pins[name] for name in train["versions"]}
    return found


def of_condition(reward: RewardUse) -> Origins:
    """Of what a condition itself says of its reward."""
    return {"/reward/name": origin(reward.node), "/reward/invert": origin(reward.node.get("invert"))}


def of_reward(reward: RewardUse) -> Origins:
    """Of the rest of a reward, which conditions share."""
    rules = reward.rules.model_dump(mode="json", by_alias=True, include={*RewardRules.model_fields})
    found = leaves("/reward", rules, reward.source) | of_gates("/reward/gates", reward.gates)
    for key in ("penalties", "curriculum"):
        for index in range(len(rules.get(key, reward.penalties))):
            found[f"/reward/{key}/{index}"] = origin(reward.source.get(key, index) if reward.source else None)
    return found


def experiment_origins(of: Experiment, documents: Mapping[str, Document], cards: Mapping[str, Origins]) -> OriginsFile:
    """The file of an experiment. `cards`: path below its folder -> origins; of a train card `<condition>/train.card.json`, since the
    runs of a condition differ in the seed only."""
    keys = _Keys(documents)
    return OriginsFile(
        spec=of.document.file,
        cards={path: {pointer: keys.named(place) for pointer, place in places.items()} for path, places in cards.items()},
        claims={claim.id: keys.named(origin(of.node("claims", index))) for index, claim in enumerate(of.spec.claims)},
        conditions={name: keys.named(origin(_block(of.node("conditions", name)))) for name in of.spec.conditions},
        seeds={str(seed): keys.named(origin(of.node("seeds", index))) for index, seed in enumerate(of.spec.seeds)},
    )


def places_digest(origins: OriginsFile) -> str:
    """16 hex digits of all that pages show of places. It stands on the page's card, so that a page follows a value that moved to
    another key or file, and no comment line changes a page."""
    named = [f"{path}{pointer}\0{place}\0{place.layer}" for path, places in origins.cards.items() for pointer, place in places.items()]
    named += [f"{name}\0{place}" for places in (origins.claims, origins.conditions, origins.seeds) for name, place in places.items()]
    return digest("\n".join(sorted(named)))[:16]


class _Keys:
    """The dotted key that stands at a place of a file."""

    def __init__(self, documents: Mapping[str, Document]) -> None:
        self._documents = documents
        self._files: dict[str, dict[tuple[int, int], str]] = {}
        self._named: dict[Origin, Origin] = {}

    def named(self, place: Origin) -> Origin:
        if place not in self._named:
            key = self._file(place.file).get((place.line or 0, place.column or 0), place.key) if place.file else ""
            self._named[place] = place.model_copy(update={"key": key})
        return self._named[place]

    def _file(self, file: str) -> dict[tuple[int, int], str]:
        if file not in self._files:
            self._files[file] = dict(_keys("", self._documents[file].root)) if file in self._documents else {}
        return self._files[file]


def _keys(key: str, node: Node) -> Iterator[tuple[tuple[int, int], str]]:
    """Places and dotted keys of everything below a node. An entry of a list is named by its one key or its id, or by its number."""
    items: Iterable[tuple[str, Node]] = node.items()
    if isinstance(node.value, list):
        items = ((_name_of(entry, number), entry) for number, entry in enumerate(node.value, 1))
    for name, inner in items:
        dotted = f"{key}.{name}" if key else name
        if isinstance(node.value, list) and isinstance(inner.value, dict) and list(inner.value) == [name]:
            yield (inner.place.line, inner.place.column), dotted
            inner = inner.value[name]
        for place in (inner.key, inner.place):
            if place is not None:
                yield (place.line, place.column), dotted
        yield from _keys(dotted, inner)


def _name_of(entry: Node, number: int) -> str:
    if isinstance(entry.value, dict) and len(entry.value) == 1:
        return str(next(iter(entry.value)))
    named = entry.get("id")
    return str(named.value) if named is not None else str(number)


def _block(node: Node) -> Node:
    return Node(None, node.key or node.place, layer=node.layer)
