"""Check model-written Lean proofs with the Lean of this machine. `verifier(header).run(jobs)` never raises."""

from __future__ import annotations

import functools
import json
import secrets
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from stages.train.verifiers import lean_text, proof_build, proofs, sandbox, seccomp, zygote_pool
from stages.train.verifiers.faults import VerifierFault, VerifierUnavailable
from stages.train.verifiers.isolation import Tier
from stages.train.verifiers.lean_read import messages, read
from stages.train.verifiers.lean_repl import LeanRepl, Stopped
from stages.train.verifiers.lean_server import Server
from stages.train.verifiers.lean_setup import Installation, installation
from stages.train.verifiers.lean_text import Job
from stages.train.verifiers.proof_ended import ended, used
from stages.train.verifiers.proof_process import ProofZygote, bubblewrap_only
from stages.train.verifiers.proofs import Checked

REPL_USES = 200
"""The REPL keeps every environment it ever made, so it is replaced after this many jobs."""


class Verifier(Protocol):
    """Whatever checks proofs."""

    def run(self, jobs: Sequence[Job]) -> list[Checked]: ...


def tier() -> str:
    """The sandbox that proofs are checked in, with Lean's version. Raises VerifierUnavailable."""
    found = installation()
    if found.kind == "server":
        return f"a Lean server of its own, Lean {found.version}"
    chosen = sandbox.tier()
    bubblewrap_only(chosen, "Lean")
    if found.kind == "program":
        proof_build.library()
    return f"{chosen} with Lean {found.version} ({found.kind})"


class Pool(zygote_pool.Pool[Job, Checked, ProofZygote]):
    """A plain `lean` program: one warm process, one fork a proof. The header is read anew for each proof."""

    def __init__(self, found: Installation, tier: Tier | None = None, lanes: int | None = None) -> None:
        super().__init__(tier, lanes)
        self.found = found

    def start(self, tier: Tier, lane: int) -> ProofZygote:
        bubblewrap_only(tier, "Lean")
        return ProofZygote(tier, self.found.command, self.found.needs, "", seccomp.checker(), self.found.environment, lane)

    def ask(self, zygote: ProofZygote, job: Job) -> Checked:
        bad = lean_text.refused(job)
        if bad is not None:
            return bad
        body = lean_text.body(job, secrets.token_hex(8))
        answered = zygote.ask(f"{job.header}\n{body.text}", job.cpu, 0, job.wall_seconds, resident=job.memory)
        bad = ended(answered, job, "Lean")
        if bad is not None:
            return bad
        written = (answered.written or b"").decode("utf-8", "replace")
        try:
            found = messages([json.loads(line) for line in written.splitlines()], job.header.count("\n") + 1)
        except (ValueError, KeyError, TypeError, RecursionError):
            return proofs.unknown("Lean did not write its messages as JSON")
        return read(job, body, found)

    def check(self, zygote: ProofZygote) -> None:
        for job, right in _CANARIES:
            found = self.ask(zygote, job)
            if found.outcome != right:
                raise VerifierFault(f"a known proof came back as {found.outcome} {found.reason}")

    def unknown(self, reason: str) -> Checked:
        return proofs.unknown(reason)


class ReplPool(zygote_pool.Pool[Job, Checked, LeanRepl]):
    """The REPL of a Lake project: the header is read once, each proof starts from there."""

    retire_after = REPL_USES
    jobs_a_lane = 2

    def __init__(self, found: Installation, header: str, tier: Tier | None = None, lanes: int | None = None) -> None:
        super().__init__(tier, lanes)
        self.found, self.header = found, header

    def start(self, tier: Tier, lane: int) -> LeanRepl:
        bubblewrap_only(tier, "Lean")
        repl = LeanRepl(tier, self.found, self.header, lane)
        if repl.refusal:
            repl.close()
            raise VerifierUnavailable(
                f"Lean refuses the header: {proofs.printable(repl.refusal)}",
                why="every proof is checked after the header of its gate",
                fix="correct `header`, or build what it imports: lake build",
            )
        return repl

    def ask(self, zygote: LeanRepl, job: Job) -> Checked:
        bad = lean_text.refused(job)
        if bad is not None:
            return bad
        body = lean_text.body(job, secrets.token_hex(8))
        try:
            answer = zygote.ask(body.text, job.cpu, job.memory, job.wall_seconds)
        except Stopped as stopped:
            return used(stopped.what, job, "Lean")
        try:
            found = read(job, body, messages(answer.get("messages") or []), bool(answer.get("sorries")))
        except (ValueError, KeyError, TypeError) as error:
            zygote.close()
            raise VerifierFault(f"the REPL's answer cannot be read: {error}") from None
        if found.outcome == "unknown":  # perhaps the answer to another job: no later one could be trusted
            zygote.close()
            raise VerifierFault(found.reason)
        return found

    def check(self, zygote: LeanRepl) -> None:
        for job, right in _REPL_CANARIES:
            found = self.ask(zygote, job)
            if found.outcome != right:
                raise VerifierFault(f"a known proof came back as {found.outcome} {found.reason}")

    def unknown(self, reason: str) -> Checked:
        return proofs.unknown(reason)


_GOOD = Job("prelude", "theorem canary (a : Prop) (h : a) : a", "h", "proof", (), 10.0, 2**33)
_CANARIES = (
    (_GOOD, "proved"),
    (replace(_GOOD, answer="no_such_name"), "type"),
    (replace(_GOOD, answer="(h"), "syntax"),
)
_REPL_CANARIES = tuple((replace(job, header=""), right) for job, right in _CANARIES)


def verifier(header: str) -> Verifier:
    """This process's verifier for a header. Raises VerifierUnavailable when there is no Lean."""
    found = installation()
    return _verifier(found, header if found.kind == "repl" else "")


@functools.lru_cache(maxsize=4)
def _verifier(found: Installation, header: str) -> Verifier:
    if found.kind == "server":
        return Server(found.url)
    one = Pool(found) if found.kind == "program" else ReplPool(found, header)
    one.end_with_process()
    return one
