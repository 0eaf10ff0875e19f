"""Where each value of a card came from: JSON pointers into the card -> places in the spec."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from compiler.build.cards import CARD, IMPORT_CARD, Cards
from compiler.build.imports import block_of, section
from compiler.build.inputs import CONSTRAINTS, Inputs
from compiler.build.stops import rules_of
from compiler.document.node import Node
from compiler.language.expand import Expansion, RewardUse, Run, Setup
from compiler.language.experiment import Experiment
from compiler.language.rewards import GateUse
from stages.contracts.algorithms import AnyTrainCard
from stages.contracts.artifact import digest
from stages.contracts.evaluation import Sampling
from stages.contracts.lineage import Origin
from stages.contracts.lineage import Origins as OriginsFile
from stages.contracts.reward import RewardRules

Origins = dict[str, Origin]
DEFAULT = Origin(file=None, line=None, column=None, layer="defaults")
_WRITTEN_AS = {"score": "constant", "distribution": "random"}


def origin(node: Node | None, block: bool = False) -> Origin:
    """The place and layer of a value, or with `block` of its key; a default when no spec says it."""
    if node is None:
        return DEFAULT
    place = (node.key if block else None) or node.place
    return Origin(file=place.file, line=place.line, column=place.column, layer=node.layer)


def nearest_origin(origins: Mapping[str, Origin], pointer: str) -> Origin:
    """The origin of a value, or of the block that it lies in."""
    while pointer and pointer not in origins:
        pointer = pointer.rpartition("/")[0]
    return origins.get(pointer, DEFAULT)


def escaped(key: str) -> str:
    """A key as a part of a JSON pointer."""
    return key.replace("~", "~0").replace("/", "~1")


def experiment_origins(experiment: Experiment, expansion: Expansion, cards: Cards, inputs: Inputs) -> OriginsFile:
    """The file of an experiment, with the key that stands at each place."""
    places = _single(experiment, expansion)
    places |= {f"{run.name}/{IMPORT_CARD}": _imported(experiment, run) for run in expansion.runs if not cards.train}
    places = {path: pointers for path, pointers in places.items() if path in cards.single}
    for setup in expansion.setups:
        if setup.name in cards.train:
            places[f"{setup.name}/{CARD}"] = _train(experiment, setup, cards.train[setup.name], inputs)

    @functools.cache
    def named(place: Origin) -> Origin:
        document = inputs.documents.get(place.file or "")
        key = document.keys.get((place.line or 0, place.column or 0)) if document else None
        return place.model_copy(update={"key": key or place.key})

    return OriginsFile(
        spec=experiment.document.file,
        cards={path: {pointer: named(place) for pointer, place in pointers.items()} for path, pointers in places.items()},
        claims={claim.id: named(origin(experiment.node("claims", index))) for index, claim in enumerate(experiment.spec.claims)},
        conditions={name: named(origin(experiment.node("conditions", name), block=True)) for name in experiment.spec.conditions},
        seeds={str(seed): named(origin(experiment.node("seeds", index))) for index, seed in enumerate(experiment.spec.seeds)},
    )


def places_of(origins: OriginsFile, path: str) -> Mapping[str, Origin]:
    """The places of a card's values. `path` lies below the experiment's folder; that of a train card names its run."""
    folder, _, file = path.rpartition("/")
    if file != CARD:
        return origins.cards.get(path, {})
    condition, _, seed = folder.rpartition("-s")
    return {**origins.cards.get(f"{condition}/{CARD}", {}), "/seed": origins.seeds.get(seed, DEFAULT)}


def places_digest(origins: OriginsFile) -> str:
    """16 hex digits of all that pages show of places. It stands on the page's card, so that a page follows a value that moved to
    another key or file, and no comment line changes a page."""
    shown = [f"{path}{pointer}\0{place}\0{place.layer}" for path, places in origins.cards.items() for pointer, place in places.items()]
    shown += [f"{name}\0{place}" for places in (origins.claims, origins.conditions, origins.seeds) for name, place in places.items()]
    return digest("\n".join(sorted(shown)))[:16]


def _leaves(pointer: str, value: Any, node: Node | None) -> Origins:
    """Each leaf below a value, lists counting as leaves, with the place of the node that lies at the same keys."""
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json", by_alias=True)
    if not isinstance(value, dict) or (not value and pointer):
        return {pointer: origin(node)}
    places: Origins = {}
    for key, inner in value.items():
        at, below = f"{pointer}/{escaped(key)}", node.get(key) if node is not None else None
        places |= _leaves(at, inner, below) if isinstance(inner, dict) else {at: origin(below)}
    return places


def _data(pointer: str, data: BaseModel, node: Node | None) -> Origins:
    """Of a reference to data: the keys of the spec, and the pin that follows from the path or from the hub's name."""
    places = _leaves(pointer, data, node)
    pins = {f"{pointer}/sha256": f"{pointer}/path", f"{pointer}/revision": f"{pointer}/hub"}
    return places | {pin: places[key] for pin, key in pins.items() if key in places}


def _layout(experiment: Experiment) -> Origins:
    layout = experiment.spec.prompt
    return _leaves("/data/layout", layout, experiment.root.get("prompt")) if layout is not None else {}


def _gates(pointer: str, gates: tuple[GateUse, ...]) -> Origins:
    """Of gates in a reward or among scores. A gate's own pointer is the place of its block."""
    places: Origins = {}
    for index, use in enumerate(gates):
        at, node = f"{pointer}/{index}", use.node
        places[at] = places[f"{at}/name"] = origin(node, block=True)
        if node.get("kind") is None:  # a shorthand such as {constant: 0.0}
            places |= {f"{at}/settings/{key}": origin(node.get(_WRITTEN_AS.get(key, key))) for key in use.card.settings}
            places[f"{at}/kind"] = origin(node)
        else:
            own = use.card.model_dump(mode="json", exclude={"name", "settings"})
            places |= _leaves(at, own, node) | _leaves(f"{at}/settings", use.card.settings, node)
    return places


def _reward(reward: RewardUse) -> Origins:
    rules = reward.rules.model_dump(mode="json", by_alias=True, include={*RewardRules.model_fields})
    places = _leaves("/reward", rules, reward.source) | _gates("/reward/gates", reward.gates)
    places |= {"/reward/name": origin(reward.node), "/reward/invert": origin(reward.node.get("invert"))}
    for key, entries in (("penalties", reward.penalties), ("curriculum", rules.get("curriculum", ()))):
        for index in range(len(entries)):
            places[f"/reward/{key}/{index}"] = origin(reward.source.get(key, index) if reward.source else None)
    return places


def _stop(pointer: str, experiment: Experiment, setup: Setup) -> Origins:
    """Pointers to the rules of a condition's stop card -> their blocks."""
    rules = [rule for rule in rules_of(experiment, setup) if not rule.is_light]
    lights = [rule for rule in rules_of(experiment, setup) if rule.is_light] if rules else []
    lists = (("rules", rules), ("green_lights", lights))
    return {f"{pointer}/{name}/{index}": origin(rule.node) for name, listed in lists for index, rule in enumerate(listed)}


def _train(experiment: Experiment, setup: Setup, card: AnyTrainCard, inputs: Inputs) -> Origins:
    """Of a train card, but for its seed."""
    places = _leaves("/model", card.model.model_dump(mode="json", exclude={"adapter"}), experiment.node("model"))
    places |= {f"/model/{key}": places["/model/base"] for key in ("path", "revision", "hub") if f"/model/{key}" in places}
    places |= _leaves("/model/adapter", card.model.adapter, setup.adapter_node) | _leaves("/train", card.train, setup.train_node)
    places |= _data("/data", card.data, setup.data_node) | _layout(experiment) | _stop("/stop", experiment, setup)
    places |= _reward(setup.reward) if card.reward is not None else {}
    gpus = experiment.root.get("resources", "gpus")
    places |= {"/condition": origin(setup.node, block=True), "/null_control": origin(setup.node.get("role")), "/device": origin(gpus)}
    places |= {"/gpus": origin(gpus)} if card.gpus > 1 else {}
    for name in card.versions:
        line = inputs.pins[name][1]
        places[f"/versions/{escaped(name)}"] = Origin(file=CONSTRAINTS.as_posix(), line=line, column=1, layer="shared", key=name)
    return places


def _single(experiment: Experiment, expansion: Expansion) -> dict[str, Origins]:
    """Path of a card of a stage that runs once -> places of its values: what the spec sets directly."""
    root, spec = experiment.root, experiment.spec
    screen = {"/profile": origin(root.get("health", "profile"))}
    screen |= {f"/gates/{name}": origin(root.get("health", "gates", name)) for name in spec.health.gates}
    page = {f"/{key}": origin(root.get(key)) for key in ("title", "question", "owner", "tags")}
    conclude = {f"/expectations/{index}": origin(experiment.node("expect", index)) for index in range(len(spec.expect))}
    for index, claim in enumerate(spec.claims):
        node = experiment.node("claims", index)
        conclude |= _leaves(f"/claims/{index}", claim.rule, node)
        page[f"/claims/{index}/says"] = origin(node.get("says"))
    for setup in expansion.setups:
        conclude |= _stop(f"/stops/{setup.name}", experiment, setup)
    evaluate: Origins = {}
    if spec.evaluation is not None and spec.data.evaluation is not None:
        written = spec.evaluation.model_dump(mode="json", by_alias=True, include={*Sampling.model_fields})
        evaluate = _leaves("", written, root.get("evaluation")) | _gates("/scores", expansion.scores)
        evaluate |= _layout(experiment) | _data("/data", spec.data.evaluation, root.get("data", "evaluation"))
    return {
        "preflight/preflight.card.json": _leaves("", spec.preflight, root.get("preflight")),
        "page.card.json": page,
        "analysis/screen.card.json": screen,
        "analysis/conclude.card.json": conclude,
        "analysis/evaluate.card.json": evaluate,
    }


def _imported(experiment: Experiment, run: Run) -> Origins:
    root, read = block_of(experiment), section(experiment)
    keys = ("format", "step", "epoch", "pattern", "where", "steps_done", *(["config"] if read.config else []))
    kind = "summary" if read.format == "summary" else "columns"
    return {
        "/condition": origin(run.setup.node),
        "/seed": origin(run.seed_node),
        "/null_control": origin(run.setup.node.get("role")),
        "/source": origin(root.get("path") or root.get("files", run.name) or root.get("ids", run.name) or root),
        "/target_steps": origin(root.get("steps") or experiment.root.get("train", "max_steps")),
        "/command": origin(experiment.root.get("train", "command")),
        **{f"/read/{key}": origin(root.get(key)) for key in keys},
        **{f"/read/{kind}/{index}": origin(root.get("metrics", name) or root.get("preset")) for index, name in enumerate(read.metrics)},
    }
