"""What can go wrong with a verifier itself. Neither is ever a verdict about a completion."""

from __future__ import annotations

from stages.contracts.diagnostic import StageError


class VerifierUnavailable(StageError):
    """No sandbox holds on this machine, so model-written code is not run at all. Ends a stage that needs one."""

    def __init__(self, what: str, *, why: str, fix: str) -> None:
        super().__init__("S220", what, why=why, fix=fix)


class VerifierFault(Exception):
    """A verifier process did not start, died, fell silent or answered nonsense: retry, then unknown."""
