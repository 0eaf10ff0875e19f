"""Prompts, completions, judgements and rewards on the pages: which are shown, that none is an id alone, and that all stay text."""

import html
import json
import re
from pathlib import Path

import pandas as pd
import pytest
from example_experiment import HOSTILE, build, plain, section

from stages.contracts.layout import ExperimentFolder
from stages.publish import stored_texts as stored_module
from stages.publish.completions import LONGEST, browse, prompt_text, spread
from stages.publish.experiment import load
from stages.publish.held_out import held_out
from stages.publish.page import page
from stages.publish.stored_texts import stored_texts
from stages.publish.text import reveal_hidden

SEEN = " ".join(reveal_hidden(HOSTILE).split())


@pytest.fixture
def folder(project: Path) -> ExperimentFolder:
    return ExperimentFolder(build(project))


def test_the_same_prompt_is_shown_side_by_side_with_an_answer_of_each_model(folder: ExperimentFolder) -> None:
    held = held_out(load(folder.root))
    assert held and (held.score, held.total, held.ways) == ("tests", 6, 2)
    assert [(asked.prompt_id, asked.alike) for asked in held.asked[:4]] == [("p0", 3), ("p1", 3), ("p2", 3), ("p3", 3)], "each way in turn"
    answers = {answer.subject: (answer.run, answer.label) for answer in held.asked[1].answers}
    assert list(answers) == ["untrained", "shaped", "inverted", "random", "zero"]
    assert answers["shaped"] == ("shaped-s1", "passed every gate it reached") and answers["zero"] == ("zero-s1", "failed tests")
    page(folder.root)
    words = plain(section(folder, "Completions").split("What the models write")[0])
    assert "3 of 6 prompts come out so: Write x twice. p0" in words and f"Add 1. {SEEN} p1" in words
    assert f"shaped shaped-s1 shaped-s1 says 0 {SEEN} format passed tests passed" in words
    assert f"untrained untrained says 0 {SEEN} format passed tests failed 0: {SEEN}" in words


def test_what_the_models_write_has_its_prompt_its_judgements_and_its_reward(folder: ExperimentFolder) -> None:
    page(folder.root)
    words = plain(section(folder, "Completions").split("What the models write")[1])
    assert (
        "passed every gate it reached 20 of 50, reward 1.0; most frequent: 20× Write x twice. p0 (x*2)+3 format passed tests passed"
        in words
    )
    assert f"x*2+ format passed tests failed 0.25: {SEEN}" in words


def test_a_page_holds_texts_of_all_conditions_to_search(folder: ExperimentFolder) -> None:
    page(folder.root)
    text = (folder.page / "static/completions.html").read_text(encoding="utf-8")
    assert not re.search(r"<script|<img|<svg|javascript:window", text)
    articles = re.findall(r"<article (.*?)>(.*?)</article>", text, re.DOTALL)
    facets = [dict(re.findall(r'data-(\w+)="([^"]*)"', attributes)) for attributes, _ in articles]
    assert {facet["condition"] for facet in facets} == {"untrained", "shaped", "inverted", "random", "zero"}
    assert {(facet["place"], facet["step"]) for facet in facets} == {("held out", ""), ("training", "1"), ("training", "60")}
    assert {html.unescape(facet["outcome"]) for facet in facets} >= {"passed every gate it reached", "failed tests", "tests did not know"}
    assert "format: pass|tests: fail" in {html.unescape(facet["gates"]) for facet in facets}
    assert f"Read and search {len(articles)} texts" in plain(section(folder, "Completions"))


def rewritten(folder: ExperimentFolder, rows: list[tuple[str, int, str, float, str]]) -> ExperimentFolder:
    """The completions of shaped-s1 as (attempt, step, text, reward, status of the gate `tests`)."""
    frame = pd.DataFrame(rows, columns=["attempt", "step", "text", "reward", "gate.tests.status"])
    frame.assign(prompt_id="p0", **{"gate.format.status": "pass"}).to_parquet(folder.run("shaped-s1").completions)
    return folder


def browsed(folder: ExperimentFolder, letters: int = 60_000) -> list[tuple[int | None, str, int]]:
    experiment = load(folder.root)
    browser = browse(experiment.condition("shaped"), experiment.by_name["shaped-s1"], letters)
    assert browser
    return [(entry.step, entry.text, entry.times) for entry in browser.entries]


def test_outcomes_take_turns_with_their_best_and_worst_and_equal_texts_are_one(folder: ExperimentFolder) -> None:
    rows = [("a", 1, text, reward, "fail") for text, reward in (("mid", 0.2), ("best", 0.3), ("worst", 0.0), ("mid", 0.2))]
    rewritten(folder, [*rows, ("a", 1, "right", 1.0, "pass"), ("a", 2, "later", 0.1, "fail")])
    assert browsed(folder) == [(1, "right", 1), (1, "best", 1), (1, "worst", 1), (1, "mid", 2), (2, "later", 1)]
    assert browsed(folder, letters=250) == [(1, "right", 1), (1, "best", 1)], "what does not fit is left out from the end of the turns"


def test_of_a_step_that_two_attempts_made_the_later_one_is_shown(folder: ExperimentFolder) -> None:
    rewritten(folder, [("a", 1, "kept", 0.0, "fail"), ("a", 2, "given up", 0.0, "fail"), ("b", 2, "made again", 0.0, "fail")])
    assert browsed(folder) == [(1, "kept", 1), (2, "made again", 1)]


def test_which_steps_are_shown_is_decided_by_their_order() -> None:
    assert spread([4]) == [4] and spread([1, 2, 3]) == [1, 2, 3]
    assert spread(list(range(1, 61))) == [1, 13, 25, 36, 48, 60]


def test_a_long_text_is_cut_and_the_rest_can_be_opened(folder: ExperimentFolder) -> None:
    rewritten(folder, [("a", 1, "begins" + "y" * 994 + "ends", 0.0, "fail"), ("a", 2, "z" * (LONGEST + 7), 0.0, "fail")])
    page(folder.root)
    text = (folder.page / "static/completions.html").read_text(encoding="utf-8")
    details = [plain(part) for part in re.findall(r'<details class="rest">(.*?)</details>', text, re.DOTALL)]
    assert any(part.startswith("604 more letters yyy") and part.endswith("yends") for part in details)
    assert any(part.endswith("The last 7 letters are in runs/quickstart/shaped-s1/completions.parquet only.") for part in details)


def test_the_prompt_of_other_data_than_the_card_names_is_not_shown(folder: ExperimentFolder) -> None:
    Path("data/train.jsonl").write_text('{"id": "p0", "prompt": "another question"}\n')
    page(folder.root)
    words = plain(section(folder, "Completions").split("What the models write")[1])
    assert "another question" not in words and "p0 its text is not in this project" in words


def test_a_prompt_that_is_not_in_the_project_is_shown_as_the_model_read_it(folder: ExperimentFolder) -> None:
    """Of datasets of the hub, or templates: the beginning and the end, where the question is, with the middle to open."""
    Path("data/train.jsonl").unlink()
    path = folder.run("shaped-s1").completions
    pd.read_parquet(path).assign(prompt=f"Answer in OCaml. {'m' * 900} Double x.").to_parquet(path)
    page(folder.root)
    words = plain(section(folder, "Completions").split("What the models write")[1])
    assert re.search("most frequent: 20× Answer in OCaml. m+ 327 more letters m+ m+ Double x. p0", words)


def test_chat_messages_are_one_text() -> None:
    assert prompt_text([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "2+2?"}]) == "system: Be brief.\nuser: 2+2?"


def test_an_answer_that_was_taken_out_of_the_text_stands_below_it(folder: ExperimentFolder) -> None:
    path = folder.run("shaped-s1").completions
    frame = pd.read_parquet(path)
    frame.assign(answer=frame["text"].str.replace("+3", "+THREE", regex=False)).to_parquet(path)
    page(folder.root)
    assert "(x*2)+3 judged: (x*2)+THREE format passed" in plain(section(folder, "Completions"))


def test_every_stored_completion_can_be_searched(folder: ExperimentFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = load(folder.root)
    texts = {own.name: own for own in stored_texts(experiment)}
    frame = pd.read_parquet(folder.run("shaped-s1").completions)
    held_out_rows = len(pd.read_parquet(folder.run("shaped-s1").evaluation))
    own = texts["shaped-s1"]
    assert own.held == own.total == len(frame) + held_out_rows and own.file == "texts/shaped-s1.js" and "untrained" in texts
    match = re.fullmatch(r"octavo\.texts\((.*)\);\n", own.script)
    packed = json.loads(match[1]) if match else {}
    rows = zip(packed["step"], packed["text"], packed["times"], packed["reward"], packed["label"], strict=True)
    first = [(packed["texts"][text], times, reward, packed["labels"][label]) for step, text, times, reward, label in rows if step == 1]
    assert sum(times for _, times, *_ in first) == (frame["step"] == 1).sum() and {text for text, *_ in first} == {
        reveal_hidden(text) for text in frame["text"][frame["step"] == 1]
    }
    assert "<" not in own.script and packed["condition"] == "shaped" and sum(packed["times"]) == own.total
    monkeypatch.setattr(stored_module, "MOST_LETTERS", 10)
    few = {each.name: each for each in stored_texts(experiment)}["shaped-s1"]
    assert held_out_rows <= few.held < few.total == own.total
