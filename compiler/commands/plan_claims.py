"""Published claims whose verdict rests on what changes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from compiler.commands.plan_git import git, show
from compiler.compile import Compiled
from compiler.document.node import Node
from compiler.document.read import parse
from compiler.problems import Rejected
from stages.contracts.analysis_card import ConcludeCard
from stages.contracts.artifact import ArtifactError, read
from stages.contracts.attempt import first_data, read_attempts
from stages.contracts.finding import Findings
from stages.contracts.layout import RUNS, ExperimentFolder
from stages.contracts.plan import ClaimAtRisk, ExperimentPlan, StagePlan

SHOWN = 4
MAKES_DATA = re.compile("^(train|import)-")
"""How the stages begin whose attempts are a run's first data."""


@dataclass(frozen=True)
class OlderRules:
    """What was declared before: claim -> its rule, and the health gates, null when nobody knows them."""

    claims: Mapping[str, Any]
    gates: list[Any] | None


def claims_at_risk(
    of: Compiled, older: OlderRules | None, stages: Iterable[StagePlan], new: Iterable[str], removed: Iterable[str]
) -> list[ClaimAtRisk]:
    """Claims that were concluded, or that the older specs declared, and now rest on other runs, another evaluation or another rule.

    `older` is null when nobody knows. A verdict is null when this machine has not concluded it. Whoever changes a rule, or which runs
    count, once there are data makes the claim void: a reviewer must read that here, not on the page.
    """
    old_rules = older.claims if older else {}
    verdicts = _verdicts(of.experiment.name)
    card = of.cards.single["analysis/conclude.card.json"]
    assert isinstance(card, ConcludeCard)
    rules = {claim.id: claim for claim in card.claims}
    by_name = {stage.stage: stage for stage in stages}
    makes = {MAKES_DATA.sub("", name): stage for name, stage in by_name.items() if MAKES_DATA.match(name)}
    again = {run for run, stage in makes.items() if stage.state == "runs"} - set(new)
    reads = {run for run, stage in makes.items() if stage.stage.startswith("import-")}
    swapped = {run for run, stage in makes.items() if stage.state == "restored" and any(why.kind != "output" for why in stage.reasons)}
    conditions = {run.name: run.condition for run in card.runs}
    found = []
    screened = of.cards.single["analysis/screen.card.json"]
    gates = screened.model_dump(mode="json")["gates"]
    for claim in dict.fromkeys((*verdicts, *old_rules, *(rules if older else ()))):
        rule = rules.get(claim)
        why: list[str] = []
        if rule is None:
            why.append("it is no longer in the spec")
        else:
            sides = {rule.condition, *((rule.contrast.condition, rule.contrast.against) if rule.contrast else ())}
            mine = [run for run, condition in conditions.items() if condition in sides]
            why += _listed([run for run in mine if run in again - reads], "trains again", "train again")
            why += _listed([run for run in mine if run in again & reads], "is imported again", "are imported again")
            why += _listed([run for run in mine if run in swapped], "is put back as it was earlier", "are put back as they were earlier")
            why += _listed([run for run in mine if run in set(new)], "is new", "are new")
            why += _listed([run for run in removed if run.rpartition("-s")[0] in sides], "is no longer a run", "are no longer runs")
            edited = []
            if older and claim not in old_rules:
                edited.append("it is new")
            elif older and old_rules[claim] != rule.model_dump(mode="json"):
                edited.append("its rule changes")
            if older and older.gates is not None and rule.included_only and _by_name(older.gates) != _by_name(gates):
                edited.append("its health gates change")
            data = _first_data(of.experiment.name, mine) if edited else None
            why += [f"{one}, and it has data since {data[:10]}: it becomes void" if data else one for one in edited]
            if rule.metric.startswith("evaluation.") and _runs(by_name, "evaluate"):
                why.append("the shared evaluation is made again")
            if rule.included_only and _runs(by_name, "screen") and claim in (*verdicts, *old_rules):
                why.append("which runs count is decided again")
            if not why and _runs(by_name, "conclude"):
                why.append("it is concluded again")
        if why:
            found.append(ClaimAtRisk(claim=claim, verdict=verdicts.get(claim), why=tuple(why)))
    return found


def _by_name(gates: list[Any]) -> dict[str, Any]:
    return {gate["name"]: gate for gate in gates}


def _first_data(experiment: str, runs: Iterable[str]) -> str | None:
    """When the first attempt of any of these runs began that could show anything, as the ledgers that lie here say."""
    found: list[str] = []
    for run in runs:
        with suppress(ArtifactError, OSError):
            began = first_data(read_attempts(ExperimentFolder(RUNS / experiment).run(run).attempts))
            found += [began] if began else []
    return min(found, default=None)


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
    """A note for each spec that git does not know, and for each rule that was edited since HEAD, while runs are about to get their data:
    a rule that git dates after its data decides nothing, so the page's verdicts would turn to void with the commit."""
    making = {
        one.name: {MAKES_DATA.sub("", stage.stage) for stage in one.stages if stage.state == "runs" and MAKES_DATA.match(stage.stage)}
        for one in experiments
    }
    concerned = [one for one in compiled if making.get(one.experiment.name) and one.experiment.spec.claims]
    files = dict.fromkeys(file for one in concerned for file in (one.experiment.document.file, *(node.place.file for node in _claims(one))))
    said = git("status", "--porcelain", "-z", "--untracked-files=all", "--", *files) if files else None
    entries = sorted(filter(None, (said or b"").decode("utf-8", "replace").split("\0")))
    for entry in entries:
        if entry[:2] == "??" or entry[:1] == "A":
            yield f"{entry[3:]} is in no commit: commit it before dvc repro, or its claims are younger than their data, and decide nothing"
    if any("M" in entry[:2] and entry[:1] != "A" for entry in entries):
        for one in concerned:
            yield from _edited(one, making[one.experiment.name])


def _edited(of: Compiled, making: Set[str]) -> Iterator[str]:
    """Rules that are not as HEAD has them: neither in the spec nor, where only words around them changed, on the card of the analysis."""
    card = of.cards.single["analysis/conclude.card.json"]
    assert isinstance(card, ConcludeCard)
    older = show("HEAD", ExperimentFolder(RUNS / of.experiment.name).conclude_card.as_posix())
    concluded = json.loads(older)["claims"] if older else []
    for rule, node in zip(card.claims, _claims(of), strict=True):
        sides = {rule.condition, *((rule.contrast.condition, rule.contrast.against) if rule.contrast else ())}
        text = show("HEAD", node.place.file)
        if text is None or not any(run.condition in sides and run.name in making for run in card.runs):
            continue
        if rule.model_dump(mode="json") not in concluded and node.plain() not in _claims_in(text, node.place.file):
            yield (
                f"{node.place.file}: the rule of `{rule.id}` is edited and in no commit: commit it before dvc repro, "
                "or it is younger than its data, and decides nothing"
            )


def _claims(of: Compiled) -> list[Node]:
    return [of.experiment.node("claims", index) for index in range(len(of.experiment.spec.claims))]


def _claims_in(text: str, file: str) -> list[Any]:
    """The claims of a spec as HEAD has it; none when that was no YAML."""
    try:
        claims = parse(text.encode(), file).root.get("claims")
    except Rejected:
        return []
    return [node.plain() for node in claims.value] if claims and isinstance(claims.value, list) else []
