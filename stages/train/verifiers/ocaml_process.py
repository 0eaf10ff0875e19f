"""The host's end of one OCaml zygote: start it in a tier, ask it, end it. Every trouble with it is a VerifierFault."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass
from pathlib import Path

from stages.train.verifiers import isolation, ocaml_build, seccomp
from stages.train.verifiers.faults import VerifierFault
from stages.train.verifiers.isolation import Tier
from stages.train.verifiers.zygote_process import GRACE_SECONDS, START_SECONDS, Answered, ZygoteProcess


@dataclass(frozen=True)
class Order:
    """What one job consists of; texts may hold anything."""

    before: str
    answer: str
    tests: str
    cpu: float
    """CPU seconds."""
    memory: int
    """Bytes of address space."""


class OcamlZygote(ZygoteProcess):
    """One running zygote. Raises VerifierFault when it does not start, VerifierUnavailable when there is no OCaml."""

    def __init__(self, tier: Tier, lane: int = 0, program: Path | None = None) -> None:
        """`program`: one of ocaml_build's; None = the one that also runs answers."""
        path = str(program or ocaml_build.program())
        super().__init__(tier, [path], [path, ocaml_build.compiler()[2]], lane=lane)
        uid = isolation.uid_to_drop_to(lane) if tier == "seccomp" else None
        try:
            self.send(str(-1 if uid is None else uid).encode())
            self.send(seccomp.zygote())
            self.send(seccomp.candidate())
            ready = self.receive(time.monotonic() + START_SECONDS).decode().split()
            if len(ready) != 3 or ready[0] != "ready":
                raise VerifierFault("it did not say that it is ready")
        except (VerifierFault, ValueError) as error:
            said = self.said()
            self.close()
            raise VerifierFault(f"the zygote did not start: {said or error}") from None
        self.uid, self.version = int(ready[1]), ready[2]

    def ask(self, order: Order, wall: float) -> tuple[str, Answered]:
        """Run a job of at most `wall` seconds; returns (its nonce, the answer). Raises VerifierFault; the zygote is ended then."""
        self.jobs += 1
        nonce = secrets.token_hex(8)
        try:
            frames = [f"{self.jobs} {order.cpu:.3f} {order.memory}", nonce, order.before, order.answer, order.tests]
            self.send(*(frame.encode("utf-8", "surrogatepass") for frame in frames))
            until = time.monotonic() + wall + GRACE_SECONDS
            number, word, code, cpu = self.receive(until).decode().split()
            written = self.receive(until)
            if int(number) != self.jobs:
                raise VerifierFault("the zygote answered another job")
            status = int(code) if word == "signalled" else int(code) << 8
            locked = written.startswith(b".")
            return nonce, Answered(status, "", float(cpu), written[1:] if locked else None)
        except (VerifierFault, ValueError) as error:
            self.close()
            raise VerifierFault(f"the zygote failed: {error}") from None
        except BaseException:  # an interrupt in the middle of a frame: nothing that follows could be trusted
            self.close()
            raise
