"""The `train` section by its algorithm: each has its own closed keys."""

from __future__ import annotations

from compiler.document.node import Node
from compiler.document.validate import keys, validated
from compiler.language.libraries import not_audited, passed_on
from compiler.problems import problem, sentence, unknown
from stages.contracts.algorithms import ALGORITHMS, DEFAULT
from stages.contracts.diagnostic import Diagnostic
from stages.contracts.training import TrainSettings

SECTIONS = {name: row.settings for name, row in ALGORITHMS.items()}
"""Algorithm -> the `train` section of a spec."""
UNKNOWN_STEPS = 1_000_000
"""Stand for `num_train_epochs` while the number of rows is not known; so many contradict no other key."""
COMMAND = "command"
"""The author's own program: no settings of ours (compiler/language/outside.py)."""


def algorithm(train: Node | None) -> str | None:
    """The algorithm that a `train` section names; the default when it names none, None when there is no such algorithm."""
    written = train.get("algorithm") if train is not None else None
    if written is None or written.value is None:
        return DEFAULT
    return written.value if isinstance(written.value, str) and written.value in ALGORITHMS else None


def train_settings(train: Node) -> tuple[TrainSettings | None, list[Diagnostic]]:
    """The settings of a `train` section, or None and what is wrong with it."""
    name = algorithm(train)
    if name is None:
        return None, [_unknown(train.get("algorithm") or train)]
    model = SECTIONS[name]
    settings, problems = validated(model, _with_steps(train), "train")
    places = {node.key: key for key, node in train.items()}
    problems = [_of_another(refused, places.get(refused.place), name) for refused in problems]
    problems += passed_on(train.get("trl"), name, model.model_fields, "train")
    return None if problems else settings, problems


def _with_steps(train: Node) -> Node:
    """With a `max_steps` that stands for `num_train_epochs` until the number of rows is known (compiler/build/epochs.py)."""
    epochs = train.get("num_train_epochs")
    if epochs is None or train.get("max_steps") is not None or not isinstance(train.value, dict):
        return train
    steps = Node(UNKNOWN_STEPS, epochs.place, epochs.key, epochs.layer)
    return Node({**train.value, "max_steps": steps}, train.place, train.key, train.layer, train.over)


def _unknown(written: Node) -> Diagnostic:
    choices = ", ".join(f"`{name}`" for name in (*ALGORITHMS, COMMAND))
    word = written.value if isinstance(written.value, str) else str(written.value) if isinstance(written.value, int | float) else "a block"
    return unknown("E204.algorithm", sentence(word), ALGORITHMS, written.place, choices=choices, default=DEFAULT)


def _of_another(refused: Diagnostic, key: str | None, name: str) -> Diagnostic:
    """E359 instead of an unknown key, when another algorithm knows it."""
    refused = not_audited(refused, key, name, "trl")
    owners = [other for other, model in SECTIONS.items() if key in keys(model)]
    if refused.code != "E201" or not owners or name in owners:
        return refused
    listed = " and ".join(f"`{owner}`" for owner in owners)
    return problem("E359", refused.place, key=key, owners=listed, owner=owners[0], algorithm=name)
