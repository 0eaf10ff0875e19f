"""What questions of a spec add to the cards, and the metrics that they may name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from compiler.build.logged import logged_by_any
from compiler.language.expand import Expansion
from stages.contracts.analysis_card import Asked
from stages.contracts.history import EVALUATION_MEASURES
from stages.contracts.page_card import Question, ShownMetric


def metrics(expansion: Expansion) -> list[str]:
    """Metrics that a question may name: what some condition logs, and scores of the shared evaluation."""
    scores = [f"evaluation.{use.card.name}.{measure}" for use in expansion.scores for measure in EVALUATION_MEASURES[:2]]
    return [*logged_by_any(expansion.setups), *scores]


def asked(questions: Sequence[Question]) -> tuple[Asked, ...]:
    """Sections whose answers need findings of their own, in one order: part of what conclude computes."""
    sections = {question.show for question in questions}
    return tuple(section for section in get_args(Asked) if section in sections)


def asked_metrics(questions: Sequence[Question], known: Sequence[str]) -> list[str]:
    """History metrics that questions are about."""
    names = ["loss" if question.show == "loss" else _metric(question) for question in questions]
    return [name for name in dict.fromkeys(names) if name and name in known and not name.startswith("evaluation.")]


def _metric(question: Question) -> str | None:
    return question.show.metric if isinstance(question.show, ShownMetric) else None
