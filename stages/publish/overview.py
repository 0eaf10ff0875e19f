"""The tables a reader compares by: one row a condition, then one row a seed. Rewards of different conditions are never ranked."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from stages.contracts.finding import Finding
from stages.contracts.health import Detection
from stages.publish import carried, numbers
from stages.publish.exclusions import left_out
from stages.publish.experiment import ExperimentFiles, RunFiles
from stages.publish.facts import Facts
from stages.publish.text import shown

ROLES = {"treatment": "treatment", "control": "control", "null_control": "null control"}


@dataclass(frozen=True)
class Movement:
    """A metric's first and last window and its change."""

    initial: Markup
    final: Markup
    change: Markup


@dataclass(frozen=True)
class ConditionRow:
    name: str
    role: str
    taught: str
    """What it was trained with, in words."""
    place: str
    colour: int
    runs: int
    included: int
    counted: Markup
    carried: int
    """Runs whose results were carried over a waived change of code."""
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
    carried: str
    """By which waiver its results were carried over; empty when they were not."""
    reasons: tuple[str, ...]
    initial: Markup
    final: Markup
    """Of the run's own training reward."""
    evaluated: tuple[Markup, ...]
    zero_signal: Markup
    truncated: Markup
    nonfinite: str
    collapse: str
    attempts: int
    stopped: bool
    """By a declared rule."""


def untrained_row(experiment: ExperimentFiles, facts: Facts) -> tuple[Markup, ...]:
    """The base model on the shared evaluation, with the digits of the conditions below it."""
    digits = _evaluation_digits(experiment, facts, [c.name for c in experiment.card.conditions])
    return _evaluated(experiment, facts, "untrained", digits, bounds=True)


def condition_rows(experiment: ExperimentFiles, facts: Facts) -> tuple[ConditionRow, ...]:
    """One row a condition, in the spec's order. Numbers of one column have the same number of digits."""
    names = [condition.name for condition in experiment.card.conditions]
    moved, digits = _movement_digits(facts, names), _evaluation_digits(experiment, facts, names)
    rows = []
    for colour, condition in enumerate(experiment.card.conditions):
        runs = experiment.of_condition(condition.name)
        rows.append(
            ConditionRow(
                name=condition.name,
                role=ROLES[condition.role],
                taught="gold answers" if condition.supervised else f"reward {condition.reward}",
                place=str(experiment.origins.conditions.get(condition.name, "")),
                colour=colour,
                runs=len(runs),
                included=sum(run.included for run in runs),
                counted=facts.counted(facts.find(condition.name, "runs", "included")),
                carried=sum(bool(carried.of_run(experiment, run.ref.name)) for run in runs),
                reward_moved=movement(facts, condition.name, "reward", moved[condition.name]),
                evaluated=_evaluated(experiment, facts, condition.name, digits, bounds=True),
                zero_signal=facts.value(facts.find(condition.name, "zero_signal_share", "final", "share"), decimals=2),
                truncated=facts.value(facts.find(condition.name, "truncated", "final", "share"), decimals=2),
            )
        )
    return tuple(rows)


def seed_rows(experiment: ExperimentFiles, facts: Facts) -> dict[str, tuple[SeedRow, ...]]:
    """By condition one row a run, in the order of its seeds. Numbers of one column have the same number of digits."""
    names = [run.ref.name for run in experiment.runs]
    ends = [found for name in names for statistic in ("initial", "final") if (found := facts.find(name, "reward", statistic))]
    rewards = numbers.column_decimals((found.value, None, None) for found in ends)
    digits = _evaluation_digits(experiment, facts, names)
    return {
        condition.name: tuple(_seed_row(experiment, facts, run, rewards, digits) for run in experiment.of_condition(condition.name))
        for condition in experiment.card.conditions
    }


def _seed_row(experiment: ExperimentFiles, facts: Facts, run: RunFiles, rewards: int, digits: tuple[int, ...]) -> SeedRow:
    health, name = run.health, run.ref.name
    detections = health.detections if health else ()
    return SeedRow(
        name=name,
        seed=run.ref.seed,
        state=run.state,
        failure=(run.outcome.failure or "") if run.outcome else "",
        steps=steps_done(facts, run, of="/"),
        included=run.included,
        carried=carried.short(carried.of_run(experiment, name)),
        reasons=left_out(run),
        initial=_own_reward(facts, name, "initial", rewards),
        final=_own_reward(facts, name, "final", rewards),
        evaluated=_evaluated(experiment, facts, name, digits, bounds=False),
        zero_signal=facts.value(facts.find(name, "zero_signal_share", "final", "share"), decimals=2),
        truncated=facts.value(facts.find(name, "truncated", "final", "share"), decimals=2),
        nonfinite=_nonfinite(detections),
        collapse=_collapse(detections),
        attempts=len(run.attempts),
        stopped=run.outcome is not None and run.outcome.stopped is not None,
    )


def _own_reward(facts: Facts, run: str, when: str, decimals: int) -> Markup:
    """With the column's digits, but never a 0.000 for a number that is not 0."""
    found = facts.find(run, "reward", when)
    vanishes = found is not None and bool(found.value) and abs(found.value or 0.0) < 0.5 * 10**-decimals
    return facts.value(found, decimals=None if vanishes else decimals)


def steps_done(facts: Facts, run: RunFiles, *, of: str = "of") -> Markup:
    """`60 of 60`, as a link to its finding where there is one."""
    done = facts.find(run.ref.name, "steps", "done")
    return facts.counted(done, of=of) if done and done.k is not None else shown(f"{_done(run)} {of} {run.ref.target_steps}")


def _done(run: RunFiles) -> int | str:
    done = run.health.steps_done if run.health else run.outcome.steps_done if run.outcome else None
    return numbers.NONE if done is None else done


def movement(facts: Facts, subject: str, metric: str, decimals: int | None) -> Movement:
    """Initial, final and change of a metric."""
    initial, final, change = facts.moved(subject, metric)
    return Movement(facts.value(initial, decimals=decimals), facts.value(final, decimals=decimals), facts.change(change, decimals=decimals))


def _movement_digits(facts: Facts, subjects: list[str]) -> dict[str, int | None]:
    rows = [tuple(found.value if found else None for found in facts.moved(subject, "reward")) for subject in subjects]
    return dict(zip(subjects, numbers.agreed_rows((first, last, change) for first, last, change in rows), strict=True))


def evaluation(experiment: ExperimentFiles, facts: Facts, subject: str) -> tuple[Finding | None, ...]:
    """The shared evaluation's pass shares, one a score."""
    return tuple(facts.find(subject, f"evaluation.{name}.pass_share", "final", "share") for name in experiment.card.evaluation)


def _evaluation_digits(experiment: ExperimentFiles, facts: Facts, subjects: list[str]) -> tuple[int, ...]:
    columns = zip(*(evaluation(experiment, facts, subject) for subject in subjects), strict=True)
    return tuple(numbers.column_decimals((found.value, found.low, found.high) for found in column if found) for column in columns)


def _evaluated(experiment: ExperimentFiles, facts: Facts, subject: str, digits: tuple[int, ...], *, bounds: bool) -> tuple[Markup, ...]:
    write = facts.interval if bounds else facts.value
    found = evaluation(experiment, facts, subject)
    return tuple(write(finding, decimals=decimals) for finding, decimals in zip(found, digits or (2,) * len(found), strict=True))


def _nonfinite(detections: tuple[Detection, ...]) -> str:
    """`persistent from 21`, `transient, first at 50`; of a summary what its single values say."""
    detection = next((d for d in detections if d.detector == "nonfinite"), None)
    told = next((d for d in detections if d.detector == "summary"), detection)
    signals = [signal for signal in told.signals if "class" in signal.evidence] if told else []
    if detection is None or (not signals and detection.state != "looked"):
        return detection.state.replace("_", " ") if detection else numbers.NONE
    if not signals:
        return "none"
    lasting = [signal for signal in signals if signal.evidence["class"] == "persistent"]
    onset = min((s.onset for s in lasting or signals if s.onset is not None), default=None)
    worst, since = ("persistent", " from") if lasting else ("transient", ", first at")
    return worst + (f"{since} {onset}" if onset is not None else "")


def _collapse(detections: tuple[Detection, ...]) -> str:
    detection = next((d for d in detections if d.detector == "collapse"), None)
    if detection is None:
        return numbers.NONE
    if detection.state != "looked":
        return detection.state.replace("_", " ")
    onset = min((s.onset for s in detection.signals if s.onset is not None), default=None)
    return "none" if onset is None else f"step {onset}"
