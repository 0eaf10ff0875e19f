"""An input that cannot be used, told without its place."""

from __future__ import annotations


class Fault(Exception):
    """An input that cannot be used: what, why, fix. The caller knows the place in the spec."""

    def __init__(self, what: str, why: str, fix: str, code: str | None = None) -> None:
        super().__init__(what)
        self.what, self.why, self.fix, self.code = what, why, fix, code
        """`code` when the fault has one of its own."""
