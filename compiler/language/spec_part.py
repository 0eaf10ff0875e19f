"""The parent of all parts of a spec."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Part(BaseModel):
    """Parent of all parts of a spec: immutable, closed keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
