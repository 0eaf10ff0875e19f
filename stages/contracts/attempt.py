"""`<run>/attempts.jsonl`: the ledger. Append-only, two lines an attempt; a start without an end means killed.

`<run>/outcome.json`: how the run stands after its latest attempt.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field, TypeAdapter

from stages.contracts.artifact import Artifact, ArtifactError, Frozen, Time, later
from stages.contracts.files import parse_json, read_bytes

FailureClass = Literal["out_of_memory", "nonfinite", "verifier", "reward", "refused", "disk", "data", "interrupted", "bug"]
"""refused: preflight or a reward example said no. interrupted: SIGINT or SIGTERM reached us."""


Determinism = Literal["all", "update", "none"]
"""What of an attempt on a GPU was deterministic. update: all but the engine that samples (vLLM, continuous batching). none: off."""

Words = Annotated[str, BeforeValidator(lambda text: text.encode("utf-8", "backslashreplace").decode() if isinstance(text, str) else text)]
"""Text of an error, which may name a file whose name is no text: halves of pairs of surrogates are escaped, so that it can be written."""


class StoppedBy(Frozen):
    """The declared rule that ended a run before its target. Such a run is finished: it is neither resumed nor tried again."""

    rule: str
    """Id of the rule, such as `early_stop` or `red_flag-1`."""
    step: int
    says: str
    """What was measured, such as `mean of reward over steps 271-300 is 0.1021`."""


class Changed(Frozen):
    """What an attempt does differently because of how the one before it ended, as the experiment's `retries` allow."""

    after: str
    """The attempt before."""
    failure: str
    """Its class of failure; `preempted`: it was killed, or stopped by a signal."""
    microbatch: int | None = later(None)
    """Completions per device and micro-step in place of the card's; the micro-steps grow so that the batch stays the same."""
    resume: Literal["last_checkpoint", "last_finite_checkpoint"] | None = later(None)
    restart_verifier: bool = later(False)


class Started(Frozen):
    event: Literal["started"] = "started"
    attempt: str
    number: int
    """1 for the first attempt of the run."""
    at: Time
    card_id: str
    commit: str | None
    """Git commit of the working tree, `+` appended when it had changes; null outside git."""
    host: str
    """Class of machine, such as `linux-x86_64-2cpu`; never a host name."""
    devices: tuple[str, ...]
    versions: dict[str, str]
    sandbox: str
    resumed_from: int | None
    """Step of the checkpoint that training went on from; null: from the start."""
    changed: Changed | None = later(None)
    log: str | None = later(None)
    """Of an imported run with several logs: the one that was read."""
    job: str | None = later(None)
    """Of a cluster's job: what Slurm calls it and its node, such as `4711_0 on gpu-node-3`."""


TRACKED = r"https://[!-~]{1,500}|\.cache/wandb/[A-Za-z0-9._/-]{1,300}"
"""Address of a W&B run, or the folder of one that was offline."""


class Ended(Frozen):
    event: Literal["ended"] = "ended"
    attempt: str
    at: Time
    outcome: Literal["finished", "failed", "unknown"]
    """unknown: of an imported run whose log merely ends."""
    failure: FailureClass | None = None
    last_step: int
    seconds: float
    error: Words | None = None
    """One plain sentence; untrusted text inside, escape before showing."""
    stopped: StoppedBy | None = later(None)
    generation: str | None = later(None)
    """What sampled the completions where that is not decided by the card alone, such as `compiled`, or
    `transformers: no memory for a copy that samples: 17.1 GiB taken, 20.0 were free`."""
    determinism: Determinism | None = later(None)
    """Null on a CPU, where one thread makes every run so."""
    wandb: Annotated[str, Field(pattern=f"^(?:{TRACKED})$")] | None = later(None)
    """The attempt at W&B: its address, or the folder of `wandb sync` where it was offline."""

    @property
    def wandb_address(self) -> str | None:
        return self.wandb if self.wandb and self.wandb.startswith("https://") else None


class Outcome(Artifact):
    """`<run>/outcome.json`, written by train beside the history."""

    SCHEMA: ClassVar[str] = "octavo.outcome/1"

    card_id: str
    attempt: str
    finished: bool
    steps_done: int
    target_steps: int
    failure: FailureClass | None = None
    error: Words | None = None
    unknown: str = later("")
    """Of an imported run: why it is unknown whether it finished, such as `log ends at 299`. Then `finished` is false."""
    stopped: StoppedBy | None = later(None)
    """Set when a rule ended the run: it is finished with fewer steps than its target."""


class Attempt(Frozen):
    """A started line with its end, when there is one."""

    started: Started
    ended: Ended | None = None

    @property
    def state(self) -> str:
        """`finished`, `failed`, `unknown` or `killed`. Of a run that is being trained right now, the live attempt reads `killed`."""
        return self.ended.outcome if self.ended else "killed"


def first_data(attempts: Iterable[Attempt]) -> str | None:
    """When the first attempt began that anything could be known from (UTC, ISO 8601): one that failed before its first step, for a wrong
    column or no memory, showed no result to anybody. One without an end may have."""
    return min((attempt.started.at for attempt in attempts if not _showed_nothing(attempt)), default=None)


def _showed_nothing(attempt: Attempt) -> bool:
    end = attempt.ended
    return end is not None and end.outcome == "failed" and end.failure is not None and end.last_step == 0


def tries(attempts: tuple[Attempt, ...], *, only_read: bool) -> tuple[Attempt, ...]:
    """Those that a completion rate counts: every one. Of logs that were `only_read`, trained elsewhere, the newest reading of each:
    reading one again is no other try to train."""
    if not only_read:
        return attempts
    newest = attempts[-1].started.card_id if attempts else ""
    return tuple({attempt.started.log: attempt for attempt in attempts if attempt.started.card_id == newest}.values())


_LINE: TypeAdapter[Started | Ended] = TypeAdapter(Started | Ended)


def read_attempts(path: Path) -> tuple[Attempt, ...]:
    """All attempts of a ledger, in order of their start, whatever became of the clock between them; () when the file does not exist.

    A torn last line (killed while writing) is skipped; any other broken line raises ArtifactError with its number.
    """
    if not path.exists():
        return ()
    starts: dict[str, Started] = {}
    ends: dict[str, Ended] = {}
    text = read_bytes(path).decode("utf-8", "replace")
    lines = text.split("\n")  # and not splitlines: an error may quote a completion with U+2028, which ends no line of JSON
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            entry = _LINE.validate_python(parse_json(line))
        except ValueError as error:
            if number == len(lines) and not text.endswith("\n"):
                break
            raise ArtifactError(
                f"{path}:{number}",
                f"broken ledger line: {error}",
                why="the ledger is append-only and never edited",
                fix=f"git log -p {path}",
            ) from None
        if isinstance(entry, Started):
            starts.setdefault(entry.attempt, entry)
        else:
            ends.setdefault(entry.attempt, entry)
    ordered = sorted(_not_before(list(starts.values())), key=lambda start: (start[0], start[1].number))
    return tuple(Attempt(started=start, ended=ends.get(start.attempt)) for _, start in ordered)


def _not_before(starts: list[Started]) -> list[tuple[str, Started]]:
    """(time by which it is ordered, attempt). An attempt is numbered after all that its writer saw above it, so it is younger than they,
    even where a clock was set back. Where git has put the lines of two branches one after the other, times say which came first: there a
    number goes on from the line above, or from nothing that is known."""
    ordered: list[tuple[str, Started]] = []
    for start in starts:
        sees_all = start.number == len(ordered) + 1
        goes_on = bool(ordered) and start.number == ordered[-1][1].number + 1
        above = max((at for at, _ in ordered), default="") if sees_all else ordered[-1][0] if goes_on else ""
        ordered.append((max(start.at, above), start))
    return ordered
