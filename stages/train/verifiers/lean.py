"""Check model-written Lean proofs with the Lean of this machine. `verifier().run(jobs)` never raises.

A plain `lean` compiles one answer in a box of its own, and a new `lean` beside it, which never sees the answer, checks what was compiled.
"""

from __future__ import annotations

import functools
import json
import signal
from pathlib import Path

from stages.train.verifiers import inside, isolation, lean_text, sandbox, seccomp
from stages.train.verifiers.box import Ended, Order
from stages.train.verifiers.isolation import Program, Tier
from stages.train.verifiers.lean_read import confirmed, messages, read
from stages.train.verifiers.lean_server import Server
from stages.train.verifiers.lean_setup import Installation, installation
from stages.train.verifiers.lean_text import Job
from stages.train.verifiers.verdict import Checked, VerifierUnavailable, stopped, unknown
from stages.train.verifiers.verifier import Verdicts, Verifier

PROCESSES = 300
"""Numbers of processes and threads in a box for which there is a link to Lean: there is no /proc, and Lean asks where it lies."""


def tier() -> str:
    """The sandbox that proofs are checked in, with Lean's version. Raises VerifierUnavailable."""
    lean = installation()
    if lean.url:
        return f"a Lean server of its own, Lean {lean.version}"
    chosen = sandbox.tier()
    program(lean, chosen)
    return f"{chosen} with Lean {lean.version} (program)"


def program(lean: Installation, tier: Tier) -> Program:
    """A box for one proof. Raises VerifierUnavailable in a tier without namespaces."""
    if tier != "bubblewrap":
        raise VerifierUnavailable(
            f"Lean runs in bubblewrap only, and on this machine the sandbox is {tier}",
            why="a proof checker opens files and starts threads, which the tier of system call filters alone does not allow",
            fix="apt-get install bubblewrap, and allow user namespaces (sysctl kernel.apparmor_restrict_unprivileged_userns=0)",
        )
    options = ["--size", str(2 * inside.COMPILED_BYTES), "--tmpfs", "/out"]
    for name, value in (("HOME", "/"), ("LEAN_NUM_THREADS", "4"), ("LEAN_PATH", f"/out:{lean.path}".rstrip(":"))):
        options += ["--setenv", name, value]
    for number in ("self", *range(2, PROCESSES)):
        options += ["--symlink", lean.command[0], f"/proc/{number}/exe"]
    command = (*isolation.python_command(Path(inside.__file__).read_text(encoding="utf-8")), *lean.command)
    return Program(command, (*lean.needs, lean.command[0]), tuple(options), seccomp.checker, uses=1)


def _order(job: Job) -> Order | Checked:
    if bad := lean_text.refused(job):
        return bad
    body = lean_text.body(job)
    text = f"{job.header}\n{body.text}".encode("utf-8", "replace")
    return Order(text, job.cpu, job.memory, body.anew.encode("utf-8", "replace"), resident=job.memory)


def _read(job: Job, ended: Ended) -> Checked:
    """What the end of Lean's processes means. What the first wrote is the answer's; the second alone can say that a proof holds."""
    if ended.why == "memory":
        return Checked("other", f"used more than {job.memory // 2**20} MiB of memory", keep=False)
    if ending := stopped(ended, job.cpu):
        if ending.outcome == "unknown":
            return ending
        if ending.reason.startswith("timeout: "):
            return Checked("timeout", ending.reason.removeprefix("timeout: "), keep=False)
        is_nesting = ended.status & 127 in (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT)
        return Checked("other", "Lean ran out of stack", keep=False) if is_nesting else unknown("Lean crashed")
    size = int(ended.why.removeprefix("at-") or len(ended.written))
    body = lean_text.body(job)
    try:
        first, second = (
            messages([json.loads(line) for line in part.decode("utf-8", "replace").splitlines()], lines)
            for part, lines in ((ended.written[:size], job.header.count("\n") + 1), (ended.written[size:], 0))
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        return unknown("Lean did not write its messages as JSON")
    result = read(job, body, first)
    return confirmed(job, body, second) if result.outcome == "proved" else result


def programs(lean: Installation, tier: Tier | None = None, workers: int | None = None) -> Verifier[Job]:
    """Proofs with a `lean` program, which reads the header anew for each proof."""
    return Verifier(functools.partial(program, lean), _order, _read, tier, workers)


@functools.lru_cache(maxsize=4)
def _verifier(lean: Installation) -> Verdicts[Job]:
    return Server(lean.url) if lean.url else programs(lean)


def verifier() -> Verdicts[Job]:
    """This process's verifier. Raises VerifierUnavailable when there is no Lean."""
    return _verifier(installation())
