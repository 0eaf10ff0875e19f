"""`page/rules.json`: what git said of rules, and of what they rest on, when the page was built."""

from __future__ import annotations

from typing import ClassVar

from stages.contracts.artifact import Artifact, Frozen


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
