"""`octavo logs`: what a run that `octavo run` has submitted prints."""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import suppress
from datetime import timedelta

from compiler.build.inputs import Inputs
from compiler.commands.jobs import submitted_run
from compiler.problems import Rejected, problem
from compiler.running.batch import Batch, state
from stages.contracts.diagnostic import printable
from stages.contracts.files import open_file, parse_json

LOOK_SECONDS = 0.5


def run(options: argparse.Namespace, inputs: Inputs) -> int:
    """Print its log; with `-f` go on until its worker has ended. Raises Rejected E330, E504."""
    batch, name = submitted_run(options.run, "logs")
    path = batch.log(name)
    if not path.exists():
        raise Rejected([problem("E504.log", run=name)])
    with open_file(path) as stream:
        rest = b""
        while True:
            goes_on = options.follow and _goes_on(batch, name)  # before the last look, so that nothing is left out
            *lines, rest = (rest + stream.read()).split(b"\n")
            for line in lines:
                print(line_of(line))
            sys.stdout.flush()
            if not goes_on:
                break
            time.sleep(LOOK_SECONDS)
    if rest:
        print(line_of(rest))
    return 0


def line_of(line: bytes) -> str:
    """A line for people: a step in short, any other line as it is."""
    if line.startswith(b'{"progress"'):
        with suppress(ValueError, KeyError, TypeError, OverflowError):
            step = parse_json(line, nonfinite=True)
            reward = f"  reward {step['reward']:.2f}" if isinstance(step.get("reward"), float) else ""
            return f"step {int(step['step'])}/{int(step['steps'])}{reward}  {timedelta(seconds=round(step['seconds_left']))} left"
    return printable(line.decode("utf-8", "replace"))


def _goes_on(batch: Batch, run: str) -> bool:
    worker = state(batch, run)
    return worker is not None and worker.ended is None and (worker.job is not None or worker.process() is not None)
