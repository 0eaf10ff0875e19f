"""The attempts ledger of a run: who may train it now, what was tried, how it ended.

The ledger is append-only and lives in git; two lines an attempt. A start without an end means that the process was killed.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from stages.contracts.artifact import Frozen
from stages.contracts.attempt import Attempt, Changed, Ended, FailureClass, Outcome, Started, read_attempts
from stages.contracts.diagnostic import StageError
from stages.contracts.layout import CHECKPOINTS, LOCKS, RunFolder
from stages.train.environment import commit, host_class, versions


class Stopped(Exception):
    """Training must stop now, for a reason that is known. `failure` is its class, the message one plain sentence."""

    def __init__(self, failure: FailureClass, message: str) -> None:
        super().__init__(message)
        self.failure: FailureClass = failure


@contextlib.contextmanager
def lock(run: RunFolder) -> Iterator[None]:
    """Hold the run for this process. Raises StageError S210 when a live process trains it (killing dvc leaves its child running)."""
    path = LOCKS / f"{run.root.parent.name}--{run.name}.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            stream.seek(0)
            owner = stream.read().strip() or "unknown"
            raise StageError(
                "S210",
                f"process {owner} is training {run.root} right now",
                why="two attempts of one run would mix their files",
                fix=f"wait for it, or end it with `kill {owner}`, then dvc repro",
            ) from None
        stream.truncate(0)
        stream.write(str(os.getpid()))
        stream.flush()
        yield


def checkpoints(card_id: str) -> Path:
    """Folder of a card's checkpoints and journal, outside DVC's outs so that a killed run can resume."""
    return CHECKPOINTS / card_id


def begin(
    run: RunFolder, card_id: str, *, devices: tuple[str, ...], sandbox: str, resumed_from: int | None, changed: Changed | None = None
) -> Started:
    """Append the start of a new attempt."""
    number = len(read_attempts(run.attempts)) + 1
    started = Started(
        attempt=f"{run.name}-a{number}-{secrets.token_hex(2)}",
        number=number,
        at=_now(),
        card_id=card_id,
        commit=commit(),
        host=host_class(),
        devices=devices,
        versions=versions(),
        sandbox=sandbox,
        resumed_from=resumed_from,
        changed=changed,
    )
    _append(run.attempts, started)
    return started


def end(run: RunFolder, started: Started, outcome: Outcome, seconds: float, generation: str | None = None) -> None:
    """Append the end of an attempt. It finished also when a rule stopped it."""
    ended = Ended(
        attempt=started.attempt,
        at=_now(),
        outcome="finished" if outcome.finished else "unknown" if outcome.unknown else "failed",
        failure=outcome.failure,
        last_step=outcome.steps_done,
        seconds=round(seconds, 1),
        error=outcome.error[:500] if outcome.error else None,
        stopped=outcome.stopped,
        generation=generation,
    )
    _append(run.attempts, ended)


def under(run: RunFolder, card_id: str) -> tuple[Attempt, ...]:
    """All attempts under a card, in order."""
    return tuple(attempt for attempt in read_attempts(run.attempts) if attempt.started.card_id == card_id)


def _now() -> str:
    return datetime.now(UTC).replace(microsecond=0).isoformat().replace("+00:00", "Z")


def _append(path: Path, entry: Frozen) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    last = path.read_bytes().rpartition(b"\n")[2] if path.exists() else b""
    with path.open("a", encoding="utf-8") as stream:
        try:
            stream.write("\n" if last and json.loads(last) else "")
        except (ValueError, RecursionError):  # torn by a kill: no reader counts it, and with lines after it it would break the ledger
            stream.truncate(path.stat().st_size - len(last))
        stream.write(entry.model_dump_json() + "\n")
        stream.flush()
        os.fsync(stream.fileno())
