"""Check model-written Lean proofs with the Lean of this machine. `verifier().run(jobs)` never raises.

A plain `lean` compiles one answer in a box of its own, and a new `lean` beside it, which never sees the answer, checks what was compiled.
What the first one writes is the answer's word: it can only fail. Where it says that the statement or Lean itself is at fault, a third
one has to say so too, from the statement alone.
"""

from __future__ import annotations

import functools
import json
import signal
from pathlib import Path

from stages.train.verifiers import inside, isolation, lean_server, lean_text, sandbox, seccomp
from stages.train.verifiers.box import Asking, Ended, Order
from stages.train.verifiers.isolation import Program, Tier
from stages.train.verifiers.lean_read import Message, confirmed, messages, read
from stages.train.verifiers.lean_setup import Installation, installation
from stages.train.verifiers.lean_text import Job
from stages.train.verifiers.verdict import Checked, VerifierUnavailable, stopped, unknown
from stages.train.verifiers.verifier import Verifier

PROCESSES = 300
"""Numbers of processes and threads in a box for which there is a link to Lean: there is no /proc, and Lean asks where it lies."""


def tier() -> str:
    """The sandbox that proofs are checked in, with Lean's version. Raises VerifierUnavailable."""
    lean, chosen = installation(), sandbox.tier()
    program(lean, chosen)
    return f"{chosen} with Lean {lean.version} (program{' after a server' if lean.url else ''})"


def program(lean: Installation, tier: Tier) -> Program:
    """A box for one proof. Raises VerifierUnavailable in a tier without namespaces."""
    if tier != "bubblewrap":
        raise VerifierUnavailable(
            f"Lean runs in bubblewrap only, and on this machine the sandbox is {tier}",
            why="a proof checker opens files and starts threads, which the tier of system call filters alone does not allow",
            fix="apt-get install bubblewrap, and allow user namespaces (sysctl kernel.apparmor_restrict_unprivileged_userns=0)",
        )
    options = ["--size", str(2 * inside.COMPILED_BYTES), "--tmpfs", inside.FOLDER]
    for name, value in (("HOME", "/"), ("LEAN_NUM_THREADS", "4"), ("LEAN_PATH", f"{inside.FOLDER}:{lean.path}".rstrip(":"))):
        options += ["--setenv", name, value]
    for number in ("self", *range(2, PROCESSES)):
        options += ["--symlink", lean.command[0], f"/proc/{number}/exe"]
    command = (*isolation.python_command(Path(inside.__file__).read_text(encoding="utf-8")), *lean.command)
    return Program(command, (*lean.needs, lean.command[0]), tuple(options), seccomp.checker, is_used_once=True)


def asking(job: Job) -> Asking:
    """Compile the answer, then check what was compiled."""
    if bad := lean_text.refused(job):
        return bad
    body = lean_text.body(job)

    def order(answer: str, rest: str = "") -> Order:
        return Order(answer.encode("utf-8", "replace"), job.cpu, job.memory, rest.encode("utf-8", "replace"), resident=job.memory)

    ended = yield order(f"{job.header}\n{body.text}")
    if ended.why in ("memory", "starved", "waited"):
        return _stopped(job, ended) or unknown("the sandbox broke off")
    result = _stopped(job, ended) or read(job, body, _messages(ended, job.header.count("\n") + 1))
    if result.outcome == "proved":
        ended = yield order("", body.anew)
        result = _stopped(job, ended) or confirmed(job, body, _messages(ended))
    if result.outcome in ("unknown", "broken") and not ended.why:
        ended = yield order(f"{job.header}\n{body.goal}")
        if ended.status == 0 and _messages(ended) == []:
            return Checked("other", result.reason)
    return result


def _stopped(job: Job, ended: Ended) -> Checked | None:
    """Why Lean did not end by itself."""
    if ended.why == "memory":
        return Checked("other", f"used more than {job.memory // 2**20} MiB of memory", keep=False)
    ending = stopped(ended, job.cpu)
    if ending is None or ending.outcome == "unknown":
        return ending
    if ending.reason.startswith("timeout: "):
        return Checked("timeout", ending.reason.removeprefix("timeout: "), keep=False)
    if ending.reason == "crashed":
        is_nesting = ended.status & 127 in (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT)
        return Checked("other", "Lean ran out of stack", keep=False) if is_nesting else unknown("Lean crashed")
    return Checked("other", ending.reason, keep=False)


def _messages(ended: Ended, first_line: int = 0) -> list[Message] | None:
    """None where they are not what `lean --json` writes."""
    try:
        return messages([json.loads(line) for line in ended.written.decode("utf-8", "replace").splitlines()], first_line)
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


class Proofs(Verifier[Job]):
    """Proofs with a `lean` program, which reads the header anew for each proof; a server, where there is one, takes out those that fail."""

    def __init__(self, lean: Installation, tier: Tier | None = None, workers: int | None = None) -> None:
        self._url = lean.url
        super().__init__(functools.partial(program, lean), asking, tier, workers)

    def check(self, jobs: list[Job]) -> dict[Job, Checked]:
        failed = lean_server.failures(self._url, jobs) if self._url else {}
        return failed | super().check([job for job in jobs if job not in failed])


_verifier = functools.lru_cache(maxsize=4)(Proofs)


def verifier() -> Proofs:
    """This process's verifier. Raises VerifierUnavailable when there is no Lean."""
    return _verifier(installation())
