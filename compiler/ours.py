"""Errors that are ours: a report on disk and two plain lines on the screen, never a traceback."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path

from compiler.diagnostics import masked
from stages.contracts.artifact import digest

REPORTS = Path(".cache/octavo-reports")


def report(error: Exception) -> int:
    """Save the traceback and say where; exit code 3. Equal errors make one file."""
    text = masked("".join(traceback.format_exception(error)))
    path = REPORTS / f"{digest(text)[:12]}.txt"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            f"octavo {' '.join(map(masked, sys.argv[1:]))}\npython {sys.version}\n\n{text}", encoding="utf-8", errors="backslashreplace"
        )
        where = f"A report was saved: {path}"
    except OSError as failure:
        where = f"No report could be saved ({failure.strerror or failure})"
    print(f"octavo failed, and it is not your spec's fault: {type(error).__name__}.", file=sys.stderr)
    print(f"{where}. Please send it with the spec to the people who maintain octavo.", file=sys.stderr)
    return 3
