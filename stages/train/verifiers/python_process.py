"""The host's end of one Python zygote: start it in a tier, ask it, end it. Every trouble with it is a VerifierFault."""

from __future__ import annotations

import base64
import functools
import json
import marshal
import secrets
import time
from pathlib import Path
from typing import Any

from stages.train.verifiers import isolation, python_zygote, seccomp
from stages.train.verifiers.faults import VerifierFault
from stages.train.verifiers.isolation import Tier
from stages.train.verifiers.zygote_process import GRACE_SECONDS, START_SECONDS, Answered, ZygoteProcess


@functools.cache
def _source() -> str:
    return Path(python_zygote.__file__).read_text(encoding="utf-8")


class PythonZygote(ZygoteProcess):
    """One running zygote. Raises VerifierFault when it does not start."""

    def __init__(self, tier: Tier, lane: int = 0) -> None:
        filters = {"zygote_filter": seccomp.zygote(), "candidate_filter": seccomp.candidate()}
        super().__init__(tier, isolation.python_command(_source()), lane=lane)
        try:
            uid = isolation.uid_to_drop_to(lane) if tier == "seccomp" else None
            self.send(json.dumps({"uid": uid, **{name: base64.b64encode(bpf).decode() for name, bpf in filters.items()}}).encode())
            self.ready = json.loads(self.receive(time.monotonic() + START_SECONDS))
        except (VerifierFault, ValueError) as error:
            said = self.said()
            self.close()
            raise VerifierFault(f"the zygote did not start: {said or error}") from None

    def ask(self, job: dict[str, Any], wall: float) -> tuple[str, Answered]:
        """Run a job of at most `wall` seconds; returns (its nonce, the answer). Raises VerifierFault; the zygote is ended then."""
        self.jobs += 1
        nonce = secrets.token_hex(8)
        try:
            self.send(python_zygote.HEADER.pack(self.jobs, wall) + marshal.dumps({**job, "nonce": nonce}))
            until = time.monotonic() + wall + GRACE_SECONDS
            number, status, cpu, why = self.receive(until).decode().split(" ", 3)
            written = self.receive(until)
            if int(number) != self.jobs:
                raise VerifierFault("the zygote answered another job")
            locked = written.startswith(python_zygote.LOCKED)
            return nonce, Answered(int(status), why, float(cpu), written[1:] if locked else None)
        except (VerifierFault, ValueError) as error:
            self.close()
            raise VerifierFault(f"the zygote failed: {error}") from None
        except BaseException:  # an interrupt in the middle of a frame: nothing that follows could be trusted
            self.close()
            raise
