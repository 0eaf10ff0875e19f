"""Reads all files of an experiment, one run at a time, and keeps what findings are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from stages.analyse.evidence import ENDS, MEASURES, SHOWN, Evidence, RunEvidence, history_metrics, rule_metrics
from stages.analyse.frames import POINTS, read_if_there, read_run, read_table, window_of
from stages.analyse.measures import (
    Measure,
    change_of,
    completions_of,
    contributions,
    error_counts,
    evaluated,
    gate_counts,
    range_of,
    summary_value,
    window_mean,
)
from stages.analyse.statistics import trend
from stages.contracts.analysis_card import ConcludeCard, ConditionCard, OtherCondition, RunRef
from stages.contracts.artifact import read
from stages.contracts.attempt import read_attempts, tries
from stages.contracts.health import Health
from stages.contracts.history import EVALUATION_SCHEMA, gate_columns
from stages.contracts.import_card import ImportCard, Imported
from stages.contracts.layout import ExperimentFolder, RunFolder
from stages.contracts.preflight_card import Preflight


def load_evidence(folder: ExperimentFolder, card: ConcludeCard) -> Evidence:
    """Read all files of an experiment, one run at a time. Missing files are holes, broken ones raise ArtifactError."""
    evidence = Evidence(folder, card, read_if_there(Preflight, folder.preflight))
    conditions = {condition.name: condition for condition in card.conditions}
    untrained = evaluated(read_evaluation(folder.untrained.evaluation, card.evaluation)[0], card.evaluation)
    evidence.measures |= {("untrained", name, "final"): measure for name, measure in untrained.items()}
    for ref in card.runs:
        run, measures = _load_run(folder.run(ref.name), ref, conditions[ref.condition], card, untrained)
        evidence.runs.append(run)
        evidence.measures |= {(ref.name, *estimand): measure for estimand, measure in measures.items()}
    for other in card.elsewhere:
        _load_other(evidence, ExperimentFolder(folder.root.parent / other.experiment), other)
    return evidence


def _load_other(evidence: Evidence, folder: ExperimentFolder, other: OtherCondition) -> None:
    """Add the runs of another experiment's condition, and their measures."""
    card = evidence.card.model_copy(update={"evaluation": other.evaluation, "weights": {}})
    untrained = evaluated(read_evaluation(folder.untrained.evaluation, other.evaluation)[0], other.evaluation)
    for ref in other.runs:
        run, measures = _load_run(folder.run(ref.name), ref, other.condition, card, untrained)
        name = f"{other.experiment}:{ref.name}"
        evidence.others.append(replace(run, ref=ref.model_copy(update={"name": name, "condition": other.name})))
        evidence.measures |= {(name, *estimand): measure for estimand, measure in measures.items()}


def _load_run(
    place: RunFolder, ref: RunRef, condition: ConditionCard, card: ConcludeCard, untrained: Mapping[str, Measure]
) -> tuple[RunEvidence, dict[tuple[str, str], Measure]]:
    weights = card.weights.get(condition.name, ())
    columns = [column for gate in condition.gates for column in gate_columns(gate) if weights or not column.endswith(".score")]
    run = read_run(place, ref, condition, ("step", "group", "reward", "truncated", *columns), card.derived)
    statuses, attempt = read_evaluation(place.evaluation, card.evaluation)
    windows = {statistic: window_of(statistic, ref.span, card.windows) for statistic in (*ENDS, *(POINTS if card.points else ()))}
    sampled = {statistic: completions_of(run, window) for statistic, window in windows.items()}
    completions = {statistic: sampled[statistic] for statistic in ENDS}
    only_read = place.import_card.exists() and read(ImportCard, place.import_card).only_read
    gates = {(gate, statistic): gate_counts(rows, gate) for gate in condition.gates for statistic, rows in completions.items()}
    errors = {(gate, statistic): error_counts(rows, gate) for gate in condition.gates for statistic, rows in completions.items()}
    own = [f"gate.{gate}.{measure}" for gate in condition.gates for measure in MEASURES]
    names = dict.fromkeys((*history_metrics(card), *SHOWN, *own))
    evidence = RunEvidence(
        ref=ref,
        place=place,
        log=run,
        windows=windows,
        health=read_if_there(Health, place.health),
        imported=read_if_there(Imported, place.imported),
        only_read=only_read,
        attempts=tries(read_attempts(place.attempts), only_read=only_read),
        gates=gates,
        errors=errors,
        ranges={name: range_of(values, name) for name in names if len(values := run.values(name))},
        evaluated_attempt=attempt,
        evaluated=len(statuses) > 0,
    )
    measures: dict[tuple[str, str], Measure] = {}
    stopped = evidence.health.stopped if evidence.health else None
    for name in names:
        for statistic in windows if name in card.points else ENDS:
            measures[name, statistic] = (
                summary_value(evidence.imported, name, statistic)
                if evidence.only_summary
                else window_mean(run, name, windows[statistic], sampled=len(sampled[statistic]) > 0, stopped=stopped)
            )
        change = change_of(*(measures[name, end] for end in ENDS))
        if change.value is not None and not evidence.only_summary:
            before, after = (windows[end].rows(run.values(name)) for end in ENDS)
            change = change._replace(interval=trend(before, after, card.level))
        measures[name, "change"] = change
    times = run.values("step_seconds")
    measures["step_seconds", "mean"] = Measure(float(times.mean())) if len(times) else Measure(None, run.why_none("step_seconds"))
    for statistic, rows in completions.items():
        paid = contributions(rows, condition, weights, ref.target_steps)
        measures |= {(f"gate.{gate}.contribution", statistic): contribution for gate, contribution in paid}
    for name, last in evaluated(statuses, card.evaluation).items():
        measures |= {(name, "final"): last, (name, "change"): change_of(untrained[name], last)}
    run.keep({*rule_metrics(card.stops.get(run.condition)), *(expected.metric for expected in card.expectations)})
    return evidence, measures


def read_evaluation(path: Path, scores: Sequence[str]) -> tuple[pd.DataFrame, str | None]:
    """Status and score columns of evaluation.parquet, empty without the file, and the attempt of the adapter that was evaluated."""
    columns = [column for score in scores for column in gate_columns(score)[:2]]
    rows, metadata = read_table(path, EVALUATION_SCHEMA, columns)
    return rows, metadata.get("octavo.attempt")
