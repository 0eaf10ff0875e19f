"""Lean REPLs in the sandbox: one JSON command, an empty line; one JSON answer, an empty line.

A REPL reads the header once, and each proof starts from there. One process answers many jobs, so it has no limit of the kernel's: the
host watches the CPU time and the resident memory that a job uses, and ends the process when that is too much.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Sequence
from typing import Any

from stages.train.verifiers import lean_setup, lean_text, proofs
from stages.train.verifiers.box import Ended, Order, Process, Stopped, usage
from stages.train.verifiers.faults import VerifierFault, VerifierUnavailable
from stages.train.verifiers.isolation import Program, Tier
from stages.train.verifiers.lean_read import messages, read
from stages.train.verifiers.lean_setup import Installation
from stages.train.verifiers.lean_text import Job
from stages.train.verifiers.proofs import Checked, used
from stages.train.verifiers.verifier import Verifier

USES = 200
"""A REPL keeps every environment that it ever made, so it is replaced after this many jobs."""
HEADER_SECONDS = 600.0
"""Wall seconds for the imports, which may be all of Mathlib from a cold disk."""
ANSWER_BYTES = 8 * 2**20
OVERFLOW = "Stack overflow detected"
"""What Lean says when an answer was nested too deeply for its stack, before it aborts. An answer that forges it only fails."""
ENV = "/usr/bin/env"


class Repl(Process):
    """One REPL that has read the header. Raises VerifierFault, or VerifierUnavailable when Lean refuses the header."""

    def __init__(self, header: str, program: Program, tier: Tier) -> None:
        super().__init__(program, tier)
        try:
            self.send(_command({"cmd": header}))
            answer = json.loads(self.receive(b"\n\n", HEADER_SECONDS, most=ANSWER_BYTES))
            self._env = int(answer["env"])
            refusal = next((str(message["data"]) for message in answer.get("messages", []) if message["severity"] == "error"), "")
        except (VerifierFault, Stopped, KeyError, TypeError, ValueError) as error:
            raise self.refusal(error) from None
        if refusal:
            self.close()
            raise VerifierUnavailable(
                f"Lean refuses the header: {proofs.printable(refusal)}",
                why="every proof is checked after the header of its gate",
                fix="correct `header`, or build what it imports: lake build",
            )

    def answer(self, orders: Sequence[Order]) -> Iterator[Ended]:
        for order in orders:
            if self._rest.strip():
                raise VerifierFault("it answered without a command")
            before = usage(self.pid)[0]
            self.send(_command({"cmd": order.answer.decode(), "env": self._env}))
            try:
                written = self.receive(b"\n\n", order.wall, order.cpu, order.resident, ANSWER_BYTES, before)
            except VerifierFault:
                if self.last_words().startswith(OVERFLOW):
                    raise Stopped("stack") from None
                raise
            yield Ended(0, 0.0, "", written)


def _command(command: dict[str, Any]) -> bytes:
    """As UTF-8: not every REPL reads the two halves of a letter such as 𝓝."""
    return json.dumps(command, ensure_ascii=False).encode("utf-8", "replace") + b"\n\n"


def repls(lean: Installation, header: str, workers: int | None = None) -> Verifier[Job, Checked]:
    """REPLs for one header, as many as cores and memory allow."""
    program = functools.partial(_program, lean)
    return Verifier(program, _order, _checked, proofs.unknown, None, workers, functools.partial(Repl, header))


def _program(lean: Installation, tier: Tier) -> Program:
    lean_setup.require_bubblewrap(tier)
    links = tuple((lean.command[0], f"/proc/{name}/exe") for name in ("2", "self"))
    command = (ENV, "HOME=/", *lean.environment, *lean.command)
    return Program(command, (ENV, *lean.command, *lean.needs), links, batch=1, uses=USES)


def _order(job: Job) -> Order | Checked:
    text = lean_text.body(job).text.encode("utf-8", "replace") if (refusal := lean_text.refused(job)) is None else b""
    return refusal or Order(text, job.cpu, job.memory, resident=job.memory)


def _checked(job: Job, ended: Ended) -> Checked:
    if ended.why:
        return used(ended.why, job.cpu, job.memory)
    try:
        answer = json.loads(ended.written)
        if "env" not in answer:
            return proofs.unknown(f"the REPL refused the command: {str(answer)[:200]}")
        return read(job, lean_text.body(job), messages(answer.get("messages") or []), bool(answer.get("sorries")))
    except (ValueError, KeyError, TypeError, RecursionError):
        return proofs.unknown("the REPL's answer cannot be read")
