"""Regular expressions that a spec writes and texts of models meet: bounded in memory when they are compiled and in time when they match.
The syntax is that of the `regex` library."""

from __future__ import annotations

import contextlib
import functools
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import AfterValidator

PATTERN_SECONDS = 1.0
"""Wall seconds that one text may take. Python's `re` cannot be stopped; the `regex` library can."""
PATTERN_CHARS = 10_000
_COMPILE = """
import resource, sys
for limit, most in ((resource.RLIMIT_AS, 256 << 20), (resource.RLIMIT_CPU, 1), (resource.RLIMIT_CORE, 0)):
    resource.setrlimit(limit, (most, most))
import regex
try:
    regex.compile(sys.stdin.read())
except (regex.error, RecursionError):
    pass
"""


@functools.cache
def _is_small(pattern: str) -> bool:
    """Whether a pattern compiles in 256 MB and a second: `regex` writes out what is repeated, so a few letters may fill any memory."""
    if not re.search(r"\{\s*[0-9]", pattern):
        return True
    command = [sys.executable, "-I", "-c", _COMPILE]
    return subprocess.run(command, input=pattern.encode("utf-8", "replace"), capture_output=True, check=False).returncode == 0


def _bounded(pattern: str) -> str:
    import regex

    try:
        if len(pattern) > PATTERN_CHARS or not _is_small(pattern):
            raise ValueError("a pattern that takes too much memory or time: write fewer and smaller repeats")
        regex.compile(pattern)
    except RecursionError:
        raise ValueError("not a regular expression: its groups are nested too deep") from None
    except regex.error as error:
        raise ValueError(f"not a regular expression: {error}") from None
    return pattern


Pattern = Annotated[str, AfterValidator(_bounded)]


def is_match(pattern: str, text: str) -> bool:
    """Whether the pattern matches the whole text. Raises TimeoutError, which says so, after PATTERN_SECONDS."""
    import regex

    with _timed():
        return regex.fullmatch(pattern, text, timeout=PATTERN_SECONDS) is not None


def last_match(pattern: str, text: str) -> Any:
    """The last match in the text, or None. Raises TimeoutError, which says so, after PATTERN_SECONDS."""
    import regex

    last, end = None, time.monotonic() + PATTERN_SECONDS
    with _timed():
        for match in regex.finditer(pattern, text, timeout=PATTERN_SECONDS):
            if time.monotonic() > end:
                raise TimeoutError
            last = match
    return last


@contextlib.contextmanager
def _timed() -> Iterator[None]:
    try:
        yield
    except TimeoutError:
        raise TimeoutError(f"the pattern took more than {PATTERN_SECONDS:g} s") from None
