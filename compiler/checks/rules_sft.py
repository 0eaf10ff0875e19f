"""Rules about conditions that are trained on gold answers: answers that are there and fit, and nothing that only a reward needs."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.build.base_models import MADE
from compiler.build.data_files import DataFile
from compiler.build.inputs import Inputs
from compiler.build.resolve import ANSWER
from compiler.document.validate import key_place
from compiler.language.expand import Expansion, Setup
from compiler.language.experiment import Experiment
from compiler.problems import Fault, nearest
from stages.contracts.algorithms import SFT
from stages.contracts.diagnostic import Diagnostic, Note
from stages.contracts.sft import SftSettings


def _supervised(expansion: Expansion) -> Iterator[tuple[Setup, SftSettings]]:
    for setup in expansion.setups:
        if isinstance(setup.train, SftSettings):
            yield setup, setup.train


def gold_answers_need_no_reward(of: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    """E221 a reward beside gold answers, E222 a null control that learns from them."""
    for setup, _ in _supervised(expansion):
        named = setup.train_node.get("algorithm")
        notes = (Note(named.place, "its algorithm"),) if named is not None else ()
        reward, role = setup.node.get("reward"), setup.node.get("role")
        if reward is not None and reward.value is not None:
            yield Diagnostic(
                "E221",
                f"`{setup.name}` is trained on gold answers, and has a reward",
                why="`sft` imitates the gold answer of each prompt; a reward would look as if it had an effect",
                fix="delete `reward`; score the trained model in `evaluation: {scores: [...]}`",
                place=reward.key or reward.place,
                notes=notes,
            )
        if setup.condition.role == "null_control":
            yield Diagnostic(
                "E222",
                f"the null control `{setup.name}` is trained on gold answers",
                why="a null control is trained without a signal; its movement is the noise floor of every contrast",
                fix="role: control, or give it `reward: {constant: 0.0}` and another algorithm",
                place=role.place if role else setup.node.place,
                notes=notes,
            )


def gold_answers_are_there(of: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    """E223 rows without one, E224 pairs longer than `max_length`, W324 pairs that may be."""
    seen: set[tuple[str | None, int | None, str, str, int]] = set()
    for setup, train in _supervised(expansion):
        key = setup.data.answer or ANSWER
        asked = (setup.data.path, setup.data.rows, setup.data.prompt, key, train.max_length)
        if asked in seen:
            continue
        seen.add(asked)
        try:
            found = inputs.data(setup.data.path)
        except Fault:
            continue
        rows = list(found.rows.items())[: setup.data.rows]
        lacking = [name for name, row in rows if not (isinstance(text := row.get(key), str) and text.strip())]
        if lacking:
            yield _without(setup, key, found, lacking, len(rows))
        else:
            yield from _too_long(setup, train, key, found, of.spec.model.base.startswith(MADE))


def _without(setup: Setup, key: str, data: DataFile, lacking: list[str], rows: int) -> Diagnostic:
    written = setup.data_node.get("answer") or setup.data_node.get("path")
    texts = [name for name, value in data.rows[lacking[0]].items() if isinstance(value, str) and name not in ("id", setup.data.prompt)]
    meant = nearest(key, texts) or (texts[0] if len(lacking) == rows and texts else None)
    none = len(lacking) == rows
    return Diagnostic(
        "E223",
        (f"no row of `{data.path}` has" if none else f"{len(lacking)} of {rows} rows of `{data.path}` lack")
        + f" a text `{key}`, the gold answer that `{setup.name}` learns"
        + ("" if none else f": `{lacking[0]}` ..."),
        why="`sft` learns the gold answer of every prompt; `data.train.answer` names its key",
        fix=f"set `answer: {meant}`" if meant and meant != key else f"give every row a `{key}`, or take those rows out",
        place=written.place if written else key_place(setup.data_node),
    )


def _too_long(setup: Setup, train: SftSettings, key: str, data: DataFile, made: bool) -> Iterator[Diagnostic]:
    """White space splits tokens, and a byte-level tokenizer makes at most one of a byte; the end of text is one more."""
    pairs = [f"{row[setup.data.prompt]} {row[key]}" for row in list(data.rows.values())[: setup.data.rows] if row.get(setup.data.prompt)]
    fewest = max((len(text.split()) for text in pairs), default=0) + 1
    most = max((len(text.encode()) for text in pairs), default=0)
    written = setup.train_node.get("max_length")
    place = written.place if written else key_place(setup.train_node)
    if fewest > train.max_length:
        yield Diagnostic(
            "E224",
            f"a pair of prompt and answer has at least {fewest} tokens, more than `max_length: {train.max_length}`",
            why="a cut answer would teach the model never to end, so such a run stops before its first step",
            fix=f"set `max_length: {most}`, or take long rows out",
            place=place,
        )
    elif made and most > train.max_length:
        yield Diagnostic(
            "W324",
            f"a pair of prompt and answer may have up to {most} tokens, more than `max_length: {train.max_length}`",
            why="the longest pair has so many bytes; if it is longer in tokens too, the run stops before its first step",
            fix=f"set `max_length: {most}`",
            place=place,
            severity="warning",
        )


def pairs_fit_into_the_model(of: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    """E225: positions beyond the model's context."""
    try:
        limit = inputs.model(of.spec.model.base).max_positions
    except Fault:
        return
    for setup, train in _supervised(expansion):
        if limit is not None and train.max_length > limit:
            written = setup.train_node.get("max_length")
            default = "" if written else " (its default)"
            yield Diagnostic(
                "E225",
                f"`max_length: {train.max_length}`{default} exceeds the model's context of {limit}",
                why="positions beyond the context were never trained, or do not exist",
                fix=f"set `max_length: {limit}`",
                place=written.place if written else key_place(setup.node.get("train") or setup.train_node),
            )


def answers_are_read(of: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    """E226: a key of gold answers that no condition learns from."""
    if any(_supervised(expansion)) or len(expansion.setups) != len(of.spec.conditions):
        return
    written = [of.root.get("data", "train", "answer"), *(setup.node.get("data", "train", "answer") for setup in expansion.setups)]
    for node in written:
        if node is not None and node.value is not None:
            yield Diagnostic(
                "E226",
                "`answer` names gold answers, and no condition is trained on them",
                why="only `algorithm: sft` reads gold answers; gates name the columns that they read themselves",
                fix="delete `answer`, or give a condition `train: {algorithm: sft}`",
                place=node.key or node.place,
            )


def whole_models_are_trained_by_sft(of: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    """E227 all weights under a reward, E228 all weights of a quantised model, W323 keys of LoRA beside them."""
    for setup in expansion.setups:
        kind = setup.adapter_node.get("kind")
        if setup.adapter.kind != "full" or kind is None:
            continue
        if setup.train.algorithm != SFT:
            yield Diagnostic(
                "E227",
                f"`{setup.name}` would train all weights with `{setup.train.algorithm}`",
                why="algorithms with a reward need the untrained model beside the trained one; with an adapter both are one model",
                fix="kind: lora, or train it with `algorithm: sft`",
                place=kind.place,
            )
        elif of.spec.model.quantization != "none":
            quantization = of.node("model", "quantization")
            yield Diagnostic(
                "E228",
                f"all weights of a model in {of.spec.model.quantization} cannot be trained",
                why="weights in few bits have no gradient; an adapter beside them has",
                fix="kind: lora, or quantization: none",
                place=kind.place,
                notes=(Note(quantization.place, "its weights"),),
            )
        for key in ("r", "lora_alpha", "lora_dropout", "target_modules"):
            written = setup.adapter_node.get(key)
            if written is not None and written.layer == kind.layer:  # a condition may train all weights beside adapters of others
                yield Diagnostic(
                    "W323",
                    f"`{key}` means nothing when all weights are trained",
                    why="it is a setting of LoRA",
                    fix=f"delete `{key}`, or set `kind: lora`",
                    place=written.key or written.place,
                    severity="warning",
                )


def evaluations_know_how_long(of: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    """E229: gold answers say nothing of how long a sampled one may be."""
    evaluation = of.spec.evaluation
    if evaluation is None or evaluation.max_completion_length is not None or not expansion.setups:
        return
    if all(setup.train.algorithm == SFT for setup in expansion.setups):
        yield Diagnostic(
            "E229",
            "the evaluation does not say how long a completion may be",
            why="it takes the length from training when that samples, and here no condition does",
            fix="evaluation: {max_completion_length: 256}",
            place=of.node("evaluation").key,
        )


def nothing_is_sampled(of: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    """W321 a guard about sampling, W322 a preflight that nothing needs."""
    said: set[int] = set()
    alone = all(setup.train.algorithm == SFT for setup in expansion.setups)
    for setup, _ in _supervised(expansion):
        guard = setup.train_node.get("guards", "remove_invalid_logits")
        if guard is not None and guard.value and (alone or guard.layer == "condition") and id(guard) not in said:
            said.add(id(guard))
            yield Diagnostic(
                "W321",
                "`remove_invalid_logits` means nothing under `sft`",
                why="it repairs logits before a token is sampled, and gold answers are not sampled",
                fix="delete it",
                place=guard.key or guard.place,
                severity="warning",
            )
    preflight = of.root.get("preflight")
    if preflight is not None and expansion.setups and alone:
        yield Diagnostic(
            "W322",
            "`preflight` means nothing here: no condition has a reward",
            why="it asks before training what a reward says of the untrained model's completions",
            fix="delete `preflight`",
            place=preflight.key or preflight.place,
            severity="warning",
        )


def learning_rates_are_meant(of: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    """W325: a condition on gold answers with the learning rate of the others."""
    base = of.root.get("train", "learning_rate")
    for setup, train in _supervised(expansion):
        own, named = setup.node.get("train", "learning_rate"), setup.node.get("train", "algorithm")
        if named is not None and own is None and base is not None and of.profile is None:
            yield Diagnostic(
                "W325",
                f"`{setup.name}` learns gold answers with the learning rate of the conditions with a reward, {train.learning_rate:g}",
                why="the two losses have other gradients, and a rate that suits one is mostly wrong for the other by a factor of ten",
                fix=f"write the one that is meant: `train: {{algorithm: sft, learning_rate: {train.learning_rate:g}}}`",
                place=named.place,
                notes=(Note(base.place, "the shared one"),),
                severity="warning",
            )


RULES = (
    gold_answers_need_no_reward,
    gold_answers_are_there,
    pairs_fit_into_the_model,
    answers_are_read,
    whole_models_are_trained_by_sft,
    evaluations_know_how_long,
    nothing_is_sampled,
    learning_rates_are_meant,
)
