"""`runs/<experiment>/origins.json`: where in the specs each value of a card came from. Only tracing and pages depend on it."""

from __future__ import annotations

from typing import ClassVar

from stages.contracts.artifact import Artifact, Frozen


class Origin(Frozen):
    """A place in a spec. `layer` is defaults, shared, experiment, condition or profile; defaults have no place."""

    file: str | None
    line: int | None
    column: int | None
    layer: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.file else "default"


class Origins(Artifact):
    """`cards[<card path>][<JSON pointer>]`, the card path relative to the experiment's folder, such as
    `shaped-s1/train.card.json` and `/train/learning_rate`. `claims[<id>]` and `conditions[<name>]` are places in the spec."""

    SCHEMA: ClassVar[str] = "octavo.origins/1"

    spec: str
    cards: dict[str, dict[str, Origin]]
    claims: dict[str, Origin]
    conditions: dict[str, Origin]
