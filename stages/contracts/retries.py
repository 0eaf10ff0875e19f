"""`runs/<experiment>/retries.json`: what an attempt may change after the one before it failed. Read by train, and no dependency of it:
a policy decides how a result is reached, not what it is, so editing it retrains nothing."""

from __future__ import annotations

from typing import ClassVar

from stages.contracts.artifact import Artifact


class Retries(Artifact):
    """The policy of an experiment. Without a file nothing is tried again by itself."""

    SCHEMA: ClassVar[str] = "octavo.retries/1"

    attempts: int = 1
    """Most attempts of a run in one call of its stage, such as one `dvc repro`."""
    halve_microbatch: bool = False
    """After out_of_memory: half the completions per device and micro-step, twice the micro-steps."""
    last_finite_checkpoint: bool = False
    """After nonfinite: go on from the newest checkpoint whose adapter and optimizer are finite."""
    restart_verifier: bool = False
    """After verifier: begin with new verifier processes."""
    last_checkpoint: bool = False
    """After an attempt that was killed or stopped by a signal: the next call goes on from the newest checkpoint, and says so."""
