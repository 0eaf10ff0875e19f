"""Whether messages may be coloured."""

from __future__ import annotations

import os
import sys


def colour() -> bool:
    """Whether standard error is a terminal that shows colours and a person who wants them (https://no-color.org)."""
    return sys.stderr.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
