"""Where each value of a card came from: JSON pointers into the card -> places in the spec."""

from __future__ import annotations

import functools
from typing import Any

from compiler.document.node import Node
from compiler.language.expand import Setup
from compiler.language.gates import OWN_KEYS, GateUse
from compiler.language.rewards import RewardUse
from stages.contracts.origin import Origin
from stages.contracts.reward_card import GateCard

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
    if not (isinstance(plain, dict) and plain):
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
        place, written = f"{pointer}/{index}", use.card.model_dump()
        found[place] = origin(use.node if use.node.key is None else Node(None, use.node.key, layer=use.node.layer))
        found[f"{place}/name"] = found[place]
        found |= {f"{place}/{key}": origin(use.node.get(key)) for key in OWN_KEYS if key in written or key not in GateCard.LATER}
        if use.node.get("kind") is None:  # a shorthand such as {constant: 0.0}
            found |= {f"{place}/settings/{key}": origin(use.node.get(_WRITTEN_AS.get(key, key))) for key in use.card.settings}
            found[f"{place}/kind"] = origin(use.node)
        else:
            found |= leaves(f"{place}/settings", use.card.settings, use.node)
    return found


_WRITTEN_AS = {"score": "constant", "distribution": "random"}


def of_data(pointer: str, written: Node | None) -> Origins:
    """Of where a data card's rows lie: a file with its digest, or a split of a hub dataset with its commit."""
    if written is None or written.get("hub") is None:
        path = origin(written.get("path") if written else None)
        return {f"{pointer}/path": path, f"{pointer}/sha256": path}
    found = {f"{pointer}/hub/{key}": origin(written.get(key)) for key in ("split", "config", "id")}
    return found | dict.fromkeys((f"{pointer}/path", f"{pointer}/hub/revision"), origin(written.get("hub")))


def of_setup(
    setup: Setup, train: dict[str, Any], base: Node, resources: Node | None, pins: dict[str, Origin], stop: Origins, reward: Origins
) -> Origins:
    """Of a train card, but for its seed. `base` is the spec's `model`, `train` the dumped card, `pins` the places of versions,
    `stop` those of the stop rules, `reward` those of its reward."""
    found: Origins = {}
    found["/condition"] = origin(Node(None, setup.node.key or setup.node.place, layer=setup.node.layer))
    found["/null_control"] = origin(setup.node.get("role"))
    found |= {"/model/base": origin(base.get("base")), "/model/quantization": origin(base.get("quantization"))}
    found |= {"/model/path": found["/model/base"], "/model/revision": found["/model/base"]}
    found |= leaves("/model/adapter", train["model"]["adapter"], setup.adapter_node)
    if train["model"].get("apply_chat_template"):
        found["/model/apply_chat_template"] = origin(base.get("apply_chat_template"))
    found |= {f"/data/{key}": origin(setup.data_node.get(key)) for key in ("prompt", "rows")}
    found |= of_data("/data", setup.data_node)
    if train["data"].get("answer") is not None:
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
    source = reward.source
    found = {"/reward/combine": origin(source.get("combine") if source else None)}
    found["/reward/unknown_limit"] = origin(source.get("unknown", "limit") if source else None)
    found |= of_gates("/reward/gates", reward.gates)
    for key in ("penalties", "curriculum"):
        for index in range(len(getattr(reward, key))):
            found[f"/reward/{key}/{index}"] = origin(source.get(key, index) if source else None)
    if reward.cap is not None:
        found["/reward/cap"] = origin(source.get("cap") if source else None)
    if reward.scale is not None:
        found["/reward/scale"] = origin(source.get("scale") if source else None)
    return found
