"""Rules about what samples the completions while a run trains."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.build.inputs import Inputs
from compiler.document.validate import key_place
from compiler.language.expand import Expansion
from compiler.language.experiment import Experiment
from stages.contracts.diagnostic import Diagnostic
from stages.contracts.grouped import GroupedSettings
from stages.contracts.ppo import PpoSettings


def engines_fit(of: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    """E245 settings of vLLM without it, E246 an engine without its GPU, E247 `compiled` from 8-bit weights."""
    for setup in expansion.setups:
        train, node = setup.train, setup.train_node.get("generation")
        if not isinstance(train, GroupedSettings | PpoSettings) or train.generation is None or node is None:
            continue
        engine, written = train.generation.engine, node.get("engine")
        place = written.place if written is not None else key_place(node)
        vllm = node.get("vllm") if isinstance(train, GroupedSettings) and train.generation.vllm is not None else None
        if vllm is not None and engine != "vllm":
            yield Diagnostic(
                "E245",
                f"`generation.vllm` means nothing with `engine: {engine}`",
                why="a setting that the engine ignored would look as if it had an effect",
                fix="set `engine: vllm`, or delete `vllm`",
                place=key_place(vllm),
            )
        if engine in ("vllm", "continuous_batching") and not of.spec.resources.gpus:
            yield Diagnostic(
                "E246",
                f"`engine: {engine}` generates on a GPU, and this spec trains on a CPU",
                why="`resources.gpus` is 0",
                fix="set `engine: auto`, or resources: {gpus: 1}",
                place=place,
            )
        if engine == "compiled" and of.spec.model.quantization == "int8":
            yield Diagnostic(
                "E247",
                "`engine: compiled` samples from plain weights, and `quantization: int8` rounds activations too",
                why="completions would come from another policy than the one that learns",
                fix="set `engine: transformers`, or quantization: nf4",
                place=place,
            )


def several_gpus_are_used(of: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    """E248: an algorithm that trains on one GPU only."""
    written = of.node("resources").get("gpus") if of.spec.resources.gpus > 1 else None
    for setup in expansion.setups:
        if written is not None and not isinstance(setup.train, GroupedSettings):
            yield Diagnostic(
                "E248",
                f"{setup.train.algorithm.upper()} trains on one GPU, and this spec asks for {of.spec.resources.gpus}",
                why="its trainer is one process here; the other GPUs would stand idle",
                fix="set `gpus: 1`, or train with `grpo` or `rloo`",
                place=written.place,
            )
            return


RULES = (engines_fit, several_gpus_are_used)
