"""Checks of what lies beside the spec: data files, rows that examples name, columns that gates read, the base model and its context."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from compiler.build.inputs import UNPINNED, BaseModel, DataFile, Inputs
from compiler.build.revisions import Reference
from compiler.checks import prompts
from compiler.document.node import Node
from compiler.document.validate import place_of
from compiler.language.expand import Expansion, Setup
from compiler.language.experiment import Experiment
from compiler.language.rewards import GateUse
from compiler.problems import Fault, problem, unknown
from stages.contracts.diagnostic import Diagnostic
from stages.contracts.model import PromptData
from stages.contracts.plugin import declared
from stages.contracts.training import SampledSettings


def check(experiment: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    evaluation = experiment.spec.data.evaluation
    nodes = {id(setup.data_node): (setup.data_node, setup.data.prompt, setup.data.rows) for setup in expansion.setups}
    for node, prompt, rows in nodes.values():
        yield from _rows(experiment, node, prompt, rows, inputs)
    if evaluation is not None:
        yield from _rows(experiment, experiment.node("data", "evaluation"), evaluation.prompt, evaluation.rows, inputs)
    yield from prompts.check(experiment, inputs)
    for setup in expansion.setups:
        yield from _prompts_of_a_step(setup, inputs)
    yield from _example_rows(experiment, expansion, inputs)
    yield from _columns(experiment, expansion, inputs)
    yield from _base_model(experiment, expansion, inputs)
    if evaluation is not None and experiment.spec.evaluation is not None:
        yield from _held_out(evaluation, experiment, expansion, inputs)


def _rows(experiment: Experiment, node: Node, prompt: str, rows: int | None, inputs: Inputs) -> Iterator[Diagnostic]:
    """The file or the pinned data set is there, with enough rows and a prompt in each."""
    path, hub = node.get("path"), node.get("hub")
    if hub is not None:
        yield from _pinned(hub, Reference("datasets", hub.value), inputs)
    if path is None:
        return
    try:
        data = inputs.data(path.value)
    except Fault as fault:
        yield fault.at(path.place)
        return
    if rows is not None and rows > len(data.rows):
        yield problem("E317", place_of(node, "rows", "path"), file=data.path, rows=len(data.rows), wanted=rows)
    yield from prompts.rows(experiment, node, prompt, data, rows)


def _pinned(hub: Node, reference: Reference, inputs: Inputs) -> Iterator[Diagnostic]:
    """E375, or W376 while a spec is only checked."""
    try:
        if inputs.commit(reference) == UNPINNED:
            yield problem("W376", hub.place, name=reference.name)
    except Fault as fault:
        yield fault.at(hub.place)


def readable(path: str | None, inputs: Inputs) -> DataFile | None:
    """A data file; None if it cannot be read, which a problem at its path says, or lies on the hub."""
    try:
        return inputs.data(path)
    except Fault:
        return None


def prompt_tokens(experiment: Experiment, data: PromptData, file: DataFile, answer: str | None = None) -> tuple[int, int]:
    """Bounds on the tokens of the longest prompt, or of prompts with their answers, without those of a chat template: white space splits
    tokens, and a byte-level tokenizer makes at most one token of a byte."""
    texts = prompts.texts_of(experiment, data, file)
    wholes = [f"{text} {file.rows[name][answer]}" if answer else text for name, text in texts.items()]
    return max((len(text.split()) for text in wholes), default=0), max((len(text.encode()) for text in wholes), default=0)


def _prompts_of_a_step(setup: Setup, inputs: Inputs) -> Iterator[Diagnostic]:
    data = readable(setup.data.path, inputs)
    rows = min(len(data.rows), setup.data.rows or len(data.rows)) if data else 0
    if data and setup.train.prompts_per_batch > rows:
        yield problem("E333", place_of(setup.data_node, "rows", "path"), prompts=setup.train.prompts_per_batch, rows=rows)


def _example_rows(experiment: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    checked: set[tuple[str, str | None]] = set()
    for setup in expansion.setups:
        name = setup.reward.declared
        if name is None or (name, setup.data.path) in checked:
            continue
        checked.add((name, setup.data.path))
        examples = enumerate(experiment.spec.rewards[name].examples)
        references = [(index, row) for index, example in examples if isinstance(row := example.row, str)]
        named = [(row, experiment.node("rewards", name, "examples", index, "row").place) for index, row in references]
        if setup.data.path is None:
            yield from (problem("E379", place, data=setup.data.hub) for _, place in named)
            continue
        if data := readable(setup.data.path, inputs):
            yield from (unknown("E312", row, data.rows, place, file=data.path) for row, place in named if row not in data.rows)


def _columns(experiment: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    """E378 when no row of a file has a column that a gate reads, W378 when some have none. Rows of hub datasets are not read here."""
    evaluation = experiment.spec.data.evaluation if experiment.spec.evaluation is not None else None
    uses: list[tuple[PromptData, GateUse]] = [(setup.data, gate) for setup in expansion.setups for gate in setup.reward.gates]
    uses += [(evaluation, gate) for gate in expansion.scores] if evaluation is not None else []
    read = {}
    for data, gate in uses:
        for key in declared(gate.card.kind, "COLUMNS"):
            value = gate.card.settings.get(key)
            for column in [value] if isinstance(value, str) else value or ():
                read[data.path, data.rows, gate.card.name, key, column] = gate
    for (path, count, _, key, column), gate in read.items():
        if file := readable(path, inputs):
            yield from _column(file, count, gate, key, column)


def _column(file: DataFile, count: int | None, gate: GateUse, key: str, column: str) -> Iterator[Diagnostic]:
    rows = list(islice(file.rows.items(), count))
    lacking = [name for name, row in rows if row.get(column) is None]
    place, facts = place_of(gate.node, key), {"file": file.path, "column": column, "gate": gate.card.name}
    if lacking and len(lacking) < len(rows):
        yield problem("W378", place, None, lacking=len(lacking), rows=len(rows), row=lacking[0], **facts)
    elif lacking:
        columns = dict.fromkeys(name for _, row in rows[:100] for name in row if name != "id")
        yield unknown("E378", column, columns, place, None, key=key, all=", ".join(columns), **facts)


def _base_model(experiment: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    """The model is there, can be quantised, and prompts with their completions fit into its context."""
    node = experiment.node("model", "base")
    try:
        model = inputs.model(experiment.spec.model.base)
    except Fault as fault:
        yield fault.at(node.place)
        return
    if model.hub:
        yield from _pinned(node, Reference("models", model.path), inputs)
    if experiment.spec.model.quantization == "nf4" and not experiment.spec.resources.gpus:
        # bitsandbytes packs NF4 weights on a CPU in blocks of 64; other sizes end the process
        place = experiment.node("model", "quantization").place
        for name, size in model.sizes:
            if size % 64:
                yield problem("E380", place, model=experiment.spec.model.base, name=name, size=size)
    for setup in expansion.setups:
        if model.max_positions is not None and isinstance(setup.train, SampledSettings) and (file := readable(setup.data.path, inputs)):
            yield from _context(setup, setup.train.max_completion_length, prompt_tokens(experiment, setup.data, file), model)


def _context(setup: Setup, length: int, prompt: tuple[int, int], model: BaseModel) -> Iterator[Diagnostic]:
    """`prompt`: bounds on the tokens of the longest."""
    limit, (fewest, most) = model.max_positions or 0, prompt
    fix = f"set `max_completion_length: {limit - most}`" if most < limit else "use shorter prompts or a model with a longer context"
    code = "E309" if length + fewest > limit else "W305" if model.card and length + most > limit else None
    if code is not None:
        place = place_of(setup.train_node, "max_completion_length")
        yield problem(code, place, fewest=fewest, most=most, length=length, limit=limit, fix=fix)


def _held_out(evaluation: PromptData, experiment: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    """W310 when evaluation prompts are trained on."""
    held_out = _prompts(experiment, evaluation, inputs)
    for data in {setup.data.path: setup.data for setup in reversed(expansion.setups)}.values():
        trained = {*_prompts(experiment, data, inputs)}
        both = sum(prompt in trained for prompt in held_out)
        if both:
            place = experiment.node("data", "evaluation", "path").place
            yield problem("W310", place, both=both, all=len(held_out), file=data.path)


def _prompts(experiment: Experiment, data: PromptData, inputs: Inputs) -> list[str]:
    file = readable(data.path, inputs)
    return [*prompts.texts_of(experiment, data, file).values()] if file else []
