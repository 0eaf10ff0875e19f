"""Fetches runs of W&B projects into snapshots. The one reader that uses the network, and never part of a stage.

    python -m stages.train.imports.wandb_api <entity>/<project>/<run id> <file>      prints its answer
    python -m stages.train.imports.wandb_api -      questions as lines on stdin, an answer a line (stages.contracts.import_card.py)

It scans the whole history. `history()` of the same API returns some 500 rows picked from all, so it is never used; and a history that
wandb has in its cache may be older than the run, so the cache is a new folder each time.

Only numbers enter a snapshot. Texts, tables, files and media stay at W&B: no detector reads them, and a text may hold a key or a name.
Of the config, numbers and switches are kept, but for names that look like those of secrets.
"""

from __future__ import annotations

import json
import math
import os
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from stages.contracts.files import load_table, write_text
from stages.contracts.import_card import SNAPSHOT, Answer, Ask, Fault
from stages.train.imports.log import NoNumber, Unreadable, flat, number

NO_HISTORY = -1
"""Last step at W&B of a run that ended before its first log."""
_SECRET = re.compile(r"(?:api|access|private|auth)[._-]?key|secret|passw|pwd|credential|(?:^|[._-])(?:auth|access|api)?[._-]?token$", re.I)
_STATUS = re.compile(r"(?:returned error|HTTP|status(?: code)?)[ :]+(?P<status>[1-5][0-9]{2})\b")
_FAULTS: list[tuple[str, str, Fault, str]] = load_table(Path(__file__).with_suffix(".yaml"))
"""The status, or words of the client where it gives none; the fault; a sentence."""


def fault_of(error: BaseException) -> tuple[Fault, str]:
    """What wandb raises -> the fault and a sentence of octavo's own: what a server says is not repeated, since it may hold anything."""
    if isinstance(error, ImportError):
        return "away", "wandb is not installed: pip install wandb"
    if isinstance(error, Unreadable):
        return "unclear", str(error)
    text = str(error)
    status = _STATUS.search(text)
    for code, words, fault, sentence in _FAULTS:
        if re.fullmatch(code, status["status"]) if status else re.search(words, text, re.I):
            return fault, sentence
    if isinstance(error, OSError):
        return "away", f"the snapshot cannot be written: {error.strerror or type(error).__name__}"
    return "unclear", f"wandb cannot use the answer ({type(error).__name__})"


def numbers_of(values: Mapping[str, Any]) -> dict[str, Any]:
    """Numbers of a map, by dotted names. One that is not finite becomes a text, which the reader takes back."""
    return {
        name: str(cell) if isinstance(cell, float) and not math.isfinite(cell) else cell for name, cell in flat(values) if _is_number(cell)
    }


def settings_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """Numbers and switches of a config, without what looks like a secret by its name. Numbers that were written as text are text."""
    return {name: cell for name, cell in numbers_of(config).items() if not isinstance(cell, str) and not _SECRET.search(name)}


def _is_number(cell: Any) -> bool:
    try:
        number(cell)
    except NoNumber:
        return False
    return not isinstance(cell, str) or len(cell) < 40


def fetch(run: Any, path: Path) -> int:
    """Write the snapshot of a run of wandb's public API and return its number of rows; equal runs give equal bytes. Raises Unreadable
    when the scan is empty although the history is not, ends before the history does, or gives a row in two ways."""
    last = run.lastHistoryStep
    rows: dict[int, dict[str, Any]] = {}
    left_out: set[str] = set()
    for row in run.scan_history(use_cache=False):
        step, cells = row.get("_step"), numbers_of(row)
        if not isinstance(step, int):
            raise Unreadable("scan_no_step", row=len(rows) + 1)
        if rows.setdefault(step, cells) != cells:
            raise Unreadable("scan_twice", step=step)
        left_out |= {name for name, _ in flat(row)} - set(cells)
    if not rows and last != NO_HISTORY:
        raise Unreadable("scan_empty", run=run.id, last=last)
    if isinstance(last, int) and max(rows, default=NO_HISTORY) < last:
        raise Unreadable("scan_short", run=run.id, step=max(rows), last=last)
    head = {
        "schema": SNAPSHOT,
        **{name: getattr(run, name) for name in ("entity", "project", "id", "state")},
        "rows": len(rows),
        "last_history_step": last,
        "config": settings_of(run.config),
        "summary": numbers_of(dict(run.summary)),
        "left_out": sorted(left_out),
    }
    lines = [head, *(rows[step] for step in sorted(rows))]
    write_text(path, "".join(json.dumps(line, ensure_ascii=False, sort_keys=True, allow_nan=False) + "\n" for line in lines))
    return len(rows)


def answers(questions: Iterable[Ask]) -> Iterator[Answer]:
    """Fetch each. Where W&B cannot be asked at all, the first fault is the last answer."""
    api: Any = None
    for ask in questions:
        try:
            api = api or _api()
            run = api.run(ask.run)
            rows = fetch(run, Path(ask.file))
        except Exception as error:  # wandb raises many kinds for a wrong name, a missing key and a lost network
            fault, text = fault_of(error)
            yield Answer(run=ask.run, fault=fault, text=text)
            if fault == "away" or api is None:
                return
        else:
            yield Answer(run=ask.run, rows=rows, state=run.state)


def _api() -> Any:
    """wandb's public API. Few retries: a server that is down for an hour is not waited for."""
    os.environ.setdefault("WANDB_X_GRAPHQL_RETRY_MAX", "5")
    os.environ.setdefault("WANDB_SILENT", "true")
    import wandb

    return wandb.Api(overrides={"entity": "entity"}, timeout=300)  # names hold theirs; without one wandb would ask for a default


def main() -> int:
    is_piped = sys.argv[1:] == ["-"]
    if not is_piped and (len(sys.argv) != 3 or sys.argv[1].count("/") != 2):
        print("usage: python -m stages.train.imports.wandb_api <entity>/<project>/<run id> <file>", file=sys.stderr)
        return 2
    questions = [Ask.model_validate_json(line) for line in sys.stdin] if is_piped else [Ask(run=sys.argv[1], file=sys.argv[2])]
    has_failed = False
    with tempfile.TemporaryDirectory() as own:
        os.environ |= {"WANDB_CACHE_DIR": own, "WANDB_DIR": own}
        for answer in answers(questions):
            print(answer.model_dump_json(), flush=True)
            has_failed = answer.fault is not None
    return int(has_failed and not is_piped)


if __name__ == "__main__":
    raise SystemExit(main())
