"""Gates of a spec: their settings, held against the model of their kind, become gate cards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from compiler.document.node import Node
from compiler.document.validate import validated
from compiler.language.spec_rewards import Gate as SpecGate
from compiler.problems import unknown
from stages.contracts.diagnostic import Diagnostic
from stages.contracts.plugin import GATES, kinds, load
from stages.contracts.reward import Decisions, Gate

OWN_KEYS = ("kind", *Decisions.model_fields)
DECISIONS = dict.fromkeys(Decisions.model_fields)
"""What a gate means for its reward; as a score of its own it means nothing."""


@dataclass(frozen=True)
class GateUse:
    """A gate as a spec uses it. `node` is the block with its kind and settings; shorthands such as `constant` have their own."""

    card: Gate
    node: Node


def gate_use(entry: Node, where: str) -> tuple[GateUse | None, list[Diagnostic]]:
    """A one-key map `name: {kind, on_pass, on_fail, settings}` as a gate, or what is wrong with its kind and settings."""
    name, node = next(entry.items())
    kind = node.get("kind")
    assert kind is not None  # the model of a spec asks for it
    settings_model = settings_of(kind.value)
    if settings_model is None:
        known = kinds(GATES)
        return None, [unknown("E211", kind.value, known, kind.place, all=", ".join(known))]
    settings = Node({key: inner for key, inner in node.value.items() if key not in OWN_KEYS}, node.place, node.key)
    value, problems = validated(settings_model, settings, f"{where}.{name}")
    if value is None:
        return None, problems
    own, _ = validated(SpecGate, Node({key: inner for key, inner in node.items() if key in OWN_KEYS}, node.place, node.key))
    if own is None:  # the model of the spec says why
        return None, []
    card = Gate(name=name, settings=value.model_dump(mode="json"), **{key: getattr(own, key) for key in OWN_KEYS})
    return GateUse(card, node), []


def shorthand(kind: str, settings: dict[str, Any], node: Node) -> GateUse:
    """The single gate of `{constant: 0.0}` or `{random: bernoulli, p: 0.5}`."""
    model = settings_of(kind)
    dumped = model.model_validate(settings).model_dump(mode="json") if model else settings
    return GateUse(Gate(name=kind, kind=kind, settings=dumped), node)


def settings_of(kind: str) -> type[BaseModel] | None:
    """The Settings model of a gate's kind, or None when there is no such kind."""
    try:
        model = load(GATES, kind).Settings
    except KeyError:
        return None
    assert isinstance(model, type) and issubclass(model, BaseModel)
    return model
