"""Rows of the guide's table of presets: `PYTHONPATH=. python tests/compiler/preset_reference.py`."""

from __future__ import annotations

from typing import get_args

from compiler.language.presets import Preset, preset_metrics
from stages.contracts.history import METRICS


def rows() -> list[str]:
    """A metric that some preset maps, and its names in each, without prefixes."""
    tables = [preset_metrics(preset) for preset in get_args(Preset)]
    shown = [metric for metric in METRICS if any(metric in table for table in tables)]
    names = {metric: [table[metric].names[::2] if metric in table else () for table in tables] for metric in shown}  # each has one prefix
    return [f"| `{metric}` | {' | '.join(', '.join(f'`{name}`' for name in each) for each in names[metric])} |" for metric in shown]


if __name__ == "__main__":
    print("\n".join(rows()))
