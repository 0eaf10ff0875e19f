"""The host's end of a proof checker that forks a process a proof. Every trouble with it is a VerifierFault."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from stages.train.verifiers import family, proof_build
from stages.train.verifiers.faults import VerifierFault, VerifierUnavailable
from stages.train.verifiers.isolation import Tier
from stages.train.verifiers.zygote_process import GRACE_SECONDS, START_SECONDS, Answered, ZygoteProcess

ENV = "/usr/bin/env"
PRELOADED = "/zygote.so"
"""Where the library lies inside: the loader splits LD_PRELOAD at spaces and colons, which the folder of a project may have."""
WATCH_SECONDS = 0.1


def named(program: str) -> list[tuple[str, str]]:
    """Links for a program that asks where it lies: of `/proc`, which is not there, those two that it and its loader look at."""
    return [(program, "/proc/2/exe"), (program, "/proc/self/exe")]


def bubblewrap_only(tier: Tier, what: str) -> None:
    """Raises VerifierUnavailable in a tier without namespaces: a proof checker must read its own files, so a filter alone is no wall."""
    if tier != "bubblewrap":
        raise VerifierUnavailable(
            f"{what} runs in bubblewrap only, and on this machine the sandbox is {tier}",
            why="a proof checker opens files and starts threads, which the tier of system call filters alone does not allow",
            fix="apt-get install bubblewrap, and allow user namespaces (sysctl kernel.apparmor_restrict_unprivileged_userns=0)",
        )


class ProofZygote(ZygoteProcess):
    """A checker that has read `first`. `said_first` is what it wrote meanwhile. Raises VerifierFault when it does not start."""

    def __init__(
        self,
        tier: Tier,
        command: Sequence[str],
        also: Sequence[str],
        first: str,
        filter_: bytes,
        environment: Sequence[str] = (),
        lane: int = 0,
    ) -> None:
        library = str(proof_build.library())
        program = [ENV, f"LD_PRELOAD={PRELOADED}", "HOME=/", *environment, *command]
        super().__init__(tier, program, [ENV, library, *also], links=[(library, PRELOADED), *named(command[0])], lane=lane)
        try:
            self.send(first.encode("utf-8", "surrogatepass"))
            self.send(filter_)
            self.said_first = self.receive(time.monotonic() + START_SECONDS).decode("utf-8", "replace")
        except VerifierFault as error:
            said = self.said()
            self.close()
            raise VerifierFault(f"the checker did not start: {said or error}") from None

    def ask(self, text: str, cpu: float, memory: int, wall: float, resident: int | None = None) -> Answered:
        """Run a job. `memory`: bytes of address space (0: free). `resident`: bytes above which all is ended. Raises VerifierFault."""
        self.jobs += 1
        stop, over = threading.Event(), threading.Event()
        watching = threading.Thread(target=self._watch, args=(resident, stop, over), daemon=True) if resident else None
        try:
            if watching:
                watching.start()
            self.send(f"{self.jobs} {cpu:.3f} {memory} {wall:.3f}".encode(), text.encode("utf-8", "replace"))
            until = time.monotonic() + wall + GRACE_SECONDS
            number, status, why, seconds = self.receive(until).decode().split()
            written = self.receive(until)
            if int(number) != self.jobs:
                raise VerifierFault("the zygote answered another job")
            locked = written.startswith(b".")
            return Answered(int(status), "" if why == "-" else why, float(seconds), written[1:] if locked else None)
        except (VerifierFault, ValueError) as error:
            self.close()
            if over.is_set():
                return Answered(0, "memory", 0.0, b"")
            raise VerifierFault(f"the zygote failed: {error}") from None
        except BaseException:  # an interrupt in the middle of a frame: nothing that follows could be trusted
            self.close()
            raise
        finally:
            stop.set()
            if watching:
                watching.join()

    def _watch(self, resident: int, stop: threading.Event, over: threading.Event) -> None:
        while not stop.wait(WATCH_SECONDS):
            if family.usage(self.pid)[1] > resident:
                over.set()
                self.process.kill()
                return
