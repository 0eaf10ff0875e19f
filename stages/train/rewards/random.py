"""Gate `random`: a draw that knows nothing of the completion. Equal keys give equal draws on every machine."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from stages.contracts.artifact import Frozen
from stages.contracts.plugin import Answer, Judgement


class Settings(Frozen):
    """Which distribution the score comes from."""

    distribution: Literal["bernoulli", "uniform"] = Field(
        "bernoulli", description="bernoulli: 1.0 (pass) with probability p, else 0.0 (fail). uniform: passes with a number in [0, 1)."
    )
    p: float = Field(0.5, ge=0, le=1, description="Probability of a pass; only bernoulli reads it.", json_schema_extra={"unit": "share"})


def judge(settings: Settings, answers: Sequence[Answer]) -> list[Judgement]:
    """One draw an answer, from its key alone."""
    return [_judgement(settings, draw(answer.key)) for answer in answers]


def draw(key: str) -> float:
    """A number in [0, 1) with 53 random bits from SHA-256 of the key: no global generator, so order and batch do not matter."""
    digest = hashlib.sha256(b"octavo.random\0" + key.encode("utf-8", "surrogatepass")).digest()
    return (int.from_bytes(digest[:8], "big") >> 11) / 2**53


def _judgement(settings: Settings, number: float) -> Judgement:
    if settings.distribution == "uniform":
        return Judgement("pass", number)
    return Judgement("pass", 1.0) if number < settings.p else Judgement("fail", 0.0)
