"""Results that stand for newer code: a person judged that a change of octavo's code changes none of them."""

from __future__ import annotations

from stages.contracts.code import Code, Judgement
from stages.contracts.finding import Finding
from stages.publish.experiment import ExperimentFiles, RunFiles


def behind_page(experiment: ExperimentFiles) -> tuple[Judgement, ...]:
    """Judgements made since the first run began, oldest first."""
    starts = [attempt.started.at for run in experiment.runs for attempt in run.attempts]
    return tuple(judgement for judgement in experiment.card.judged if starts and judgement.at > min(starts))


def behind_run(experiment: ExperimentFiles, run: RunFiles) -> tuple[Judgement, ...]:
    """Judgements about the code of a run, made since its last attempt began."""
    card = run.card or run.import_card
    if card is None or not run.attempts:
        return ()
    began = run.attempts[-1].started.at
    return tuple(judgement for judgement in experiment.card.judged if judgement.at > began and set(judgement.digests) & set(card.code))


def behind_finding(experiment: ExperimentFiles, finding: Finding) -> tuple[Judgement, ...]:
    """Judgements that a number rests on: of its runs, and of the evaluation or preflight that it came through."""
    runs = {run.ref.name for run in experiment.runs_of_subject(finding.subject)} | {seed.run for seed in finding.seeds}
    judgements = {judgement.at: judgement for run in experiment.runs if run.ref.name in runs for judgement in behind_run(experiment, run)}
    stage = "train.preflight" if finding.statistic == "preflight" else "train.evaluate" if finding.metric.startswith("evaluation.") else ""
    judgements |= {judgement.at: judgement for judgement in behind_page(experiment) if stage in judgement.digests}
    return tuple(judgements[at] for at in sorted(judgements))


def short(judgements: tuple[Judgement, ...]) -> str:
    """`code change judged equal on 2026-11-28 by A`; empty without one."""
    return "; ".join(dict.fromkeys(f"code change judged equal on {judgement.at[:10]} by {judgement.who}" for judgement in judgements))


def line(judgement: Judgement) -> str:
    """Everything about one judgement."""
    return f"code of {units(judgement)} judged equal in its results by {judgement.who}, {judgement.at}: {judgement.why}"


def units(judgement: Judgement) -> str:
    """The units that it is about, in words."""
    return ", ".join(sorted(judgement.digests))


def versions(code: Code) -> str:
    """`train.grpo 1, train.rewards.format 2`."""
    return ", ".join(f"{unit} {version}" for unit, version in sorted(code.items()))
