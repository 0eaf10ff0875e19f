"""Stage: can this reward teach? Each condition's reward on completions of the untrained model, before any GPU hour.

python -m stages.train.preflight runs/<experiment>
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from stages.contracts.artifact import write
from stages.contracts.layout import ExperimentFolder
from stages.contracts.plugin import Answer, Judgement
from stages.contracts.preflight_card import Atom, GateShares, Permission, Preflight, PreflightCard, PreflightCondition, PreflightResult
from stages.contracts.stage import card_id, main, open_card
from stages.train.data import Row, read_rows
from stages.train.environment import prepare
from stages.train.model import Sampled, load_base, sample
from stages.train.recorder import write_completions
from stages.train.rewards.compose import Scored, check_examples, compose, sandbox
from stages.train.scoring import completion_rows, gate_modules, zero_signal_groups

MODULE = "stages.train.preflight"
ATOM_SHARE = 0.4
"""Share of completions on one reward value, neither the lowest nor the highest possible, from which preflight warns."""

Sampling = tuple[str, int, int, float, float]


def preflight(folder: Path) -> None:
    """Write preflight.json, completions.parquet and one permission a condition."""
    experiment = ExperimentFolder(folder)
    card = open_card(
        PreflightCard, experiment.preflight_card, [MODULE], lambda card: gate_modules(g for c in card.conditions for g in c.reward.gates)
    )
    prepare(card.device)
    made: dict[Sampling, list[tuple[Row, Sampled]]] = {}
    results, rows = [], []
    for condition in card.conditions:
        settings = (condition.data.path, condition.num_generations, condition.max_completion_length, condition.temperature, condition.top_p)
        if settings not in made:
            made[settings] = _sample(card, condition)
        result, scored_rows = _judge(card, condition, made[settings])
        results.append(result)
        rows.extend(scored_rows)
        print(f"{card.experiment} preflight {condition.name}: {result.verdict}. {' '.join(result.reasons)}", flush=True)
    gates = sorted({gate.name for condition in card.conditions for gate in condition.reward.gates})
    write_completions(experiment.preflight_completions, rows, gates, card_id=card_id(card), attempt="preflight")
    tier = sandbox(gate for condition in card.conditions for gate in condition.reward.gates)
    write(experiment.preflight, Preflight(card_id=card_id(card), sandbox=tier, results=tuple(results)))
    for result in results:
        refused = result.verdict == "refuse"
        reasons = result.reasons if refused else ()
        write(experiment.permission(result.condition), Permission(condition=result.condition, train=not refused, reasons=reasons))


def _sample(card: PreflightCard, condition: PreflightCondition) -> list[tuple[Row, Sampled]]:
    """Completions of the untrained model: whole groups, prompts in file order."""
    rows = read_rows(condition.data, "/conditions")[: max(1, card.completions // condition.num_generations)]
    model, tokenizer = load_base(card.model, card.device)
    sampled = sample(
        model,
        tokenizer,
        [row[condition.data.prompt] for row in rows],
        per_prompt=condition.num_generations,
        max_tokens=condition.max_completion_length,
        temperature=condition.temperature,
        top_p=condition.top_p,
        seed=card.seed,
    )
    return [(row, found) for row, several in zip(rows, sampled, strict=True) for found in several]


def _judge(
    card: PreflightCard, condition: PreflightCondition, made: Sequence[tuple[Row, Sampled]]
) -> tuple[PreflightResult, list[dict[str, object]]]:
    answers = [
        Answer(text=found.text, row=row, truncated=found.truncated, key=f"{card.seed}:0:{row['id']}:{place}")
        for place, (row, found) in enumerate(made)
    ]
    begun = time.perf_counter()
    scored = compose(condition.reward).score(answers)
    seconds = time.perf_counter() - begun
    silent, ranges = zero_signal_groups(scored.rewards, condition.num_generations)
    known = [reward for reward in scored.rewards if reward is not None]
    counts = {
        "completions": len(answers),
        "groups": len(ranges),
        "zero_signal_groups": silent,
        "truncated": sum(answer.truncated for answer in answers),
        "unknown": len(answers) - len(known),
    }
    atoms = tuple(Atom(reward=value, completions=count) for value, count in Counter(known).most_common(5))
    refusals, warnings = _examples(condition), []
    if not condition.null_control:
        refusals += _bounds(card, condition, counts)
        warnings = _atoms(atoms, known)
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
        **counts,
    )
    tokens = [found.tokens for _, found in made]
    rows = [{"attempt": "preflight", "step": 0, **row} for row in completion_rows(scored, answers, tokens, condition.num_generations)]
    return result, rows


def _examples(condition: PreflightCondition) -> list[str]:
    failed = [found for found in check_examples(condition.reward) if not found.ok]
    return [f"The reward example {found.completion!r} scores {found.got}, expected {found.expect}: {found.why}" for found in failed]


def _bounds(card: PreflightCard, condition: PreflightCondition, counts: Mapping[str, int]) -> list[str]:
    reasons = []
    silent, cut = counts["zero_signal_groups"] / counts["groups"], counts["truncated"] / counts["completions"]
    unknown = counts["unknown"] / counts["completions"]
    if silent >= card.zero_signal_below:
        reasons.append(
            f"{counts['zero_signal_groups']} of {counts['groups']} groups carry no signal ({silent:.0%}, declared below "
            f"{card.zero_signal_below:.0%}): grade the reward more finely, or choose prompts that are neither trivial nor hopeless."
        )
    if cut >= card.truncated_below:
        reasons.append(
            f"{counts['truncated']} of {counts['completions']} completions are cut at {condition.max_completion_length} tokens "
            f"({cut:.0%}, declared below {card.truncated_below:.0%}): raise max_completion_length."
        )
    if unknown > condition.reward.unknown_limit:
        reasons.append(
            f"{counts['unknown']} of {counts['completions']} rewards are unknown (limit {condition.reward.unknown_limit:.0%}): "
            "the verifier or the data is broken."
        )
    return reasons


def _atoms(atoms: Sequence[Atom], known: Sequence[float]) -> list[str]:
    return [
        f"{atom.completions} of {len(known)} completions hold exactly the reward {atom.reward:g}: look at them, it may be a loophole."
        for atom in atoms
        if atom.reward not in (0.0, 1.0) and atom.completions >= ATOM_SHARE * len(known)
    ]


def _funnel(scored: Scored) -> tuple[GateShares, ...]:
    def count(judgements: Sequence[Judgement | None], status: str) -> int:
        return sum(1 for judgement in judgements if judgement is not None and judgement.status == status)

    return tuple(
        GateShares(
            gate=gate,
            reached=sum(judgement is not None for judgement in judgements),
            passed=count(judgements, "pass"),
            failed=count(judgements, "fail"),
            unknown=count(judgements, "unknown"),
        )
        for gate, judgements in scored.judgements.items()
    )


if __name__ == "__main__":
    main(preflight, "python -m stages.train.preflight runs/<experiment>")
