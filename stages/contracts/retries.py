"""`retries` of a spec, and `runs/<experiment>/retries.json`: what an attempt may change after the one before it failed. Read by train, and
no dependency of it: a policy decides how a result is reached, not what it is, so editing it retrains nothing."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from stages.contracts.artifact import Artifact, Section


class HalveMicrobatch(Section):
    """After a lack of memory."""

    microbatch: Literal["halve"] = Field(description="Half the micro-batch, twice `gradient_accumulation_steps`: the same step.")


class FiniteCheckpoint(Section):
    """After gradients, weights or logits that are not finite."""

    resume: Literal["last_finite_checkpoint"] = Field(description="Go on from the newest finite checkpoint, or from the start.")


class RestartVerifier(Section):
    """After too many unknown rewards."""

    restart_verifier: Literal[True] = Field(description="Go on from the newest checkpoint with new verifier processes.")


class LastCheckpoint(Section):
    """After the process was killed, or stopped by a signal."""

    resume: Literal["last_checkpoint"] = Field(description="The next `dvc repro` goes on from the newest complete checkpoint.")


class RetryPolicy(Section):
    """What the next attempt of a failed run may change, by the class of the failure. Every change is recorded."""

    attempts: int = Field(3, ge=1, le=100, description="Most attempts of a run in one `dvc repro`.")
    out_of_memory: HalveMicrobatch | None = Field(None, description="The device or the machine had no memory left.")
    nonfinite: FiniteCheckpoint | None = Field(None, description="Gradients, weights or logits were not finite for too long.")
    verifier: RestartVerifier | None = Field(None, description="More rewards of a step were unknown than `unknown.limit` allows.")
    preempted: LastCheckpoint | None = Field(None, description="The machine went away: killed, or ended by SIGTERM.")


class Retries(RetryPolicy, Artifact):
    """The policy of an experiment."""

    SCHEMA: ClassVar[str] = "octavo.retries/1"


NONE = Retries(attempts=1)
"""Nothing is tried again by itself."""


class Retry(Artifact):
    """`after` names the failed attempt after which the run is due again; null while no attempt has failed."""

    SCHEMA: ClassVar[str] = "octavo.retry/1"

    after: str | None = None
