"""Lean REPLs in the sandbox: one JSON command, an empty line; one JSON answer, an empty line.

A REPL reads the header once, and each proof starts from there. One process answers many jobs, so it has no limit of the kernel's: the
host watches the CPU time and the resident memory that a job uses, and ends the process when that is too much.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from stages.train.verifiers import isolation, lean_text, proofs, sandbox
from stages.train.verifiers.box import readable, usage
from stages.train.verifiers.faults import VerifierFault, VerifierUnavailable
from stages.train.verifiers.isolation import Program
from stages.train.verifiers.lean_read import messages, read
from stages.train.verifiers.lean_setup import Installation
from stages.train.verifiers.lean_text import Job
from stages.train.verifiers.proofs import OVERFLOW, Checked, used
from stages.train.verifiers.verifier import Verdicts, cores, memory

USES = 200
"""A REPL keeps every environment that it ever made, so it is replaced after this many jobs."""
HEADER_SECONDS = 600.0
"""Wall seconds for the imports, which may be all of Mathlib from a cold disk."""
WATCH_SECONDS = 0.05
ANSWER_BYTES = 8 * 2**20
ENV = "/usr/bin/env"


@dataclass(frozen=True)
class Stopped(Exception):
    """The job was ended: it used too much of `what` (`cpu`, `memory`, `output`, `stack`), or got too little CPU time (`wall`)."""

    what: str


class Repl:
    """One REPL that has read the header. Raises VerifierFault, or VerifierUnavailable when Lean refuses the header."""

    def __init__(self, lean: Installation, header: str) -> None:
        self.uses, self._rest = 0, b""
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        links = tuple((lean.command[0], f"/proc/{name}/exe") for name in ("2", "self"))
        program = Program((ENV, "HOME=/", *lean.environment, *lean.command), (ENV, *lean.command, *lean.needs), links)
        try:
            self.process = isolation.start(program, "bubblewrap", (), self._errors)
        except OSError as error:
            raise VerifierFault(f"the REPL did not start: {error}") from None
        try:
            answer = self._asked({"cmd": header}, HEADER_SECONDS, HEADER_SECONDS, 2**62)
            self._env = int(answer["env"])
            refusal = next((str(one["data"]) for one in answer.get("messages", []) if one["severity"] == "error"), "")
        except (VerifierFault, Stopped, KeyError, TypeError, ValueError) as error:
            words = self._last_words()
            self.close()
            raise VerifierFault(f"the REPL did not start: {words or error}") from None
        if refusal:
            self.close()
            raise VerifierUnavailable(
                f"Lean refuses the header: {proofs.printable(refusal)}",
                why="every proof is checked after the header of its gate",
                fix="correct `header`, or build what it imports: lake build",
            )

    def close(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self._errors):
            if stream:
                with contextlib.suppress(OSError):
                    stream.close()

    def ask(self, text: str, cpu: float, memory: int, wall: float) -> dict[str, Any]:
        """The answer to a text after the header. Raises Stopped or VerifierFault; the process is of no use then."""
        self.uses += 1
        return self._asked({"cmd": text, "env": self._env}, cpu, wall, memory)

    def _asked(self, command: dict[str, Any], cpu: float, wall: float, memory: int) -> dict[str, Any]:
        before = usage(self.process.pid)[0]
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
                seconds, resident = usage(self.process.pid)
                if seconds > cpu or resident > memory or watched > until:
                    raise Stopped("cpu" if seconds > cpu else "memory" if resident > memory else "wall")
            if not readable(self.process.stdout, WATCH_SECONDS):
                continue
            chunk = os.read(self.process.stdout.fileno(), 65536)
            if not chunk:
                if self._last_words().startswith(OVERFLOW):
                    raise Stopped("stack")
                raise VerifierFault("it died")
            content = (content + chunk).lstrip()
            if len(content) > ANSWER_BYTES:
                raise Stopped("output")
        paragraph, _, self._rest = content.partition(b"\n\n")
        return paragraph

    def _last_words(self) -> str:
        self._errors.seek(0)
        lines = self._errors.read()[-2000:].decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else ""


class Repls(Verdicts[Job, Checked]):
    """REPLs for one header, as many as cores and memory allow."""

    def __init__(self, lean: Installation, header: str, workers: int | None = None) -> None:
        self._lean, self._header, self._workers = lean, header, workers or cores()
        super().__init__()

    def forget(self) -> None:
        super().forget()
        self.repls: list[Repl | None] = [None] * self._workers
        self._threads = ThreadPoolExecutor(self._workers, "octavo-lean")

    def close(self) -> None:
        """End the REPLs; the next job starts others."""
        for place in range(self._workers):
            self._drop(place)

    def check(self, jobs: list[Job]) -> dict[Job, Checked]:
        results = {job: bad for job in jobs if (bad := lean_text.refused(job))}
        waiting = [job for job in jobs if job not in results]
        if not waiting:
            return results
        most = max(1, min(self._workers, -(-len(waiting) // 2), memory() // max(job.memory for job in waiting)))
        parts = [waiting[place::most] for place in range(most)]
        futures = [self._threads.submit(self._work, place, part) for place, part in enumerate(parts)]
        try:
            return results | {job: result for future in futures for job, result in future.result().items()}
        except BaseException:  # an interrupt: whoever waits for a REPL does not wait longer
            for repl in self.repls:
                if repl:
                    repl.process.kill()
            raise

    def _drop(self, place: int) -> None:
        repl, self.repls[place] = self.repls[place], None
        if repl:
            repl.close()

    def _work(self, place: int, jobs: Sequence[Job]) -> dict[Job, Checked]:
        return {job: self._checked(place, job) for job in jobs}

    def _checked(self, place: int, job: Job) -> Checked:
        """The verdict on a job. One that its REPL fails is asked once more, in a new one."""
        result = proofs.unknown("the REPL gave no result")
        for _ in range(2):
            try:
                result = self._asked(place, job)
            except VerifierUnavailable as error:
                return proofs.unknown(error.what)
            except VerifierFault as error:
                result = proofs.unknown(str(error))
            if result.outcome != "unknown":
                return result
            self._drop(place)  # perhaps it gave the answer to another job: no later one could be trusted
        return result

    def _asked(self, place: int, job: Job) -> Checked:
        repl = self.repls[place]
        if repl and repl.uses >= USES:
            self._drop(place)
            repl = None
        if repl is None:
            if (tier := sandbox.tier()) != "bubblewrap":
                raise VerifierFault(f"Lean runs in bubblewrap only, not in {tier}")
            repl = self.repls[place] = Repl(self._lean, self._header)
        body = lean_text.body(job, secrets.token_hex(8))
        try:
            answer = repl.ask(body.text, job.cpu, job.memory, job.wall_seconds)
            return read(job, body, messages(answer.get("messages") or []), bool(answer.get("sorries")))
        except Stopped as stopped:
            self._drop(place)
            return used(stopped.what, job, "Lean")
        except (ValueError, KeyError, TypeError) as error:
            raise VerifierFault(f"the REPL's answer cannot be read: {error}") from None
