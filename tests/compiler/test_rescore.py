"""`octavo rescore`: equal gates change nothing, other gates change what they should, and published files stay as they are."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from compiler.__main__ import main
from stages.contracts.artifact import canonical_json
from stages.contracts.files import file_digest
from stages.train.recorder import write_completions

DATA = Path("data/train.jsonl")
FORMAT = {"name": "format", "kind": "format", "settings": {"pattern": "[-+*()x0-9 ]+"}, "on_fail": 0.0}
EXACT = {"name": "exact", "kind": "exact_match", "settings": {"column": "answer"}, "on_pass": 1.0, "on_fail": 0.25}


def card(*gates, **changes):
    reward = {"name": "shaped", "gates": list(gates), **changes.pop("reward", {})}
    data = {"path": DATA.as_posix(), "sha256": file_digest(DATA)}
    content = {"experiment": "old", "condition": "c", "seed": 1, "data": data, "reward": reward, "train": {"max_steps": 2}}
    return {"schema": "octavo.train_card/1", **content, **changes}


def row(step, group, text, reward, status, *, attempt="a", prompt="row-1"):
    gates = {"gate.format.status": "pass", "gate.format.score": 1.0, "gate.format.reason": ""}
    score = None if status in ("unknown", "not_reached") else float(status == "pass")
    gates |= {"gate.exact.status": status, "gate.exact.score": score, "gate.exact.reason": ""}
    if status == "not_reached":
        gates |= {"gate.format.status": "fail", "gate.format.score": 0.0}
    shared = {"attempt": attempt, "step": step, "prompt_id": prompt, "group": group, "tokens": 5, "truncated": False}
    return {**shared, "text": text, "reward": reward, **gates}


ROWS = [
    row(1, 0, "(x*2)+1", 1.0, "pass"),
    row(1, 0, "x", 0.25, "fail"),
    row(1, 1, "print(x)", 0.0, "not_reached"),
    row(1, 1, "x+1", 0.25, "fail"),
    row(2, 0, "(x*2)+1", 1.0, "pass"),
    row(2, 0, "(x*2)+1", None, "unknown"),
]


@pytest.fixture
def run(work):
    """Make `runs/old/c-s1`, a run of a spec that is gone, with its card and its completions."""

    def make(gates=(FORMAT, EXACT), rows=ROWS, columns=("format", "exact"), **changes):
        folder = work / "runs/old/c-s1"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "train.card.json").write_text(canonical_json(card(*gates, **changes)))
        write_completions(folder / "completions.parquet", rows, columns, card_id="0123", attempt="a")
        return folder

    return make


def report(capsys, *arguments):
    assert main(["rescore", "old/c-s1", "--json", *arguments]) == 0
    return json.loads(capsys.readouterr().out)


def test_equal_gates_change_nothing_but_what_was_unknown(run, capsys):
    run()
    rescored = report(capsys)
    assert (rescored["completions"], rescored["steps"], rescored["higher"], rescored["lower"], rescored["newly_unknown"]) == (6, 2, 0, 0, 0)
    assert (rescored["newly_known"], rescored["changed"], rescored["unknown_before"], rescored["unknown_after"]) == (1, 1, 1, 0)
    assert rescored["mean_before"] == pytest.approx(2.5 / 5) and rescored["mean_after"] == pytest.approx(3.5 / 6)
    (change,) = rescored["changes"]
    assert (change["step"], change["group"], change["place"], change["reward_before"], change["reward_after"]) == (2, 0, 1, None, 1.0)
    assert [(gate["gate"], gate["before"], gate["after"]) for gate in change["gates"]] == [("exact", "unknown", "pass")]


def test_other_settings_change_rewards_and_the_funnel(run, capsys):
    run(gates=({**FORMAT, "settings": {"pattern": "[-+*()x0-9 ]+", "min_chars": 3}}, {**EXACT, "on_fail": 0.5}))
    rescored = report(capsys)
    assert (rescored["higher"], rescored["lower"], rescored["newly_known"]) == (1, 1, 1), "x+1: 0.25 -> 0.5; x is too short now"
    gates = {gate["gate"]: gate for gate in rescored["gates"]}
    assert gates["format"]["before"] == {"passed": 5, "failed": 1, "unknown": 0, "not_reached": 0}
    assert gates["format"]["after"] == {"passed": 4, "failed": 2, "unknown": 0, "not_reached": 0}
    assert (gates["format"]["gained"], gates["format"]["lost"], gates["exact"]["changed"]) == (0, 1, 2)
    first = rescored["curve"][0]
    assert (first["step"], first["reward_before"], first["reward_after"]) == (1, 0.375, 0.375)


def test_groups_without_signal_are_counted(run, capsys):
    run(gates=({**EXACT, "on_pass": 0.25},))
    first, second = report(capsys)["curve"]
    assert (first["groups"], first["zero_signal_before"], first["zero_signal_after"]) == (2, 0, 2)
    assert (second["groups"], second["zero_signal_before"], second["zero_signal_after"]) == (1, 1, 1)


def test_a_curriculum_scores_each_step_with_the_weights_of_its_time(run, capsys):
    weighted = [{**FORMAT, "on_fail": None, "weight": 0.5}, {**EXACT, "on_pass": None, "on_fail": None, "weight": 0.5}]
    phases = [{"from": 0.0, "weights": {"format": 1.0, "exact": 0.0}}, {"from": 0.5, "weights": {"format": 0.0, "exact": 1.0}}]
    rows = [row(step, 0, "x", 0.1, "fail") for step in (1, 2)]
    run(gates=weighted, reward={"combine": "weighted", "curriculum": phases}, rows=rows)
    assert [step["reward_after"] for step in report(capsys)["curve"]] == [1.0, 0.0]


def test_a_seeded_gate_draws_what_it_drew(run, capsys):
    from stages.contracts.plugin import Answer
    from stages.train.rewards import random as gate

    rows = [row(step, 0, "x", 0.0, "pass") for step in (1, 1, 2, 2)]
    keys = [f"1:{step}:row-1:{place}" for step in (1, 2) for place in (0, 1)]
    drawn = [judgement.score for judgement in gate.judge(gate.Settings(distribution="uniform"), [Answer("x", {}, key=key) for key in keys])]
    rows = [{**line, "reward": score} for line, score in zip(rows, drawn, strict=True)]
    run(gates=({"name": "random", "kind": "random", "settings": {"distribution": "uniform"}},), rows=rows)
    assert report(capsys)["changed"] == 0 and len(set(drawn)) == 4


def test_the_attempt_that_went_on_counts_in_the_curve(run, capsys):
    rows = [*(row(step, 0, "x", 0.25, "fail") for step in (1, 2, 3)), row(2, 0, "(x*2)+1", 1.0, "pass", attempt="b")]
    run(rows=rows)
    rescored = report(capsys)
    assert rescored["completions"] == 4
    assert [(step["step"], step["reward_before"]) for step in rescored["curve"]] == [(1, 0.25), (2, 1.0)]


def test_a_completion_whose_row_is_gone_is_unknown_and_counted(run, capsys):
    run(rows=[*ROWS, row(2, 1, "x", 0.25, "fail", prompt="row-99")])
    rescored = report(capsys)
    assert (rescored["without_row"], rescored["newly_unknown"], rescored["unknown_after"]) == (1, 1, 1)
    assert rescored["changes"][-1]["gates"][0]["reason"] == "its prompt is no longer in the data"


def test_nothing_published_is_touched_and_a_new_file_is_written_only_on_request(run, work, capsys):
    folder = run()
    before = {path: path.read_bytes() for path in work.rglob("*") if path.is_file()}
    assert main(["rescore", "c-s1"]) == 0
    assert {path: path.read_bytes() for path in work.rglob("*") if path.is_file()} == before
    assert main(["rescore", "runs/old/c-s1/", "--write", "again.parquet"]) == 0
    assert "again.parquet: written" in capsys.readouterr().err
    table = pq.read_table(work / "again.parquet")
    assert table.column_names == pq.read_table(folder / "completions.parquet").column_names
    assert table.column("reward").to_pylist() == [1.0, 0.25, 0.0, 0.25, 1.0, 1.0]
    assert table.column("gate.exact.status").to_pylist() == ["pass", "fail", "not_reached", "fail", "pass", "pass"]
    assert table.column("tokens").to_pylist() == [5] * 6
    assert main(["rescore", "c-s1", "--write", "again.parquet"]) == 1
    assert main(["rescore", "c-s1", "--write", "runs/old/c-s1/again.parquet"]) == 1
    assert main(["rescore", "c-s1", "--write", "nowhere/again.parquet"]) == 1
    assert {path: path.read_bytes() for path in work.rglob("*") if path.is_file() and path.name != "again.parquet"} == before


def test_the_text_shows_what_moved_and_cannot_steer_a_terminal(run, capsys):
    run(gates=(FORMAT, {**EXACT, "on_fail": 0.5}), rows=[*ROWS, row(2, 1, "x\x1b[2J\n", 0.25, "fail")])
    assert main(["rescore", "c-s1"]) == 0
    output = capsys.readouterr().out
    assert "runs/old/c-s1: 7 completions of 2 steps" in output
    assert "rewards: 4 of 7 differ: 2 higher, 1 lower, 0 newly unknown, 1 newly known" in output
    assert "\x1b" not in output and "x\\u001b[2J" in output
    assert "0.2500 -> 0.5000  step 1, row-1, completion 3" in output
    run(rows=ROWS[:5])
    assert main(["rescore", "c-s1"]) == 0
    assert capsys.readouterr().out.endswith("Nothing changes.\n")


def test_with_the_spec_as_it_is_now(work, capsys, monkeypatch):
    """The card says what the run was trained on; --spec says what would be scored today."""
    spec = work / "specs/example.yaml"
    tests = "      - tests: {kind: python_tests, answer: expression, arguments: [x], timeout: 1s}\n"
    text = spec.read_text().replace(tests, "      - exact: {kind: exact_match, column: answer}\n")
    text = text.replace("scores: [tests]", "scores: [exact]")
    spec.write_text(text.replace("evaluation.tests", "evaluation.exact"))
    assert main(["compile", "example"]) == 0
    rows = [row(1, 0, "(x*2)+1", 1.0, "pass"), row(1, 0, "x", 0.0, "fail")]
    write_completions(work / "runs/example/shaped-s2/completions.parquet", rows, ("format", "exact"), card_id="0123", attempt="a")
    spec.write_text(spec.read_text().replace("pattern: '[-+*()x0-9 ]+'", "pattern: '[x]+'"))
    capsys.readouterr()
    for arguments, changed in (([], 0), (["--spec"], 1)):
        assert main(["rescore", "shaped-s2", "--json", *arguments]) == 0
        rescored = json.loads(capsys.readouterr().out)
        assert (rescored["changed"], rescored["scored_with"]) == (changed, "spec" if arguments else "card")


@pytest.mark.parametrize(
    ("break_it", "code", "part"),
    [
        (lambda folder: (folder / "completions.parquet").unlink(), "S298", "is missing"),
        (lambda folder: (folder / "completions.parquet").write_bytes(b"PAR1 not really"), "S102", "not a Parquet file"),
        (lambda folder: write_completions(folder / "completions.parquet", [], (), card_id="0", attempt="a"), "S298", "holds none"),
        (lambda folder: (folder / "train.card.json").write_text("{"), "S102", "not JSON"),
        (lambda folder: (folder / "train.card.json").write_text("{}"), "S102", "Field required"),
        (lambda folder: DATA.write_text(DATA.read_text() + "\n"), "S201", "has changed since the card was compiled"),
        (lambda folder: DATA.unlink(), "S201", "is missing"),
    ],
)
def test_what_cannot_be_scored_is_said(run, capsys, break_it, code, part):
    break_it(run())
    assert main(["rescore", "c-s1"]) == 1
    printed = capsys.readouterr()
    assert code in printed.err and part in printed.err and "fix:" in printed.err and printed.out == ""
    assert "Traceback" not in printed.err


def test_runs_are_found_by_their_folders(run, work, capsys):
    run()
    assert main(["rescore", "c-s9"]) == 1
    assert "E330 no run `c-s9`, did you mean `c-s1`?" in capsys.readouterr().err
    twin = work / "runs/other/c-s1"
    twin.mkdir(parents=True)
    (twin / "train.card.json").write_text("{}")
    assert main(["rescore", "c-s1"]) == 1
    assert "`c-s1` is a run of several experiments" in capsys.readouterr().err
    twin.rename(work / "runs/other/d-s1")
    (work / "runs/old@smoke/c-s1").mkdir(parents=True)
    (work / "runs/old@smoke/c-s1/train.card.json").write_text("{}")
    assert main(["rescore", "c-s1"]) == 0, "the plain name means the experiment proper"


def test_an_imported_run_has_no_completions_or_no_reward_of_its_own(run, capsys):
    folder = run()
    (folder / "train.card.json").rename(folder / "import.card.json")
    assert main(["rescore", "c-s1"]) == 1
    errors = capsys.readouterr().err
    assert "S299 no reward to score with: the run was imported" in errors and "fix: octavo rescore old/c-s1 --spec" in errors
    (folder / "completions.parquet").unlink()
    assert main(["rescore", "c-s1"]) == 1
    assert "S298 no completions to score again" in capsys.readouterr().err


def test_completions_that_are_compared_with_none_are_no_groups_without_signal(run, capsys):
    run(rows=[row(1, group, "x", 0.25, "fail") for group in range(4)])
    (step,) = report(capsys)["curve"]
    assert (step["groups"], step["zero_signal_before"], step["zero_signal_after"]) == (0, 0, 0)
    assert main(["rescore", "c-s1"]) == 0
    assert "no groups" in capsys.readouterr().out
