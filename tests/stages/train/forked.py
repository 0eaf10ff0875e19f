"""A stage in a process that is forked from one which has imported TRL already: that takes longer than all that a test trains."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import sys
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Literal

import trl

from stages.contracts.algorithms import ALGORITHMS
from stages.train import callbacks, rollouts

IMPORTED = (trl.GRPOTrainer, trl.RLOOTrainer, trl.SFTTrainer, callbacks, rollouts)


def _stage(algorithm: str, folder: Path) -> None:
    os.chdir(folder)
    os.environ.update(OMP_NUM_THREADS="1", WANDB_MODE="disabled")
    with open("output.txt", "ab") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    sys.exit(importlib.import_module(ALGORITHMS[algorithm].stage).train(Path("runs/small/short-s1")))


def begin(algorithm: str, folder: Path, method: Literal["forkserver", "spawn"] = "forkserver") -> BaseProcess:
    """The stage of an algorithm on the run of random_model.run_folder, begun; what it prints goes to `output.txt`. A stage that uses a GPU
    or starts processes itself is spawned."""
    context = multiprocessing.get_context(method)
    if method == "forkserver":
        context.set_forkserver_preload(["forked"])
    process = context.Process(target=_stage, args=(algorithm, folder))
    process.start()
    return process
