"""One process of a run on several devices, started by stages/train/ranks.py: it trains and writes no file of the run's folder.

python -m stages.train.worker runs/<experiment>/<run> <folder for notes and failures> <process id of the stage>
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any, NoReturn

from stages.contracts.artifact import read
from stages.contracts.attempt import read_attempts
from stages.contracts.layout import RunFolder
from stages.contracts.stage import card_id
from stages.train import ranks
from stages.train.attempts import Stopped, checkpoints
from stages.train.data import read_rows
from stages.train.environment import prepare
from stages.train.failures import classify
from stages.train.interrupts import end_with_parent
from stages.train.recorder import Journal
from stages.train.resume import with_microbatch
from stages.train.run import Work
from stages.train.stopping import Stopping
from stages.train.trl import GroupedCard, fit


def train(run: RunFolder, folder: Path, stage: int) -> NoReturn:
    """Train the run's latest attempt as the other ranks do. Rank 0 leaves `notes.json`, a rank that fails `failure-<rank>.json`. The
    process ends without its exit functions: those of a process group that has lost a rank may hang."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes of the terminal; the stage ends the workers
    end_with_parent(signal.SIGKILL)
    if os.getppid() != stage:
        os._exit(1)  # the stage was killed before the line above
    number, code = int(os.environ["RANK"]), 0
    if number:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
        os.environ["WANDB_MODE"] = "disabled"
    card: Any = read(GroupedCard, run.card)
    prepare(card.device, card.gpus, worker=True)
    try:
        notes = _fit(run, card)
        if number == 0:
            (folder / "notes.json").write_text(json.dumps(notes), encoding="utf-8")
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


def _fit(run: RunFolder, card: Any) -> dict[str, str]:
    started = read_attempts(run.attempts)[-1].started
    if card_id(card) != started.card_id:
        raise Stopped("data", f"{run.card} was compiled anew while the attempt began")
    scratch, done = checkpoints(started.card_id), started.resumed_from
    checkpoint = (scratch / "trainer" / f"checkpoint-{done}", done) if done is not None else None
    ranks.join(card.device)
    journal = Journal(scratch)
    stopping = Stopping(card.stop, journal, done or 0)
    rows = read_rows(card.data)
    work = Work(run, with_microbatch(card, started.changed), rows, journal, started, scratch / "trainer", checkpoint, stopping)
    fit(work)
    return work.notes


if __name__ == "__main__":
    train(RunFolder(Path(sys.argv[1])), Path(sys.argv[2]), int(sys.argv[3]))
