"""Which isolation holds on this machine: found by running attacks, never by looking at versions. No tier, no model code.

The answer is kept for the process, and in `.cache/verifiers/` under a key of kernel, boot, uid, interpreter and this folder's code.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import platform
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path

from stages.contracts.artifact import digest, write_text
from stages.train.verifiers import attacks, isolation, python_answers
from stages.train.verifiers.box import Box
from stages.train.verifiers.faults import VerifierFault, VerifierUnavailable
from stages.train.verifiers.isolation import Program, Tier
from stages.train.verifiers.python_answers import Job

CACHE = Path(".cache/verifiers")
WALL_SECONDS = 30.0


@functools.cache
def tier() -> Tier:
    """The strongest tier that holds, for ledgers and for the verifiers. Raises VerifierUnavailable, with the reasons, when none does."""
    kept = CACHE / f"{key()}.json"
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        tier = json.loads(kept.read_text())["tier"]
        if tier in isolation.TIERS:
            return tier  # type: ignore[no-any-return]
    chosen, why_not = choose()
    with contextlib.suppress(OSError):
        write_text(kept, json.dumps({"tier": chosen, "why_not": why_not}, sort_keys=True) + "\n")
    return chosen


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
        return [*(_wall_holes() if tier == "bubblewrap" else []), *_candidate_holes(tier)]
    except (VerifierFault, OSError) as error:
        return [str(error)]


def _candidate_holes(tier: Tier) -> list[str]:
    """Attacks by an answer, behind all filters; and whether an answer that never ends is ended."""
    names = [attack.__name__ for attack in attacks.CANDIDATE]
    code = Path(attacks.__file__).read_text() + "\ndef f(name): return globals()[name]()\n"
    attack = Job(code, "function", ("f",), json.dumps([[name] for name in names]), 5.0, 512 * 2**20)
    loop = replace(attack, code="while True: pass", calls="[]", cpu_seconds=0.05)
    box = Box(python_answers.program(tier), tier)
    try:
        ended = box.ask([python_answers.order(job) for job in (attack, loop)])
    finally:
        box.close()
    if len(ended) < 2:
        return ["the sandbox broke off under attack"]
    attacked, endless = python_answers.read(attack, ended[0]), python_answers.read(loop, ended[1])
    if attacked.outcome != "values":
        return [f"the attacks gave no answer: {attacked.reason}"]
    return ([] if endless.reason.startswith("timeout") else ["an endless loop was not stopped"]) + [
        f"{name}: {value.value or value.error}"
        for name, value in zip(names, attacked.values, strict=True)
        if not (isinstance(value.value, str) and value.value.startswith("contained"))
    ]


def _wall_holes() -> list[str]:
    """Attacks by a whole program inside bubblewrap, without the answers' filter."""
    names = [attack.__name__ for attack in attacks.WALL]
    source = Path(attacks.__file__).read_text() + f"\nimport json\nprint(json.dumps([globals()[n]() for n in {names!r}]))\n"
    with tempfile.TemporaryFile() as errors:
        process = isolation.start(Program(tuple(isolation.python_command(source))), "bubblewrap", (), errors)
        try:
            written = process.communicate(timeout=WALL_SECONDS)[0]
        except subprocess.TimeoutExpired:
            return ["bubblewrap gave no answer"]
        finally:
            process.kill()
            process.communicate()
        errors.seek(0)
        lines = errors.read().decode("utf-8", "replace").strip().splitlines()
    try:
        outcomes = json.loads(written)
    except ValueError:
        return [f"bubblewrap did not start: {lines[-1] if lines else process.returncode}"]
    return [f"{name}: {outcome}" for name, outcome in zip(names, outcomes, strict=True) if not outcome.startswith("contained")]


def key() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        boot = ""
    code = "".join(path.read_text() for path in sorted(Path(__file__).parent.glob("*.py")))
    parts = [platform.release(), boot, str(os.geteuid()), isolation.python(), platform.python_version(), str(isolation.bubblewrap()), code]
    return digest("\0".join(parts))[:16]
