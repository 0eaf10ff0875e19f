"""Check model-written Lean proofs with the Lean of this machine. `verifier().run(jobs)` never raises.

`lean` compiles one answer in a box of its own. What it writes, and the file that it leaves, are the answer's word. Header and goal are
compiled in a box without the answer. In a third box Lean's kernel checks that file against that goal (see lean_kernel.py).
"""

from __future__ import annotations

import functools
import json
import signal
from collections import OrderedDict
from collections.abc import Callable

from stages.train.verifiers import lean_boxes, lean_server, lean_text, sandbox
from stages.train.verifiers.box import Asking, Ended, Order
from stages.train.verifiers.isolation import Tier
from stages.train.verifiers.lean_read import Message, by_kernel, confirmed, messages, read
from stages.train.verifiers.lean_setup import Installation, installation
from stages.train.verifiers.lean_text import Job
from stages.train.verifiers.verdict import Checked, stopped, unknown
from stages.train.verifiers.verifier import Verifier

GOALS = 64
"""Most compiled goals that are kept."""


def tier() -> str:
    """The sandbox that proofs are checked in, with Lean's version and who has the last word. Raises VerifierUnavailable."""
    lean, chosen = installation(), sandbox.tier()
    last = "kernel" if lean_boxes.program(lean, chosen).second else "compiled files are trusted"
    return f"{chosen} with Lean {lean.version} ({last}{', after a server' if lean.url else ''})"


def asking(job: Job, has_kernel: Callable[[], bool]) -> Asking:
    """Compile the answer; compile its goal without it; have the kernel check the one against the other."""
    if bad := lean_text.refused(job):
        return bad
    body = lean_text.body(job)
    compiled = yield _order(job, f"{job.header}\n{body.text}")
    if compiled.why in ("memory", "starved", "waited"):
        return _stopped(job, compiled) or unknown("the sandbox broke off")
    result = _stopped(job, compiled) or read(job, body, _messages(compiled, job.header.count("\n") + 1))
    if result.outcome not in ("proved", "unknown", "broken") or compiled.why:
        return result
    if (goal := _goals.get((job.header, body.goal))) is None:
        ended = yield _order(job, f"{job.header}\n{body.goal}")
        if ended.status or not ended.left:
            return unknown("Lean refuses the goal without the answer") if result.outcome == "proved" else result
        goal = _goals[job.header, body.goal] = ended.left
        while len(_goals) > GOALS:
            _goals.popitem(last=False)
    if result.outcome != "proved":
        return Checked("other", result.reason)
    if not has_kernel():
        ended = yield _order(job, body.anew, compiled.left)
        return _stopped(job, ended) or confirmed(job, body, _messages(ended))
    names = {"goal": body.goal_name, "proof": body.checked, "final": body.final}
    ended = yield lean_boxes.order_to_kernel(compiled.left, goal, names, job.cpu, job.memory)
    return _stopped(job, ended) or by_kernel(job, ended.written)


_goals: OrderedDict[tuple[str, str], bytes] = OrderedDict()
"""(header, goal) -> what Lean compiled them to in a box without an answer."""


def _order(job: Job, text: str, imported: bytes = b"") -> Order:
    return Order(text.encode("utf-8", "replace"), job.cpu, job.memory, imported, resident=job.memory)


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
        def has_kernel() -> bool:
            return lean_boxes.program(lean, self.tier or sandbox.tier()).second is not None

        self._url = lean.url
        super().__init__(functools.partial(lean_boxes.program, lean), functools.partial(asking, has_kernel=has_kernel), tier, workers)

    def check(self, jobs: list[Job]) -> dict[Job, Checked]:
        failed = lean_server.failures(self._url, jobs) if self._url else {}
        return failed | super().check([job for job in jobs if job not in failed])


_verifier = functools.lru_cache(maxsize=4)(Proofs)


def verifier() -> Proofs:
    """This process's verifier. Raises VerifierUnavailable when there is no Lean."""
    return _verifier(installation())
