"""What a plan costs, and which published claims rest on what changes."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal

from compiler.commands.git import contents, git
from compiler.commands.plan_reasons import json_object
from compiler.commands.plan_report import ClaimAtRisk, Cost, StagePlan
from compiler.compile import Compiled
from compiler.problems import listed
from compiler.running.schedule import HOUR, attempts_of, is_on_gpu, paces_of
from stages.contracts.analysis_card import ConcludeCard, ScreenCard
from stages.contracts.artifact import ArtifactError, read
from stages.contracts.attempt import first_data
from stages.contracts.claim import ClaimRule
from stages.contracts.files import read_text
from stages.contracts.finding import Findings
from stages.contracts.layout import RUNS, ExperimentFolder

SHOWN = 4
"""Names of runs in one sentence."""


def cost(compiled: Compiled, runs: Iterable[str]) -> Cost:
    """Device hours of training these runs: device seconds a step of this experiment's own finished attempts, times the steps to do; else
    what the spec declares."""
    unit: Literal["GPU-hours", "CPU-hours"] = "GPU-hours" if is_on_gpu(compiled) else "CPU-hours"
    steps = {run.name: run.setup.train.max_steps for run in compiled.expansion.runs}
    again = [steps[name] for name in runs if name in steps]
    rates = [seconds * devices for seconds, devices in paces_of(compiled)]
    if rates and again:
        low, median, high = (round(sum(again) * rate / HOUR, 6) for rate in (min(rates), statistics.median(rates), max(rates)))
        return Cost(unit=unit, runs=len(again), basis="attempts", attempts=len(rates), median=median, low=low, high=high)
    hours = compiled.experiment.spec.resources.hours
    if hours is not None and again:
        return Cost(unit=unit, runs=len(again), basis="resources", median=round(hours * len(again), 6))
    return Cost(unit=unit, runs=len(again), basis="no history", attempts=len(rates))


def claims_at_risk(
    compiled: Compiled,
    concluded: Mapping[str, Any],
    screened: Mapping[str, Any],
    stages: Sequence[StagePlan],
    new: Sequence[str],
    removed: Sequence[str],
) -> list[ClaimAtRisk]:
    """Claims that were concluded, or that the older specs declared, and now rest on other runs, another evaluation or another rule.

    `concluded` and `screened` are the older cards; empty if they are not known. To change a rule, or which runs count, once there are data
    makes the claim void: a reviewer must read that here, not on the page.
    """
    folder, card = ExperimentFolder(RUNS / compiled.experiment.name), compiled.cards.conclude
    verdicts: dict[str, Any] = {}
    with suppress(ArtifactError, OSError):
        verdicts = {verdict.claim: verdict.verdict for verdict in read(Findings, folder.findings).verdicts}
    declared = {claim["id"]: claim for claim in concluded.get("claims", ())}
    rules = {rule.id: rule for rule in card.claims}
    screen = compiled.cards.single["analysis/screen.card.json"]
    assert isinstance(screen, ScreenCard)
    are_gates_new = bool(concluded and screened) and screened["gates"] != screen.model_dump(mode="json")["gates"]
    certain = {stage.stage for stage in stages if stage.state == "runs"}
    claims = []
    for claim in dict.fromkeys((*verdicts, *declared, *(rules if concluded else ()))):
        why, rule = ["it is no longer in the spec"], rules.get(claim)
        if rule is not None:
            runs = _compared(card, rule)
            groups = [
                *_changed_runs(stages, new, runs),
                ([run for run in removed if run.rpartition("-s")[0] in rule.sides], "is no longer a run"),
            ]
            why = [f"{listed(names, SHOWN)} {words if len(names) == 1 else _SEVERAL[words]}" for names, words in groups if names]
            if concluded and declared.get(claim) != rule.model_dump(mode="json"):
                why.append("its rule changes" if claim in declared else "it is new")
            if are_gates_new and rule.included_only:
                why.append("its health gates change")
            edits = [words for words in why if words in _VOID]
            data = [date for run in (runs if edits else ()) if (date := first_data(attempts_of(folder.run(run).attempts)))]
            if data:
                why = [f"{words}, and it has data since {min(data)[:10]}: it becomes void" if words in edits else words for words in why]
            if rule.metric.startswith("evaluation.") and certain & {f"evaluate-{run}" for run in ("untrained", *runs)}:
                why.append("the shared evaluation is made again")
            if rule.included_only and "screen" in certain and claim in (*verdicts, *declared):
                why.append("which runs count is decided again")
            if not why and "conclude" in certain:
                why.append("it is concluded again")
        if why:
            claims.append(ClaimAtRisk(claim=claim, verdict=verdicts.get(claim), why=tuple(why)))
    return claims


_VOID = ("its rule changes", "it is new", "its health gates change")
_SEVERAL = {
    "trains again": "train again",
    "is imported again": "are imported again",
    "is put back as it was earlier": "are put back as they were earlier",
    "is new": "are new",
    "is no longer a run": "are no longer runs",
}


def _changed_runs(stages: Sequence[StagePlan], new: Sequence[str], runs: Sequence[str]) -> list[tuple[list[str], str]]:
    """Those of `runs` to which the same happens, with the words for it."""
    happens = dict.fromkeys(new, "is new")
    for stage in stages:
        if stage.state == "runs" and stage.makes not in new:
            happens[stage.makes or ""] = "is imported again" if stage.imports else "trains again"
        elif stage.state == "restored" and any(reason.kind != "output" for reason in stage.reasons):
            happens[stage.makes or ""] = "is put back as it was earlier"
    return [([run for run in runs if happens.get(run) == words], words) for words in _SEVERAL]


def _compared(card: ConcludeCard, rule: ClaimRule) -> list[str]:
    """Runs of the claim's conditions."""
    return [run.name for run in card.runs if run.condition in rule.sides]


def held_against(compiled: Iterable[Compiled], planned: Collection[str]) -> Iterator[str]:
    """A note for each other experiment whose runs decide claims, where the plan does not tell of it. `planned`: names of experiments."""
    for each in compiled:
        for other in each.cards.conclude.elsewhere:
            claims = [claim.id for claim in each.cards.conclude.claims if claim.elsewhere and claim.elsewhere.name == other.name]
            if other.experiment not in planned:
                yield (
                    f"{each.experiment.name} is concluded from {len(other.runs)} runs of {other.experiment} too (condition "
                    f"{other.condition.name}; claims: {listed(claims)}); dvc repro makes those that are missing"
                )


def undated(compiled: Iterable[Compiled], making: Mapping[str, Collection[str | None]]) -> list[str]:
    """A note for each spec that git does not know, and for each rule that was edited since HEAD, while runs are about to get their data:
    a rule that git dates after its data decides nothing, so the page's verdicts would turn to void with the commit.

    `making`: name of an experiment -> its runs that get data."""
    notes: list[str] = []
    for each in compiled:
        if any(making[each.experiment.name]) and each.experiment.spec.claims and git("rev-parse", "--git-dir") is not None:
            notes += _undated(each, making[each.experiment.name])
    return list(dict.fromkeys(notes))


def _undated(compiled: Compiled, making: Collection[str | None]) -> Iterator[str]:
    """A rule is committed if HEAD holds it in the spec or, where only words around it changed, on the card of the analysis."""
    card = compiled.cards.conclude
    places = [compiled.experiment.node("claims", index).place.file for index in range(len(card.claims))]
    files = list(dict.fromkeys((compiled.experiment.document.file, *places)))
    committed_card = ExperimentFolder(RUNS / compiled.experiment.name).conclude_card.as_posix()
    *specs, committed = contents([f"HEAD:./{path}" for path in (*files, committed_card)])
    is_edited = {}
    for file, text in zip(files, specs, strict=True):
        is_edited[file] = text is not None and text != read_text(file)
        if text is None:
            yield f"{file} is in no commit: commit it before dvc repro, or its claims are younger than their data, and decide nothing"
    for rule, file in zip(card.claims, places, strict=True):
        is_on_card = rule.model_dump(mode="json") in json_object(committed).get("claims", ())
        if is_edited[file] and not is_on_card and not set(making).isdisjoint(_compared(card, rule)):
            yield (
                f"{file} is edited, and no committed card holds the rule of `{rule.id}`: compile and commit both before dvc repro, "
                "or the rule may be younger than its data, and decide nothing"
            )
