"""Published claims whose verdict rests on what changes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

from compiler.commands.git import git, show
from compiler.commands.plan_reasons import StagePlan
from compiler.compile import Compiled
from compiler.document.node import Node
from compiler.document.read import parse
from compiler.problems import Rejected, listed
from stages.contracts.analysis_card import ConcludeCard
from stages.contracts.artifact import ArtifactError, Frozen, read
from stages.contracts.attempt import first_data, read_attempts
from stages.contracts.claim import ClaimRule
from stages.contracts.finding import Findings
from stages.contracts.layout import RUNS, ExperimentFolder

SHOWN = 4
"""Names of runs in one sentence."""
MAKES_DATA = re.compile("^(train|import)-")
"""How the names of stages begin whose attempts are a run's first data."""


class ClaimAtRisk(Frozen):
    """A claim whose verdict rests on what changes."""

    claim: str
    verdict: Literal["supported", "refuted", "inconclusive", "void"] | None
    """null: not concluded on this machine."""
    why: tuple[str, ...]


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
    verdicts = _verdicts(compiled.experiment.name)
    declared = older.claims if older else {}
    rules = {rule.id: rule for rule in _card(compiled).claims}
    gates = compiled.cards.single["analysis/screen.card.json"].model_dump(mode="json")["gates"]
    changes = _Changes(compiled, stages, new, removed)
    claims = []
    for claim in dict.fromkeys((*verdicts, *declared, *(rules if older else ()))):
        why = ["it is no longer in the spec"]
        if rule := rules.get(claim):
            why = [*changes.to_runs(rule), *changes.to_rule(rule, older, gates)]
            if rule.metric.startswith("evaluation.") and "evaluate" in changes.certain:
                why.append("the shared evaluation is made again")
            if rule.included_only and "screen" in changes.certain and claim in (*verdicts, *declared):
                why.append("which runs count is decided again")
            if not why and "conclude" in changes.certain:
                why.append("it is concluded again")
        if why:
            claims.append(ClaimAtRisk(claim=claim, verdict=verdicts.get(claim), why=tuple(why)))
    return claims


class _Changes:
    """What happens to the runs of an experiment, and the stages that certainly run."""

    def __init__(self, compiled: Compiled, stages: Sequence[StagePlan], new: Sequence[str], removed: Sequence[str]) -> None:
        self.compiled, self.removed = compiled, removed
        self.certain = {stage.stage for stage in stages if stage.state == "runs"}
        makers = {MAKES_DATA.sub("", stage.stage): stage for stage in stages if MAKES_DATA.match(stage.stage)}
        imports = {run for run, stage in makers.items() if stage.stage.startswith("import-")}
        again = {run for run, stage in makers.items() if stage.state == "runs"} - set(new)
        back = {run for run, stage in makers.items() if stage.state == "restored" and any(why.kind != "output" for why in stage.reasons)}
        self.kinds = (
            (again - imports, "trains again", "train again"),
            (again & imports, "is imported again", "are imported again"),
            (back, "is put back as it was earlier", "are put back as they were earlier"),
            (set(new), "is new", "are new"),
        )

    def to_runs(self, rule: ClaimRule) -> Iterator[str]:
        """One sentence for each kind of change to runs that the claim compares."""
        sides, runs = _sides(rule), _compared(self.compiled, rule)
        for changed, singular, plural in self.kinds:
            yield from _sentence([run for run in runs if run in changed], singular, plural)
        yield from _sentence([run for run in self.removed if run.rpartition("-s")[0] in sides], "is no longer a run", "are no longer runs")

    def to_rule(self, rule: ClaimRule, older: OlderRules | None, gates: dict[str, Any]) -> Iterator[str]:
        """What was edited of the rule; that makes a claim void that has data."""
        if older is None:
            return
        edits = []
        if rule.id not in older.claims:
            edits.append("it is new")
        elif older.claims[rule.id] != rule.model_dump(mode="json"):
            edits.append("its rule changes")
        if older.gates is not None and rule.included_only and older.gates != gates:
            edits.append("its health gates change")
        since = _first_data(self.compiled.experiment.name, _compared(self.compiled, rule)) if edits else None
        yield from (f"{edit}, and it has data since {since[:10]}: it becomes void" if since else edit for edit in edits)


def _card(compiled: Compiled) -> ConcludeCard:
    card = compiled.cards.single["analysis/conclude.card.json"]
    assert isinstance(card, ConcludeCard)
    return card


def _sides(rule: ClaimRule) -> set[str]:
    return {rule.condition, *((rule.contrast.condition, rule.contrast.against) if rule.contrast else ())}


def _compared(compiled: Compiled, rule: ClaimRule) -> list[str]:
    """Runs of the claim's conditions."""
    return [run.name for run in _card(compiled).runs if run.condition in _sides(rule)]


def _sentence(runs: list[str], singular: str, plural: str) -> list[str]:
    return [f"{listed(runs, SHOWN)} {singular if len(runs) == 1 else plural}"] if runs else []


def _first_data(experiment: str, runs: Iterable[str]) -> str | None:
    """Start of the first attempt of any of these runs that could show anything, by the ledgers on this machine."""
    begun: list[str] = []
    for run in runs:
        with suppress(ArtifactError, OSError):
            begun += filter(None, [first_data(read_attempts(ExperimentFolder(RUNS / experiment).run(run).attempts))])
    return min(begun, default=None)


def _verdicts(experiment: str) -> dict[str, Any]:
    try:
        return {verdict.claim: verdict.verdict for verdict in read(Findings, ExperimentFolder(RUNS / experiment).findings).verdicts}
    except (ArtifactError, OSError):
        return {}


def undated(compiled: Iterable[Compiled], stages: Mapping[str, Sequence[StagePlan]]) -> Iterator[str]:
    """A note for each spec that git does not know, and for each rule that was edited since HEAD, while runs are about to get their data:
    a rule that git dates after its data decides nothing, so the page's verdicts would turn to void with the commit.

    `stages`: name of an experiment -> its stages."""
    making = {
        name: {MAKES_DATA.sub("", stage.stage) for stage in plans if stage.state == "runs" and MAKES_DATA.match(stage.stage)}
        for name, plans in stages.items()
    }
    concerned = [each for each in compiled if making.get(each.experiment.name) and each.experiment.spec.claims]
    files = dict.fromkeys(
        file for each in concerned for file in (each.experiment.document.file, *(node.place.file for node in _claims(each)))
    )
    status = git("status", "--porcelain", "-z", "--untracked-files=all", "--", *files) if files else None
    entries = sorted(filter(None, (status or b"").decode("utf-8", "replace").split("\0")))
    for entry in entries:
        if entry[:2] == "??" or entry[:1] == "A":
            yield f"{entry[3:]} is in no commit: commit it before dvc repro, or its claims are younger than their data, and decide nothing"
    if any("M" in entry[:2] and entry[:1] != "A" for entry in entries):
        for each in concerned:
            yield from _edited(each, making[each.experiment.name])


def _edited(compiled: Compiled, making: Set[str]) -> Iterator[str]:
    """Rules that are not as HEAD has them: neither in the spec nor, where only words around them changed, on the card of the analysis."""
    card = show("HEAD", ExperimentFolder(RUNS / compiled.experiment.name).conclude_card.as_posix())
    concluded = json.loads(card)["claims"] if card else []
    for rule, node in zip(_card(compiled).claims, _claims(compiled), strict=True):
        text = show("HEAD", node.place.file)
        if text is None or making.isdisjoint(_compared(compiled, rule)):
            continue
        if rule.model_dump(mode="json") not in concluded and node.plain() not in _claims_in(text, node.place.file):
            yield (
                f"{node.place.file}: the rule of `{rule.id}` is edited and in no commit: commit it before dvc repro, "
                "or it is younger than its data, and decides nothing"
            )


def _claims(compiled: Compiled) -> list[Node]:
    return [compiled.experiment.node("claims", index) for index in range(len(compiled.experiment.spec.claims))]


def _claims_in(text: str, file: str) -> list[Any]:
    """The claims of a spec as HEAD has it; none if that was no YAML."""
    try:
        claims = parse(text.encode(), file).root.get("claims")
    except Rejected:
        return []
    return [node.plain() for node in claims.value] if claims and isinstance(claims.value, list) else []
