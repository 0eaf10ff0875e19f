"""`page/lineage.json`: nodes and edges from cause to effect, from the spec to the numbers on a page."""

from __future__ import annotations

from typing import ClassVar, Literal

from stages.contracts.artifact import Artifact, Frozen


class Node(Frozen):
    id: str
    kind: Literal["spec", "card", "code", "data", "model", "attempt", "file", "finding", "verdict", "page"]
    label: str
    path: str | None = None
    """Relative to the project root; `file:line:column` for places in a spec."""
    sha256: str | None = None
    detail: dict[str, str] = {}


class Edge(Frozen):
    """`cause` made or decided `effect`."""

    cause: str
    effect: str


class Lineage(Artifact):
    SCHEMA: ClassVar[str] = "octavo.lineage/1"

    experiment: str
    commit: str | None
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
