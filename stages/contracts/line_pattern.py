"""Patterns of log lines: `{name}` stands for a number, the rest for itself. The compiler checks them, the import reads with them."""

from __future__ import annotations

import re

PART = re.compile(r"\{(?P<name>[^{}]*)\}|(?P<blanks>\s+)|(?P<text>[^{}\s]+)|(?P<stray>[{}])")


def names(pattern: str) -> list[str]:
    """Names of a pattern's numbers, in order."""
    return [part["name"] for part in PART.finditer(pattern) if part["name"] is not None]
