"""Which isolation holds on this machine: found by running attacks, never by looking at versions. No tier, no model code."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from stages.train.verifiers import attacks, isolation, python_answers, seccomp
from stages.train.verifiers.box import Box, Ended, Order
from stages.train.verifiers.isolation import Program, Tier
from stages.train.verifiers.python_answers import Job
from stages.train.verifiers.verdict import VerifierFault, VerifierUnavailable


@functools.cache
def tier() -> Tier:
    """The strongest tier that holds, for ledgers and for the verifiers. Raises VerifierUnavailable, with the reasons, when none does."""
    return choose()[0]


def choose() -> tuple[Tier, dict[str, str]]:
    """Run the attacks, strongest tier first: the first tier that holds, and why each stronger one does not."""
    why_not: dict[str, str] = {}
    for candidate in isolation.TIERS:
        breaches = holes(candidate)
        if not breaches:
            return candidate, why_not
        why_not[candidate] = "; ".join(breaches)[:500]
    raise VerifierUnavailable(
        "no sandbox holds on this machine: " + " | ".join(f"{name}: {why}" for name, why in why_not.items()),
        why="model-written code is hostile and is never run without isolation",
        fix="allow user namespaces (sysctl kernel.apparmor_restrict_unprivileged_userns=0) or seccomp filters (docker: --security-opt "
        "seccomp=unconfined), do not run as root of a one-user namespace, and see site/docs/reference/gates.md",
    )


def holes(tier: Tier) -> list[str]:
    """What is wrong with a tier: attacks that got through, or why it does not start. Empty: it holds."""
    try:
        return [*(_wall_holes() if tier == "bubblewrap" else ()), *_candidate_holes(tier)]
    except (VerifierFault, OSError) as error:
        return [str(error)]


def _candidate_holes(tier: Tier) -> list[str]:
    """Attacks by an answer, behind all filters; and whether an answer that never ends is ended."""
    calls = json.dumps([[name] for name in attacks.CANDIDATE])
    attack = Job(Path(attacks.__file__).read_text(), "function", ("attempt",), calls, 5.0, 512 * 2**20)
    loop = replace(attack, code="while True: pass", calls="[]", cpu=0.05)
    ended = _ended(python_answers.program(tier), tier, [python_answers.order(job) for job in (attack, loop)])
    attacked, endless = python_answers.read(attack, ended[0]), python_answers.read(loop, ended[1])
    if attacked.outcome != "values":
        raise VerifierFault(f"the attacks gave no answer: {attacked.reason}")
    breaches = _breaches(attacks.CANDIDATE, [value.value or value.error for value in attacked.values])
    return breaches if endless.reason.startswith("timeout") else [*breaches, "an endless loop was not stopped"]


def _wall_holes() -> list[str]:
    """Attacks by a program inside bubblewrap, behind the filter of a proof checker, which may open files."""
    source = Path(attacks.__file__).read_text() + "\nimport json\nprint(json.dumps([attempt(name) for name in WALL]))\n"
    command = (*python_answers.program("bubblewrap").command, *isolation.python_command(source))
    (ended,) = _ended(Program(command, filter=seccomp.checker), "bubblewrap", [Order(b"the attacks", 5.0, 2**30)])
    try:
        return _breaches(attacks.WALL, json.loads(ended.written))
    except ValueError:
        raise VerifierFault("the attacks gave no answer") from None


def _ended(program: Program, tier: Tier, orders: list[Order]) -> list[Ended]:
    box = Box(program, tier)
    try:
        results = box.ask(orders)
    finally:
        box.close()
    if len(results) < len(orders):
        raise VerifierFault("the sandbox broke off under attack")
    return results


def _breaches(names: Iterable[str], outcomes: list[str]) -> list[str]:
    return [f"{name}: {outcome}" for name, outcome in zip(names, outcomes, strict=True) if outcome != "contained"]
