"""What the settings of every training algorithm share. Each algorithm has a module of its own beside this one.

A stage imports the settings of its own algorithm only: a change of one algorithm's keys then leaves the code versions, and so the runs,
of all others alone. `stages/contracts/algorithms.py` knows them all; the compiler and the pages use that.
"""

from __future__ import annotations

from pydantic import Field

from stages.contracts.artifact import Section, later


class Guards(Section):
    """What is done about non-finite gradients and logits during training."""

    skip_nonfinite_gradients: bool = Field(True, description="Skip an optimizer step whose gradient is not finite; it is counted.")
    stop_after_skipped: int = Field(10, ge=1, description="Stop the attempt after so many skipped steps in a row.")
    remove_invalid_logits: bool = later(
        False,
        description="Replace logits that are not finite before sampling, which else ends with an error; `invalid_logits` counts them.",
    )


class TrainSettings(Section):
    """Keys that every algorithm has. `algorithm` is narrowed to its own name by each."""

    algorithm: str
    max_steps: int = Field(ge=1, description="Optimizer steps of a run.")

    @property
    def group_size(self) -> int:
        """Completions of one prompt that are compared with each other; 1 when none are."""
        return 1

    @property
    def microbatch_key(self) -> str | None:
        """The key that says how many completions pass through the model at once, whose half with twice `gradient_accumulation_steps`
        makes the same optimizer step; None when there is none."""
        return None

    @property
    def prompts_per_batch(self) -> int:
        """Different prompts in one batch of completions; 0 when no completions are sampled."""
        return 0
