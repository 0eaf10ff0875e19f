"""Checks of runs that octavo does not train itself: metrics that it knows, keys that the format has, a program that is pinned."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from compiler.build.imports import block_of, metric_node, misplaced, section
from compiler.build.inputs import Inputs
from compiler.document.node import Node
from compiler.document.units import factor
from compiler.document.validate import key_place, place_of
from compiler.language.expand import Expansion
from compiler.language.experiment import Experiment
from compiler.language.outside import CommandSpec, Import
from compiler.problems import nearest, problem, unknown
from stages.contracts.diagnostic import Diagnostic, Place
from stages.contracts.history import METRICS, metric, metric_of_trl
from stages.contracts.import_card import Column, SummaryKeys, pattern_names

FIRST_SCREEN = ("reward", "zero_signal_share", "truncated")
_ROWS = ("summary", "jsonl", "csv", "parquet")
FORMATS = {"pattern": ("text",), "where": _ROWS, "steps_done": ("summary",), "state": _ROWS}
FORMATS |= dict.fromkeys(("entity", "project", "ids", "config"), ("wandb",))
"""Keys that not every format has."""
PLACEHOLDERS = ("{card}", "{out}", "{seed}", "{steps}")
_BRACES = re.compile(r"\{[^{}]*\}")


def check(experiment: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    read, block = section(experiment), block_of(experiment)
    yield from _metrics(read, block, experiment)
    yield from _format(read, block)
    yield from _placeholders(read, block)
    if read.format == "text" and read.pattern is not None and read.preset is None:
        yield from _pattern(read, read.pattern, block, experiment)
    for name, source in read.metrics.items():
        yield from _source(read.format == "summary", name, source, metric_node(experiment, name))
    if read.format == "summary":
        yield from _no_course(read, experiment)
    if isinstance(experiment.spec, CommandSpec):
        yield from _program(experiment.spec, experiment)


def _metrics(read: Import, block: Node, experiment: Experiment) -> Iterator[Diagnostic]:
    """E388 metrics that octavo does not know, E390 units that do not convert, W396 blanks on the page's first screen."""
    for name, source in read.metrics.items():
        node, meaning = metric_node(experiment, name), metric(name)
        if meaning is None or name.startswith("evaluation."):
            yield _unknown(name, node.key or node.place)
            continue
        unit = source.unit if isinstance(source, Column | SummaryKeys) else None
        if factor(meaning.unit, unit) is None:
            yield problem("E390", (node.get("unit") or node).place, metric=name, unit=meaning.unit, logged=unit)
    for index, name in enumerate(read.unavailable):
        place = (block.get("unavailable", index) or block).place
        if metric(name) is None:
            yield _unknown(name, place)
        elif name in read.metrics:
            yield problem("E388.unavailable", place, metric=name)
    blank = [name for name in FIRST_SCREEN if name not in read.metrics and name not in read.unavailable]
    if blank:
        words = f"{', '.join(blank)} {'is' if len(blank) == 1 else 'are'}"
        yield problem("W396", key_place(block.get("metrics") or block), metrics=words, names=", ".join(blank))


def _unknown(name: str, place: Place) -> Diagnostic:
    trl, metrics = metric_of_trl(name), list(METRICS)
    if trl:
        return problem("E388.trl", place, name=name[:80], meant=trl, metrics=metrics)
    return unknown("E388.evaluation" if name.startswith("evaluation.") else "E388", name, metrics, place, metrics=metrics)


def _format(read: Import, block: Node) -> Iterator[Diagnostic]:
    """E392: what a format needs, and nothing that it ignores."""

    def at(key: str) -> Place:
        node = block.get(key) or block
        return node.key or node.place

    for key, others in FORMATS.items():
        if block.get(key) is not None and read.format not in others:
            yield problem("E392", at(key), key=key, other="`, `".join(others), format=read.format)
    for key, form, needed in (("pattern", "E392.pattern", "text"), ("where", "E392.where", "summary")):
        if read.format == needed and block.get(key) is None:
            yield problem(form, at("format"))
    if not read.metrics:
        yield problem("E392.metrics", at("format"))
    if read.preset is not None and read.format in ("summary", "text"):
        yield problem("E392.preset", at("preset"), format=read.format)
    if (read.epoch is None) != (read.steps_per_epoch is None):
        yield problem("E392.epoch", at("epoch"))
    if read.epoch is not None and read.step is not None:
        yield problem("E392.both", at("epoch"))
    for key in ("step", "epoch", "counts_from"):
        if read.format == "summary" and block.get(key) is not None:
            yield problem("E392.summary", at(key), key=key)
    if read.format == "tensorboard" and block.get("step") is not None:
        yield problem("E392.events", at("step"))


def _placeholders(read: Import, block: Node) -> Iterator[Diagnostic]:
    """E392: `{...}` in a path that is neither the condition nor the seed."""
    texts = [("path", block.get("path"), read.path)] if read.path is not None else []
    texts += [(f"where.{key}", block.get("where", key), text) for key, text in read.where.items() if isinstance(text, str)]
    for key, node, text in texts:
        for name in misplaced(str(text)):
            yield problem("E392.placeholder", (node or block).place, name=name[:40], key=key)


def _pattern(read: Import, pattern: str, block: Node, experiment: Experiment) -> Iterator[Diagnostic]:
    """E392: a pattern of lines whose numbers can be told apart, with one for each column and the step."""
    columns, place = pattern_names(pattern), (block.get("pattern") or block).place
    if len(set(columns)) < len(columns) or "" in columns:
        yield problem("E392.names", place)
    if "}{" in pattern:
        yield problem("E392.adjacent", place)
    index = read.epoch or read.step or "step"
    if index not in columns:
        yield problem("E392.index", place, index=index)
    for name, source in read.metrics.items():
        column = source if isinstance(source, str) else source.column if isinstance(source, Column) else None
        if column is not None and column not in columns:
            yield unknown("E392.column", column, columns, metric_node(experiment, name).place)


def _source(is_summary: bool, name: str, source: object, node: Node) -> Iterator[Diagnostic]:
    """E392: a summary gives a single value, other formats a column."""
    if is_summary != isinstance(source, SummaryKeys):
        yield problem("E392.value" if is_summary else "E392.series", node.place, metric=name)
    elif isinstance(source, SummaryKeys):
        given = [key for key in ("last", "mean", "final") if getattr(source, key) is not None]
        if len(given) != 1 or (source.initial is not None and source.final is None):
            yield problem("E392.reductions", key_place(node), metric=name)


def _no_course(read: Import, experiment: Experiment) -> Iterator[Diagnostic]:
    """E393: rules about the course of a metric, and claims on a change, of a summary that has one value."""
    for key in ("stop", "expect"):
        node = experiment.root.get(key)
        if node is not None:
            yield problem("E393", node.key or node.place, key=key)
    for claim, node in experiment.entries(experiment.spec.claims, "claims"):
        source = read.metrics.get(claim.metric)
        if claim.statistic == "change" and isinstance(source, SummaryKeys) and source.initial is None:
            yield problem("E393.change", place_of(node, "statistic"), claim=claim.id, metric=claim.metric)


def _program(spec: CommandSpec, experiment: Experiment) -> Iterator[Diagnostic]:
    """E394 arguments that are not whole values, E395 files that the card does not pin."""
    train, command = spec.train, experiment.node("train", "command")
    for index, argument in enumerate(train.command):
        place = command.value[index].place
        yield from _argument(index, argument, place)
        if argument not in train.code and "\0" not in argument and len(argument) < 400 and os.path.isfile(argument):
            yield problem("E395.undeclared", place, path=argument, files=", ".join([*train.code, argument]))
    if not {"{card}", "{out}"} & set(train.command):
        yield problem("E394.nowhere", command.key or command.place)
    for path, node in experiment.entries(train.code, "train", "code"):
        if not os.path.isfile(path):
            yield problem("E395", node.place, path=path, folder=Path(path).parent.as_posix())
    for name, condition in spec.conditions.items():
        for key in condition.train:
            if key != "settings":
                node = experiment.node("conditions", name)
                yield problem("E394.condition", (node.get("train", key) or node).key, key=key[:40])


def _argument(index: int, argument: str, place: Place) -> Iterator[Diagnostic]:
    braces = _BRACES.findall(argument)
    if "\0" in argument or (index == 0 and not argument.strip()):
        yield problem("E394", place)
    elif braces and argument not in PLACEHOLDERS:
        inside = [text for text in braces if text in PLACEHOLDERS]
        meant = inside[0] if inside else nearest(braces[0], PLACEHOLDERS) or "{card}"
        form, quoted = ("E394.inside" if inside else "E394.unknown"), [f"`{name}`" for name in PLACEHOLDERS]
        yield problem(form, place, placeholder=braces[0][:40], meant=meant, known=quoted)
