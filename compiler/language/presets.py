"""Presets of `runs.import`: which columns of a trainer's logs are octavo's metrics, whatever its version. The names, and the source files
that they were read from, stand in presets.yaml. What a reward function is called only its author knows: gates are mapped by hand."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any, Literal

from stages.contracts.files import load_table
from stages.contracts.import_card import Column

Preset = Literal["trl", "unsloth", "ms_swift", "verl", "openrlhf"]
_TABLE: dict[str, dict[str, Any]] = load_table(Path(__file__).with_suffix(".yaml"))


@functools.cache
def preset_metrics(preset: Preset) -> dict[str, Column]:
    """octavo's metric -> its column, of which a log may lack any."""
    prefixes, metrics = ["", *_TABLE[preset]["prefixes"]], _TABLE[preset]["metrics"]
    names = {metric: [f"{prefix}{name}" for name in each for prefix in prefixes] for metric, each in metrics.items()}
    return {metric: Column(column=first, also=tuple(also), optional=True) for metric, (first, *also) in names.items()}
