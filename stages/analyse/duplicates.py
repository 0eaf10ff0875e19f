"""What two runs must share to be one run that is counted twice; the detector `duplicates` says so."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np

from stages.analyse.columns import Column
from stages.analyse.detectors.duplicates import SAMPLED


def fingerprint(columns: Mapping[str, Column]) -> str | None:
    """Digest of the sampled series, steps and states included; None when none of them varies: equal constants prove nothing."""
    kept = [(name, columns[name]) for name in SAMPLED if name in columns]
    if not any(column.varies() for _, column in kept):
        return None
    digest, before = hashlib.sha256(), None
    for name, column in kept:
        same = before is not None and (column.steps is before or np.array_equal(column.steps, before))
        digest.update(f"{name} {len(column.steps)} {same} {column.kinds is None}".encode())
        if not same:  # most metrics are logged at the same steps
            digest.update(column.steps.tobytes())
        values = column.values + 0.0  # of the two zeros there is one
        digest.update((np.where(np.isnan(values), np.nan, values) if column.kinds is not None else values).tobytes())
        if column.kinds is not None:
            digest.update(column.kinds.astype(np.int8).tobytes())
        before = column.steps
    return digest.hexdigest()
