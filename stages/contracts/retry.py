"""`<run>/retry.json`: whether a failed run is due again. DVC reruns the run when the file changes."""

from __future__ import annotations

from typing import ClassVar

from stages.contracts.artifact import Artifact


class Retry(Artifact):
    """`after` names the failed attempt after which the run is due again; null while no attempt has failed."""

    SCHEMA: ClassVar[str] = "octavo.retry/1"

    after: str | None = None
