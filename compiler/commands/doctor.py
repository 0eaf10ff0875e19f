"""`octavo doctor`: what the live experiments need, what this machine has, and what to type for the rest.

Works in a half-installed environment: nothing but the standard library is imported before a check needs it. Prints no secrets,
no names of machines or people, and no absolute paths.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Literal

Status = Literal["ok", "missing", "optional"]


@dataclass(frozen=True)
class Line:
    """One thing that was looked for. `missing` is needed by a live experiment or by octavo itself; `install` is something to type."""

    name: str
    status: Status
    found: str
    install: str = ""


@dataclass(frozen=True)
class Needs:
    """What the live experiments ask of a machine. `problem` says why the specs could not be asked; then everything is needed."""

    experiments: tuple[str, ...]
    gpu: tuple[str, ...]
    """Experiments that train on a GPU."""
    sandbox: tuple[str, ...]
    """Kinds of gates that run model-written code."""
    problem: str = ""
    repair: str = ""
    """What to type for the problem."""
    hub: tuple[tuple[str, str, str], ...] = ()
    """(models or datasets, name, commit) of hub repositories."""
    per_run: tuple[tuple[str, int, int | None], ...] = ()
    """(experiment, GPUs, bytes of memory on each or None) of those that train on GPUs."""
    quantized: tuple[str, ...] = ()
    """Experiments whose base model is loaded in fewer bits."""


def main(as_json: bool) -> int:
    """Print what was found; 1 when something needed is missing."""
    needs = live_needs()
    lines = list(examine(needs))
    if as_json:
        print(json.dumps({"live": needs.experiments, "lines": [asdict(line) for line in lines]}, indent=2))
    else:
        print(f"live experiments: {', '.join(needs.experiments) or 'none'}")
        for line in lines:
            print(f"{line.status:<9} {line.name:<18} {line.found}")
            if line.install:
                print(f"{'':<28} {line.install}")
    return 1 if any(line.status == "missing" for line in lines) else 0


def examine(needs: Needs) -> Iterator[Line]:
    """All checks, in the order in which one would repair what they find."""
    from compiler.commands import doctor_hub, doctor_machine, doctor_proofs, doctor_python

    if needs.problem:
        yield Line("specs", "missing", needs.problem, needs.repair or "octavo check")
    yield from doctor_python.checks()
    yield from doctor_machine.checks(needs)
    yield from doctor_hub.checks(needs)
    yield from doctor_proofs.checks(needs)


def live_needs() -> Needs:
    """Asked of the specs themselves, when octavo is installed well enough to read them."""
    try:
        from compiler.build.inputs import Inputs
        from compiler.build.pipeline import live
        from compiler.compile import compile_all
        from compiler.problems import Rejected, errors
        from stages.contracts.plugin import GATES, load
    except ImportError as error:
        return Needs((), (), (), f"cannot be read: {error.name or error} is not installed")
    try:
        compiled = compile_all(live(Inputs()), Inputs())
    except Rejected as rejected:
        first = errors(rejected.diagnostics)[0]
        where = f"{first.place.file}:{first.place.line}: " if first.place else ""
        repair = first.fix if first.place is None or first.fix.startswith("octavo ") else "octavo check"
        return Needs((), (), (), f"cannot be compiled: {where}{first.code} {first.what}", repair)
    used = {use.card.kind for one in compiled for setup in one.expansion.setups for use in setup.reward.gates}
    used |= {use.card.kind for one in compiled for use in one.expansion.scores}
    return Needs(
        tuple(one.experiment.name for one in compiled),
        tuple(one.experiment.name for one in compiled if one.experiment.spec.resources.gpus),
        tuple(kind for kind in sorted(used) if hasattr(load(GATES, kind), "tier")),
        per_run=tuple(
            (one.experiment.name, asked.gpus, asked.gpu_memory) for one in compiled if (asked := one.experiment.spec.resources).gpus
        ),
        quantized=tuple(one.experiment.name for one in compiled if one.experiment.spec.model.quantization != "none"),
        hub=tuple(sorted({found for one in compiled for found in one.cards.on_hub()})),
    )
