"""Where things come from: values of cards in specs (`origins.json`, written by every compile, ignored by git), files of a page
(`page/lineage.json`), and rules against the first data (`page/rules.json`)."""

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


COMPILED, INPUT = "octavo compile", "input"


class MadeFile(Frozen):
    path: str
    """Relative to the project root."""
    sha256: str
    """As it was when the page was written."""
    made_by: str
    """`octavo compile`, `attempt <id>`, `stage <name>`, or `input` of what octavo did not make."""


class Lineage(Artifact):
    SCHEMA: ClassVar[str] = "octavo.lineage/1"

    experiment: str
    commit: str | None
    """Git commit of the attempts; null when there are several."""
    files: tuple[MadeFile, ...]


class Written(Frozen):
    """When a rule was committed."""

    written: str
    """In words, against the first data of what it is about."""
    late: str = ""
    """What of it is younger than those data; empty of a rule that may decide."""


class Changed(Artifact):
    """Since the first data of a claim, of an expectation's conditions, or of the experiment."""

    SCHEMA: ClassVar[str] = "octavo.changed/1"

    rules: dict[str, Written] = {}
    """By claim."""
    expectations: dict[str, Written] = {}
    """By expectation."""
    withdrawn: tuple[str, ...] = ()
    """Claims and expectations that are no longer declared."""
    dropped: tuple[str, ...] = ()
    """Runs with data that are no longer declared."""
    added: tuple[str, ...] = ()
    """Runs that were declared when others had data."""
