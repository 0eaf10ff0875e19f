"""Gate `python`: a function of the project, its code pinned in the card."""

import sys

import pytest
from pydantic import ValidationError

from stages.contracts.plugin import Answer
from stages.contracts.reward import Gate, Reward
from stages.train.rewards.compose import compose
from stages.train.rewards.python import Settings, judge

SOURCE = '''
import sys
from . import words
from my_rewards.limits import HIGH

def score(text, row):
    """What the text says."""
    row["seen"] = True
    if text == "exit":
        sys.exit(1)
    if text == "raise":
        return 1 / 0
    said = {"nan": float("nan"), "none": None, "text": "1", "two": 2, "true": True, "false": False}
    return said[text] if text in said else words.half(row)

class score_class: ...
value = 3
'''
TRL = """
calls = []

def lengths(prompts, completions, target, **kwargs):
    calls.append((prompts, kwargs))
    return [None if goal is None else abs(len(text) - goal) / -10 for text, goal in zip(completions, target)]

def words(completions, *, target):
    return [len(messages[0]["content"].split()) / 2 for messages in completions]

def short(completions, **kwargs):
    return [0.5]

def raises(completions, **kwargs):
    raise ValueError("no\\x00pe")

def no_text(row): return 1
def too_many(text, row, third): return 1
def by_place(completions, target, /): return [1]
"""
"""Reward functions as TRL takes them."""


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project with the package `my_rewards`; modules of it are forgotten afterwards."""
    package = tmp_path / "my_rewards"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "tone.py").write_text(SOURCE)
    (package / "words.py").write_text("def half(row):\n    return row['half']\n")
    (package / "trl.py").write_text(TRL)
    (package / "limits.py").write_text("HIGH = 1\n")
    (package / "broken.py").write_text("def f(:\n")
    (package / "uses_broken.py").write_text("import my_rewards.broken\ndef f(text, row): return 1\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield package
    for name in [name for name in sys.modules if name.split(".")[0] == "my_rewards"]:
        del sys.modules[name]


def judged(settings, *texts):
    return [(judgement.status, judgement.score) for judgement in judge(settings, [Answer(text, {"half": 0.5}) for text in texts])]


def test_scores_and_truth_values(project):
    settings = Settings(function="my_rewards.tone:score")
    assert judged(settings, "x", "true", "false") == [("fail", 0.5), ("pass", 1.0), ("fail", 0.0)]
    assert judged(Settings(function="my_rewards.tone:score", passes_from=0.5), "x", "false") == [("pass", 0.5), ("fail", 0.0)]


def test_whatever_goes_wrong_is_unknown_for_that_answer_alone(project):
    judgements = judge(
        Settings(function="my_rewards.tone:score"),
        [Answer(text, {"half": 0.5}) for text in ("nan", "raise", "none", "text", "two", "exit", "x")],
    )
    assert [judgement.status for judgement in judgements] == ["unknown"] * 6 + ["fail"]
    assert judgements[1].reason == "my_rewards.tone:score raised ZeroDivisionError: division by zero"
    assert "does not know" in judgements[2].reason and "'2'" in judgements[4].reason and "SystemExit" in judgements[5].reason
    # None says that it does not know; all else is the function's own fault, and a run that stops of it is told so
    assert [judgement.broken for judgement in judgements] == [True, True, False, True, True, True, False]


def test_a_reward_function_of_trl_is_called_once_with_columns(project):
    settings = Settings(function="my_rewards.trl.lengths", low=-1.0, high=0.0, passes_from=0.8)
    rows = [{"prompt": "a", "target": 2, "id": "1"}, {"prompt": "b", "target": 4, "id": "2"}, {"prompt": "c", "target": None, "id": "3"}]
    judgements = judge(settings, [Answer(text, row) for text, row in zip(("xx", "xxxxxxxxx", "x"), rows, strict=True)])
    assert [(judgement.status, judgement.score) for judgement in judgements] == [("pass", 1.0), ("fail", 0.5), ("unknown", None)]
    assert sys.modules["my_rewards.trl"].calls == [(["a", "b", "c"], {"id": ["1", "2", "3"]})]
    (beyond,) = judge(settings, [Answer("x" * 30, rows[0])])
    assert beyond.broken and beyond.reason == "my_rewards.trl:lengths gave '-2.8', which is no score from -1 to 0"


def test_a_function_of_trl_may_read_chat_messages_and_take_chosen_columns(project):
    row = {"prompt": "a", "target": 2}
    chat = Settings(function="my_rewards.trl:words", chat=True)
    assert [judgement.score for judgement in judge(chat, [Answer("one", row), Answer("one two", row)])] == [0.5, 1.0]
    assert [judgement.reason for judgement in judge(Settings(function="my_rewards.trl:short"), [Answer("x", row)] * 2)] == [
        "my_rewards.trl:short gave 1 scores for 2 completions"
    ] * 2
    (raised,) = judge(Settings(function="my_rewards.trl:raises"), [Answer("x", row)])
    assert raised.broken and raised.reason.startswith("my_rewards.trl:raises raised ValueError: no")


@pytest.mark.parametrize("written", ["my_rewards.tone.score", "my_rewards/tone.py:score", "my_rewards.tone:score"])
def test_three_ways_to_name_a_function_are_the_same(project, written):
    assert Settings(function=written) == Settings(function="my_rewards.tone:score")


def test_the_function_cannot_change_the_data_row(project):
    row = {"half": 0.5}
    judge(Settings(function="my_rewards.tone:score"), [Answer("x", row)])
    assert row == {"half": 0.5}


@pytest.mark.parametrize("changed", ["tone.py", "words.py", "limits.py", "__init__.py"])
def test_code_that_changed_under_a_card_scores_nothing(project, changed):
    settings = Settings(function="my_rewards.tone:score")
    kept = Settings.model_validate(settings.model_dump(mode="json"))
    assert kept == settings and len(settings.code) == 16
    with (project / changed).open("a") as stream:
        stream.write("\n# another word\n")
    assert Settings(function="my_rewards.tone:score").code != settings.code
    judgements = judge(kept, [Answer("true", {})])
    assert judgements[0].status == "unknown" and "octavo compile" in judgements[0].reason


def test_a_file_that_is_not_imported_does_not_count(project):
    before = Settings(function="my_rewards.tone:score").code
    (project / "other.py").write_text("x = 1\n")
    assert Settings(function="my_rewards.tone:score").code == before


def test_settings_of_a_card_hold_the_hash(project):
    gate = Gate(name="tone", kind="python", settings=Settings(function="my_rewards.tone:score").model_dump(mode="json"))
    assert compose(Reward(name="r", gates=(gate,))).score([Answer("true", {"half": 0.5})]).rewards == [1.0]


@pytest.mark.parametrize(
    "function",
    [
        "my_rewards.tone", "my_rewards.trl:no_text", "my_rewards.trl:too_many", "my_rewards.trl:by_place",
        "my_rewards.tone:missing", "my_rewards.tone:value", "my_rewards.tone:score_class", "my_rewards.missing:f",
        "my_rewards.broken:f", "my_rewards.uses_broken:f", "os:system", "os.path:join", "..my_rewards.tone:score", "/etc/passwd:f",
        "my_rewards/tone:score", ":score", "my_rewards.tone:score:x", "my_rewards.tone:__import__('os')", "",
    ],
)  # fmt: skip
def test_only_functions_of_the_project(project, function):
    with pytest.raises(ValidationError):
        Settings(function=function)


def test_an_installed_module_of_the_same_name_is_not_taken_for_ours(project, tmp_path):
    (tmp_path / "json.py").write_text("def f(text, row):\n    return 1\n")
    gate = Gate(name="j", kind="python", settings={"function": "json:f"})
    (judgement,) = compose(Reward(name="r", gates=(gate,))).score([Answer("x", {})]).judgements["j"]
    assert judgement.status == "unknown" and "another module 'json' is loaded" in judgement.reason


@pytest.mark.parametrize("expression", ["-" * 100_000 + "1", "+".join("1" * 60_000), "a." * 50_000 + "b"])
def test_code_that_is_nested_without_end_is_no_python(project, expression):
    (project / "deep.py").write_text(f"x = {expression}\ndef f(text, row): return 1\n")
    with pytest.raises(ValidationError, match="is no Python"):
        Settings(function="my_rewards.deep:f")
