"""Which computed section answers a question. A plain text is understood by its words, by one small table, and by nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import get_args

from compiler.build.inputs import Inputs
from compiler.build.logged import logged_by_any
from compiler.language.expand import Expansion
from compiler.language.experiment import Experiment
from compiler.language.spec_words import Question
from compiler.problems import nearest, sentence
from stages.contracts.diagnostic import Diagnostic, Place
from stages.contracts.history import EVALUATION_MEASURES
from stages.contracts.question import Asked, QuestionWords, Section

WORDS: dict[Section, tuple[str, ...]] = {
    "attempts": ("attempt", "attempts", "crash", "crashed", "crashes", "retry", "retries", "retried", "killed", "failure", "failures"),
    "completion": ("complete", "completed", "completion", "steps", "finish", "finished"),
    "anomalies": ("anomaly", "anomalies", "nan", "nans", "inf", "spike", "spikes", "unusual", "unstable", "instability"),
    "loss": ("loss", "losses"),
    "signal": ("signal", "collapse", "collapsed", "collapses", "reward_std", "frac_zero_std", "zero_signal_share", "diversity"),
    "reward": ("reward", "rewards", "reward_mean"),
    "claims": ("claim", "claims", "verdict", "verdicts", "hypothesis", "supported", "refuted"),
}
"""Words of a plain question, in this order: the first section with a word in the question answers it. Then metrics by their names."""
_WORD = re.compile(r"[a-z0-9_]+(?:[.-][a-z0-9_]+)*")


def question_words(of: Experiment, expansion: Expansion) -> tuple[QuestionWords, ...]:
    """Every question with what answers it. The rules have held."""
    known = metrics(expansion)
    return tuple(found for use in of.spec.questions if (found := understood(use, known)) is not None)


def understood(use: str | Question, known: list[str]) -> QuestionWords | None:
    """A question with what answers it; None for a text that no word of gives a hint."""
    if isinstance(use, Question):
        ask = " ".join(use.ask.split())
        return QuestionWords(ask=ask, show=use.show) if isinstance(use.show, str) else QuestionWords(ask=ask, metric=use.show.metric)
    ask = " ".join(use.split())
    words = set(_WORD.findall(ask.lower()))
    for section, hints in WORDS.items():
        if words & set(hints):
            return QuestionWords(ask=ask, show=section)
    named = next((name for name in known if name in words), None)
    return QuestionWords(ask=ask, metric=named) if named else None


def metrics(expansion: Expansion) -> list[str]:
    """Metrics that a question may ask for: what some condition logs, and scores of the shared evaluation."""
    scores = [f"evaluation.{use.card.name}.{measure}" for use in expansion.scores for measure in EVALUATION_MEASURES[:2]]
    return [*logged_by_any(expansion.setups), *scores]


def asked(found: tuple[QuestionWords, ...]) -> tuple[Asked, ...]:
    """Sections whose answers need findings of their own, in one order: part of what conclude computes."""
    sections = {question.show for question in found}
    return tuple(section for section in get_args(Asked) if section in sections)


def asked_metrics(found: tuple[QuestionWords, ...], known: list[str]) -> list[str]:
    """History metrics that questions are about."""
    names = [question.metric or ("loss" if question.show == "loss" else None) for question in found]
    return [name for name in dict.fromkeys(names) if name and name in known and not name.startswith("evaluation.")]


def questions_can_be_answered(of: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    """E370 for a text without a hint, E305 for a metric that nothing produces."""
    known = metrics(expansion)
    if any(found.severity == "error" for found in expansion.problems):
        return
    for index, use in enumerate(of.spec.questions):
        node = of.node("questions", index)
        if isinstance(use, str):
            if understood(use, known) is None:
                yield _not_understood(use, node.place)
        elif not isinstance(use.show, str) and use.show.metric not in known:
            meant = nearest(use.show.metric, known)
            yield Diagnostic(
                "E305",
                f"nothing produces the metric `{sentence(use.show.metric)}`" + (f", did you mean `{meant}`?" if meant else ""),
                why="a question is answered by what some condition logs, or by a score of the shared evaluation",
                fix=f"write `{meant or known[0]}`",
                place=of.node("questions", index, "show", "metric").place,
            )


def _not_understood(text: str, place: Place) -> Diagnostic:
    shown = sentence(" ".join(text.split()))
    return Diagnostic(
        "E370",
        f"no word of this question says what would answer it: `{shown if len(shown) <= 80 else shown[:77] + '...'}`",
        why=f"an answer is computed, never written: one of {', '.join(get_args(Section))}, or a metric",
        fix='{ask: "...", show: signal}, or {ask: "...", show: {metric: entropy}}',
        place=place,
    )


RULES = (questions_can_be_answered,)
