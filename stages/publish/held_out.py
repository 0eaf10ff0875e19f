"""Held-out completions: the same prompt answered by the untrained model and by each condition, side by side."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pandas as pd

from stages.contracts.analysis_card import ConditionCard
from stages.contracts.history import gate_columns
from stages.contracts.layout import RunFolder
from stages.publish.completions import ALL_LETTERS, LONGEST, Entry, entry, read_texts, with_prompts
from stages.publish.experiment import ExperimentFiles


class Asked(NamedTuple):
    """A prompt with an answer of each model."""

    prompt_id: str
    prompt: str | None
    alike: int
    """Prompts whose answers pass and fail in the same way, this one among them."""
    answers: list[Entry]


class HeldOut(NamedTuple):
    score: str
    """The score that says in which way answers come out."""
    total: int
    """Prompts."""
    ways: int
    """Ways in which the answers to a prompt pass and fail."""
    asked: list[Asked]
    """One prompt of each way in which they come out, the most frequent way first; then a second one of each, and so on."""


def held_out(experiment: ExperimentFiles) -> HeldOut | None:
    """The first sample of each prompt, of the untrained model and of each condition's first included run (or first run) that was
    evaluated. None when nothing was."""
    card, scores = experiment.evaluate, experiment.card.evaluation
    if card is None or not scores:
        return None
    score, tables = _leading_score(experiment), dict[str, tuple[str, pd.DataFrame]]()
    for subject, run, folder in _models(experiment):
        if subject not in tables:
            rows = read_texts(folder.evaluation, (score, *(name for name in scores if name != score)))
            rows = with_prompts(rows.drop_duplicates("prompt_id"), card.data).set_index("prompt_id", drop=False)
            tables |= {subject: (run, rows)} if len(rows) else {}
    if not tables:
        return None
    ways = pd.DataFrame({subject: rows[gate_columns(score)[0]] for subject, (_, rows) in tables.items()}).fillna("")
    alike = ways.apply("|".join, axis=1)
    alike = alike.groupby(alike)
    ways = ways.assign(turn=alike.cumcount(), alike=alike.transform("size"))
    ways = ways.sort_values(["turn", "alike"], ascending=[True, False], kind="stable")
    asked, letters = list[Asked](), 0
    for prompt_id, count in ways["alike"].items():
        rows_of_prompt = [(subject, run, rows.loc[prompt_id]) for subject, (run, rows) in tables.items() if prompt_id in rows.index]
        answers = [entry(row.to_dict(), scores, subject, run) for subject, run, row in rows_of_prompt]
        letters += sum(200 + min(LONGEST, len(answer.text)) for answer in answers)
        if asked and letters > ALL_LETTERS / 2:
            break
        asked.append(Asked(str(prompt_id), answers[0].prompt, int(count), answers))
    return HeldOut(score, len(ways), int((ways["turn"] == 0).sum()), asked)


def _models(experiment: ExperimentFiles) -> Iterator[tuple[str, str, RunFolder]]:
    """(subject, run, folder) of all that was evaluated, those that are shown first of each subject."""
    folders = [("untrained", "untrained", experiment.folder.untrained)]
    conditions: tuple[ConditionCard, ...] = experiment.card.conditions
    runs = [run for condition in conditions for run in sorted(experiment.of_condition(condition.name), key=lambda run: not run.included)]
    folders += [(run.ref.condition, run.ref.name, run.folder) for run in runs]
    return (part for part in folders if part[2].evaluation.exists())


def _leading_score(experiment: ExperimentFiles) -> str:
    """The score of the first claim about one; without such a claim the first score."""
    claimed = [
        claim.metric.split(".")[1]
        for claim in (experiment.conclude.claims if experiment.conclude else ())
        if claim.metric.startswith("evaluation.")
    ]
    return next((score for score in claimed if score in experiment.card.evaluation), experiment.card.evaluation[0])
