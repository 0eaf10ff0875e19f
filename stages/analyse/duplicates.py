"""What two runs must share to be one run that is counted twice; the detector `duplicates` says so."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np

from stages.analyse.detectors.duplicates import SAMPLED
from stages.analyse.tables import Column


def fingerprint(columns: Mapping[str, Column]) -> str | None:
    """Digest of the sampled series, steps and states included; None when none of them varies: equal constants prove nothing."""
    kept = [(name, columns[name]) for name in SAMPLED if name in columns]
    if not any(_varies(column) for _, column in kept):
        return None
    digest = hashlib.sha256()
    for name, column in kept:
        digest.update(name.encode())
        digest.update(column.steps.tobytes())
        digest.update(np.where(np.isnan(column.values), np.nan, column.values + 0.0).tobytes())
        digest.update("".join(column.states.tolist()).encode())
    return digest.hexdigest()


def _varies(column: Column) -> bool:
    values = column.values
    if not len(values):
        return False
    same = (values == values[0]) | (np.isnan(values) & np.isnan(values[0]))
    return not bool(same.all()) or len(set(column.states.tolist())) > 1
