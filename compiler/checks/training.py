"""Checks of training settings: what would fail, mean nothing, or not do what its name suggests, hours later on a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from math import gcd

from compiler.build.cards import ANSWER
from compiler.build.inputs import MADE, DataFile, Inputs
from compiler.checks.data import prompt_tokens, readable
from compiler.document.node import Node
from compiler.document.validate import key_place, place_of
from compiler.language.expand import Expansion, Setup
from compiler.language.experiment import Experiment
from compiler.problems import Fault, nearest, problem
from stages.contracts.diagnostic import Diagnostic
from stages.contracts.model import Adapter
from stages.contracts.ppo import PpoSettings
from stages.contracts.training import GroupedSettings, OptimizedSettings, SftSettings

CLIP = 0.2
"""The adaptive controller never reacts to a relative error above this (Ziegler et al. 2019)."""
HIGHEST_RATE = 0.1
"""AdamW moves a weight by about the learning rate at every step, whatever the gradient is; trained weights are about this large."""
MOVES = 1.5
"""A coefficient that cannot even change by this factor in the whole run is as good as fixed."""


def check(experiment: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    for setup in expansion.setups:
        train, node = setup.train, setup.train_node
        if isinstance(train, GroupedSettings):
            yield from _groups(train, node, experiment)
        if isinstance(train, PpoSettings):
            yield from _ppo(train, node, experiment)
            yield from _ppo_without_effect(train, setup)
        if isinstance(train, OptimizedSettings):
            yield from _schedule(train, node, experiment)
        if isinstance(train, GroupedSettings | PpoSettings):
            yield from _engine(train, node, experiment)
        if setup.condition.role == "null_control" and any(gate.card.kind != "constant" for gate in setup.reward.gates):
            role = place_of(setup.node, "role")
            yield problem("E357", setup.reward.node.place, role, condition=setup.name, reward=setup.reward.name)
    yield from _one_gpu(experiment, expansion)
    yield from _halved(experiment, expansion)


def _groups(train: GroupedSettings, node: Node, experiment: Experiment) -> Iterator[Diagnostic]:
    """A generation batch holds whole groups, and preflight at least one."""
    gpus, group, facts = experiment.spec.resources.gpus, train.num_generations, dict(train)
    processes, completions = max(1, gpus), experiment.spec.preflight.completions
    batch = train.generation_batch_size * processes
    if batch % group:
        facts |= {"batch": batch, "processes": processes, "device": "GPU" if gpus else "CPU process", "algorithm": train.algorithm.upper()}
        fix = whole_groups(train.per_device_train_batch_size * processes, train.gradient_accumulation_steps, group)
        places = [node.get(key) for key in ("num_generations", "per_device_train_batch_size", "gradient_accumulation_steps")]
        written = [inner.place for inner in places if inner is not None]
        yield problem("E304", (*written, key_place(node))[0], written[-1] if len(written) > 1 else None, fix=fix, **facts)
    elif completions < group:
        written_in = experiment.root.get("preflight", "completions") or experiment.node("conditions")
        yield problem("E329", written_in.place, completions=completions, group=group, fix=8 * group)


def whole_groups(per_step: int, accumulation: int, group: int) -> str:
    """The next larger accumulation that makes the batch divisible."""
    unit = group // gcd(per_step, group)
    steps = (accumulation // unit + 1) * unit
    return f"`gradient_accumulation_steps: {steps}` (batch {per_step * steps})"


def _schedule(train: OptimizedSettings, node: Node, experiment: Experiment) -> Iterator[Diagnostic]:
    """W303 no checkpoint, W329 a rate that destroys the weights, E355 a warm-up that the schedule ignores, E356 one beyond the training."""
    if train.save_steps > train.max_steps:
        yield problem("W303", place_of(node, "save_steps"), None, **dict(train), fix=max(1, train.max_steps // 3))
    if train.learning_rate > HIGHEST_RATE:
        yield problem("W329", place_of(node, "learning_rate"), learning_rate=train.learning_rate, highest=HIGHEST_RATE)
    key = "warmup_ratio" if train.warmup_ratio else "warmup_steps"
    written, other, schedule = node.get(key), node.get("warmup_steps"), node.get("lr_scheduler_type")
    if written is None or train.warmup == 0:
        return
    if train.lr_scheduler_type == "constant":
        place, default = (schedule.place, "") if schedule else (None, ", a default")
        yield problem("E355", written.place, place, key=key, value=getattr(train, key), default=default)
    elif key == "warmup_ratio" and train.warmup_steps:
        yield problem("E355.both", written.place, other.place if other else None, value=train.warmup_ratio)
    elif train.warmup_steps >= train.max_steps and experiment.is_evidence:
        yield problem("E356", written.place, None, **dict(train), fix=train.max_steps // 10)


def _ppo(train: PpoSettings, node: Node, experiment: Experiment) -> Iterator[Diagnostic]:
    """E381 optimizer steps of two sizes, W382 to W384 KL settings that do not do what they seem to do."""
    step, kl, facts = train.mini_batch_size * train.gradient_accumulation_steps, train.kl, dict(train)
    if train.batch_size % step:
        place = place_of(node, "mini_batch_size", "gradient_accumulation_steps", "batch_size")
        whole = "" if train.batch_size % train.mini_batch_size else ", or `gradient_accumulation_steps: 1`"
        yield problem("E381", place, None, **facts, step=step, fix=step * max(1, round(train.batch_size / step)), whole=whole)
    most = (1 + CLIP * train.batch_size / kl.horizon) ** min(train.max_steps, 10_000)
    if kl.controller == "adaptive" and kl.init_kl_coef > 0 and most < MOVES and experiment.is_evidence:
        horizon = max(1, round(CLIP * train.batch_size * train.max_steps / 2.3))
        place = place_of(node, "kl.horizon", "kl.controller", "batch_size")
        yield problem("W382", place, None, **facts, most=f"{most:.2f}", horizon=horizon)
    is_rescored = train.temperature != train.scored_at
    if kl.estimator == "k1" and kl.init_kl_coef > 0 and (is_rescored or train.top_p < 1):
        fixes = (["set `top_p: 1.0`"] if train.top_p < 1 else []) + (["delete `scoring_temperature`"] if is_rescored else [])
        place = place_of(node, *(["top_p"] if train.top_p < 1 else ["scoring_temperature", "temperature"]))
        bias = "high" if train.temperature > train.scored_at and train.top_p == 1 else "low"
        yield problem("W383", place, None, **facts, scored=train.scored_at, bias=bias, fix=" and ".join(fixes))
    if train.target_kl is not None and kl.controller == "adaptive" and node.get("kl", "target") is None:
        yield problem("W384", place_of(node, "target_kl"), target=train.target_kl, aim=kl.target)


def _ppo_without_effect(train: PpoSettings, setup: Setup) -> Iterator[Diagnostic]:
    """E385 keys of the other KL controller, E386 dropout."""
    for key in ("target", "horizon"):
        written = setup.train_node.get("kl", key)
        if train.kl.controller == "fixed" and written is not None:
            yield problem("E385", written.key or written.place, key=key)
    if setup.adapter.lora_dropout > 0:
        yield problem("E386", place_of(setup.adapter_node, "lora_dropout"), dropout=setup.adapter.lora_dropout)


def _engine(train: GroupedSettings | PpoSettings, section: Node, experiment: Experiment) -> Iterator[Diagnostic]:
    """E245 settings of vLLM without it, E246 an engine without its GPU, E247 `compiled` from 8-bit weights."""
    node = section.get("generation")
    if train.generation is None or node is None:
        return
    engine: str = train.generation.engine
    place = place_of(node, "engine")
    vllm = node.get("vllm") if isinstance(train, GroupedSettings) and train.generation.vllm is not None else None
    if vllm is not None and engine != "vllm":
        yield problem("E245", key_place(vllm), engine=engine)
    if engine in ("vllm", "continuous_batching") and not experiment.spec.resources.gpus:
        yield problem("E246", place, engine=engine)
    if engine == "compiled" and experiment.spec.model.quantization == "int8":
        yield problem("E247", place)


def _one_gpu(experiment: Experiment, expansion: Expansion) -> Iterator[Diagnostic]:
    """E248: an algorithm that trains on one GPU only."""
    gpus = experiment.spec.resources.gpus
    single = next((setup.train for setup in expansion.setups if not isinstance(setup.train, GroupedSettings)), None)
    if gpus > 1 and single is not None:
        yield problem("E248", place_of(experiment.node("resources"), "gpus"), algorithm=single.algorithm.upper(), gpus=gpus)


def _halved(experiment: Experiment, expansion: Expansion) -> Iterator[Diagnostic]:
    """E277: `retries` halves the micro-batch, and an algorithm has none, or an odd one."""
    if experiment.spec.retries is None or experiment.spec.retries.out_of_memory is None:
        return
    for setup in expansion.setups:
        key = setup.train.microbatch_key
        size = getattr(setup.train, key) if key else None
        if size is None or size % 2:
            place, facts = key_place(experiment.node("retries", "out_of_memory")), {"condition": setup.name, "key": key, "size": size}
            yield problem("E277" if size else "E277.none", place, None, algorithm=setup.train.algorithm, **facts)
            return


def supervised(experiment: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
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
    for (path, count, _, answer, limit), setup in read.items():
        if (file := readable(path, inputs)) is None:
            continue
        rows = list(islice(file.rows.items(), count))
        lacking = [name for name, row in rows if not (isinstance(text := row.get(answer), str) and text.strip())]
        if lacking:
            yield _lacking(setup, answer, file, lacking, len(rows))
            continue
        fewest, most = prompt_tokens(experiment, setup.data, file, answer)
        place, fewest = place_of(setup.train_node, "max_length"), fewest + 1  # the end of text is one more
        if fewest > limit:
            yield problem("E224", place, fewest=fewest, most=most, limit=limit)
        elif experiment.spec.model.base.startswith(MADE) and most > limit:
            yield problem("W324", place, most=most, limit=limit)


def _lacking(setup: Setup, key: str, file: DataFile, lacking: list[str], rows: int) -> Diagnostic:
    texts = [name for name, value in file.rows[lacking[0]].items() if isinstance(value, str) and name not in ("id", setup.data.prompt)]
    meant = nearest(key, texts) or (texts[0] if len(lacking) == rows and texts else None)
    facts = {"file": file.path, "lacking": len(lacking), "rows": rows, "key": key, "condition": setup.name, "row": lacking[0]}
    fix = f"set `answer: {meant}`" if meant and meant != key else f"give every row a `{key}`, or take those rows out"
    return problem("E223" if len(lacking) == rows else "E223.some", place_of(setup.data_node, "answer", "path"), None, **facts, fix=fix)


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
    """E227 all weights with PPO or on several GPUs, E228 all weights of a quantised model, W323 keys of LoRA beside them."""
    kind = setup.adapter_node.get("kind")
    if setup.adapter.kind != "full" or kind is None:
        return
    if isinstance(setup.train, PpoSettings):
        yield problem("E227", kind.place, condition=setup.name)
    elif experiment.spec.resources.gpus > 1:
        yield problem("E227.gpus", kind.place, experiment.node("resources", "gpus").place, gpus=experiment.spec.resources.gpus)
    elif experiment.spec.model.quantization != "none":
        note = experiment.node("model", "quantization").place
        yield problem("E228", kind.place, note, quantization=experiment.spec.model.quantization)
    for key in Adapter.model_fields.keys() - {"kind"}:
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
