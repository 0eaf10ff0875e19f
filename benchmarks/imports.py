"""Rows a second of each log reader, beside the format's usual reader, in one process: `python benchmarks/imports.py [rows]`.

Needs wandb, tensorboard and torch to write the logs. CPU seconds, best of three. `old DataStore` of wandb is gone since 0.31; its
anchor (3.7 thousand rows a second of 40 columns) is a number from design time on another machine, and marked so.
"""

from __future__ import annotations

import glob
import json
import os
import random
import re
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # as a script, Python looks beside the script only

from stages.contracts.wandb_snapshot import SNAPSHOT
from stages.train.imports import csv_table, jsonl, summary, tensorboard, text_lines, trainer_state, wandb_file, wandb_snapshot

COLUMNS = 40
OLD_DATASTORE = 3_700
SHARES = (0.01, 0.1, 0.5)
"""Of values that are NaN."""
PATTERN = "step {step}  " + "  ".join(f"m{n}={{m{n}}}" for n in range(8))


def best(read: Callable[[], Any]) -> float:
    """CPU seconds."""
    found = []
    for _ in range(3):
        begun = time.process_time()
        read()
        found.append(time.process_time() - begun)
    return min(found)


def rows_of(count: int) -> list[dict[str, float]]:
    return [{"step": step, **{f"train/m{n}": random.random() for n in range(COLUMNS)}} for step in range(1, count + 1)]


def write(folder: Path, count: int) -> None:
    """All logs."""
    rows = rows_of(count)
    state = {"log_history": rows, "global_step": count, "max_steps": count}
    (folder / "trainer_state.json").write_text(json.dumps(state, indent=2))
    rows[count // 2]["train/m3"] = float("nan")
    (folder / "with_nan.json").write_text(json.dumps(state, indent=2))
    for share in SHARES:
        many = [{name: float("nan") if name != "step" and random.random() < share else cell for name, cell in row.items()} for row in rows]
        (folder / f"nan_{share:.0%}.json").write_text(json.dumps({**state, "log_history": many}, indent=2))
    (folder / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    header = list(rows[0])
    (folder / "log.csv").write_text("\n".join([",".join(header), *(",".join(str(row[name]) for name in header) for row in rows)]) + "\n")
    head = {"schema": SNAPSHOT, "entity": "e", "project": "p", "id": "i", "state": "finished", "rows": count, "last_history_step": count}
    logged = [head, *({"_step": row["step"], "train/global_step": row["step"], **row} for row in rows)]
    (folder / "snapshot.jsonl").write_text("".join(json.dumps(row).replace("NaN", '"nan"') + "\n" for row in logged))
    (folder / "summary.json").write_text(
        json.dumps({"runs": [{"seed": number, **row} for number, row in enumerate(rows)]}).replace("NaN", "0")
    )
    lines = (f"step {row['step']}  " + "  ".join(f"m{n}={row[f'train/m{n}']}" for n in range(8)) for row in rows)
    (folder / "log.txt").write_text("\n".join(lines) + "\n")
    os.environ |= {"WANDB_MODE": "offline", "WANDB_SILENT": "true", "WANDB_DIR": str(folder)}
    import wandb
    from torch.utils.tensorboard import SummaryWriter

    run = wandb.init(project="benchmark", settings=wandb.Settings(x_disable_stats=True))
    for row in rows:
        run.log(row)
    run.finish()
    writer = SummaryWriter(str(folder / "tb"))
    for row in rows:
        for name, value in row.items():
            writer.add_scalar(name, value, int(row["step"]))
    writer.close()


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 5_000
    import pandas as pd

    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        write(folder, count)
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        def accumulated() -> None:
            EventAccumulator(str(folder / "tb"), size_guidance={"scalars": 0}).Reload()

        def lines(name: str) -> Callable[[], Any]:
            return lambda: pd.DataFrame([json.loads(line) for line in (folder / name).open()])

        def matched() -> Any:
            """What a script would do with the same pattern."""
            found = re.compile(PATTERN.replace("{", "(?P<").replace("}", r">[-+.\deE]+|nan|inf)"))
            return pd.DataFrame([match.groupdict() for line in (folder / "log.txt").open() if (match := found.search(line))]).astype(float)

        def frame(path: Path) -> Callable[[], Any]:
            return lambda: pd.DataFrame(json.loads(path.read_text())["log_history"])

        snapshot, runs = folder / "snapshot.jsonl", folder / "summary.json"
        strict, with_nan = folder / "trainer_state.json", folder / "with_nan.json"

        (offline,) = glob.glob(str(folder / "wandb" / "offline-run-*" / "*.wandb"))
        table: list[tuple[str, str, Callable[[], Any], str, Callable[[], Any] | None, int]] = [
            (
                "trainer_state",
                "rows",
                lambda: trainer_state.read(strict),
                "json + pandas",
                frame(strict),
                count,
            ),
            (
                "trainer_state, NaN",
                "rows",
                lambda: trainer_state.read(with_nan),
                "json + pandas",
                frame(with_nan),
                count,
            ),
            *(
                (
                    f"trainer_state, {share:.0%} NaN",
                    "rows",
                    lambda path=folder / f"nan_{share:.0%}.json": trainer_state.read(path),
                    "json + pandas",
                    frame(folder / f"nan_{share:.0%}.json"),
                    count,
                )
                for share in SHARES
            ),
            ("tensorboard", "events", lambda: tensorboard.read(folder / "tb"), "EventAccumulator", accumulated, count * (COLUMNS + 1)),
            ("wandb_file", "rows", lambda: wandb_file.read(Path(offline), "step"), "old DataStore (design time)", None, count),
            ("jsonl", "rows", lambda: jsonl.read(folder / "log.jsonl"), "json + pandas", lines("log.jsonl"), count),
            ("wandb (snapshot)", "rows", lambda: wandb_snapshot.read(snapshot), "json + pandas", lines("snapshot.jsonl"), count),
            ("csv", "rows", lambda: csv_table.read(folder / "log.csv"), "pandas.read_csv", lambda: pd.read_csv(folder / "log.csv"), count),
            ("text", "rows", lambda: text_lines.read(folder / "log.txt", PATTERN, "step"), "re + pandas", matched, count),
            ("summary", "runs", lambda: summary.read(runs, {"seed": 3}), "json", lambda: json.loads(runs.read_text()), count),
        ]
        print(f"{count} rows of {COLUMNS} columns\n{'format':23} {'octavo':>16} {'ratio':>7}  against")
        for name, unit, ours, other, theirs, total in table:
            mine = total / best(ours)
            anchor = total / best(theirs) if theirs else OLD_DATASTORE if other else None
            ratio = f"{mine / anchor:6.1f}x" if anchor else " " * 7
            print(f"{name:23} {mine:9,.0f} {unit}/s {ratio}  " + (f"{other}: {anchor:,.0f} {unit}/s" if anchor else "nothing comparable"))


if __name__ == "__main__":
    main()
