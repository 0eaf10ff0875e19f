"""Cross-field checks."""

from __future__ import annotations

from compiler.diagnostics import Diagnostic
from compiler.expand import Experiment, Expansion
from compiler.inputs import Inputs


def check(of: Experiment, expansion: Expansion, inputs: Inputs) -> list[Diagnostic]:
    """All rules."""
    return []
