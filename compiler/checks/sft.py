"""Checks of conditions that are trained on gold answers: answers that are there and fit, and nothing that only a reward needs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from compiler.build.cards import ANSWER
from compiler.build.inputs import MADE, DataFile, Inputs
from compiler.checks.data import prompt_tokens, readable
from compiler.document.validate import key_place, place_of
from compiler.language.expand import Expansion, Setup
from compiler.language.experiment import Experiment
from compiler.problems import Fault, nearest, problem
from stages.contracts.algorithms import SFT
from stages.contracts.diagnostic import Diagnostic
from stages.contracts.sft import SftSettings

LORA = ("r", "lora_alpha", "lora_dropout", "target_modules")


def check(experiment: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    supervised = [(setup, setup.train) for setup in expansion.setups if isinstance(setup.train, SftSettings)]
    alone = len(supervised) == len(expansion.setups)
    for setup, train in supervised:
        yield from _no_reward(setup)
        yield from _context(setup, train, experiment, inputs)
        yield from _learning_rate(setup, train, experiment)
    yield from _answers(supervised, experiment, inputs)
    yield from _not_sampled(supervised, alone, experiment)
    for setup in expansion.setups:
        yield from _all_weights(setup, experiment)
    evaluation = experiment.spec.evaluation
    if evaluation is not None and evaluation.max_completion_length is None and supervised and alone:
        yield problem("E229", experiment.node("evaluation").key)
    if not supervised and len(expansion.setups) == len(experiment.spec.conditions):
        yield from _unread_answers(expansion, experiment)


def _no_reward(setup: Setup) -> Iterator[Diagnostic]:
    """E221 a reward beside gold answers, E222 a null control that learns from them."""
    named, reward, role = setup.train_node.get("algorithm"), setup.node.get("reward"), setup.node.get("role")
    note = named.place if named is not None else None
    if reward is not None:
        yield problem("E221", reward.key or reward.place, note, condition=setup.name)
    if setup.condition.role == "null_control":
        yield problem("E222", role.place if role else setup.node.place, note, condition=setup.name)


def _answers(supervised: list[tuple[Setup, SftSettings]], experiment: Experiment, inputs: Inputs) -> Iterator[Diagnostic]:
    """E223 rows without an answer, E224 pairs longer than `max_length`, W324 pairs that may be."""
    read = {}
    for setup, train in supervised:
        data = setup.data
        read[data.path, data.rows, data.prompt, data.answer or ANSWER, train.max_length] = setup
    for (path, count, prompt, answer, limit), setup in read.items():
        if (file := readable(path, inputs)) is None:
            continue
        rows = list(islice(file.rows.items(), count))
        lacking = [name for name, row in rows if not (isinstance(text := row.get(answer), str) and text.strip())]
        if lacking:
            yield _lacking(setup, answer, file, lacking, len(rows))
            continue
        fewest, most = prompt_tokens(file, prompt, count, answer)
        place, fewest = place_of(setup.train_node, "max_length"), fewest + 1  # the end of text is one more
        if fewest > limit:
            yield problem("E224", place, fewest=fewest, most=most, limit=limit)
        elif experiment.spec.model.base.startswith(MADE) and most > limit:
            yield problem("W324", place, most=most, limit=limit)


def _lacking(setup: Setup, key: str, file: DataFile, lacking: list[str], rows: int) -> Diagnostic:
    texts = [name for name, value in file.rows[lacking[0]].items() if isinstance(value, str) and name not in ("id", setup.data.prompt)]
    meant = nearest(key, texts) or (texts[0] if len(lacking) == rows and texts else None)
    return problem(
        "E223" if len(lacking) == rows else "E223.some",
        place_of(setup.data_node, "answer", "path"),
        file=file.path,
        lacking=len(lacking),
        rows=rows,
        key=key,
        condition=setup.name,
        row=lacking[0],
        fix=f"set `answer: {meant}`" if meant and meant != key else f"give every row a `{key}`, or take those rows out",
    )


def _context(setup: Setup, train: SftSettings, experiment: Experiment, inputs: Inputs) -> Iterator[Diagnostic]:
    """E225: positions beyond the model's context."""
    try:
        limit = inputs.model(experiment.spec.model.base).max_positions
    except Fault:
        return
    if limit is not None and train.max_length > limit:
        written = setup.train_node.get("max_length")
        place, default = (written.place, "") if written else (key_place(setup.node.get("train") or setup.train_node), " (its default)")
        yield problem("E225", place, length=train.max_length, default=default, limit=limit)


def _unread_answers(expansion: Expansion, experiment: Experiment) -> Iterator[Diagnostic]:
    """E226: a key of gold answers that no condition learns from."""
    written = [experiment.root.get("data", "train", "answer"), *(setup.node.get("data", "train", "answer") for setup in expansion.setups)]
    for node in written:
        if node is not None:
            yield problem("E226", node.key or node.place)


def _all_weights(setup: Setup, experiment: Experiment) -> Iterator[Diagnostic]:
    """E227 all weights under a reward, E228 all weights of a quantised model, W323 keys of LoRA beside them."""
    kind = setup.adapter_node.get("kind")
    if setup.adapter.kind != "full" or kind is None:
        return
    if setup.train.algorithm != SFT:
        yield problem("E227", kind.place, condition=setup.name, algorithm=setup.train.algorithm)
    elif experiment.spec.model.quantization != "none":
        note = experiment.node("model", "quantization").place
        yield problem("E228", kind.place, note, quantization=experiment.spec.model.quantization)
    for key in LORA:
        written = setup.adapter_node.get(key)
        if written is not None and written.layer == kind.layer:  # a condition may train all weights beside adapters of others
            yield problem("W323", written.key or written.place, key=key)


def _not_sampled(supervised: list[tuple[Setup, SftSettings]], alone: bool, experiment: Experiment) -> Iterator[Diagnostic]:
    """W321 a guard about sampling, W322 a preflight that nothing needs."""
    seen: set[int] = set()
    for setup, _ in supervised:
        guard = setup.train_node.get("guards", "remove_invalid_logits")
        if guard is not None and guard.value and (alone or guard.layer == "condition") and id(guard) not in seen:
            seen.add(id(guard))
            yield problem("W321", guard.key or guard.place)
    preflight = experiment.root.get("preflight")
    if preflight is not None and supervised and alone:
        yield problem("W322", preflight.key or preflight.place)


def _learning_rate(setup: Setup, train: SftSettings, experiment: Experiment) -> Iterator[Diagnostic]:
    """W325: a condition on gold answers with the learning rate of the others."""
    base, named = experiment.root.get("train", "learning_rate"), setup.node.get("train", "algorithm")
    own = setup.node.get("train", "learning_rate")
    if named is not None and own is None and base is not None and experiment.profile is None:
        yield problem("W325", named.place, base.place, condition=setup.name, rate=train.learning_rate)
