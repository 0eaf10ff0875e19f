"""A Lean REPL in the sandbox: one JSON command, an empty line; one JSON answer, an empty line. Every trouble is a VerifierFault.

One process answers many jobs, so it has no limit of the kernel's: the host watches the CPU time and the resident memory that a job
uses, and ends the process when that is too much.
"""

from __future__ import annotations

import json
import os
import select
import time
from dataclasses import dataclass
from typing import Any

from stages.train.verifiers import family
from stages.train.verifiers.faults import VerifierFault
from stages.train.verifiers.isolation import Tier
from stages.train.verifiers.lean_setup import Installation
from stages.train.verifiers.proof_ended import OVERFLOW
from stages.train.verifiers.proof_process import ENV, named
from stages.train.verifiers.zygote_process import ZygoteProcess

HEADER_SECONDS = 600.0
"""Wall seconds for the imports, which may be all of Mathlib from a cold disk."""
WATCH_SECONDS = 0.05
ANSWER_BYTES = 8 * 2**20


@dataclass(frozen=True)
class Stopped(Exception):
    """The job was ended: it used too much of `what` (`cpu`, `memory`, `output`, `stack`), or got too little CPU time (`wall`)."""

    what: str


class LeanRepl(ZygoteProcess):
    """A REPL that has read the header, as environment `env`; `refusal` is its first error there. Raises VerifierFault."""

    def __init__(self, tier: Tier, found: Installation, header: str, lane: int = 0) -> None:
        command = [ENV, "HOME=/", *found.environment, *found.command]
        super().__init__(tier, command, [ENV, *found.command, *found.needs], links=named(found.command[0]), lane=lane)
        self._rest = b""
        try:
            answer = self._asked({"cmd": header}, HEADER_SECONDS, HEADER_SECONDS, 2**62)
            self.env = int(answer["env"])
            self.refusal = next((str(one["data"]) for one in answer.get("messages", []) if one["severity"] == "error"), "")
        except (VerifierFault, Stopped, KeyError, TypeError, ValueError) as error:
            said = self.said()
            self.close()
            raise VerifierFault(f"the REPL did not start: {said or error}") from None
        self.jobs = 0

    def ask(self, text: str, cpu: float, memory: int, wall: float) -> dict[str, Any]:
        """The answer to a text after the header. Raises Stopped or VerifierFault; the process is ended then."""
        try:
            return self._asked({"cmd": text, "env": self.env}, cpu, wall, memory)
        except BaseException:
            self.close()
            raise

    def _asked(self, command: dict[str, Any], cpu: float, wall: float, memory: int) -> dict[str, Any]:
        self.jobs += 1
        before = family.usage(self.pid)[0]
        assert self.process.stdin is not None
        if self._rest.strip():
            raise VerifierFault("it answered what nobody asked")
        try:
            # as UTF-8: not every REPL reads the two halves of a letter such as 𝓝
            view = memoryview(json.dumps(command, ensure_ascii=False).encode("utf-8", "replace") + b"\n\n")
            while view:
                view = view[self.process.stdin.write(view) :]
        except (OSError, ValueError) as error:
            raise VerifierFault(f"it does not listen: {error}") from None
        try:
            answer = json.loads(self._paragraph(before + cpu, time.monotonic() + wall, memory))
        except (ValueError, RecursionError):
            raise VerifierFault("it did not answer in JSON") from None
        if not isinstance(answer, dict) or "env" not in answer:
            raise VerifierFault(f"it refused the command: {str(answer)[:200]}")
        return answer

    def _paragraph(self, cpu: float, until: float, memory: int) -> bytes:
        """All up to the next empty line."""
        assert self.process.stdout is not None
        content, watched = self._rest.lstrip(), 0.0
        while b"\n\n" not in content:
            if time.monotonic() - watched > WATCH_SECONDS:
                watched = time.monotonic()
                used, resident = family.usage(self.pid)
                if used > cpu or resident > memory or watched > until:
                    raise Stopped("cpu" if used > cpu else "memory" if resident > memory else "wall")
            if not select.select([self.process.stdout], [], [], WATCH_SECONDS)[0]:
                continue
            chunk = os.read(self.process.stdout.fileno(), 65536)
            if not chunk:
                if self.said().startswith(OVERFLOW):
                    raise Stopped("stack")
                raise VerifierFault("it died")
            content = (content + chunk).lstrip()
            if len(content) > ANSWER_BYTES:
                raise Stopped("output")
        paragraph, _, self._rest = content.partition(b"\n\n")
        return paragraph
