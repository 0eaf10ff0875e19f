"""Which rows of a run's tables count where several attempts made the same step."""

from __future__ import annotations

import pandas as pd


def of_last_attempts(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of each step by the last attempt that made it. Columns: `attempt`, `step`; the rows of an attempt stand together."""
    return rows[rows["attempt"] == rows.groupby("step")["attempt"].transform("last")]
