"""Why a section of a page has nothing to show. An empty section that gives no reason reads like a healthy one."""

from __future__ import annotations

from stages.publish.experiment import ExperimentFiles, RunFiles
from stages.publish.numbers import plural


def no_curves(experiment: ExperimentFiles) -> str:
    """Why there are no curves; `` when at least one run has a step to draw."""
    runs = experiment.runs
    if runs and all(run.imported and run.imported.summary for run in runs):
        return "No curve was drawn: only summaries were imported, which hold final values and no series."
    if runs and not any(_logged(run) for run in runs):
        return f"No curve was drawn: {_none(len(runs))} a step. Each says why under Attempts."
    return "" if experiment.card.curves else "No curve was drawn: the page is to show none."


def no_anomalies(experiment: ExperimentFiles, looked: bool) -> str:
    """What the section says when no detector warned."""
    if looked:
        return "No detector reported a warning."
    return "No detector could look, so nothing is known of the health of these runs. Each says why below."


def _logged(run: RunFiles) -> bool:
    if run.imported:
        return run.imported.first_step is not None
    return run.outcome is not None and (run.outcome.finished or run.outcome.steps_done > 0)


def _none(runs: int) -> str:
    return "the one run did not log" if runs == 1 else f"none of {plural(runs, 'run')} logged"
