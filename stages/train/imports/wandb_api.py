"""Fetches one run of a W&B project into a snapshot. The one reader that uses the network, and never part of a stage.

    python -m stages.train.imports.wandb_api <entity>/<project>/<run id> <file>

It scans the whole history. `history()` of the same API returns some 500 rows picked from all, so it is never used.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

from stages.contracts.artifact import write_text
from stages.train.imports.log import Unreadable
from stages.train.imports.wandb_snapshot import SNAPSHOT


def fetch(run: Any, path: Path) -> int:
    """Write the snapshot of a run of wandb's public API and return its number of rows. Raises Unreadable when the scan is empty
    although the history is not, or when it ends before the last step that the history has."""
    last = run.lastHistoryStep
    rows = list(run.scan_history())
    if not rows:
        raise Unreadable(f"the scan of {run.id} returned 0 rows, but its last history step is {last}: this is no run of 0 steps")
    seen = max((row["_step"] for row in rows if isinstance(row.get("_step"), int)), default=-1)
    if isinstance(last, int) and seen < last:
        raise Unreadable(f"the scan of {run.id} ends at {seen} of {last}: it is not whole")
    head = {"schema": SNAPSHOT, "entity": run.entity, "project": run.project, "id": run.id, "state": run.state, "rows": len(rows)}
    lines = [{**head, "last_history_step": last}, *rows]
    write_text(path, "".join(json.dumps(_strict(line), ensure_ascii=False, sort_keys=True, allow_nan=False) + "\n" for line in lines))
    return len(rows)


def _strict(value: Any) -> Any:
    """NaN and Infinity as text, which `cells.number` reads back."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: _strict(inner) for key, inner in value.items()}
    return [_strict(inner) for inner in value] if isinstance(value, list) else value


def main() -> int:
    if len(sys.argv) != 3 or sys.argv[1].count("/") != 2:
        print("usage: python -m stages.train.imports.wandb_api <entity>/<project>/<run id> <file>", file=sys.stderr)
        return 2
    try:
        import wandb
    except ImportError:
        print("wandb is not installed: pip install 'octavo[wandb]'", file=sys.stderr)
        return 1
    try:
        rows = fetch(wandb.Api(timeout=60).run(sys.argv[1]), Path(sys.argv[2]))
    except Unreadable as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except Exception as error:  # wandb raises many kinds for a wrong name, a missing key and a lost network
        print(f"error: W&B gave no run {sys.argv[1]}: {type(error).__name__}: {error}", file=sys.stderr)
        return 1
    print(f"{sys.argv[2]}: {rows} rows")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
