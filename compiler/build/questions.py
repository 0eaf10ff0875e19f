"""What questions of a spec add to the cards, and the metrics that they may name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import get_args

from compiler.build.inputs import Inputs
from compiler.build.logged import logged_by_any
from compiler.language.expand import Expansion
from compiler.language.experiment import Experiment
from compiler.problems import nearest, sentence
from stages.contracts.diagnostic import Diagnostic
from stages.contracts.history import EVALUATION_MEASURES
from stages.contracts.question import Asked, Question, ShownMetric


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


def questions_can_be_answered(of: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    """E305 for a metric that nothing produces."""
    if any(problem.severity == "error" for problem in expansion.problems):
        return
    known = metrics(expansion)
    for index, question in enumerate(of.spec.questions):
        name = _metric(question)
        if name is not None and name not in known:
            meant = nearest(name, known)
            yield Diagnostic(
                "E305",
                f"nothing produces the metric `{sentence(name)}`" + (f", did you mean `{meant}`?" if meant else ""),
                why="a question is answered by what some condition logs, or by a score of the shared evaluation",
                fix=f"write `{meant or known[0]}`",
                place=of.node("questions", index, "show", "metric").place,
            )


RULES = (questions_can_be_answered,)
