"""Lengths and places of a run: `50%` of its steps or `100 steps`. Only with the unit: a bare number could mean either."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from compiler.document.names import fault
from stages.rules import step_of

PATTERN = r"^\s*[0-9]{1,9}(\.[0-9]{1,9})?\s*%\s*$|^\s*[0-9]{1,9}\s*steps?\s*$"
_TEXT = re.compile(r"\s*([0-9]{1,9})(\.[0-9]{1,9})?\s*(%|steps?)\s*")


@dataclass(frozen=True)
class Length:
    """`amount` is a number of steps, or a share of 1."""

    amount: float
    unit: Literal["steps", "%"]

    def steps(self, target_steps: int) -> int:
        """In steps of a run: of a share, up to the first step at which it is done; 0 for nothing."""
        if self.amount == 0:
            return 0
        return int(self.amount) if self.unit == "steps" else step_of(self.amount, target_steps)


def length(text: str) -> Length | None:
    """The length that a text says; None when it is none."""
    match = _TEXT.fullmatch(text)
    if match is None or (match[2] and match[3] != "%"):
        return None
    if match[3] == "%":
        return Length(float(f"{float(match[1] + (match[2] or '')) / 100:.15g}"), "%")
    return Length(float(match[1]), "steps")


def read(text: str) -> Length:
    """The length of a text that a model of the language has accepted."""
    found = length(text)
    assert found is not None, text
    return found


def _with_unit(value: Any) -> Any:
    if isinstance(value, str) and length(value) is not None:
        return value
    shown = f"`{value}`"[:60] if isinstance(value, str | int | float) and not isinstance(value, bool) else "no text"
    raise fault(
        "E260",
        f"a place in a run needs its unit, and is {shown}",
        "15 could be steps or a share; a rule that means the other one is a dead rule",
        "write it as `50%` or `100 steps`",
    )


LengthText = Annotated[str, BeforeValidator(_with_unit), Field(json_schema_extra={"pattern": PATTERN})]
"""Text in a spec with the unit checked."""
