"""Stage: what an experiment came to, in the summaries of its runs at W&B: evaluation, health, verdicts of claims, and where the page is.

    python -m stages.train.wandb_results runs/<experiment>

A run that was offline is there after `wandb sync`; then start this again. It never ends a pipeline: where W&B fails, it prints a line.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stages.contracts.artifact import read
from stages.contracts.attempt import Attempt, read_attempts
from stages.contracts.files import write_text
from stages.contracts.finding import Findings
from stages.contracts.health import Health
from stages.contracts.layout import ExperimentFolder, RunFolder
from stages.contracts.stage import main, print_text
from stages.contracts.tracking import Wandb
from stages.train.tracking import configured, has_key, project, tracking

MODULE = "stages.train.wandb_results"


def send(folder: Path) -> None:
    """Update the summary of the last tracked attempt of each run, and write what became of it."""
    experiment = ExperimentFolder(folder)
    asked = tracking(experiment).wandb
    runs = _send(experiment, asked) if asked is not None and configured(asked) else {}
    write_text(experiment.wandb_results, f"{json.dumps(runs, indent=2)}\n")


def _send(experiment: ExperimentFolder, asked: Wandb) -> dict[str, str]:
    """Run -> `sent` or `later`."""
    again = f"python -m {MODULE} {experiment.root.as_posix()}"
    tracked = list(_tracked(experiment))
    runs = {run.name: "later" for run, _ in tracked}
    if not has_key():
        print_text(f"W&B: no key here, so verdicts are not sent. After `wandb login` and `wandb sync`: {again}")
        return runs
    findings = read(Findings, experiment.findings)
    try:
        import wandb

        api = wandb.Api()
    except Exception as error:  # W&B raises many kinds
        print_text(f"W&B failed ({type(error).__name__}): verdicts are not sent. Later: {again}")
        return runs
    for run, attempt in tracked:
        try:
            sent = api.run(_path(attempt, asked))
            sent.summary.update(summary(experiment, run, findings, asked))
            runs[run.name] = "sent"
        except Exception as error:
            print_text(f"W&B has no run {attempt.started.attempt} yet ({type(error).__name__}). After `wandb sync`: {again}")
    return runs


def summary(experiment: ExperimentFolder, run: RunFolder, findings: Findings, asked: Wandb) -> dict[str, Any]:
    """Entries of the summary of one run."""
    health = read(Health, run.health)
    measured = (each for each in findings.findings if each.subject == run.name and each.statistic == "final" and each.value is not None)
    page = experiment.page.as_posix() if asked.site is None else f"{asked.site.rstrip('/')}/experiments/{experiment.name}/index.html"
    return {
        **{f"octavo/{each.metric}": each.value for each in measured if each.metric.startswith("evaluation.")},
        **{f"octavo/claims/{verdict.claim}": verdict.verdict for verdict in findings.verdicts},
        "octavo/included": health.included,
        "octavo/why_not": "; ".join(health.reasons),
        "octavo/page": page,
    }


def _tracked(experiment: ExperimentFolder) -> Iterator[tuple[RunFolder, Attempt]]:
    """Runs with the last attempt that W&B has, or gets with `wandb sync`."""
    for ledger in sorted(experiment.root.glob("*/attempts.jsonl")):
        attempts = [attempt for attempt in read_attempts(ledger) if attempt.ended is not None and attempt.ended.wandb is not None]
        if attempts:
            yield RunFolder(ledger.parent), attempts[-1]


def _path(attempt: Attempt, asked: Wandb) -> str:
    """`entity/project/id` of an attempt: from its address, else from where `wandb sync` puts it."""
    address = attempt.ended.wandb_address if attempt.ended else None
    if address is not None:
        entity, named, *_ = address.partition("://")[2].partition("/")[2].split("/")
        return f"{entity}/{named}/{attempt.started.attempt}"
    return "/".join(filter(None, [asked.entity, project(asked), attempt.started.attempt]))


if __name__ == "__main__":
    main(send, f"python -m {MODULE} runs/<experiment>")
