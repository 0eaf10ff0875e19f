"""`python -m stages.publish.complete <experiment folder>...`: which runs are finished, and what to type for those that are not.

Exit code 0 when every run of every experiment is finished, else 1.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from stages.contracts.artifact import ArtifactError, read
from stages.contracts.attempt import Outcome
from stages.contracts.import_card import ImportCard
from stages.contracts.layout import ExperimentFolder, RunFolder
from stages.contracts.page_card import PageCard
from stages.publish.text import TEXTS, reveal_hidden


def unfinished(folder: Path) -> tuple[list[str], int]:
    """(lines about one experiment, number of runs that are not finished). Raises ArtifactError without a page card."""
    experiment = ExperimentFolder(folder)
    card = read(PageCard, experiment.page_card)
    lines: list[str] = []
    finished = ended = 0
    for ref in card.runs:
        path = experiment.run(ref.name).outcome
        outcome = read(Outcome, path) if path.exists() else None
        if outcome and outcome.unknown:
            ended += 1
            lines.append(f"  unknown  {ref.name}: {outcome.unknown}; its log was read, and does not say whether the run finished")
        elif outcome and outcome.finished:
            finished += 1
            if outcome.stopped:
                by, steps = outcome.stopped, f"at step {outcome.stopped.step} of {outcome.target_steps}"
                lines.append(f"  stopped  {ref.name}: by {by.rule} {steps}, as the spec declares")
        elif outcome and outcome.failure is None and experiment.run(ref.name).imported.exists() and not _ours(experiment.run(ref.name)):
            ended += 1
            lines.append(f"  ended    {ref.name}: {_said(outcome)}; its log was read, and no dvc repro changes how it ended")
        else:
            lines.extend(_run(ref.name, outcome))
    head = f"{experiment.name}: {finished} of {len(card.runs)} runs finished"
    missing = len(card.runs) - finished - ended
    if missing:
        lines.append(f"  next: dvc repro {experiment.pipeline.as_posix()}   (finished runs are not trained again)")
    return [head, *lines], missing


def _ours(run: RunFolder) -> bool:
    """Whether octavo trained it, or a program that octavo ran."""
    return run.card.exists() or not run.import_card.exists() or not read(ImportCard, run.import_card).only_read


def _said(outcome: Outcome) -> str:
    return " ".join((outcome.error or "no message").split())


def _run(name: str, outcome: Outcome | None) -> Iterator[str]:
    if outcome is None:
        yield f"  missing  {name}: no attempt has left an outcome"
        return
    why = (outcome.failure or "unknown").replace("_", " ")
    yield f"  failed   {name}: {why} after {outcome.steps_done} of {outcome.target_steps} steps: {_said(outcome)}"
    if outcome.failure in TEXTS["help"]:
        yield f"           {TEXTS['help'][outcome.failure]}"


def complete(folders: list[Path]) -> int:
    """Print the summary of each experiment; 1 when anything is not finished."""
    total = 0
    for folder in folders:
        lines, missing = unfinished(folder)
        total += missing
        print(reveal_hidden("\n".join(lines)))
    return 1 if total else 0


def _main() -> int:
    if len(sys.argv) < 2 or any(argument.startswith("-") for argument in sys.argv[1:]):
        print("usage: python -m stages.publish.complete <experiment folder>...", file=sys.stderr)
        return 2
    try:
        return complete([Path(argument) for argument in sys.argv[1:]])
    except ArtifactError as error:
        print(f"error S102: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    raise SystemExit(_main())
