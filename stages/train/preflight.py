"""Stage: can this reward teach? Each condition's reward on completions of the untrained model, before any GPU hour.

python -m stages.train.preflight runs/<experiment>
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stages.contracts.artifact import write
from stages.contracts.layout import ExperimentFolder
from stages.contracts.plugin import Answer
from stages.contracts.preflight_card import (
    Atom,
    GateShares,
    Permission,
    Preflight,
    PreflightCard,
    PreflightCondition,
    PreflightResult,
    StepTime,
)
from stages.contracts.reward import Gate
from stages.contracts.stage import card_id, main, open_card, print_text
from stages.train import interrupts, reasons
from stages.train.data import Row, read_rows
from stages.train.environment import prepare
from stages.train.model import Sampled, load_base, prompt_texts, sample
from stages.train.recorder import write_completions
from stages.train.rewards.compose import Scored, compose, sandbox
from stages.train.scoring import completion_rows, gate_modules, with_prompts, zero_signal_groups

MODULE = "stages.train.preflight"

Completions = list[tuple[Row, Sampled]]
"""Completions with their rows: whole groups, prompts in file order."""


def preflight(folder: Path) -> None:
    """Write preflight.json, completions.parquet and one permission a condition."""
    experiment = ExperimentFolder(folder)
    card = open_card(PreflightCard, experiment.preflight_card, [MODULE], lambda card: gate_modules(_gates(card)))
    prepare(card.device)
    interrupts.install_handlers()
    model, tokenizer = load_base(card.model, card.device)
    sampled: dict[str, tuple[Completions, float]] = {}
    results, rows = [], []
    for condition in card.conditions:
        settings = condition.model_dump_json(exclude={"name", "null_control", "reward", "completions_per_step"})
        if settings not in sampled:
            sampled[settings] = _sample(card, condition, model, tokenizer)
        result, scored_rows = _judge(card, condition, *sampled[settings])
        results.append(result)
        rows += scored_rows
        print_text(f"{card.experiment} preflight {condition.name}: {' '.join([f'{result.verdict}.', *result.reasons])}")
    names = sorted({gate.name for gate in _gates(card)})
    write_completions(experiment.preflight_completions, rows, names, card_id=card_id(card), attempt="preflight")
    write(experiment.preflight, Preflight(card_id=card_id(card), sandbox=sandbox(_gates(card)), results=tuple(results)))
    for permission in permissions(card, results):
        write(experiment.permission(permission.condition), permission)


def permissions(card: PreflightCard, results: Sequence[PreflightResult]) -> list[Permission]:
    """Which conditions may train. Null controls are compared with the others, so they do not train alone."""
    compared = {result.verdict for condition, result in zip(card.conditions, results, strict=True) if not condition.null_control}
    is_alone = compared == {"refuse"} and not card.supervised
    alone = ("Every condition that it would be compared with is refused.",) if is_alone else ()
    refused = {result.condition: result.reasons if result.verdict == "refuse" else alone for result in results}
    return [Permission(condition=name, train=not reasons, reasons=reasons) for name, reasons in refused.items()]


def _gates(card: PreflightCard) -> list[Gate]:
    return [gate for condition in card.conditions for gate in condition.reward.gates]


def _sample(card: PreflightCard, condition: PreflightCondition, model: Any, tokenizer: Any) -> tuple[Completions, float]:
    """Completions of the untrained model, and the wall seconds that sampling them took."""
    rows = read_rows(condition.data)[: max(1, card.completions // condition.num_generations)]
    begun = time.perf_counter()
    prompts = prompt_texts(card.model, condition.data, tokenizer, rows)
    groups = sample(model, tokenizer, prompts, condition, per_prompt=condition.num_generations, seed=card.seed)
    seconds = time.perf_counter() - begun
    return [(row, completion) for row, group in zip(rows, groups, strict=True) for completion in group], seconds


def _judge(
    card: PreflightCard, condition: PreflightCondition, completions: Completions, sampling_seconds: float
) -> tuple[PreflightResult, list[dict[str, object]]]:
    reward = condition.reward
    answers = [
        Answer(text=sampled.text, row=row, truncated=sampled.truncated, key=f"{card.seed}:0:{row['id']}:{place}", tokens=sampled.tokens)
        for place, (row, sampled) in enumerate(completions)
    ]
    refusals = reasons.examples(reward)  # and they start the verifiers, which is not what a step of training pays for
    probed = reasons.probes(reward, list({row["id"]: row for row, _ in completions}.values()))
    begun = time.perf_counter()
    scored = compose(reward).score(answers)
    seconds = time.perf_counter() - begun
    is_grouped = condition.num_generations > 1
    silent, ranges = zero_signal_groups(scored.rewards, condition.num_generations) if is_grouped else (0, [])
    known = [earned for earned in scored.rewards if earned is not None]
    tokens = [sampled.tokens for _, sampled in completions]
    counts = {
        "completions": len(answers),
        "groups": len(ranges),
        "zero_signal_groups": silent,
        "truncated": sum(answer.truncated for answer in answers),
        "unknown": len(answers) - len(known),
    }
    atoms = tuple(Atom(reward=value, completions=count) for value, count in Counter(known).most_common(5))
    step = _step_time(condition, len(answers), sampling_seconds, seconds, scored)
    warnings: list[str] = []
    if not condition.null_control:
        refusals += reasons.bounds(card, condition, counts)
        refusals += [] if is_grouped else reasons.constant(known)
        if not reward.invert:
            refusals += reasons.optima(reward, probed, refused=True)
            warnings += reasons.optima(reward, probed, refused=False)
            warnings += reasons.shorter_pays(list(zip(tokens, scored.rewards, strict=True)))
        warnings += reasons.atoms(atoms, known)
        warnings += reasons.starvation(step)
    if counts["unknown"] and not refusals:
        warnings.append(f"{counts['unknown']} of {counts['completions']} rewards are unknown.")
    result = PreflightResult(
        condition=condition.name,
        verdict="refuse" if refusals else "warn" if warnings else "pass",
        reasons=tuple(refusals or warnings),
        reward_mean=sum(known) / len(known) if known else None,
        funnel=_funnel(scored),
        atoms=atoms,
        seconds=round(seconds, 3),
        probes=tuple(probed),
        step=step,
        **counts,
    )
    rows = completion_rows(scored, answers, condition.num_generations)
    rows = with_prompts(rows, [row for row, _ in completions], condition.data, card.model)
    return result, [{"attempt": "preflight", "step": 0, **row} for row in rows]


def _step_time(condition: PreflightCondition, completions: int, sampling: float, scoring: float, scored: Scored) -> StepTime | None:
    """What a step of training will take, if every completion takes what it took here."""
    if not condition.completions_per_step or not completions or not scored.seconds:
        return None
    share = condition.completions_per_step / completions
    return StepTime(
        completions=condition.completions_per_step,
        sampling=round(sampling * share, 3),
        scoring=round(scoring * share, 3),  # not the sum of the gates: some judge at once
        slowest_gate=max(scored.seconds, key=lambda gate: scored.seconds[gate]),
    )


def _funnel(scored: Scored) -> tuple[GateShares, ...]:
    """Per gate how many completions reached it, and its judgements."""
    counts = {gate: Counter(judgement.status for judgement in judged if judgement) for gate, judged in scored.judgements.items()}
    return tuple(
        GateShares(gate=gate, reached=count.total(), passed=count["pass"], failed=count["fail"], unknown=count["unknown"])
        for gate, count in counts.items()
    )


if __name__ == "__main__":
    main(preflight, "python -m stages.train.preflight runs/<experiment>")
