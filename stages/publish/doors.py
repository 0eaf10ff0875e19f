"""Passports of what is no number: the verdict on each claim, and each figure. They open as those of numbers do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from stages.contracts.artifact import canonical_json, digest
from stages.contracts.finding import Finding
from stages.publish import judged, numbers
from stages.publish.claims import ClaimView
from stages.publish.experiment import Drawing, ExperimentFiles
from stages.publish.facts import interval_text
from stages.publish.figures import files
from stages.publish.passports import Passport, behind, passport, recompute
from stages.publish.text import figure_id, slug, verdict_id

FIGURES, VERDICTS = "figures.json", "verdicts.json"


def verdict_passports(experiment: ExperimentFiles, claims: Iterable[ClaimView], used: Mapping[str, Finding]) -> tuple[Passport, ...]:
    """One a claim: the rule and when it was written, what decides it, and the seeds and files of that number."""
    found = []
    for claim in claims:
        finding = _decides(experiment, claim.id)
        below = passport(experiment, finding) if finding else None
        lines = (
            ("why", claim.why),
            ("rule", claim.rule.replace("`", "")),
            ("rule written", claim.written),
            ("decided by", _conclude(experiment)),
        )
        found.append(
            Passport(
                anchor=slug(verdict_id(claim.id)),
                id=verdict_id(claim.id),
                value=claim.word,
                unit="",
                says=claim.says.replace("`", ""),
                facts=tuple((name, text) for name, text in lines if text),
                seeds=below.seeds if below else (),
                behind=below.behind if below else (),
                spec=(f"{claim.place} claim {claim.id}",) if claim.place else (),
                draws=_numbers(experiment, (finding.id,) if finding else (), used),
                links=(("for programs", VERDICTS),),
            )
        )
    return tuple(found)


def figure_passports(experiment: ExperimentFiles, used: Mapping[str, Finding]) -> tuple[Passport, ...]:
    """One a figure: what it shows, the numbers in it, the files it was drawn from, and its table."""
    return tuple(_figure(experiment, drawing, used) for drawing in experiment.drawings)


def _figure(experiment: ExperimentFiles, drawing: Drawing, used: Mapping[str, Finding]) -> Passport:
    figure = drawing.figure
    table = (("table", f"figures/{drawing.csv.name}"),) if drawing.csv.exists() else ()
    return Passport(
        anchor=slug(figure_id(figure.name)),
        id=figure_id(figure.name),
        value=figure.title,
        unit="",
        says=figure.alternative,
        facts=(("drawn by", _draw(experiment)), *((("marked", "; ".join(mark.says for mark in figure.marks)),) if figure.marks else ())),
        seeds=(),
        behind=behind(experiment, figure.sources, ()),
        spec=(experiment.card.spec,),
        draws=_numbers(experiment, figure.findings, used),
        links=(*table, ("picture", f"figures/{drawing.svg.name}"), ("for programs", FIGURES)),
    )


def _numbers(experiment: ExperimentFiles, ids: Iterable[str], used: Mapping[str, Finding]) -> tuple[tuple[str, str, str], ...]:
    """(anchor of its passport or nothing, id, value) of each number that was computed."""
    known = [experiment.findings[id_] for id_ in ids if id_ in experiment.findings]
    return tuple((slug(f.id) if f.id in used else "", f.id, numbers.with_unit(interval_text(f), f.unit)) for f in known)


def _decides(experiment: ExperimentFiles, claim: str) -> Finding | None:
    verdict = experiment.verdicts.get(claim)
    return experiment.findings.get(verdict.finding) if verdict and verdict.finding else None


def _conclude(experiment: ExperimentFiles) -> str:
    code = f", code {judged.versions(experiment.conclude.code)}" if experiment.conclude else ""
    return f"{recompute(experiment)}, analysis card {experiment.conclusions.card_id}{code}"


def _draw(experiment: ExperimentFiles) -> str:
    return f"dvc repro --force --single-item {experiment.folder.pipeline}:draw"


def verdicts_json(experiment: ExperimentFiles, claims: Iterable[ClaimView]) -> str:
    """The passports of verdicts for programs, by claim."""
    rules = {claim.id: claim for claim in experiment.conclude.claims} if experiment.conclude else {}
    found: dict[str, Any] = {}
    for claim in claims:
        verdict, rule = experiment.verdicts.get(claim.id), rules.get(claim.id)
        found[claim.id] = {
            "says": claim.says,
            "verdict": verdict.model_dump(mode="json") if verdict else None,
            "rule": rule.model_dump(mode="json") if rule else None,
            "rule_written": claim.written,
            "spec": str(claim.place) if claim.place else None,
            "analysis_card": experiment.conclusions.card_id,
            "command": recompute(experiment),
        }
    return canonical_json(found)


def figures_json(experiment: ExperimentFiles) -> str:
    """The passports of figures for programs, by name: the figure itself with the hashes of its picture and table."""
    return canonical_json(
        {
            drawing.figure.name: {
                "figure": drawing.figure.model_dump(mode="json"),
                "files": {name: digest(content) for name, content in files(drawing).items() if not name.endswith(".json")},
                "command": _draw(experiment),
            }
            for drawing in experiment.drawings
        }
    )
