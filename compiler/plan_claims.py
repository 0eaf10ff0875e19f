"""Published claims whose verdict rests on what changes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from compiler.compile import Compiled
from compiler.plan_git import git
from stages.contracts.analysis_card import ConcludeCard
from stages.contracts.artifact import ArtifactError, read
from stages.contracts.finding import Findings
from stages.contracts.layout import RUNS, ExperimentFolder
from stages.contracts.plan import ClaimAtRisk, ExperimentPlan, StagePlan

SHOWN = 4
_MAKES_DATA = re.compile("(train|import)-")
"""How the stages begin whose attempts are a run's first data."""


def claims_at_risk(
    of: Compiled, old_rules: Mapping[str, Any] | None, stages: Iterable[StagePlan], new: Iterable[str], removed: Iterable[str]
) -> list[ClaimAtRisk]:
    """Claims that were concluded, or that the older specs declared, and now rest on other runs, another evaluation or another rule.

    `old_rules` maps each claim to its older rule, None when nobody knows. A verdict is null when this machine has not concluded it.
    """
    verdicts = _verdicts(of.experiment.name)
    card = of.cards.single["analysis/conclude.card.json"]
    assert isinstance(card, ConcludeCard)
    rules = {claim.id: claim for claim in card.claims}
    by_name = {stage.stage: stage for stage in stages}
    trains = {stage.run: stage.state for stage in by_name.values() if stage.run}
    swapped = {stage.run for stage in by_name.values() if stage.state == "restored" and any(why.kind != "output" for why in stage.reasons)}
    conditions = {run.name: run.condition for run in card.runs}
    found = []
    for claim in dict.fromkeys((*verdicts, *(old_rules or {}))):
        rule = rules.get(claim)
        why: list[str] = []
        if rule is None:
            why.append("it is no longer in the spec")
        else:
            sides = {rule.condition, *((rule.contrast.condition, rule.contrast.against) if rule.contrast else ())}
            mine = [run for run, condition in conditions.items() if condition in sides]
            why += _listed([run for run in mine if trains.get(run) == "runs" and run not in set(new)], "trains again", "train again")
            why += _listed([run for run in mine if run in swapped], "is put back as it was earlier", "are put back as they were earlier")
            why += _listed([run for run in mine if run in set(new)], "is new", "are new")
            why += _listed([run for run in removed if run.rpartition("-s")[0] in sides], "is no longer a run", "are no longer runs")
            before = (old_rules or {}).get(claim)
            if before is not None and before != rule.model_dump(mode="json"):
                why.append("its rule changes")
            if rule.metric.startswith("evaluation.") and _runs(by_name, "evaluate"):
                why.append("the shared evaluation is made again")
            if rule.included_only and _runs(by_name, "screen"):
                why.append("which runs count is decided again")
            if not why and _runs(by_name, "conclude"):
                why.append("it is concluded again")
        if why:
            found.append(ClaimAtRisk(claim=claim, verdict=verdicts.get(claim), why=tuple(why)))
    return found


def _verdicts(experiment: str) -> dict[str, Any]:
    try:
        return {verdict.claim: verdict.verdict for verdict in read(Findings, ExperimentFolder(RUNS / experiment).findings).verdicts}
    except (ArtifactError, OSError):
        return {}


def _runs(stages: Mapping[str, StagePlan], name: str) -> bool:
    return name in stages and stages[name].state == "runs"


def _listed(runs: list[str], one: str, several: str) -> list[str]:
    if not runs:
        return []
    more = f" and {len(runs) - SHOWN} more" if len(runs) > SHOWN else ""
    return [f"{', '.join(runs[:SHOWN])}{more} {one if len(runs) == 1 else several}"]


def undated(compiled: Iterable[Compiled], experiments: Iterable[ExperimentPlan]) -> Iterator[str]:
    """A note for each spec that git does not know while runs of it are about to get their data: a rule that git dates after its data
    decides nothing, so the page's verdicts would turn to void with the commit."""
    making = {one.name for one in experiments if any(stage.state == "runs" and _MAKES_DATA.match(stage.stage) for stage in one.stages)}
    specs = [one.experiment.document.file for one in compiled if one.experiment.name in making and one.experiment.spec.claims]
    said = git("status", "--porcelain", "-z", "--untracked-files=all", "--", *dict.fromkeys(specs)) if specs else None
    for entry in sorted((said or b"").decode("utf-8", "replace").split("\0")):
        if entry[:2] == "??" or entry[:1] == "A":
            yield f"{entry[3:]} is in no commit: commit it before dvc repro, or its claims are younger than their data, and decide nothing"
