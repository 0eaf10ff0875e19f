"""`python -m stages.publish.complete <experiment folder>...`: which runs are finished, and what to type for those that are not.

Exit code 0 when every run of every experiment is finished, else 1.
"""

from __future__ import annotations

import sys
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
    endings = {ref.name: _ending(experiment.run(ref.name)) for ref in read(PageCard, experiment.page_card).runs}
    states = [state for state, *_ in endings.values()]
    lines = [f"{experiment.name}: {states.count('finished') + states.count('stopped')} of {len(states)} runs finished"]
    for name, (state, words, failure) in endings.items():
        lines += [f"  {state:<8} {name}: {words}"] if words else []
        lines += [f"           {TEXTS['help'][failure]}"] if failure in TEXTS["help"] else []
    missing = states.count("missing") + states.count("failed")
    if missing > sum(failure == "refused" for *_, failure in endings.values()):  # what is refused, no dvc repro trains
        lines.append(f"  next: dvc repro {experiment.pipeline.as_posix()}   (finished runs are not trained again)")
    return lines, missing


def _ending(run: RunFolder) -> tuple[str, str, str]:
    """(how a run stands, the same in words where there is more to say, its class of failure)."""
    outcome = read(Outcome, run.outcome) if run.outcome.exists() else None
    if outcome is None:
        return "missing", "no attempt has left an outcome", ""
    error, steps = " ".join((outcome.error or "no message").split()), f"{outcome.steps_done} of {outcome.target_steps}"
    if outcome.unknown:
        return "unknown", f"{outcome.unknown}; its log was read, and does not say whether the run finished", ""
    if outcome.finished and outcome.stopped:
        stopped = outcome.stopped
        return "stopped", f"by {stopped.rule} at step {stopped.step} of {outcome.target_steps}, as the spec declares", ""
    if outcome.finished:
        return "finished", "", ""
    if outcome.failure is None and run.imported.exists() and not _ours(run):
        return "ended", f"{error}; its log was read, and no dvc repro changes how it ended", ""
    return "failed", f"{(outcome.failure or 'unknown').replace('_', ' ')} after {steps} steps: {error}", outcome.failure or ""


def _ours(run: RunFolder) -> bool:
    """Whether octavo trained it, or a program that octavo ran."""
    return run.card.exists() or not run.import_card.exists() or not read(ImportCard, run.import_card).only_read


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
