"""`runs/<experiment>/origins.json`: where in the specs each value of a card stands. Written by every compile, ignored by git."""

from __future__ import annotations

from typing import ClassVar

from stages.contracts.artifact import Artifact, Frozen


class Origin(Frozen):
    """A place in a spec. `layer` is defaults, parent, shared, experiment, condition or profile; defaults have no place."""

    file: str | None
    line: int | None
    column: int | None
    layer: str
    key: str = ""
    """Dotted key in that file, such as `conditions.zero.train.beta`. Unlike the line it stays when a comment is added above."""

    def __str__(self) -> str:
        """As pages show it: file and key."""
        return f"{self.file}: {self.key}" if self.file and self.key else self.position

    @property
    def position(self) -> str:
        """`file:line:column`, for people who have the file before them."""
        return f"{self.file}:{self.line}:{self.column}" if self.file else "default"


class Origins(Artifact):
    """`cards[<card>][<JSON pointer>]`. A card is a path below the experiment's folder; the train cards of a condition differ in the
    seed only and are one, `<condition>/train.card.json`. `claims` by id, `conditions` by name, `seeds` by number."""

    SCHEMA: ClassVar[str] = "octavo.origins/1"

    spec: str
    cards: dict[str, dict[str, Origin]]
    claims: dict[str, Origin]
    conditions: dict[str, Origin]
    seeds: dict[str, Origin] = {}
