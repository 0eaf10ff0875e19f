"""Checks of the keys that TRL and PEFT act on: what they would ignore, refuse after the model is loaded, or do otherwise than it seems."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.build.inputs import Inputs
from compiler.document.node import Node
from compiler.document.validate import place_of
from compiler.language.expand import Expansion, Setup
from compiler.language.experiment import Experiment
from compiler.problems import problem
from stages.contracts.diagnostic import Diagnostic
from stages.contracts.model import Adapter
from stages.contracts.ppo import PpoSettings
from stages.contracts.training import GroupedSettings, GrpoSettings

_CLIPPED = ("grpo", "bnpo", "dr_grpo", "dapo", "luspo")
ONLY_WITH: dict[str, tuple[str, tuple[object, ...]]] = {
    **dict.fromkeys(("ref_model_mixup_alpha", "ref_model_sync_steps"), ("sync_ref_model", (True,))),
    **dict.fromkeys(("sapo_temperature_neg", "sapo_temperature_pos"), ("loss_type", ("sapo",))),
    **dict.fromkeys(("vespo_k_pos", "vespo_lambda_pos", "vespo_k_neg", "vespo_lambda_neg"), ("loss_type", ("vespo",))),
    **dict.fromkeys(("entropy_coef_min", "entropy_coef_max", "entropy_coef_delta", "entropy_target"), ("use_adaptive_entropy", (True,))),
    "delta": ("loss_type", _CLIPPED),
    "epsilon_high": ("loss_type", (*_CLIPPED, "cispo")),
}
"""Key -> the key and its values without which TRL ignores it."""
LENGTHS_COUNT = ("bnpo", "dr_grpo", "dapo", "cispo")
"""Losses that add up the tokens of a completion, so that with one ratio a completion long ones count more."""


def check(experiment: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    for setup in expansion.setups:
        train, node = setup.train, setup.train_node
        if isinstance(train, GroupedSettings):
            yield from _ignored(train, node)
            yield from _generation(train, node, experiment)
        if isinstance(train, GrpoSettings):
            yield from _levels(train, node)
        yield from _reference(setup)
        yield from _start(setup, experiment)


def _ignored(train: GroupedSettings, node: Node) -> Iterator[Diagnostic]:
    """E258 keys without an effect."""
    for key, (other, values) in ONLY_WITH.items():
        written = node.get(key)
        if written is not None and getattr(train, other, values[0]) not in values:
            needed = f"`{other}: {str(values[0]).lower()}`" if len(values) == 1 else f"one of `{other}`: {', '.join(map(str, values))}"
            yield problem("E258", written.key or written.place, None, key=key, needed=needed)


def _generation(train: GroupedSettings, node: Node, experiment: Experiment) -> Iterator[Diagnostic]:
    """E257 a generation batch that ends within an optimizer step, W327 checkpoints within one, E249 limits that an engine ignores."""
    steps, accumulation = train.steps_per_generation, train.gradient_accumulation_steps
    if steps is not None and steps % accumulation:
        fix = accumulation * -(-steps // accumulation)
        yield problem("E257", place_of(node, "steps_per_generation"), None, steps=steps, accumulation=accumulation, fix=fix)
    elif experiment.is_evidence and train.micro_steps > accumulation and train.save_steps * accumulation % train.micro_steps:
        whole = train.micro_steps // accumulation
        place = place_of(node, "save_steps", "steps_per_generation", "num_iterations")
        yield problem("W327", place, None, save=train.save_steps, whole=whole, fix=whole * -(-train.save_steps // whole))
    if train.generation is not None and train.generation.engine == "continuous_batching":
        for key in ("min_p", "repetition_penalty"):
            if node.get(key) is not None:
                yield problem("E249", place_of(node, key), place_of(node, "generation.engine"), key=key)


def _levels(train: GrpoSettings, node: Node) -> Iterator[Diagnostic]:
    """W328 a loss whose tokens do not go with the level of the ratio."""
    level, loss = train.importance_sampling_level, train.loss_type
    fix = None
    if level == "sequence" and loss in LENGTHS_COUNT:
        fix = "`loss_type: grpo`, as in the GSPO paper"
    elif level == "sequence" and loss == "vespo":
        fix = "`importance_sampling_level: token`: vespo makes a ratio of the completion itself"
    elif level == "token" and loss == "luspo":
        fix = "`importance_sampling_level: sequence`, as in the LUSPO paper"
    if fix is not None:
        yield problem("W328", place_of(node, "importance_sampling_level", "loss_type"), None, level=level, loss=loss, fix=fix)


def _reference(setup: Setup) -> Iterator[Diagnostic]:
    """E255 a reference model that cannot move, E259 one that would not be the untrained model."""
    train, adapter, node = setup.train, setup.adapter, setup.train_node
    beta = train.kl.init_kl_coef if isinstance(train, PpoSettings) else getattr(train, "beta", 0.0)
    if isinstance(train, GroupedSettings) and train.sync_ref_model:
        if adapter.kind != "full":
            yield problem("E255", place_of(node, "sync_ref_model"), None)
        elif not beta:
            yield problem("E255.beta", place_of(node, "sync_ref_model"), None)
    if beta and adapter.kind == "lora":
        for key, plain in (("init_lora_weights", Adapter.ADDITIVE), ("bias", ("none",))):
            value = getattr(adapter, key)
            if value not in plain:
                yield problem("E259", place_of(setup.adapter_node, key), place_of(node, "beta", "kl.init_kl_coef"), key=key, value=value)


def _start(setup: Setup, experiment: Experiment) -> Iterator[Diagnostic]:
    """E228 an adapter that begins with a part of weights in few bits, E258 layers of modules that are not listed."""
    if setup.adapter.layers_to_transform and isinstance(setup.adapter.target_modules, str):
        place = place_of(setup.adapter_node, "layers_to_transform")
        yield problem("E258.layers", place, None, key="layers_to_transform", needed="a list of `target_modules`")
    quantization = experiment.spec.model.quantization
    if setup.adapter.kind == "lora" and setup.adapter.init_lora_weights not in Adapter.ADDITIVE and quantization != "none":
        place, note = place_of(setup.adapter_node, "init_lora_weights"), experiment.node("model", "quantization").place
        yield problem("E228.start", place, note, quantization=quantization, start=setup.adapter.init_lora_weights)
