"""The language of `retries`: class of failure -> what the next attempt may change."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from compiler.language.spec_part import Part
from stages.contracts.retries import Retries as Policy


class HalveMicrobatch(Part):
    """After a lack of memory."""

    microbatch: Literal["halve"] = Field(
        description="Half of `per_device_train_batch_size` (PPO: `mini_batch_size`), twice `gradient_accumulation_steps`: the same step."
    )


class FiniteCheckpoint(Part):
    """After gradients, weights or logits that are not finite."""

    resume: Literal["last_finite_checkpoint"] = Field(
        description="Go on from the newest checkpoint whose adapter and optimizer are finite; from the start when there is none."
    )


class RestartVerifier(Part):
    """After too many unknown rewards."""

    restart_verifier: Literal[True] = Field(description="Go on from the newest checkpoint with new verifier processes.")


class LastCheckpoint(Part):
    """After the process was killed, or stopped by a signal."""

    resume: Literal["last_checkpoint"] = Field(
        description="The next `dvc repro` goes on from the newest complete checkpoint, and records it."
    )


class Retries(Part):
    """What the next attempt of a failed run may change, by the class of the failure. Every change is recorded."""

    attempts: int = Field(3, ge=1, le=100, description="Most attempts of a run in one `dvc repro`.")
    out_of_memory: HalveMicrobatch | None = Field(None, description="The device or the machine had no memory left.")
    nonfinite: FiniteCheckpoint | None = Field(None, description="Gradients, weights or logits were not finite for too long.")
    verifier: RestartVerifier | None = Field(None, description="More rewards of a step were unknown than `unknown.limit` allows.")
    preempted: LastCheckpoint | None = Field(None, description="The machine went away: killed, or ended by SIGTERM.")

    def policy(self) -> Policy:
        """As stages read it."""
        return Policy(
            attempts=self.attempts,
            halve_microbatch=self.out_of_memory is not None,
            last_finite_checkpoint=self.nonfinite is not None,
            restart_verifier=self.verifier is not None,
            last_checkpoint=self.preempted is not None,
        )
