"""`octavo replay`: train the first steps of a run again, compare them with what is stored, and append the outcome to a ledger."""

from __future__ import annotations

import argparse
import sys

from compiler.build.inputs import Inputs
from compiler.commands.rescore import rejected, run_folder
from stages.contracts.artifact import ArtifactError
from stages.contracts.diagnostic import StageError
from stages.contracts.layout import ExperimentFolder
from stages.contracts.replay import Replay


def run(options: argparse.Namespace, inputs: Inputs) -> int:
    """Print the outcome and append it to `replays.jsonl`. 0 where the steps are equal, or equal within rounding; else 1."""
    outcome, says = replayed(options.run, options.steps)
    print(says)
    print("To show it on the page: commit the ledger, then octavo compile && dvc repro", file=sys.stderr)
    return int(outcome.outcome == "different")


def replayed(name: str, steps: int, must_agree: bool = False) -> tuple[Replay, str]:
    """The outcome, which the ledger then holds, and a sentence. Raises Rejected E330 (no such run), S296 (different, and it `must_agree`),
    or what training found."""
    from stages.train.attempts import append
    from stages.train.refusals import refusal
    from stages.train.replay import replay

    folder = run_folder(name, "replay")
    experiment = ExperimentFolder(folder.root.parent)
    try:
        outcome = replay(folder, steps)
        append(experiment.replays, outcome)
        says = f"{experiment.name}/{folder.name}: {outcome.steps} of {outcome.target_steps} steps replayed: {outcome.says}"
        if must_agree and outcome.outcome == "different":
            raise refusal("S296", says=says)
    except (StageError, ArtifactError) as error:
        raise rejected(error) from None
    return outcome, says
