"""Settings of algorithms in which the policy learns from completions that it samples: what they share."""

from __future__ import annotations

from pydantic import Field

from stages.contracts.optimized import OptimizedSettings


class SampledSettings(OptimizedSettings):
    """Sampling beside the optimizer. Names and meanings are those of transformers and TRL."""

    max_completion_length: int = Field(ge=1, description="Longest completion, in tokens; longer ones are cut and count as truncated.")
    temperature: float = Field(1.0, gt=0, description="Sampling temperature.")
    top_p: float = Field(1.0, gt=0, le=1, description="Nucleus sampling mass.")
