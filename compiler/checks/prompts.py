"""Checks of what the model reads: columns that the template names, rows that give a prompt, and texts that need a chat template."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from itertools import islice

from compiler.build.inputs import DataFile, Inputs
from compiler.document.node import Node
from compiler.document.validate import place_of
from compiler.language.experiment import Experiment
from compiler.problems import nearest, problem, unknown
from stages.contracts.diagnostic import Diagnostic
from stages.contracts.model import PromptData
from stages.contracts.prompt import PromptFormat, Unfit, columns, messages, shown_text


@functools.cache
def prompt_texts(file: DataFile, prompt: str, rows: int | None, layout: PromptFormat | None, chat: bool) -> dict[str, str]:
    """Row -> what the model reads of it, but for the tokens of a chat template. Rows that give no prompt are left out."""
    texts = {}
    for name, row in islice(file.rows.items(), rows):
        try:
            texts[name] = shown_text(row, prompt, layout, chat)
        except Unfit:
            continue
    return texts


def texts_of(experiment: Experiment, data: PromptData, file: DataFile) -> dict[str, str]:
    """The prompts of a data file, as the spec has them shown."""
    return prompt_texts(file, data.prompt, data.rows, experiment.spec.prompt, experiment.spec.model.apply_chat_template)


def check(experiment: Experiment, inputs: Inputs) -> Iterator[Diagnostic]:
    """E232 a system text without a chat template, E326 an example that lacks what the template names."""
    layout = experiment.spec.prompt
    if layout is None:
        return
    if layout.system is not None and not experiment.spec.model.apply_chat_template:
        yield problem("E232", experiment.node("prompt", "system").place)
    for index, example in enumerate(layout.examples):
        try:
            messages(example.row, "prompt", layout.model_copy(update={"examples": ()}))
        except Unfit as error:
            place = experiment.node("prompt", "examples", index, "row").place
            yield problem("E326.row", place, row=f"of example {index + 1}", why=error)


def rows(experiment: Experiment, node: Node, prompt: str, file: DataFile, count: int | None) -> Iterator[Diagnostic]:
    """E234 a column of the template that no row has, E326 the first row that gives no prompt."""
    layout, chat = experiment.spec.prompt, experiment.spec.model.apply_chat_template
    known = dict.fromkeys(name for row in islice(file.rows.values(), 100) for name in row)
    if layout is not None and layout.template is not None:
        absent = [column for column in columns(layout.template) if all(row.get(column) is None for row in file.rows.values())]
        place = experiment.node("prompt", "template").place
        yield from (unknown("E234", column, known, place, file=file.path) for column in absent)
        if absent:
            return
    for name, row in islice(file.rows.items(), count):
        try:
            shown_text(row, prompt, layout, chat)
        except Unfit as error:
            place = place_of(node, "prompt", "path")
            if row.get(prompt) is not None or (layout is not None and layout.template is not None):
                yield problem("E326.row", place, row=f"`{name}` of `{file.path}`", why=error)
                return
            texts = [key for key, value in row.items() if isinstance(value, str) and key != "id"]
            meant = nearest(prompt, texts) or (texts[0] if texts else None)
            fix = f"set `prompt: {meant}`" if meant else "give every row a prompt"
            yield problem("E326", place, row=name, file=file.path, prompt=prompt, fix=fix)
            return
