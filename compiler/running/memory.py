"""Stages that the kernel kills for lack of memory: a job or a container has a limit, and who is killed cannot say why it ended.

The worker outlives its stage and writes the end of the attempt for it. The next attempt could not: it runs in another control group.
"""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime
from pathlib import Path

from stages.contracts.artifact import now, read
from stages.contracts.attempt import Ended, read_attempts
from stages.contracts.layout import ExperimentFolder, RunFolder
from stages.contracts.retries import NONE, Retries

_OWN = Path("/proc/self/cgroup")
_ROOT = Path("/sys/fs/cgroup")


def kernel_kills() -> int:
    """Processes of our control group that the kernel has killed for lack of memory; 0 where it does not say."""
    with contextlib.suppress(OSError):
        groups = {names: path for _, names, path in (line.split(":", 2) for line in _OWN.read_text().splitlines())}
        counters = [_ROOT / groups[""].lstrip("/") / "memory.events"] if "" in groups else []
        counters += [_ROOT / "memory" / groups["memory"].lstrip("/") / "memory.oom_control"] if "memory" in groups else []
        for counter in counters:
            with contextlib.suppress(OSError):
                words = [line.split() for line in counter.read_text().splitlines()]
                return next(int(count) for name, count in words if name == "oom_kill")
    return 0


def record_kill(run: RunFolder) -> bool:
    """Write the end of the run's newest attempt, which has none. Returns whether the experiment's `retries` want another one."""
    from stages.train.attempts import append, checkpoints, lock  # these take a second to import, and few runs end so
    from stages.train.recorder import Journal

    with lock(run):
        attempts = read_attempts(run.attempts)
        if attempts and attempts[-1].ended is None:
            started = attempts[-1].started
            journal = Journal(checkpoints(started.card_id))
            seconds = (datetime.now(UTC) - datetime.fromisoformat(started.at)).total_seconds()
            end = Ended(
                attempt=started.attempt,
                at=now(),
                outcome="failed",
                failure="out_of_memory",
                last_step=max(journal.last_step(started.attempt), started.resumed_from or 0),
                seconds=round(max(seconds, 0.0), 1),
                error="the kernel killed the process: the memory of its job or container was used up",
            )
            append(run.attempts, end)
    retries = ExperimentFolder(run.root.parent).retries
    return (read(Retries, retries) if retries.exists() else NONE).out_of_memory is not None
