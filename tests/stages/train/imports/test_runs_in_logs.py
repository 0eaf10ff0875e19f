"""Which run is this: rows chosen by columns, several runs in one log, resumes inside one, logs that go on with each other, checkpoints."""

import json
import random
from pathlib import Path

import pandas as pd
import pytest

from stages.contracts.attempt import Started
from stages.contracts.files import file_digest
from stages.contracts.import_card import ColumnCard, ImportCard, ReadCard, SourceCard
from stages.train.imports.files import outcome_of, read_log, read_tries
from stages.train.imports.log import Unreadable, from_rows
from stages.train.imports.mapping import Mapped, map_log

LOGS = Path(__file__).parents[5] / "shared" / "cases" / "logs"
shared = pytest.mark.skipif(not LOGS.exists(), reason="the shared cases are not here")
STARTED = Started(
    attempt="a", number=1, at="2026-01-01T00:00:00Z", card_id="c", commit=None, host="h", devices=(), versions={}, sandbox="",
    resumed_from=None,
)  # fmt: skip


def card(form: str = "jsonl", column: str = "reward", **more) -> ReadCard:
    return ReadCard(format=form, columns=(ColumnCard(metric="reward", column=column, unit="reward"),), **more)


def mapped(rows: list[dict], target: int, **more) -> Mapped:
    return map_log(from_rows(rows, more.get("step", "step")), card(**more), target, "a")


def values(history: Mapped) -> list[tuple[int, object]]:
    return [(row["step"], row["value"]) for row in history.rows]


def tries(paths: list[Path], form: str, target: int, **more):
    sources = tuple(SourceCard(path=path.as_posix(), sha256=file_digest(path)) for path in paths)
    whole = ImportCard(
        experiment="e", condition="c", seed=1, null_control=False, source=sources[0], others=sources[1:], read=card(form, **more),
        target_steps=target, code={"train.collect": ""},
    )  # fmt: skip
    return whole, read_tries(whole)


TABLE = [
    {"algorithm": algorithm, "seed": seed, "done": step == 6, "run_id": f"{algorithm}_{seed}", "update": step, "reward": step + seed / 1000}
    for algorithm in ("ppo", "grpo")
    for seed in (7, 42)
    for step in range(1, 7)
]


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_case_50_rows_are_chosen_by_columns(tmp_path, form):
    path, frame = tmp_path / "log", pd.DataFrame(TABLE)
    {"csv": frame.to_csv, "parquet": frame.to_parquet}.get(form, lambda path, **_: frame.to_json(path, orient="records", lines=True))(
        path, index=False
    )

    def history(**where):
        read = card(form, step="update", where=where)
        return map_log(read_log(path, read), read, 6, "a")

    for where in ({"algorithm": "grpo", "seed": 42}, {"seed": 42.0, "run_id": "grpo_42"}):
        assert values(history(**where)) == [(step, step + 0.042) for step in range(1, 7)]
    assert values(history(run_id="ppo_7", done=True)) == [(6, 6.007)]
    with pytest.raises(
        Unreadable,
        match=r"the log holds 4 runs: `run_id` has 4 values whose rows begin at step 1 \(ppo_7, ppo_42, .*where: {run_id: ppo_7}",
    ):
        history()
    with pytest.raises(Unreadable, match=r"holds 2 runs: `seed` has 2 values whose rows begin at step 1 \(7, 42\)|`run_id` has 2 values"):
        history(algorithm="ppo")
    with pytest.raises(
        Unreadable, match=r"no column `algoritm` for `where`; did you mean `algorithm`\? Columns of the log: algorithm, done, reward"
    ):
        history(algoritm="ppo")
    with pytest.raises(Unreadable, match=r'no row holds {"algorithm": "ppo", "seed": 3}; `seed` holds 7, 42 in the rows that are left'):
        history(algorithm="ppo", seed=3)


@shared
def test_cases_50_and_51_of_the_shared_logs():
    for path, read, target, says in (
        ("four_runs.csv", card("csv", "reward_mean", step="update"), 32, "the log holds 4 runs: `run_id`"),
        ("three_runs_one_file.jsonl", card(), 50, "the log holds 3 runs: it comes to step 50 of 50 and begins again at step 1"),
        ("three_runs_one_file.jsonl", card(), 150, "the log holds 3 runs: it comes to step 50 of 150 and begins again at step 1"),
    ):
        with pytest.raises(Unreadable, match=says):
            map_log(read_log(LOGS / path, read), read, target, "a")


def test_runs_are_told_apart_in_any_order_and_resumes_are_left_alone():
    """Several runs below each other or row by row, with or without a column that names them; a resume, under another id too, is one."""
    rng = random.Random(51)
    for trial in range(60):
        runs, stride, named = (
            rng.randint(2, 5),
            rng.choice([1, 2, 10]),
            rng.choice(["run_id", "seed", "trial", "exp_name", "wandb/run", None]),
        )
        steps = range(stride, 20 * stride + 1, stride)
        rows = [{"step": step, "reward": rng.random(), **({named: f"r{run}"} if named else {})} for run in range(runs) for step in steps]
        rows = sorted(rows, key=lambda row: row["step"]) if named and trial % 2 else rows
        with pytest.raises(
            Unreadable, match=rf"the log holds {runs} runs: {f'`{named}` has {runs} values' if named else 'it comes to step'}"
        ):
            mapped(rows, 20 * stride)
        at = rng.randint(5, 15)
        resumed = [{"step": step, "reward": rng.random(), "run_id": "r1"} for step in steps[:at]]
        resumed += [{"step": step, "reward": rng.random(), "run_id": "r2", "phase": step} for step in steps[at - rng.randint(1, 3) :]]
        assert mapped(resumed, 20 * stride).last == 20 * stride


def test_event_files_of_several_trainings_in_one_folder(tmp_path):
    writers = pytest.importorskip("torch.utils.tensorboard")
    read = card("tensorboard")
    for folder, last in (("Nov28", 10), ("Nov29", 10), ("Nov30", 7)):
        with writers.SummaryWriter(tmp_path / folder) as writer:
            for step in range(1, last + 1):
                writer.add_scalar("reward", step, step)
    for target in (10, 400):  # in folders of their own they are runs whether they reach the target or not
        with pytest.raises(Unreadable, match="the log holds 3 runs: it comes to step 10 of"):
            map_log(read_log(tmp_path, read), read, target, "a")


@shared
def test_case_55_the_overlap_of_a_resume_is_compared_without_being_asked():
    notes = map_log(read_log(LOGS / "resumed_rate.jsonl", card()), card(), 200, "a").record["notes"]
    assert notes[1] == (
        "at the resume from step 101 the learning rate is another one: 5e-06 before and 1e-05 after at step 101, and it differs at 12 of "
        "12 steps that were logged twice; it is that of step 1, so the schedule began anew"
    )
    assert notes[2] == "the mean reward over the 12 steps that were logged twice is 0.5375 before and 0.5325 after the resume"


@pytest.mark.parametrize("name", ["learning_rate", "train/learning_rate", "lr", "actor/lr(1e-4)", "actor_lr"])
@pytest.mark.parametrize("overlap", [0, 2, 12])
@pytest.mark.parametrize("kind", ["same", "anew", "another"])
def test_case_55_a_rate_of_any_name_is_the_same_begun_anew_or_another(name, overlap, kind):
    def rate(step):
        return 1e-5 * (1 - step / 200)

    shift = {"same": lambda step: rate(step), "anew": lambda step: rate(step - 100 + overlap), "another": lambda step: rate(step) / 3}[kind]
    rows = [{"step": step, "reward": step / 100, name: rate(step)} for step in range(1, 101)]
    rows += [{"step": step, "reward": step / 100 + 0.5 * (kind == "anew"), name: shift(step)} for step in range(101 - overlap, 201)]
    notes = mapped(rows, 200).record["notes"]
    rates = [note for note in notes if "learning rate is another one" in note]
    assert len(rates) == (kind == "anew" or (kind == "another" and overlap > 0)) * (overlap > 0)
    assert all(("so the schedule began anew" in note) == (kind == "anew") for note in rates)
    rewards = [note for note in notes if "mean reward over the 12 steps" in note]
    assert len(rewards) == (overlap == 12) and all(("more than 4 standard errors" in note) == (kind == "anew") for note in rewards)


@pytest.mark.parametrize(("total", "each", "per_epoch"), [(405, 10, 405), (300, 1, 60), (1000, 5, 187.5), (40, 1, 400)])
@pytest.mark.parametrize("printed", [lambda epoch: round(epoch, 2), lambda epoch: float(f"{epoch:.4g}")])
def test_rounded_epochs_of_evenly_logged_rows_give_their_steps_back(total, each, per_epoch, printed):
    rows = [{"epoch": printed(step / per_epoch), "reward": float(step)} for step in range(each, total + 1, each)]
    read = ReadCard(
        format="jsonl", epoch="epoch", steps_per_epoch=per_epoch, columns=(ColumnCard(metric="reward", column="reward", unit="reward"),)
    )
    history = map_log(from_rows(rows, "epoch"), read, total, "a")
    assert values(history) == [(step, float(step)) for step in range(each, total + 1, each)]
    assert any(f"stands at step {each} x k, which gives all printed epochs" in note for note in history.record["notes"])


def test_a_bare_list_of_rows_and_the_states_of_checkpoints(tmp_path):
    path, rows = tmp_path / "state.json", [{"step": step, "reward": step / 10, "epoch": 0.1} for step in range(1, 31)]
    path.write_text(json.dumps(rows))
    whole, (run,) = tries([path], "trainer_state", 30)
    assert (run.steps_done, outcome_of(whole, STARTED, run).finished) == (30, True)
    for done, own, target, state in (
        (30, 40, 40, "at least 30 steps done, as the state of a checkpoint says"),
        (30, None, 40, "at least 30 steps done, as the state of a checkpoint says"),
        (30, 30, 40, ""),  # it made all steps that it was told to make
        (30, 30, 30, ""),
        (30, 40, 30, ""),
    ):
        path.write_text(json.dumps({"global_step": done, "max_steps": own, "log_history": rows}))
        whole, (run,) = tries([path], "trainer_state", target)
        outcome = outcome_of(whole, STARTED, run)
        assert (outcome.unknown, outcome.error, outcome.finished, outcome.steps_done) == (state, None, not state, 30)


def test_logs_that_go_on_with_each_other_are_one_try_and_others_are_tries_of_their_own(tmp_path):
    def log(name, first, last, shift=0.0, **more):
        path = tmp_path / name
        rows = [{"step": step, "reward": step + shift, **more} for step in range(first, last + 1)]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    one, two, three = log("1", 1, 100), log("2", 91, 200, 0.5), log("3", 201, 300)
    _, (run,) = tries([one, two, three], "jsonl", 300)
    assert [row["step"] for row in run.history.rows] == [*range(1, 101), *range(91, 201), *range(201, 301)]
    assert [row["attempt"] for row in run.history.rows if row["step"] == 95] == ["-part1", "-part2"]
    assert run.steps_done == 300 and run.source.path.endswith("3")
    assert any("goes on with the one before it" in note for note in run.history.record["notes"])

    whole, runs = tries([one, log("b", 1, 40), log("c", 1, 300, state="finished"), log("d", 41, 60)], "jsonl", 300, state="state")
    assert [(run.source.path[-1], run.steps_done) for run in runs] == [("b", 40), ("d", 60), ("1", 100), ("c", 300)]
    (tmp_path / "x").write_text("{\n{\n")
    whole, runs = tries(
        [one, tmp_path / "x", log("e", 1, 100, state="crashed"), log("f", 1, 100, state="finished")], "jsonl", 300, state="state"
    )
    assert [run.source.path[-1] for run in runs] == ["x", "1", "e", "f"] and runs[0].failure == "data"
    assert outcome_of(whole, STARTED, runs[-1]).finished and outcome_of(whole, STARTED, runs[2]).error == "`state` says `crashed`"


def test_each_log_is_read_once(tmp_path, monkeypatch):
    paths, read = [tmp_path / name for name in "abc"], []
    for path in paths:
        path.write_text('{"step": 1, "reward": 1}\n')
    monkeypatch.setattr("stages.train.imports.files.read_log", lambda path, card: read.append(path.name) or read_log(path, card))
    _, runs = tries(paths, "jsonl", 1)
    assert read == ["a", "b", "c"] and len(runs) == 3
