"""Answers to questions, on findings that the analysis itself made. What the synthetic experiment holds is worked out by hand in
tests/stages/analyse: 12 runs of 20 steps; random-s3 fails at step 7, inverted-s2 is truncated from step 11, zero never has a signal."""

import html
import re
from pathlib import Path

import pytest
from example_experiment import build, dress, section_of
from test_page_from_analysis import synthetic

from stages.analyse.conclude import conclude
from stages.analyse.screen import screen
from stages.contracts.analysis_card import ConcludeCard
from stages.contracts.artifact import read, write
from stages.contracts.health import Health
from stages.contracts.layout import ExperimentFolder
from stages.contracts.page_card import PageCard, Question
from stages.publish.page import page
from stages.publish.passports import read_passports
from stages.publish.text import environment

ASKED = (
    Question(ask="Did reward_std collapse?", show="signal"),
    Question(ask="What was the final reward?", show="reward"),
    Question(ask="Did loss decrease meaningfully?", show="loss"),
    Question(ask="Were there any anomalies <script>?", show="anomalies"),
    Question(ask="How many steps did each run complete?", show="completion"),
    Question(ask="What holds?", show="claims"),
    Question(ask="How many attempts?", show="attempts"),
    Question(ask="And `completion_tokens`?", show={"metric": "completion_tokens"}),
    Question(ask="Were there spikes?", show={"detector": "spikes"}),
    Question(ask="Does every group still differ?", show={"detector": "truncation"}),
    Question(ask="And the tests?", show={"metric": "evaluation.tests.pass_share"}),
)


def plain(markup: str) -> str:
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", markup))).replace(" .", ".").replace(" ;", ";").strip()


def ask(folder: ExperimentFolder, *questions: Question) -> list[str]:
    """The answers' sections of the page."""
    write(folder.page_card, read(PageCard, folder.page_card).model_copy(update={"questions": questions}))
    page(folder.root)
    text = (folder.page / "index.md").read_text(encoding="utf-8")
    return section_of(text, "Questions and answers").split('<section class="asked">')[1:]


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Question -> the answer's HTML."""
    root = tmp_path_factory.mktemp("answers")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        folder: ExperimentFolder = synthetic().complete(root)
        card = read(ConcludeCard, folder.conclude_card)
        asked = {"asked": ("anomalies", "completion", "signal"), "metrics": (*card.metrics, "loss")}
        write(folder.conclude_card, card.model_copy(update=asked))
        screen(folder.root)
        conclude(folder.root)
        dress(folder, read(ConcludeCard, folder.conclude_card))
        sections = ask(folder, *ASKED)
        passports = read_passports(folder.page / "passports.js")["passports"]
    for section in sections:
        assert set(map(html.unescape, re.findall(r'data-finding="([^"]*)"', section))) <= set(passports)
    return {question.ask: section for question, section in zip(ASKED, sections, strict=True)}


def short(section: str) -> str:
    return plain(section.split('<p class="short">')[1].split("</p>")[0])


def rows(section: str) -> list[list[str]]:
    return [[plain(cell) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row)] for row in section.split("<tr>")[2:]]


def test_signal(answered: dict[str, str]) -> None:
    section = answered["Did reward_std collapse?"]
    assert short(section) == (
        "Collapse of the reward signal: in no run of shaped, inverted and random. zero: without a signal by design, as a null control."
    ), "no Yes or No: whether the question asks for the signal or for its loss is not known"
    table = rows(section)
    assert table[3] == ["zero (null control: expected)", "1.00", "1.00", "3 of 3", "zero-s1 step 1 , zero-s2 step 1 , zero-s3 step 1"]
    assert table[0][3:] == ["0 of 3", "none"]


def test_reward_is_by_condition_and_never_ranked(answered: dict[str, str]) -> None:
    section = answered["What was the final reward?"]
    assert short(section).startswith("In the last window, reward: shaped ") and "conditions are not ranked by it" in plain(section)
    assert [row[0] for row in rows(section)] == ["shaped", "inverted", "random", "zero"]
    for _, first, last, change, _ in rows(section):
        numbers = [float(re.split(" ", cell)[0].replace("−", "-").replace("+", "")) for cell in (first, last, change)]
        assert round(numbers[1] - numbers[0], 4) == numbers[2], "a printed change follows from the printed numbers"


def test_loss_is_said_to_be_no_progress(answered: dict[str, str]) -> None:
    text = plain(answered["Did loss decrease meaningfully?"])
    assert "The loss does not answer that. Its absolute change: shaped 0.00" in text
    assert "GRPO's logged loss is no measure of progress" in text and "%" not in text
    assert "Look at share that passes tests, shared evaluation instead: shaped: +" in text


@pytest.mark.parametrize("algorithm", ["grpo", "rloo", "ppo", "sft", "command", "imported"])
def test_no_algorithms_loss_is_taken_for_learning(algorithm: str) -> None:
    words = environment().get_template("loss_words.html.j2").module.words(algorithm)  # type: ignore[attr-defined]
    assert ("no measure of progress" in words) == (algorithm != "sft")
    assert ("depends on the program that trained" in words) == (algorithm in ("command", "imported"))


def test_anomalies_with_onsets_and_what_could_not_look(answered: dict[str, str]) -> None:
    section = answered["Were there any anomalies <script>?"]
    assert short(section) == "Warnings of any detector: 6 of 12 runs, of atoms, truncation and collapse."
    assert ["inverted", "truncation", "1 of 3", "inverted-s2 step 11"] in rows(section)
    assert ["zero (null control: expected)", "collapse", "3 of 3", "zero-s1 step 1 , zero-s2 step 1 , zero-s3 step 1"] in rows(section)
    assert "Did not finish: random-s3 (verifier)." in plain(section)
    assert "spikes (not applicable: grad_norm, entropy: 20 rows, 21 are needed" in plain(section)
    assert "Their health is not known there." in plain(section) and plain(section).count("the run was not resumed") == 1
    assert "<script" not in section and "anomalies <script>?" in plain(section)


def test_a_detectors_answer_tells_looked_from_not_applicable(answered: dict[str, str]) -> None:
    spikes = short(answered["Were there spikes?"])
    assert spikes.startswith(
        "Spikes: not known, the detector looked at no run. Not applicable in 11 runs: grad_norm, entropy: 20 rows, 21 are"
    )
    assert "In 1 run" not in spikes and "Yes" not in spikes and "No." not in spikes
    section = answered["Does every group still differ?"]
    assert short(section) == "Truncation: inverted in 1 of 3 runs."
    assert ["inverted", "1 of 3", "inverted-s2 step 11"] in rows(section) and ["shaped", "0 of 3", "none"] in rows(section)


def test_completion(answered: dict[str, str]) -> None:
    section = answered["How many steps did each run complete?"]
    assert short(section) == "Runs that did all their steps: 11 of 12."
    assert ["random-s3", "7 of 20", "failed"] in rows(section) and ["shaped-s1", "20 of 20", "finished"] in rows(section)
    assert ["inverted-s2", "20 of 20", "finished, left out"] in rows(section) and len(rows(section)) == 12


def test_claims_and_attempts(answered: dict[str, str]) -> None:
    assert short(answered["What holds?"]).startswith("Of five declared claims, one is supported")
    assert "Supported" in [row[1] for row in rows(answered["What holds?"])]
    section = answered["How many attempts?"]
    assert short(section) == "11 of 13 attempts finished; share 0.85 [0.58, 0.96]."
    assert "The others ended as: killed and verifier." in plain(section)


def test_any_metric(answered: dict[str, str]) -> None:
    assert short(answered["And `completion_tokens`?"]).startswith("In the last window, completion length: shaped ")
    section = answered["And the tests?"]
    assert short(section).startswith("After training, share that passes tests, shared evaluation: shaped 0.85")
    assert plain(section.split("<thead>")[1]).startswith("Condition Untrained After training Change Seeds")


def test_without_findings_nothing_is_made_up(project: Path) -> None:
    """The example's findings hold no onsets; its runs' health is deleted."""
    folder = ExperimentFolder(build(project))
    for path in folder.root.glob("*/health.json"):
        read(Health, path)
        path.unlink()
    sections = ask(folder, *ASKED[:1], *ASKED[2:5])
    assert short(sections[0]).startswith("Collapse of the reward signal: not known, the detector looked at no run.")
    assert short(sections[1]).startswith("The loss does not answer that. No history has a value that counts.")
    assert short(sections[2]) == "Warnings of any detector: not known, no run was screened."
    assert short(sections[3]) == "Not known: not concluded."
