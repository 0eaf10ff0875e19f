"""The tables a reader compares by: one row a condition, then one row a seed. Rewards of different conditions are never ranked."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from stages.contracts.analysis_card import ConditionCard
from stages.contracts.finding import Finding
from stages.contracts.health import Detection
from stages.publish import numbers
from stages.publish.experiment import ExperimentFiles, RunFiles
from stages.publish.facts import Facts
from stages.publish.text import shown

ROLES = {"treatment": "treatment", "control": "control", "null_control": "null control"}


@dataclass(frozen=True)
class Movement:
    """A metric's first and last window and its change, with digits that add up."""

    initial: Markup
    final: Markup
    change: Markup


@dataclass(frozen=True)
class ConditionRow:
    name: str
    role: str
    reward: str
    place: str
    colour: int
    runs: int
    included: int
    counted: Markup
    reward_moved: Movement
    evaluated: tuple[Markup, ...]
    zero_signal: Markup
    truncated: Markup


@dataclass(frozen=True)
class SeedRow:
    name: str
    seed: int
    state: str
    failure: str
    steps: Markup
    included: bool
    reasons: tuple[str, ...]
    reward_moved: Movement
    evaluated: tuple[Markup, ...]
    zero_signal: Markup
    truncated: Markup
    nonfinite: str
    collapse: str
    attempts: int


def condition_rows(experiment: ExperimentFiles, facts: Facts) -> tuple[ConditionRow, ...]:
    """One row a condition, in the spec's order."""
    rows = []
    for colour, condition in enumerate(experiment.card.conditions):
        runs = experiment.of_condition(condition.name)
        rows.append(
            ConditionRow(
                name=condition.name,
                role=ROLES[condition.role],
                reward=condition.reward,
                place=str(experiment.origins.conditions.get(condition.name, "")),
                colour=colour,
                runs=len(runs),
                included=sum(run.included for run in runs),
                counted=facts.counted(facts.find(condition.name, "runs", "included")),
                reward_moved=movement(facts, condition.name, "reward"),
                evaluated=tuple(facts.interval(found) for found in evaluation(experiment, facts, condition.name)),
                zero_signal=facts.value(facts.find(condition.name, "zero_signal_share", "final", "share")),
                truncated=facts.value(facts.find(condition.name, "truncated", "final", "share")),
            )
        )
    return tuple(rows)


def seed_rows(experiment: ExperimentFiles, facts: Facts, condition: ConditionCard) -> tuple[SeedRow, ...]:
    """One row a run of the condition, in the order of its seeds."""
    return tuple(_seed_row(experiment, facts, run) for run in experiment.of_condition(condition.name))


def _seed_row(experiment: ExperimentFiles, facts: Facts, run: RunFiles) -> SeedRow:
    health, name = run.health, run.ref.name
    detections = health.detections if health else ()
    done = facts.find(name, "steps", "done")
    steps = facts.counted(done, of="/") if done and done.k is not None else shown(f"{_done(run)} / {run.ref.target_steps}")
    return SeedRow(
        name=name,
        seed=run.ref.seed,
        state=run.state,
        failure=(run.outcome.failure or "") if run.outcome else "",
        steps=steps,
        included=run.included,
        reasons=health.reasons if health else ("no health was measured",),
        reward_moved=movement(facts, name, "reward"),
        evaluated=tuple(facts.value(found) for found in evaluation(experiment, facts, name)),
        zero_signal=facts.value(facts.find(name, "zero_signal_share", "final", "share")),
        truncated=facts.value(facts.find(name, "truncated", "final", "share")),
        nonfinite=_nonfinite(detections),
        collapse=_collapse(detections),
        attempts=len(run.attempts),
    )


def _done(run: RunFiles) -> int | str:
    done = run.health.steps_done if run.health else run.outcome.steps_done if run.outcome else None
    return numbers.NONE if done is None else done


def movement(facts: Facts, subject: str, metric: str) -> Movement:
    """Initial, final and change of a metric, printed so that the printed change follows from the printed numbers."""
    initial, final, change = (facts.find(subject, metric, statistic) for statistic in ("initial", "final", "change"))
    digits = numbers.agreed_decimals(*(found.value if found else None for found in (initial, final, change)))
    return Movement(*(facts.value(found, decimals=digits) for found in (initial, final, change)))


def evaluation(experiment: ExperimentFiles, facts: Facts, subject: str) -> tuple[Finding | None, ...]:
    """The shared evaluation's pass shares, one a score."""
    return tuple(facts.find(subject, f"evaluation.{name}.pass_share", "final", "share") for name in experiment.card.evaluation)


def _nonfinite(detections: tuple[Detection, ...]) -> str:
    detection = next((d for d in detections if "finite" in d.detector), None)
    if detection is None:
        return numbers.NONE
    if detection.state != "looked":
        return detection.state.replace("_", " ")
    classes = [str(signal.evidence.get("class", signal.severity)) for signal in detection.signals]
    if not classes:
        return "none"
    worst = "persistent" if "persistent" in classes else classes[0]
    onset = min((s.onset for s in detection.signals if s.onset is not None), default=None)
    return worst + (f" from {onset}" if onset is not None else "")


def _collapse(detections: tuple[Detection, ...]) -> str:
    detection = next((d for d in detections if "collapse" in d.detector), None)
    if detection is None:
        return numbers.NONE
    if detection.state != "looked":
        return detection.state.replace("_", " ")
    onset = min((s.onset for s in detection.signals if s.onset is not None), default=None)
    return "none" if onset is None else f"step {onset}"
