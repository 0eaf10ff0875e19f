"""The one reward function that the trainer sees: it scores a batch through the gates and records their judgements."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from stages.contracts.attempt import FailureClass
from stages.contracts.history import ANSWER_COLUMN, PROMPT_COLUMN, gate_columns
from stages.contracts.model import DatasetRef, ModelRef
from stages.contracts.plugin import GATES, Answer, Judgement
from stages.contracts.prompt import shown_text
from stages.contracts.reward import Gate, Reward
from stages.train.attempts import Stopped
from stages.train.data import Row
from stages.train.ranks import from_first, gathered, rank
from stages.train.recorder import Cell, Journal, cell
from stages.train.rewards.compose import Scored, compose
from stages.train.stop_texts import NO_STOPS, StopTexts


def gate_modules(gates: Iterable[Gate]) -> list[str]:
    """Modules of the plug-ins that these gates name: they have code versions of their own."""
    return [f"{GATES}.{kind}" for kind in sorted({gate.kind for gate in gates})]


def completion_rows(scored: Scored, answers: Sequence[Answer], size: int = 1) -> list[dict[str, Any]]:
    """Rows of completions.parquet without attempt and step, for a batch in groups of `size`. `answer` where it is taken out of the text."""
    return [
        {
            "prompt_id": answer.row["id"],
            "group": place // size,
            "text": answer.text,
            "reward": scored.rewards[place],
            "tokens": answer.tokens,
            "truncated": answer.truncated,
            **({} if scored.taken is None else {ANSWER_COLUMN: scored.taken[place].text}),
            **_gate_cells(scored.of_answer(place)),
        }
        for place, answer in enumerate(answers)
    ]


def with_prompts(completions: Iterable[Mapping[str, Any]], rows: Sequence[Row], data: DatasetRef, model: ModelRef) -> list[dict[str, Any]]:
    """Rows of completions with what the model read, by the row that `prompt_id` names; null where it is gone."""
    texts = {row["id"]: shown_text(row, data.prompt, data.layout, model.apply_chat_template) for row in rows}
    return [{**completion, PROMPT_COLUMN: texts.get(completion["prompt_id"])} for completion in completions]


def _gate_cells(judgements: Mapping[str, Judgement | None]) -> dict[str, Any]:
    """The three columns of each gate; a gate that was not reached has the status `not_reached`."""
    cells: dict[str, Any] = {}
    for gate, judgement in judgements.items():
        status, score, reason = gate_columns(gate)
        cells[status] = judgement.status if judgement else "not_reached"
        cells[score] = judgement.score if judgement else None
        cells[reason] = judgement.reason if judgement else ""
    return cells


def zero_signal_groups(rewards: Sequence[float | None], size: int) -> tuple[int, list[float]]:
    """(groups whose known rewards are all equal, range of each group). A group with fewer than two known rewards has no signal."""
    ranges = []
    for start in range(0, len(rewards), size):
        known = [reward for reward in rewards[start : start + size] if reward is not None]
        ranges.append(max(known) - min(known) if len(known) > 1 else 0.0)
    return ranges.count(0.0), ranges


def batch_cells(scored: Scored, answers: Sequence[Answer], size: int) -> dict[str, Cell]:
    """Metrics of a batch (stages/contracts/history.py). Shares of nothing are null, never 0."""
    rewards = scored.rewards
    known = [reward for reward in rewards if reward is not None]
    cells: dict[str, Cell] = {
        "reward": _share(sum(known), len(known)),
        "unknown_share": _share(len(rewards) - len(known), len(rewards)),
        "truncated": _share(sum(answer.truncated for answer in answers), len(answers)),
        "completion_tokens": _share(sum(answer.tokens or 0 for answer in answers), len(answers)),
    }
    if size > 1:  # a group of one has nothing to compare
        silent, ranges = zero_signal_groups(rewards, size)
        cells |= {"group_range": _share(sum(ranges), len(ranges)), "zero_signal_share": _share(silent, len(ranges))}
    for gate, judgements in scored.judgements.items():
        reached = [judgement for judgement in judgements if judgement is not None]
        decided = [judgement for judgement in reached if judgement.status != "unknown"]
        cells[f"gate.{gate}.reach_share"] = _share(len(reached), len(judgements))
        cells[f"gate.{gate}.pass_share"] = _share(sum(judgement.status == "pass" for judgement in decided), len(decided))
        cells[f"gate.{gate}.unknown_share"] = _share(len(reached) - len(decided), len(reached))
        cells[f"gate.{gate}.score"] = _share(sum(judgement.score or 0.0 for judgement in decided), len(decided))
        cells[f"gate.{gate}.seconds"] = cell(scored.seconds[gate])
    for penalty, held in scored.penalties.items():
        known_cases = [case for case in held if case is not None]
        cells[f"penalty.{penalty}.share"] = _share(sum(known_cases), len(known_cases))
    return cells


def _share(part: float, whole: int) -> Cell:
    return cell(part / whole) if whole else None


class TrainingReward:
    """Reward function in TRL's form. Never raises for a completion; stops the attempt when too many rewards are unknown."""

    __name__ = "reward"  # TRL names its columns after the function

    def __init__(
        self,
        card: Reward,
        *,
        rows: Sequence[Row],
        seed: int,
        group: int,
        ends: set[int],
        stops: StopTexts = NO_STOPS,
        journal: Journal,
        attempt: str,
    ) -> None:
        self.card, self.rows, self.seed, self.group = card, {row["id"]: row for row in rows}, seed, group
        self.ends, self.stops = ends, stops
        self.journal, self.attempt = journal, attempt
        self.composed = compose(card)
        self.latest: tuple[int, list[dict[str, Any]]] = (0, [])
        """The last step that sampled, and its completions as rows of completions.parquet."""
        self.pending: dict[int, dict[str, Cell]] = {}
        """Metrics by training step, taken by the recorder when the trainer logs the step."""

    def __call__(
        self, prompts: list[str], completions: list[str], completion_ids: list[list[int]], *, id: list[str], trainer_state: Any, **rest: Any
    ) -> list[float | None]:
        """Rewards of this rank's completions. Rank 0 scores those of all ranks, as one batch."""
        batch = gathered(list(zip(completions, completion_ids, id, strict=True)))
        rewards = from_first(lambda: self._score(batch, trainer_state))
        first = rank() * len(completions)
        return rewards[first : first + len(completions)]

    def _score(self, batch: Sequence[tuple[str, list[int], str]], trainer_state: Any) -> list[float | None]:
        step, begun = trainer_state.global_step + 1, time.perf_counter()
        answers = [
            Answer(
                text=self.stops.cut(text),
                row=self.rows[name],
                truncated=not ids or (ids[-1] not in self.ends and not self.stops.is_in(ids)),
                key=f"{self.seed}:{step}:{name}:{place}",
                tokens=len(ids),
            )
            for place, (text, ids, name) in enumerate(batch)
        ]
        progress = trainer_state.global_step / trainer_state.max_steps if self.card.curriculum else 0.0
        scored = self.composed.score(answers, progress)
        self.pending[step] = batch_cells(scored, answers, self.group)
        self.pending[step]["reward_seconds"] = cell(time.perf_counter() - begun)
        self.latest = step, completion_rows(scored, answers, self.group)
        self.journal.batch(attempt=self.attempt, step=step, rows=self.latest[1])
        unknown = sum(reward is None for reward in scored.rewards)
        if unknown > self.card.unknown.limit * len(answers):
            doubts = [judged for column in scored.judgements.values() for judged in column if judged and judged.status == "unknown"]
            broken = [judgement for judgement in doubts if judgement.broken]
            failure: FailureClass = "reward" if 2 * len(broken) >= len(doubts) > 0 else "verifier"
            reason = next((judgement.reason for judgement in (broken if failure == "reward" else doubts)), "")
            limit = f"above the limit of {self.card.unknown.limit:.0%}"
            raise Stopped(failure, f"{unknown} of {len(answers)} rewards of step {step} are unknown, {limit}: {reason}")
        return scored.rewards
