"""Rules about retries: a change that can be made."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.build.inputs import Inputs
from compiler.document.validate import key_place
from compiler.language.expand import Expansion
from compiler.language.experiment import Experiment
from stages.contracts.diagnostic import Diagnostic


def a_microbatch_can_be_halved(of: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    """E277 when an algorithm has no micro-batches, or an odd one."""
    if of.spec.retries is None or of.spec.retries.out_of_memory is None:
        return
    for setup in expansion.setups:
        key = setup.train.microbatch_key
        size = getattr(setup.train, key) if key else None
        if size is not None and size % 2 == 0:
            continue
        what = f"a micro-batch of {size} cannot be halved" if size else f"`{setup.train.algorithm}` has no micro-batch that could be halved"
        yield Diagnostic(
            "E277",
            f"{what} (condition `{setup.name}`)",
            why="after a lack of memory the next attempt takes half of it and twice the micro-steps, so that every group stays whole",
            fix=f"set an even `{key}`, or delete `out_of_memory`" if key else "delete `out_of_memory`",
            place=key_place(of.node("retries", "out_of_memory")),
        )
        return


RULES = (a_microbatch_can_be_halved,)
