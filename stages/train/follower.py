"""A process of a run on several devices that is not the stage: the same stage started again, which trains along and writes no file of the
run. Rank 0 starts it (stages/train/ranks.py) and says in a task what the attempt is."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from stages.contracts.attempt import Started
from stages.contracts.layout import RunFolder
from stages.contracts.run_card import TrainCard
from stages.train.data import read_rows
from stages.train.environment import HANDOVER, prepare
from stages.train.failures import classify
from stages.train.ranks import FIRST, failure_file, rank
from stages.train.recorder import Journal
from stages.train.run import Fit, Work
from stages.train.stopping import Stopping


def follow(run: RunFolder, kind: type[TrainCard[Any]], fit: Fit[Any]) -> int:
    """Train as rank 0 does; why not goes into a file for rank 0. Ends the process: a process group whose first rank has gone may hang in
    its exit functions."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; rank 0 answers for all
    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # 1 = PR_SET_PDEATHSIG: end with rank 0
    if os.getppid() != int(os.environ[FIRST]):
        return 1  # rank 0 was killed before that line, while this process was starting: it would wait for it for half an hour
    handover = Path(os.environ[HANDOVER])
    task: dict[str, Any] = json.loads((handover / "task.json").read_text(encoding="utf-8"))
    card = kind.model_validate(task["card"])
    prepare(card.device, card.gpus)
    code = 0
    try:
        journal = Journal(Path(task["journal"]))
        checkpoint = (Path(task["checkpoint"]), int(task["done"])) if task["checkpoint"] else None
        started = Started.model_validate(task["started"])
        rows = read_rows(card.data, "/data")
        fit(Work(run, card, rows, journal, started, Path(task["output"]), checkpoint, Stopping(None, journal, 0)))
    except Exception as error:
        failure, sentence = classify(error)
        failure_file(handover, rank()).write_text(json.dumps({"failure": failure, "error": sentence}), encoding="utf-8")
        print(f"rank {rank()}: {sentence}", file=sys.stderr)
        code = 1
    sys.stderr.flush()
    os._exit(code)
