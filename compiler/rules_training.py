"""Rules about training settings: what would fail, or mean nothing, hours later on a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd

from compiler.expand import Expansion
from compiler.experiment import Experiment
from compiler.inputs import Inputs
from compiler.parse import key_place
from stages.contracts.diagnostic import Diagnostic, Note


def groups_are_whole(of: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    """A generation batch holds whole groups, and preflight at least one."""
    processes = max(1, of.spec.resources.gpus)
    for setup in expansion.setups:
        train, node = setup.train, setup.train_node
        batch = train.generation_batch_size * processes
        if batch % train.num_generations:
            written = node.get("num_generations") or node.get("per_device_train_batch_size") or node.get("gradient_accumulation_steps")
            device = "GPU" if of.spec.resources.gpus else "CPU process"
            arithmetic = (
                f"{train.per_device_train_batch_size} per device x {train.gradient_accumulation_steps} accumulation steps"
                f" x {processes} {device} = {batch}"
            )
            other = node.get("gradient_accumulation_steps") or node.get("per_device_train_batch_size")
            yield Diagnostic(
                "E304",
                f"a generation batch of {batch} cannot be split into groups of {train.num_generations}",
                why="GRPO compares completions of one prompt with each other, so every group must be whole",
                fix=_whole_groups(train.per_device_train_batch_size * processes, train.gradient_accumulation_steps, train.num_generations),
                place=written.place if written else key_place(node),
                notes=(Note(other.place if other and other is not written else None, arithmetic),),
            )
        elif of.spec.preflight.completions < train.num_generations:
            written = of.root.get("preflight", "completions")
            yield Diagnostic(
                "E329",
                f"{of.spec.preflight.completions} completions hold no whole group of {train.num_generations}",
                why="preflight asks whether groups have a reward spread, so it needs at least one group",
                fix=f"set `completions: {8 * train.num_generations}`",
                place=written.place if written else of.node("conditions").place,
            )


def _whole_groups(per_step: int, accumulation: int, group: int) -> str:
    """Changes of one key each that make the batch divisible."""
    unit = group // gcd(per_step, group)
    below, above = accumulation // unit * unit, (accumulation // unit + 1) * unit
    steps = [f"`{value}` (batch {per_step * value})" for value in (below, above) if value > 0]
    batch = per_step * accumulation
    near = (size for distance in range(1, 10_000) for size in (group - distance, group + distance))
    size = next((size for size in near if 2 <= size <= batch and batch % size == 0), None)
    steps[0] = "`gradient_accumulation_steps: " + steps[0][1:]
    return f"set {' or '.join(steps)}" + (f", or `num_generations: {size}`" if size else "")


def save_steps_are_reached(of: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    """A run that never saves starts from nothing after a crash."""
    for setup in expansion.setups:
        if setup.train.save_steps > setup.train.max_steps:
            written = setup.train_node.get("save_steps")
            yield Diagnostic(
                "W303",
                f"no checkpoint is saved: every {setup.train.save_steps} steps of {setup.train.max_steps}",
                why="a killed run resumes from its last checkpoint; without one it starts from nothing",
                fix=f"set `save_steps: {max(1, setup.train.max_steps // 3)}`",
                place=written.place if written else key_place(setup.train_node),
                severity="warning",
            )


RULES = (groups_are_whole, save_steps_are_reached)
