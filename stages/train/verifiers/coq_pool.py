"""Check model-written Coq proofs in the sandbox: one warm coqtop a core and header, one fork a proof.

`pool(header).run(jobs)` never raises.
"""

from __future__ import annotations

import functools
import os
import secrets
import shutil
import subprocess
from dataclasses import replace

from stages.train.verifiers import coq_text, proof_build, proofs, sandbox, seccomp, zygote_pool
from stages.train.verifiers.coq_read import read
from stages.train.verifiers.coq_text import Job
from stages.train.verifiers.faults import VerifierFault, VerifierUnavailable
from stages.train.verifiers.isolation import Tier
from stages.train.verifiers.proof_ended import ended
from stages.train.verifiers.proof_process import ProofZygote, bubblewrap_only
from stages.train.verifiers.proofs import Checked

_INSTALL = "apt-get install coq libcoq-stdlib gcc"
_FINDLIB = ("/etc/ocamlfind.conf", "/etc/ocamlfind.conf.d", "/usr/share/coq")
"""What coqtop looks at when it starts, where it is there."""
_ENVIRONMENT = ("OCAMLRUNPARAM=s=256k,o=200",)
"""Two MiB for young values, where Coq itself takes 256 MiB: the kernel hands out each page that a job writes on, used before or not."""
_HEADER_SAID = "octavo_header_was_read"


@functools.cache
def coqtop() -> tuple[str, str, str]:
    """(path of coqtop, its version, folder of its library). Raises VerifierUnavailable."""
    program = shutil.which("coqtop")
    if program is None:
        raise VerifierUnavailable("coqtop is not installed", why="the gate `coq` checks proofs with Coq itself", fix=_INSTALL)
    try:
        asked = [
            subprocess.run([program, flag], capture_output=True, text=True, check=True, timeout=60).stdout
            for flag in ("--print-version", "-where")
        ]
    except (OSError, subprocess.SubprocessError) as error:
        raise VerifierUnavailable(f"coqtop does not run: {error}", why="the gate `coq` needs it", fix=_INSTALL) from None
    return os.path.realpath(program), asked[0].split()[0], os.path.realpath(asked[1].strip())


def tier() -> str:
    """The sandbox that proofs are checked in, with Coq's version. Raises VerifierUnavailable."""
    version = coqtop()[1]
    found = sandbox.tier()
    bubblewrap_only(found, "Coq")
    proof_build.library()
    return f"{found} with Coq {version}"


class Pool(zygote_pool.Pool[Job, Checked, ProofZygote]):
    """The Coq verifier of one process for one header."""

    def __init__(self, header: str, tier: Tier | None = None, lanes: int | None = None) -> None:
        super().__init__(tier, lanes)
        self.header = header

    def start(self, tier: Tier, lane: int) -> ProofZygote:
        bubblewrap_only(tier, "Coq")
        program, _, library = coqtop()
        first = f"Set Silent.\n{self.header}\nLocate {_HEADER_SAID}.\n"
        command, needs = [program, "-q", "-coqlib", library], [program, library, *_FINDLIB]
        zygote = ProofZygote(tier, command, needs, first, seccomp.checker(), _ENVIRONMENT, lane)
        if "Error:" in zygote.said_first or f"basename {_HEADER_SAID}" not in zygote.said_first:
            said = zygote.said_first.split("Error:")[-1]
            zygote.close()
            raise VerifierUnavailable(
                f"Coq refuses the header: {proofs.printable(said)}",
                why="every proof is checked after the header of its gate",
                fix="correct `header`, or install the library that it requires: apt-cache search libcoq",
            )
        return zygote

    def ask(self, zygote: ProofZygote, job: Job) -> Checked:
        bad = coq_text.refused(job)
        if bad is not None:
            return bad
        nonce = secrets.token_hex(8)
        answered = zygote.ask(coq_text.text(job, nonce), job.cpu, job.memory, job.wall_seconds)
        return ended(answered, job, "Coq") or read(job, nonce, (answered.written or b"").decode("utf-8", "replace"))

    def check(self, zygote: ProofZygote) -> None:
        for job, right in _CANARIES:
            found = self.ask(zygote, job)
            if found.outcome != right:
                raise VerifierFault(f"a known proof came back as {found.outcome} {found.reason}")

    def unknown(self, reason: str) -> Checked:
        return proofs.unknown(reason)


_GOOD = Job("Theorem canary (a b : Prop) : a -> b -> a.", "Proof. intros p q. exact p. Qed.", (), 5.0, 2**31)
_CANARIES = (
    (_GOOD, "proved"),
    (replace(_GOOD, answer="Proof. intros p q. exact q. Qed."), "type"),
    (replace(_GOOD, answer="Proof. intros p q. do 100000 (repeat (do 100 idtac)). do 1000000000 idtac. Qed.", cpu=0.2), "timeout"),
)


@functools.lru_cache(maxsize=4)
def pool(header: str) -> Pool:
    """This process's pool for a header. It starts its zygote at the first job, and ends it when the process ends."""
    one = Pool(header)
    one.end_with_process()
    return one
