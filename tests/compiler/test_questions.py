"""Questions: what a question adds to the cards, and what it does not touch."""

from __future__ import annotations

import pytest

from compiler.problems import Rejected
from stages.contracts.analysis_card import ConcludeCard

SEED_1 = {
    "Did reward_std collapse for any condition (drop below 0.05 and stay)?": "signal",
    "What was the final reward_mean for each condition?": "reward",
    "Did loss decrease meaningfully?": "loss",
    "Were there any anomalies (NaN, spikes, early stopping)?": "anomalies",
    "How many steps did each run complete (vs 300 target)?": "completion",
}
ASKED = [f'{{ask: "{text}", show: {section}}}' for text, section in SEED_1.items()]


def asking(spec: str, *questions: str) -> str:
    return spec.replace("profiles:\n", "questions:\n" + "".join(f"  - {text}\n" for text in questions) + "\nprofiles:\n")


def conclude(experiment) -> ConcludeCard:
    return experiment.cards.single["analysis/conclude.card.json"]


def test_a_question_asks_conclude_for_what_it_needs(files, compiled, spec):
    experiment = compiled(asking(spec, *ASKED, '{ask: "And kl?", show: {metric: skipped}}'))
    assert conclude(experiment).asked == ("anomalies", "completion", "signal")
    assert conclude(experiment).metrics[-2:] == ("loss", "skipped") and "reward" in conclude(experiment).metrics
    assert [(q.ask, q.show) for q in experiment.cards.page.questions[:5]] == list(SEED_1.items())
    assert experiment.cards.page.questions[5].show.metric == "skipped"
    before, after = files(spec).files, files(asking(spec, *ASKED)).files
    changed = {path for path in before if before[path] != after[path]}
    assert changed == {"runs/example/page.card.json", "runs/example/analysis/conclude.card.json"}


def test_a_question_about_a_detector_asks_conclude_for_its_counts(compiled, spec):
    experiment = compiled(asking(spec, '{ask: "Were there spikes?", show: {detector: spikes}}'))
    assert conclude(experiment).asked == ("anomalies",)
    assert experiment.cards.page.questions[0].show.detector == "spikes"


@pytest.mark.parametrize(
    ("question", "code"),
    [
        ('{ask: "", show: signal}', "E205"),
        ('{ask: "x", show: signall}', "E204"),
        ('{ask: "x", show: {detector: spike}}', "E218"),
        ('{ask: "x", show: {detector: value_fit}}', "E218"),  # of PPO's profile, which looks at no run of this spec
        ('{ask: "x", show: {detector: spikes}}', None),
        ('{ask: "x", show: {metric: evaluation.tests.pass_share}}', None),
    ],
)
def test_wrong_questions(compiled, spec, question, code):
    if code is None:
        assert compiled(asking(spec, question)).warnings == ()
        return
    with pytest.raises(Rejected, match=code):
        compiled(asking(spec, question))
