"""Which isolation holds on this machine: found by running attacks, never by looking at versions. No tier, no model code."""

from __future__ import annotations

import functools
import json
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from stages.train.verifiers import attacks, isolation, python_answers
from stages.train.verifiers.box import Box
from stages.train.verifiers.faults import VerifierFault, VerifierUnavailable
from stages.train.verifiers.isolation import Program, Tier
from stages.train.verifiers.python_answers import Job

WALL_SECONDS = 30.0


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


def _candidate_holes(tier: Tier) -> Iterator[str]:
    """Attacks by an answer, behind all filters; and whether an answer that never ends is ended."""
    code, calls = Path(attacks.__file__).read_text(), json.dumps([[name] for name in attacks.CANDIDATE])
    attack = Job(code, "function", ("attempt",), calls, 5.0, 512 * 2**20)
    loop = replace(attack, code="while True: pass", calls="[]", cpu=0.05)
    box = Box(python_answers.program(tier), tier)
    try:
        ended = box.ask([python_answers.order(job) for job in (attack, loop)])
    finally:
        box.close()
    if len(ended) < 2:
        raise VerifierFault("the sandbox broke off under attack")
    attacked, endless = python_answers.read(attack, ended[0]), python_answers.read(loop, ended[1])
    if attacked.outcome != "values":
        raise VerifierFault(f"the attacks gave no answer: {attacked.reason}")
    if not endless.reason.startswith("timeout"):
        yield "an endless loop was not stopped"
    yield from _breaches(attacks.CANDIDATE, [value.value or value.error for value in attacked.values])


def _wall_holes() -> Iterator[str]:
    """Attacks by a whole program inside bubblewrap, without the answers' filter."""
    source = Path(attacks.__file__).read_text() + "\nimport json\nprint(json.dumps([attempt(name) for name in WALL]))\n"
    with tempfile.TemporaryFile() as errors:
        process = isolation.start(Program(tuple(isolation.python_command(source))), "bubblewrap", (), errors.fileno())
        try:
            written = process.communicate(timeout=WALL_SECONDS)[0]
        except subprocess.TimeoutExpired:
            raise VerifierFault("bubblewrap gave no answer") from None
        finally:
            process.kill()
            process.communicate()
        try:
            yield from _breaches(attacks.WALL, json.loads(written))
        except ValueError:
            raise VerifierFault(f"bubblewrap did not start: {isolation.last_line(errors.fileno()) or process.returncode}") from None


def _breaches(names: Iterable[str], outcomes: list[str]) -> list[str]:
    return [f"{name}: {outcome}" for name, outcome in zip(names, outcomes, strict=True) if outcome != "contained"]
