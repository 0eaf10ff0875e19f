"""Rules about training settings: what would fail, or mean nothing, hours later on a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd

from compiler.build.inputs import Inputs
from compiler.document.validate import key_place
from compiler.language.expand import Expansion
from compiler.language.experiment import Experiment
from stages.contracts.diagnostic import Diagnostic, Note
from stages.contracts.grouped import GroupedSettings
from stages.contracts.optimized import OptimizedSettings


def groups_are_whole(of: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    """A generation batch holds whole groups, and preflight at least one."""
    processes = max(1, of.spec.resources.gpus)
    for setup in expansion.setups:
        train, node = setup.train, setup.train_node
        if not isinstance(train, GroupedSettings):
            continue
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
                why=f"{train.algorithm.upper()} compares completions of one prompt with each other, so every group must be whole",
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
        if isinstance(setup.train, OptimizedSettings) and setup.train.save_steps > setup.train.max_steps:
            written = setup.train_node.get("save_steps")
            yield Diagnostic(
                "W303",
                f"no checkpoint is saved: every {setup.train.save_steps} steps of {setup.train.max_steps}",
                why="a killed run resumes from its last checkpoint; without one it starts from nothing",
                fix=f"set `save_steps: {max(1, setup.train.max_steps // 3)}`",
                place=written.place if written else key_place(setup.train_node),
                severity="warning",
            )


def warm_up_is_used_and_ends(of: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    """E355 a warm-up that the schedule ignores, E356 one that outlasts the training."""
    for setup in expansion.setups:
        train, written = setup.train, setup.train_node.get("warmup_steps")
        if written is None or not isinstance(train, OptimizedSettings) or train.warmup_steps == 0:
            continue
        if train.lr_scheduler_type == "constant":
            schedule = setup.train_node.get("lr_scheduler_type")
            yield Diagnostic(
                "E355",
                f"`warmup_steps: {train.warmup_steps}` means nothing with the schedule `constant`",
                why="transformers ignores the warm-up of this schedule in silence: the first step has the full learning rate",
                fix="set `lr_scheduler_type: constant_with_warmup`, or delete `warmup_steps`",
                place=written.place,
                notes=(Note(schedule.place if schedule else None, f"the schedule{'' if schedule else ', a default'}"),),
            )
        elif train.warmup_steps >= train.max_steps and of.profile is None:
            yield Diagnostic(
                "E356",
                f"a warm-up of {train.warmup_steps} steps in a training of {train.max_steps}",
                why="the learning rate that the spec names would never be reached",
                fix=f"set `warmup_steps: {train.max_steps // 10}`",
                place=written.place,
            )


def null_controls_have_no_signal(of: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    """E357: a null control that is rewarded for something is a treatment under another name."""
    for setup in expansion.setups:
        if setup.condition.role == "null_control" and any(gate.card.kind != "constant" for gate in setup.reward.gates):
            role = setup.node.get("role")
            yield Diagnostic(
                "E357",
                f"the null control `{setup.name}` is rewarded by {setup.reward.name}",
                why="a null control is trained without a signal; its movement is the noise floor of every contrast",
                fix="reward: {constant: 0.0}, or role: control",
                place=setup.reward.node.place,
                notes=(Note(role.place if role else None, "its role"),),
            )


RULES = (groups_are_whole, save_steps_are_reached, warm_up_is_used_and_ends, null_controls_have_no_signal)
