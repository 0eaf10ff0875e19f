"""Fetches runs of W&B projects into snapshots. The one reader that uses the network, and never part of a stage.

    python -m stages.train.imports.wandb_api <entity>/<project>/<run id> <file>
    python -m stages.train.imports.wandb_api -      questions as lines on stdin, an answer a line (stages/contracts/import_card.py)

It scans the whole history. `history()` of the same API returns some 500 rows picked from all, so it is never used; and a history that
wandb has in its cache may be older than the run, so the cache is a new folder each time.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from stages.contracts.import_card import Answer, Ask, Fault
from stages.train.imports.log import Unreadable
from stages.train.imports.wandb_rows import Rows, numbers_of, settings_of, write_snapshot

_STATUS = re.compile(r"(?:returned error|HTTP|status(?: code)?)[ :]+(?P<status>[1-5][0-9]{2})\b")
_NO_RUN = re.compile(r"could not find (?:run|project)|not found", re.I)
_REFUSED = re.compile(
    r"permission denied|forbidden|unauthori[sz]ed|not authori[sz]ed|invalid api key|no api key|api key must|relogin", re.I
)
_AWAY = re.compile(r"giving up after|connection|dial tcp|did not respond|timed? ?out|deadline|no such host|service process", re.I)


def fault_of(error: BaseException) -> tuple[Fault, str]:
    """What wandb raises -> the fault and a sentence of octavo's own: what a server says is not repeated, since it may hold anything."""
    if isinstance(error, ImportError):
        return "away", "wandb is not installed: pip install wandb"
    if isinstance(error, Unreadable):
        return "unclear", str(error)
    text = str(error)
    match = _STATUS.search(text)
    status = int(match["status"]) if match else None
    if status == 404 or (status is None and _NO_RUN.search(text)):
        return "unknown", "W&B has no such run for this account: it was deleted, is misspelt, or belongs to another team"
    if status == 401 or "api key" in text.lower():
        return "unknown", "W&B takes no key of this account: WANDB_API_KEY is missing or wrong"
    if status == 403 or _REFUSED.search(text):
        return "unknown", "W&B refuses this account the run"
    if status == 429:
        return "away", "W&B asks to wait (rate limit), also after several tries"
    if (status is not None and status >= 500) or _AWAY.search(text):
        return "away", "W&B does not answer, also after several tries"
    if isinstance(error, OSError):
        return "away", f"the snapshot cannot be written: {error.strerror or type(error).__name__}"
    return "unclear", f"wandb cannot use the answer ({type(error).__name__})"


def fetch(run: Any, path: Path) -> int:
    """Write the snapshot of a run of wandb's public API and return its number of rows. Raises Unreadable when the scan is empty
    although the history is not, when it ends before the last step that the history has, or gives a row in two ways."""
    last = run.lastHistoryStep
    rows = Rows()
    for row in run.scan_history(use_cache=False):
        rows.add(row)
    if not rows.cells:
        raise Unreadable(f"the scan of {run.id} returned 0 rows, but its last history step is {last}: this is no run of 0 steps")
    seen = max(rows.cells)
    if isinstance(last, int) and seen < last:
        raise Unreadable(f"the scan of {run.id} ends at {seen} of {last}: it is not whole")
    head = {
        "entity": run.entity,
        "project": run.project,
        "id": run.id,
        "state": run.state,
        "rows": len(rows.cells),
        "last_history_step": last,
        "config": settings_of(run.config),
        "summary": numbers_of(dict(run.summary)),
        "left_out": sorted(rows.left_out),
    }
    write_snapshot(path, head, rows)
    return len(rows.cells)


def answers(asked: Iterable[Ask]) -> Iterable[Answer]:
    """Fetch each. Where W&B cannot be asked at all, the first fault is the last answer."""
    try:
        api = _api()
    except Exception as error:
        fault = fault_of(error)
        yield from (Answer(run=one.run, fault=fault[0], text=fault[1]) for one in list(asked)[:1])
        return
    for one in asked:
        try:
            run = api(one.run)
            rows = fetch(run, Path(one.file))
        except Exception as error:  # wandb raises many kinds for a wrong name, a missing key and a lost network
            fault = fault_of(error)
            yield Answer(run=one.run, fault=fault[0], text=fault[1])
            if fault[0] == "away":
                return
        else:
            yield Answer(run=one.run, rows=rows, state=run.state)


def _api() -> Callable[[str], Any]:
    """Name of a run -> the run, by wandb's public API. Few retries: nobody waits an hour for a server that is down."""
    os.environ.setdefault("WANDB_X_GRAPHQL_RETRY_MAX", "5")
    os.environ.setdefault("WANDB_SILENT", "true")
    import wandb

    api = wandb.Api(overrides={"entity": "entity"}, timeout=300)  # names hold theirs; without one wandb would ask for a default
    return lambda name: api.run(name)


def main() -> int:
    asks = sys.argv[1:] == ["-"]
    if not asks and (len(sys.argv) != 3 or sys.argv[1].count("/") != 2):
        print("usage: python -m stages.train.imports.wandb_api <entity>/<project>/<run id> <file>", file=sys.stderr)
        return 2
    wanted = [Ask.model_validate_json(line) for line in sys.stdin] if asks else [Ask(run=sys.argv[1], file=sys.argv[2])]
    with tempfile.TemporaryDirectory() as own:
        os.environ |= {"WANDB_CACHE_DIR": own, "WANDB_DIR": own}
        failed = 0
        for one in answers(wanted):
            failed += one.fault is not None
            if asks:
                print(one.model_dump_json(), flush=True)
            elif one.fault:
                print(f"error: {one.text}", file=sys.stderr)
            else:
                print(f"{sys.argv[2]}: {one.rows} rows, {one.state}")
    return 0 if asks or not failed else 1


if __name__ == "__main__":
    raise SystemExit(main())
