"""Check model-written Lean proofs with the Lean of this machine. `verifier(header).run(jobs)` never raises."""

from __future__ import annotations

import functools
import json
import signal
from pathlib import Path

from stages.train.verifiers import isolation, lean_inside, lean_setup, lean_text, proofs, sandbox, seccomp
from stages.train.verifiers.box import Ended, Order
from stages.train.verifiers.isolation import Program, Tier
from stages.train.verifiers.lean_read import confirmed, messages, read
from stages.train.verifiers.lean_repl import repls
from stages.train.verifiers.lean_server import Server
from stages.train.verifiers.lean_setup import Installation, installation
from stages.train.verifiers.lean_text import Job
from stages.train.verifiers.proofs import Checked, used
from stages.train.verifiers.verifier import Verdicts, Verifier

PROCESSES = 300
"""Numbers of processes and threads in a box for which there is a link to Lean: there is no /proc, and Lean asks where it lies."""
CPU_SLACK = 0.05
"""CPU seconds by which the accounting may exceed the limit."""
OUT = ("--size", str(2**28), "--tmpfs", "/out")


def tier() -> str:
    """The sandbox that proofs are checked in, with Lean's version. Raises VerifierUnavailable."""
    lean = installation()
    if lean.kind == "server":
        return f"a Lean server of its own, Lean {lean.version}"
    chosen = sandbox.tier()
    lean_setup.require_bubblewrap(chosen)
    return f"{chosen} with Lean {lean.version} ({lean.kind})"


def program(lean: Installation, tier: Tier) -> Program:
    """A box in which `lean` compiles one answer and a new `lean` checks it. Raises VerifierUnavailable."""
    lean_setup.require_bubblewrap(tier)
    environment = dict(entry.split("=", 1) for entry in lean.environment) | {"HOME": "/", "PYTHONHASHSEED": "0", "LEAN_NUM_THREADS": "4"}
    environment["LEAN_PATH"] = ":".join(["/out", *filter(None, [environment.get("LEAN_PATH")])])
    source = Path(lean_inside.__file__).read_text(encoding="utf-8")
    words = (*(f"{name}={value}" for name, value in environment.items()), "--", *lean.command)
    links = tuple((lean.command[0], f"/proc/{number}/exe") for number in ("self", *range(2, PROCESSES)))
    command = (*isolation.python_command(source), *words)
    return Program(command, (*lean.needs, lean.command[0]), links, OUT, seccomp.checker, batch=1, uses=1)


def programs(lean: Installation, tier: Tier | None = None, workers: int | None = None) -> Verifier[Job, Checked]:
    """Proofs with a plain `lean` program, which reads the header anew for each proof."""
    return Verifier(functools.partial(program, lean), _order, _checked, proofs.unknown, tier, workers)


def _order(job: Job) -> Order | Checked:
    bad = lean_text.refused(job)
    if bad is not None:
        return bad
    body = lean_text.body(job)
    text = f"{job.header}\n{body.text}".encode("utf-8", "replace")
    return Order(text, job.cpu, job.memory, body.anew.encode("utf-8", "replace"), resident=job.memory)


def _checked(job: Job, ended: Ended) -> Checked:
    """What the end of Lean's processes means. What the first wrote is the answer's; the second alone can say that a proof holds."""
    killed = ended.status & 127
    what = ended.why if ended.why in ("memory", "wall") else ""
    if not what and (killed in (signal.SIGPROF, signal.SIGXCPU) or ended.cpu > job.cpu + CPU_SLACK):
        what = "cpu"
    elif not what and killed in (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT):  # nested too deeply for the stack
        what = "stack"
    if what:
        return used(what, job.cpu, job.memory)
    if killed:
        return proofs.unknown("the proof's process was killed from outside" if killed == signal.SIGKILL else "Lean crashed")
    size = int(ended.why.removeprefix("at-") or len(ended.written))
    body = lean_text.body(job)
    try:
        first, second = (
            messages([json.loads(line) for line in part.decode("utf-8", "replace").splitlines()], lines)
            for part, lines in ((ended.written[:size], job.header.count("\n") + 1), (ended.written[size:], 0))
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        return proofs.unknown("Lean did not write its messages as JSON")
    result = read(job, body, first)
    return confirmed(job, body, second) if result.outcome == "proved" else result


@functools.lru_cache(maxsize=4)
def _verifier(lean: Installation, header: str) -> Verdicts[Job, Checked]:
    if lean.kind == "server":
        return Server(lean.url)
    return programs(lean) if lean.kind == "program" else repls(lean, header)


def verifier(header: str) -> Verdicts[Job, Checked]:
    """This process's verifier for a header. Raises VerifierUnavailable when there is no Lean."""
    lean = installation()
    return _verifier(lean, header if lean.kind == "repl" else "")
