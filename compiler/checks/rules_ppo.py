"""Rules about PPO settings: what would fail, mean nothing, or not do what its name suggests."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.build.inputs import Inputs
from compiler.document.node import Node
from compiler.document.validate import key_place
from compiler.language.expand import Expansion, Setup
from compiler.language.experiment import Experiment
from stages.contracts.diagnostic import Diagnostic, Note, Place
from stages.contracts.ppo import PpoSettings

CLIP = 0.2
"""The adaptive controller never reacts to a relative error above this (Ziegler et al. 2019)."""
MOVES = 1.5
"""A coefficient that cannot even change by this factor in the whole run is as good as fixed."""


def _ppo(expansion: Expansion) -> Iterator[tuple[Setup, PpoSettings, Node]]:
    for setup in expansion.setups:
        if isinstance(setup.train, PpoSettings):
            yield setup, setup.train, setup.train_node


def _place(node: Node, *keys: str) -> Place:
    """The first of these keys that is written, else the section."""
    for key in keys:
        written = node.get(*key.split("."))
        if written is not None:
            return written.place
    return key_place(node)


def minibatches_are_whole(of: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    """E381: optimizer steps of an update are of one size."""
    for _, train, node in _ppo(expansion):
        step = train.mini_batch_size * train.gradient_accumulation_steps
        if train.batch_size % step:
            near = step * max(1, round(train.batch_size / step))
            whole = "" if train.batch_size % train.mini_batch_size else ", or `gradient_accumulation_steps: 1`"
            arithmetic = f"{train.mini_batch_size} a minibatch x {train.gradient_accumulation_steps} accumulation steps = {step}"
            yield Diagnostic(
                "E381",
                f"a batch of {train.batch_size} cannot be split into optimizer steps of {step}",
                why="completions of a smaller last step would weigh more than the others",
                fix=f"set `batch_size: {near}`{whole}",
                place=_place(node, "mini_batch_size", "gradient_accumulation_steps", "batch_size"),
                notes=(Note(None, arithmetic),),
            )


def adaptive_kl_moves(of: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    """W382: with few completions an update and a long horizon an adaptive coefficient stays where it is."""
    for _, train, node in _ppo(expansion):
        growth = 1 + CLIP * train.batch_size / train.kl.horizon
        most = growth ** min(train.max_steps, 10_000)
        if train.kl.controller == "adaptive" and train.kl.init_kl_coef > 0 and most < MOVES and of.profile is None:
            horizon = max(1, round(CLIP * train.batch_size * train.max_steps / 2.3))
            yield Diagnostic(
                "W382",
                f"the KL coefficient can change at most {most:.2f}x in {train.max_steps} updates of {train.batch_size}",
                why=f"it follows by at most {CLIP:.0%} x completions / horizon an update, so this controller is as good as fixed",
                fix=f"set `kl: {{horizon: {horizon}}}` (up to 10x in the run), or `kl: {{controller: fixed}}`",
                place=_place(node, "kl.horizon", "kl.controller", "batch_size"),
                severity="warning",
            )


def kl_is_measured_where_it_is_sampled(of: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    """W383: completions sampled from another distribution than the one that is scored bias the KL, k1 below zero."""
    for _, train, node in _ppo(expansion):
        sharper = train.temperature != train.scored_at
        if train.kl.estimator == "k1" and train.kl.init_kl_coef > 0 and (sharper or train.top_p < 1):
            reads = "high" if train.temperature > train.scored_at and train.top_p == 1 else "low"
            sampled = f"temperature {train.temperature:g}, top_p {train.top_p:g}"
            fix = "set `top_p: 1.0`" if train.top_p < 1 else ""
            if sharper:
                fix = " and ".join(part for part in (fix, "delete `scoring_temperature`") if part)
            yield Diagnostic(
                "W383",
                f"completions are sampled at {sampled} and scored at temperature {train.scored_at:g}, top_p 1: KL reads too {reads}",
                why="k1 estimates a KL from samples of the policy itself; from sharper ones it can be negative while the true KL grows, "
                "and the penalty then rewards drift",
                fix=fix,
                place=_place(node, "top_p") if train.top_p < 1 else _place(node, "scoring_temperature", "temperature"),
                severity="warning",
            )


def the_two_targets_are_told_apart(of: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    """W384: `target_kl` ends an update, `kl.target` is what the penalty aims at."""
    for _, train, node in _ppo(expansion):
        if train.target_kl is not None and train.kl.controller == "adaptive" and node.get("kl", "target") is None:
            yield Diagnostic(
                "W384",
                f"`target_kl: {train.target_kl:g}` ends updates early; the KL penalty aims at `kl.target`, by default {train.kl.target:g}",
                why="one is the distance of the new policy from the old one in nats a token, the other that from the reference in nats a "
                "completion; reports have taken one for the other",
                fix=f"write `kl: {{target: {train.kl.target:g}}}` too, or delete `target_kl`",
                place=_place(node, "target_kl"),
                severity="warning",
            )


def nothing_is_written_in_vain(of: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    """E385 keys of the other KL controller, E386 dropout."""
    for setup, train, node in _ppo(expansion):
        for key in ("target", "horizon"):
            written = node.get("kl", key)
            if train.kl.controller == "fixed" and written is not None:
                yield Diagnostic(
                    "E385",
                    f"`kl.{key}` means nothing with the controller `fixed`",
                    why="only the adaptive controller aims at a KL; with a fixed one the coefficient stays",
                    fix=f"delete `{key}`, or set `controller: adaptive`",
                    place=written.key or written.place,
                )
        dropout = setup.adapter_node.get("lora_dropout")
        if setup.adapter.lora_dropout > 0:
            yield Diagnostic(
                "E386",
                f"`lora_dropout: {setup.adapter.lora_dropout:g}` means nothing under PPO",
                why="dropout would make the new policy differ from the old one before any step, so it is off",
                fix="delete `lora_dropout`",
                place=dropout.place if dropout else key_place(setup.adapter_node),
            )


RULES = (
    minibatches_are_whole,
    adaptive_kl_moves,
    kl_is_measured_where_it_is_sampled,
    the_two_targets_are_told_apart,
    nothing_is_written_in_vain,
)
