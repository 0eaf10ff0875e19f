"""Results that were carried over: a person judged that a change of a stage's code changes none of them. Who, why, when, which code."""

from __future__ import annotations

from dataclasses import dataclass

from stages.contracts.finding import Finding
from stages.contracts.page_card import WaivedWords
from stages.publish.experiment import ExperimentFiles
from stages.publish.numbers import listed

_STAGES = {"evaluate": "the shared evaluation", "preflight": "preflight", "pretrain": "the base model"}


@dataclass(frozen=True)
class Waiver:
    """One judgement, with everything that it is about."""

    of: str
    code: str
    who: str
    at: str
    why: str


def of_run(experiment: ExperimentFiles, run: str) -> tuple[WaivedWords, ...]:
    """Waivers by which a run's results stand, oldest first."""
    return tuple(words for words in experiment.card.waivers if words.run == run)


def behind(experiment: ExperimentFiles, finding: Finding) -> tuple[WaivedWords, ...]:
    """Waivers that a number rests on: of its runs, and of the other stages that it came through."""
    runs = {run.ref.name for run in experiment.runs_of_subject(finding.subject)} | {seed.run for seed in finding.seeds}
    stages = {"pretrain"}
    if finding.metric.startswith("evaluation."):
        stages.add("evaluate")
    if finding.statistic == "preflight":
        stages.add("preflight")
        runs = set()
    return tuple(words for words in experiment.card.waivers if words.run in runs or (words.run is None and words.stage in stages))


def short(found: tuple[WaivedWords, ...]) -> str:
    """`shaped-s1 and the shared evaluation: code change waived on 2026-11-28 by A`; empty when nothing was carried over."""
    together: dict[str, list[str]] = {}
    for words in found:
        together.setdefault(f"code change waived on {words.at[:10]} by {words.who}", []).append(what(words))
    return "; ".join(f"{listed(list(dict.fromkeys(of)))}: {said}" for said, of in together.items())


def line(words: WaivedWords) -> str:
    """Everything about one waiver but what it is about."""
    return f"code {words.code_from} → {words.code_to} judged equal in its results by {words.who}, {words.at}: {words.why}"


def what(words: WaivedWords) -> str:
    """The run or stage that a waiver is about, in words."""
    return words.run or _STAGES.get(words.stage, words.stage)


def waivers(experiment: ExperimentFiles) -> tuple[Waiver, ...]:
    """All that hold, equal judgements once."""
    together: dict[tuple[str, ...], list[str]] = {}
    for words in experiment.card.waivers:
        key = (f"{words.code_from} → {words.code_to}", words.who, words.at, words.why)
        together.setdefault(key, []).append(what(words))
    return tuple(Waiver(listed(of), *key) for key, of in together.items())
