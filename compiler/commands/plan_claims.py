"""Published claims whose verdict rests on what changes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compiler.commands.git import git, show
from compiler.commands.plan_report import ClaimAtRisk, StagePlan
from compiler.compile import Compiled
from compiler.document.node import Node
from compiler.document.read import parse
from compiler.problems import Rejected, listed
from stages.contracts.analysis_card import ConcludeCard
from stages.contracts.artifact import ArtifactError, read
from stages.contracts.attempt import first_data, read_attempts
from stages.contracts.claim import ClaimRule
from stages.contracts.finding import Findings
from stages.contracts.layout import RUNS, ExperimentFolder

SHOWN = 4
"""Names of runs in one sentence."""


@dataclass(frozen=True)
class OlderRules:
    """What was declared before: claim -> its rule, and the health gates; null if they are not known."""

    claims: Mapping[str, Any]
    gates: dict[str, Any] | None


def claims_at_risk(
    compiled: Compiled, older: OlderRules | None, stages: Sequence[StagePlan], new: Sequence[str], removed: Sequence[str]
) -> list[ClaimAtRisk]:
    """Claims that were concluded, or that the older specs declared, and now rest on other runs, another evaluation or another rule.

    `older` is None if it is not known; a verdict is null if this machine has not concluded it. To change a rule, or which runs count, once
    there are data makes the claim void: a reviewer must read that here, not on the page.
    """
    folder = ExperimentFolder(RUNS / compiled.experiment.name)
    verdicts: dict[str, Any] = {}
    with suppress(ArtifactError, OSError):
        verdicts = {verdict.claim: verdict.verdict for verdict in read(Findings, folder.findings).verdicts}
    declared = older.claims if older else {}
    rules = {rule.id: rule for rule in _card(compiled).claims}
    gates = compiled.cards.single["analysis/screen.card.json"].model_dump(mode="json")["gates"]
    certain = {stage.stage for stage in stages if stage.state == "runs"}
    changed = _changed_runs(stages, new)
    claims = []
    for claim in dict.fromkeys((*verdicts, *declared, *(rules if older else ()))):
        why = ["it is no longer in the spec"]
        if rule := rules.get(claim):
            sides, runs = _sides(rule), _compared(compiled, rule)
            gone = [run for run in removed if run.rpartition("-s")[0] in sides]
            groups = [*(([run for run in runs if run in among], one, several) for among, one, several in changed)]
            groups.append((gone, "is no longer a run", "are no longer runs"))
            why = [f"{listed(names, SHOWN)} {one if len(names) == 1 else several}" for names, one, several in groups if names]
            why += _edits(rule, older, gates, runs, folder) if older else []
            if rule.metric.startswith("evaluation.") and "evaluate" in certain:
                why.append("the shared evaluation is made again")
            if rule.included_only and "screen" in certain and claim in (*verdicts, *declared):
                why.append("which runs count is decided again")
            if not why and "conclude" in certain:
                why.append("it is concluded again")
        if why:
            claims.append(ClaimAtRisk(claim=claim, verdict=verdicts.get(claim), why=tuple(why)))
    return claims


def _changed_runs(stages: Sequence[StagePlan], new: Sequence[str]) -> list[tuple[set[str], str, str]]:
    """Runs by what happens to them, with the words for one of them and for several."""
    again = {stage.makes: stage.imports for stage in stages if stage.makes and stage.state == "runs" and stage.makes not in new}
    back = [stage for stage in stages if stage.makes and stage.state == "restored"]
    return [
        ({run for run, is_import in again.items() if not is_import}, "trains again", "train again"),
        ({run for run, is_import in again.items() if is_import}, "is imported again", "are imported again"),
        (
            {stage.makes or "" for stage in back if any(reason.kind != "output" for reason in stage.reasons)},
            "is put back as it was earlier",
            "are put back as they were earlier",
        ),
        (set(new), "is new", "are new"),
    ]


def _edits(rule: ClaimRule, older: OlderRules, gates: dict[str, Any], runs: Sequence[str], folder: ExperimentFolder) -> list[str]:
    """What was edited of the rule; that makes a claim void that has data, by the ledgers on this machine."""
    edits = []
    if older.claims.get(rule.id) != rule.model_dump(mode="json"):
        edits.append("its rule changes" if rule.id in older.claims else "it is new")
    if older.gates is not None and rule.included_only and older.gates != gates:
        edits.append("its health gates change")
    begun: list[str] = []
    for run in runs if edits else ():
        with suppress(ArtifactError, OSError):
            begun += filter(None, [first_data(read_attempts(folder.run(run).attempts))])
    return [f"{edit}, and it has data since {min(begun)[:10]}: it becomes void" for edit in edits] if begun else edits


def _card(compiled: Compiled) -> ConcludeCard:
    card = compiled.cards.single["analysis/conclude.card.json"]
    assert isinstance(card, ConcludeCard)
    return card


def _sides(rule: ClaimRule) -> set[str]:
    return {rule.condition, *((rule.contrast.condition, rule.contrast.against) if rule.contrast else ())}


def _compared(compiled: Compiled, rule: ClaimRule) -> list[str]:
    """Runs of the claim's conditions."""
    return [run.name for run in _card(compiled).runs if run.condition in _sides(rule)]


def undated(compiled: Iterable[Compiled], stages: Mapping[str, Sequence[StagePlan]]) -> list[str]:
    """A note for each spec that git does not know, and for each rule that was edited since HEAD, while runs are about to get their data:
    a rule that git dates after its data decides nothing, so the page's verdicts would turn to void with the commit.

    `stages`: name of an experiment -> its stages."""
    notes: dict[str, None] = {}
    for each in compiled:
        making = {stage.makes for stage in stages[each.experiment.name] if stage.makes and stage.state == "runs"}
        if making and each.experiment.spec.claims and git("rev-parse", "--git-dir") is not None:
            notes |= dict.fromkeys(_undated(each, making))
    return list(notes)


def _undated(compiled: Compiled, making: Set[str]) -> Iterator[str]:
    """A rule is committed if HEAD holds it in the spec or, where only words around it changed, on the card of the analysis."""
    nodes = [compiled.experiment.node("claims", index) for index in range(len(compiled.experiment.spec.claims))]
    committed = {file: show("HEAD", file) for file in (compiled.experiment.document.file, *(node.place.file for node in nodes))}
    for file, text in committed.items():
        if text is None:
            yield f"{file} is in no commit: commit it before dvc repro, or its claims are younger than their data, and decide nothing"
    card = show("HEAD", ExperimentFolder(RUNS / compiled.experiment.name).conclude_card.as_posix())
    for rule, node in zip(_card(compiled).claims, nodes, strict=True):
        file, text = node.place.file, committed[node.place.file]
        if text is None or text == Path(file).read_text(encoding="utf-8") or making.isdisjoint(_compared(compiled, rule)):
            continue
        if rule.model_dump(mode="json") not in (json.loads(card)["claims"] if card else []) and not _holds(text, file, node):
            yield (
                f"{file}: the rule of `{rule.id}` is edited and in no commit: commit it before dvc repro, "
                "or it is younger than its data, and decides nothing"
            )


def _holds(text: str, file: str, claim: Node) -> bool:
    """Whether a spec as HEAD has it, which need not be YAML, holds the claim."""
    try:
        claims = parse(text.encode(), file).root.get("claims")
    except Rejected:
        return False
    return claims is not None and isinstance(claims.value, list) and claim.plain() in [node.plain() for node in claims.value]
