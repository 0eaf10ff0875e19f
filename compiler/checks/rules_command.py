"""Rules about programs of the author: what is run is what the card pins, and values come as whole arguments."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from compiler.build.inputs import Inputs
from compiler.document.node import Node
from compiler.language.expand import Expansion
from compiler.language.experiment import Experiment
from compiler.language.spec_command import CommandSpec
from compiler.problems import nearest
from stages.contracts.diagnostic import Diagnostic

PLACEHOLDERS = ("{card}", "{out}", "{seed}", "{steps}")
_BRACES = re.compile(r"\{[^{}]*\}")


def arguments_are_plain(of: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    """Placeholders are whole arguments that octavo knows, and the program can find out where to write."""
    if not isinstance(of.spec, CommandSpec):
        return
    for index, argument in enumerate(of.spec.train.command):
        node = of.node("train", "command", index)
        found = _BRACES.findall(argument)
        if "\0" in argument or (index == 0 and not argument.strip()):
            yield _argument("an argument that no program can get", "a program needs a name, and no argument holds NUL", "python", node)
        elif found and argument not in PLACEHOLDERS:
            known = [one for one in found if one in PLACEHOLDERS]
            meant = known[0] if known else nearest(found[0], PLACEHOLDERS) or "{card}"
            yield _argument(
                f"`{found[0][:40]}` inside an argument" if known else f"`{found[0][:40]}` is no value that octavo has",
                f"nothing is pasted into text; whole arguments are replaced: {', '.join(f'`{one}`' for one in PLACEHOLDERS)}",
                f'write `"{meant}"` as an argument of its own',
                node,
            )
    if not {"{card}", "{out}"} & set(of.spec.train.command):
        yield _argument(
            "the program gets neither `{card}` nor `{out}`",
            "it must know where to write its history, and what it trains",
            'add "{card}" and "{out}"',
            of.node("train", "command"),
        )
    for name, condition in of.spec.conditions.items():
        for key in condition.train:
            if key != "settings":
                yield Diagnostic(
                    "E394",
                    f"a condition changes `{key[:40]}` of the program",
                    why="conditions differ in what the program reads from its card, or they are different experiments",
                    fix="train: {settings: {...}}",
                    place=(of.node("conditions", name).get("train", key) or of.node("conditions", name)).key,
                )


def _argument(what: str, why: str, fix: str, node: Node) -> Diagnostic:
    return Diagnostic("E394", what, why=why, fix=fix, place=node.place if not isinstance(node.value, list) else node.key or node.place)


def code_is_pinned(of: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    """Declared files exist, and scripts among the arguments are declared."""
    if not isinstance(of.spec, CommandSpec):
        return
    train = of.spec.train
    for index, path in enumerate(train.code):
        if not os.path.isfile(Path(path)):
            yield Diagnostic(
                "E395",
                f"`{path}` is no file",
                why="the program decides the result, so the card pins its code by content",
                fix=f"check the name: ls {Path(path).parent.as_posix()}",
                place=of.node("train", "code", index).place,
            )
    for index, argument in enumerate(train.command):
        if argument not in train.code and "\0" not in argument and len(argument) < 400 and os.path.isfile(Path(argument)):
            yield Diagnostic(
                "E395",
                f"`{argument}` is run and not among `code`",
                why="a result would change with it, and nothing would run again",
                fix=f"code: [{', '.join([*train.code, argument])}]",
                place=of.node("train", "command", index).place,
            )


RULES = (arguments_are_plain, code_is_pinned)
