"""The `train` section by its algorithm: each has its own closed keys."""

from __future__ import annotations

from compiler.document.node import Node
from compiler.document.validate import keys, validated
from compiler.problems import problem, sentence, unknown
from stages.contracts.algorithms import ALGORITHMS, DEFAULT
from stages.contracts.diagnostic import Diagnostic
from stages.contracts.training import TrainSettings

SECTIONS = {name: row.settings for name, row in ALGORITHMS.items()}
"""Algorithm -> the `train` section of a spec."""
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
    settings, problems = validated(SECTIONS[name], train, "train")
    places = {node.key: key for key, node in train.items()}
    return settings, [_of_another(refused, places.get(refused.place), name) for refused in problems]


def _unknown(written: Node) -> Diagnostic:
    choices = ", ".join(f"`{name}`" for name in (*ALGORITHMS, COMMAND))
    word = written.value if isinstance(written.value, str) else str(written.value) if isinstance(written.value, int | float) else "a block"
    return unknown("E204.algorithm", sentence(word), ALGORITHMS, written.place, choices=choices, default=DEFAULT)


def _of_another(refused: Diagnostic, key: str | None, name: str) -> Diagnostic:
    """E359 instead of an unknown key, when another algorithm knows it."""
    owners = [other for other, model in SECTIONS.items() if key in keys(model)]
    if refused.code != "E201" or not owners or name in owners:
        return refused
    listed = " and ".join(f"`{owner}`" for owner in owners)
    return problem("E359", refused.place, key=key, owners=listed, owner=owners[0], algorithm=name)
