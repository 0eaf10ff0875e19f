"""One process of a run on several devices, started by stages/train/ranks.py: it trains and writes no file of the run's folder.

python -m stages.train.worker <folder of the task>
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import NoReturn

from stages.contracts.attempt import Started
from stages.contracts.layout import RunFolder
from stages.train import ranks
from stages.train.data import read_rows
from stages.train.environment import prepare
from stages.train.failures import classify
from stages.train.interrupts import end_with_parent
from stages.train.recorder import Journal
from stages.train.run import Work
from stages.train.stopping import Stopping
from stages.train.trl import GroupedCard, fit


def work(folder: Path) -> NoReturn:
    """Train as the other ranks do. Rank 0 leaves `result.json`, a rank that fails `failure-<rank>.json`. The process ends without its exit
    functions: those of a process group that has lost a rank may hang."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes of the terminal; the stage ends the workers
    end_with_parent(signal.SIGKILL)
    task = json.loads((folder / "task.json").read_text(encoding="utf-8"))
    if os.getppid() != task["parent"]:
        os._exit(1)  # the stage was killed before the line above
    number = int(os.environ["RANK"])
    if number:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
        os.environ["WANDB_MODE"] = "disabled"
    card = GroupedCard.model_validate(task["card"])
    prepare(card.device, card.gpus, worker=True)
    scratch, code = Path(task["scratch"]), 0
    try:
        ranks.join(card.device)
        journal, checkpoint = Journal(scratch), task["checkpoint"]
        done = checkpoint[1] if checkpoint else 0
        stopping = Stopping(card.stop, journal, done)
        training = Work(
            RunFolder(Path(task["run"])),
            card,
            read_rows(card.data, "/data"),
            journal,
            Started.model_validate(task["started"]),
            scratch / "trainer",
            (Path(checkpoint[0]), done) if checkpoint else None,
            stopping,
        )
        saved = fit(training)
        if number == 0:
            stopped = stopping.stopped.model_dump() if stopping.stopped else None
            result = {"checkpoint": saved.as_posix(), "stopped": stopped, "notes": training.notes}
            (folder / "result.json").write_text(json.dumps(result), encoding="utf-8")
    except Exception as error:
        failure, sentence = classify(error)
        (folder / f"failure-{number}.json").write_text(json.dumps({"failure": failure, "error": sentence}), encoding="utf-8")
        code = 1
        if failure == "bug":
            traceback.print_exc()
            time.sleep(1.0)  # a rank that was killed breaks connections shortly before it is seen as ended, and it is the cause
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    work(Path(sys.argv[1]))
