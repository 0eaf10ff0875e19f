"""Rows of ../shared/cases/README.md about imported logs, each for its whole kind: many logs at once, from spec to health and findings.

What is right is computed here, row by row, by a reader of its own.
"""

from __future__ import annotations

import html
import json
import random
import re
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stages.analyse.conclude import conclude
from stages.analyse.screen import screen
from stages.contracts.attempt import read_attempts
from stages.contracts.import_card import SNAPSHOT
from stages.train.collect import collect
from tests.e2e.imported import compiled, findings, health, make, run

SPEC = """title: Logs of one kind
question: What did each run do?
runs:
  import:
    format: jsonl
    path: logs/{seed}.jsonl
    steps: TARGET
    metrics: {METRICS}
seeds: SEEDS
conditions: {only: {reward: any, role: ROLE}}
health: {gates: {nonfinite: not persistent, steps: complete}}
"""
Log = list[dict[str, Any]]


def imported(logs: list[Log], target: int, metrics: str, role: str = "treatment") -> Path:
    """The experiment's folder after import, screen and conclude: seed i is log i."""
    Path("logs").mkdir(exist_ok=True)
    for seed, rows in enumerate(logs, start=1):
        Path(f"logs/{seed}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    wanted = {"TARGET": target, "METRICS": metrics, "SEEDS": list(range(1, len(logs) + 1)), "ROLE": role}
    text = SPEC
    for key, value in wanted.items():
        text = text.replace(key, str(value))
    make(Path.cwd(), "kinds", text)
    folder = compiled("kinds")
    for card in sorted(folder.glob("*/import.card.json")):
        assert collect(card.parent) == 0
    screen(folder)
    conclude(folder)
    return folder


def alarms(folder: Path, seed: int, *detectors: str) -> dict[str, list[dict[str, Any]]]:
    """The signals of these detectors that are no mere information."""
    signals = {each["detector"]: each["signals"] for each in health(folder, f"only-s{seed}")["detections"]}
    return {name: [signal for signal in signals[name] if signal["severity"] != "info"] for name in detectors}


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


# 11, 12 and 20: what was done ----------------------------------------------------------------------------------------------------


def parts(rng: random.Random, target: int) -> Iterator[list[int]]:
    """Steps of one to three attempts written one below the other, with strides, gaps, ends anywhere, also beyond the target. A later
    one begins at a step that was logged before: steps that only pass others by are in no order, and no resume."""
    begin, before, kept = rng.choice([1, 1, 1, 2, 5]), set(), list[int]()
    for number in range(rng.choice([1, 1, 2, 3])):
        if number:
            is_over = kept[-1] > target - 10  # who begins again after that is another run: case 51
            begin = rng.choice(sorted(before)[1:] or [2] if is_over else [min(before), rng.choice(sorted(before))])
        end = rng.choice([target, target - 1, target, rng.randint(begin, max(begin, target)), target + rng.choice([1, 1, 40])])
        steps = list(range(begin, max(begin, end) + 1, rng.choice([1, 1, 2, 3, 10])))
        kept = [step for step in steps if rng.random() < 0.9 or step in (steps[0], steps[-1])]
        before |= set(kept)
        yield kept


def trajectory(rows: Log) -> dict[int, float]:
    """Step -> reward of what counts: who goes back to a step gives up all that lay from there on."""
    kept: dict[int, float] = {}
    before = 0
    for row in rows:
        if row["step"] < before:
            kept = {step: value for step, value in kept.items() if step < row["step"]}
        kept[row["step"]] = row["reward"]
        before = row["step"]
    return kept


@pytest.mark.parametrize("target", [7, 60])
def test_cases_11_12_and_20_no_log_is_more_or_less_complete_than_its_last_trajectory(target):
    rng = random.Random(target)
    logs: list[Log] = []
    for _ in range(24):
        steps = [step for part in parts(rng, target) for step in part]
        logs.append([{"step": step, "reward": rng.random(), "grad_norm": 0.1} for step in steps])
    folder = imported(logs, target, "reward: reward, grad_norm: grad_norm")
    values, states, width = findings(folder), [], max(2, round(target / 10))
    for seed, rows in enumerate(logs, start=1):
        kept, highest, name = trajectory(rows), max(row["step"] for row in rows), f"only-s{seed}"
        screened, end = health(folder, name), max(trajectory(rows))
        gate = next(gate for gate in screened["gates"] if gate["gate"] == "steps")
        if highest > target:
            expected = (False, f"contaminated: {highest} steps of {target}, so a finished run was trained on")
            assert any(note.startswith(f"contaminated: the log reaches step {highest} of {target}") for note in screened["notes"])
        elif end == target:
            expected = (True, f"{target} of {target} steps done")
        else:
            expected = (None, f"unknown (log ends at {end})")
        assert (gate["passed"], gate["says"]) == expected, rows
        assert screened["included"] == (expected[0] is True)
        assert screened["state"] == ("unknown" if expected[0] is None else "finished"), "a log alone is no evidence of a failure"
        assert read_attempts(folder / name / "attempts.jsonl")[0].state == screened["state"]
        states.append(expected[0])
        for statistic, first, last in (("initial", 1, width), ("final", target - width + 1, target)):
            inside = [value for step, value in kept.items() if first <= step <= last]
            value = values[f"{name}/reward/{statistic}"]["value"]
            assert value == (pytest.approx(statistics.fmean(inside)) if inside else None), "nothing beyond the target is in a window"
    assert {True, False, None} == set(states)


def test_case_12_no_detector_looks_beyond_the_target():
    """A hundred steps beyond the target, in which everything is another: no warning about a last window rests on them."""
    rng = random.Random(3)
    rows = [
        {"step": step, "reward": 0.5 + rng.gauss(0, 0.05), "entropy": 1.0 + rng.gauss(0, 0.02), "kl": 0.01 + rng.gauss(0, 0.001)}
        | {"tokens": 50 + rng.gauss(0, 2)}
        for step in range(1, 301)
    ]
    rows += [{"step": step, "reward": 1.0, "entropy": 0.001, "kl": 40.0, "tokens": 1.0} for step in range(301, 401)]
    folder = imported([rows], 300, "reward: reward, entropy: entropy, kl: kl, completion_tokens: tokens")
    assert alarms(folder, 1, "entropy_change", "kl_reference", "degenerate") == {"entropy_change": [], "kl_reference": [], "degenerate": []}
    assert not health(folder, "only-s1")["included"]


# 5, 6 and 24: a gradient of zero -------------------------------------------------------------------------------------------------

METRICS = "reward: reward, reward_std: std, zero_signal_share: frac, grad_norm: grad"


def row(rng: random.Random, step: int, **other: Any) -> dict[str, Any]:
    """A healthy step."""
    healthy = {"reward": 0.4 + rng.gauss(0, 0.05), "std": 0.4 + rng.gauss(0, 0.02), "frac": rng.choice([0.0, 0.125]), "grad": 0.3}
    return {"step": step, **healthy, "grad": 0.3 * 2 ** rng.gauss(0, 0.3)} | other


DEAD = {"grad": 0.0}
SILENT = {"grad": 0.0, "frac": 1.0, "std": 0.0}
UNSCORED = {"grad": 0.0, "frac": 0.0, "reward": None, "std": None}
"""As TRL logs steps whose rewards are all None."""
Course = Callable[[int], dict[str, Any]]
COURSES: list[tuple[Course, str | None, bool]] = [
    # (what another step than a healthy one has, what `gradient` says, whether zero signal is reported)
    (lambda step: {}, None, False),
    (lambda step: DEAD, "severe", False),
    (lambda step: DEAD if step > 90 else {}, "severe", False),
    (lambda step: DEAD if step > 150 else {}, "severe", False),
    (lambda step: DEAD if step > 182 else {}, "severe", False),  # lost near the end: 18 of 200 steps are less than a tenth
    (lambda step: DEAD if 40 <= step < 80 else {}, "warning", False),
    (lambda step: DEAD if step % 50 == 0 else {}, None, False),  # single steps: masked batches
    (lambda step: DEAD if step % 5 else {}, "severe", False),
    (lambda step: SILENT, None, True),
    (lambda step: SILENT if step > 100 else {}, None, True),
    (lambda step: SILENT if step % 2 else {}, None, True),
    (lambda step: {**SILENT, "frac": 0.5, "std": 0.2} if step > 100 else {}, "severe", True),  # half of the groups do differ
    (lambda step: UNSCORED if step > 100 else {}, None, True),
    (lambda step: UNSCORED if step % 2 else {}, None, True),
    (lambda step: UNSCORED, None, True),
]
OF_A_STREAK = 20
"""Steps: a tenth of the run of 200."""


@pytest.mark.parametrize("role", ["treatment", "null_control"])
def test_cases_5_and_24_a_gradient_of_zero_is_disconnected_or_without_signal_and_never_both_for_one_reason(role):
    rng = random.Random(24)
    logs = [[row(rng, step, **course(step)) for step in range(1, 201)] for course, _, _ in COURSES]
    folder = imported(logs, 200, METRICS, role)
    for seed, (course, severity, silent) in enumerate(COURSES, start=1):
        dead = [step for step in range(1, 201) if course(step).get("grad") == 0.0 and course(step).get("frac", 0.0) < 1]
        dead = [step for step in dead if course(step).get("reward", 0) is not None]
        streak = len(dead) >= OF_A_STREAK or severity is None
        signals = alarms(folder, seed, "gradient", "zero_signal")
        severities = [signal["severity"] for signal in signals["gradient"]]
        assert severities == ([severity] if severity and streak else []), (seed, signals["gradient"])
        if severities:
            assert signals["gradient"][0]["onset"] == dead[0] and "this is not collapse" in signals["gradient"][0]["says"]
        silent = (silent and role == "treatment") or course is COURSES[-1][0]  # of a null control it is expected
        assert bool(signals["zero_signal"]) == silent, (seed, signals["zero_signal"])


@pytest.mark.parametrize("role", ["treatment", "null_control"])
def test_case_24_where_no_spread_was_logged_a_gradient_of_zero_is_reported_and_its_reason_left_open(role):
    """Zero throughout, zero but for one step, zero in too few steps to tell; then with the spread, which decides."""
    rng = random.Random(2424)
    zeros = [
        [row(rng, step, grad=float(step == lively) * 0.3) for step in range(1, last + 1)] for lively, last in ((0, 60), (30, 60), (0, 2))
    ]
    folder = imported(zeros, 60, "reward: reward, grad_norm: grad", role)
    every = [
        next(detection for detection in health(folder, f"only-s{seed}")["detections"] if detection["detector"] == "gradient")
        for seed in (1, 2, 3)
    ]
    assert [detection["state"] for detection in every] == ["looked", "not_observable", "not_observable"]
    (still,) = every[0]["signals"]
    assert still["severity"] == ("info" if role == "null_control" else "warning") and (still["onset"], still["last"]) == (1, 60)
    assert "exactly 0 in all 60 logged steps" in still["says"] and "it is open whether" in still["says"]
    folder = imported(zeros[:1], 60, METRICS, role)
    (signal,) = alarms(folder, 1, "gradient")["gradient"]
    assert "exactly 0 in 60 of the 60 steps whose rewards differ within groups" in signal["says"]


def test_case_5_without_rewards_no_number_says_that_groups_differ():
    rng = random.Random(5)
    logs = [[row(rng, step, **(UNSCORED if step > since else {"frac": 0.1})) for step in range(1, 61)] for since in (0, 30, 60)]
    folder = imported(logs, 60, METRICS)
    values = findings(folder)
    finals = [values[f"only-s{seed}/zero_signal_share/final"]["value"] for seed in (1, 2, 3)]
    assert finals == [1.0, 1.0, pytest.approx(0.1)], "what was not scored has no signal, though the log says 0.0"
    assert values["only-s2/zero_signal_share/initial"]["value"] == pytest.approx(statistics.fmean(line["frac"] for line in logs[1][:6]))
    (whole,), (half,) = (alarms(folder, seed, "zero_signal")["zero_signal"] for seed in (1, 2))
    assert whole["says"] == "no reward: all 60 logged rewards are null, so no completion was ever scored"
    # steps 24-33 hold 7 x 0.1 + 3 = 3.7 of 10
    assert half["says"].startswith("100% of groups had no reward spread in the last 10 steps; above 30% first in steps 24-33")
    assert half["says"].endswith("; no completion was scored in 30 of 60 logged steps, first in step 31")
    assert (half["severity"], half["onset"]) == ("severe", 31)
    folder = imported(logs, 60, METRICS.removeprefix("reward: reward, "))  # the spread alone is null then
    assert [len(alarms(folder, seed, "zero_signal")["zero_signal"]) for seed in (1, 2, 3)] == [1, 1, 0]
    assert [alarms(folder, seed, "gradient")["gradient"] for seed in (1, 2, 3)] == [[], [], []]
    finals = [findings(folder)[f"only-s{seed}/zero_signal_share/final"]["value"] for seed in (1, 2, 3)]
    assert finals == [1.0, 1.0, pytest.approx(0.1)]


def test_case_6_a_spread_that_may_be_that_of_the_batch_is_reported_so():
    rng = random.Random(6)
    logs = [[row(rng, step, grad=0.0) | extra for step in range(1, 31)] for extra in ({}, {"range": 0.0}, {"range": 0.5})]
    logs = [[{"range": None, **line} for line in log] for log in logs]
    folder = imported(logs, 30, METRICS + ", group_range: range")
    of_batch, constant, differing = (alarms(folder, seed, "gradient")["gradient"] for seed in (1, 2, 3))
    assert "unless rewards were scaled by the batch" in of_batch[0]["says"]
    assert constant == [], "the range within groups decides where it is known"
    assert "unless" not in differing[0]["says"]


# 17: duplicates ----------------------------------------------------------------------------------------------------------------


def test_case_17_n_is_the_number_of_distinct_runs(tmp_path):
    """Twelve seeds over five logs: each log counts once, whatever other columns and lines its copies have."""
    rng = random.Random(17)
    courses = [[row(rng, step) for step in range(1, 41)] for _ in range(5)]
    course_of_seed = [0, 1, 0, 2, 2, 2, 3, 1, 4, 0, 3, 2]
    logs = [[{**line, "clock": rng.random()} for line in courses[index]] for index in course_of_seed]
    logs[2] = [line for line in logs[2] for _ in range(1 + (line["step"] == 7))]  # a row that stands there twice is the same row
    logs[5] = [{**line, "reward": str(line["reward"])} for line in logs[5]]
    folder = imported(logs, 40, METRICS)
    for seed, index in enumerate(course_of_seed, start=1):
        screened, first = health(folder, f"only-s{seed}"), course_of_seed.index(index) + 1
        assert screened["included"] is (seed == first)
        if seed != first:
            assert screened["reasons"][0].startswith(f"DUPLICATE: its series are identical to those of only-s{first}, so")
    value = findings(folder)["only/reward/final"]
    assert value["n"] == 5
    finals = [statistics.fmean(line["reward"] for line in course[36:]) for course in courses]
    assert value["value"] == pytest.approx(statistics.fmean(finals))


def test_case_17_a_log_of_another_condition_is_a_warning_and_leaves_no_run_out(tmp_path):
    rng = random.Random(18)
    Path("logs").mkdir()
    courses = [[row(rng, step) for step in range(1, 41)] for _ in range(5)]
    for condition, course_of_seed in (("a", (0, 1, 2)), ("b", (3, 1, 4))):
        for seed, index in enumerate(course_of_seed, start=1):
            text = "".join(json.dumps(line | {"clock": rng.random()}) + "\n" for line in courses[index])
            Path(f"logs/{condition}-{seed}.jsonl").write_text(text, encoding="utf-8")
    conditions = "{a: {reward: one, role: treatment}, b: {reward: another, role: null_control}}"
    text = SPEC.replace("{seed}", "{condition}-{seed}").replace("{only: {reward: any, role: ROLE}}", conditions)
    make(Path.cwd(), "two", text.replace("TARGET", "40").replace("METRICS", METRICS).replace("SEEDS", "[1, 2, 3]"))
    folder = compiled("two")
    for card in folder.glob("*/import.card.json"):
        assert collect(card.parent) == 0
    screen(folder)
    for name in ("a-s1", "a-s2", "a-s3", "b-s1", "b-s2", "b-s3"):
        screened = health(folder, name)
        signals = next(detection["signals"] for detection in screened["detections"] if detection["detector"] == "duplicates")
        assert screened["included"] and [signal["severity"] for signal in signals] == ["warning"] * (name == "a-s2")
        if signals:
            assert "identical to those of b-s2, a run of another condition" in signals[0]["says"]


# 25: spikes ----------------------------------------------------------------------------------------------------------------------

PLACES = [2, 3, 7, 12, 19, 20, 21, 22, 100, 199, 200]


@pytest.mark.parametrize(("scale", "factor"), [(1e-9, 54_648_652 / 111), (1.0, 30.0), (111.0, 54_648_652 / 111)])
def test_case_25_a_spike_has_its_step_wherever_it_is_and_however_high(scale, factor):
    rng = random.Random(25)
    logs, steps = [], []
    for place in PLACES:
        for second in (None, 150):
            course = {step: scale * (1 + rng.gauss(0, 0.1)) for step in range(1, 201)}
            course |= {at: scale * factor for at in (place, second) if at}
            broken: set[int] = set() if place < 10 else {place - 3, place - 2}
            logs.append([{"step": step, "grad": "NaN" if step in broken else value} for step, value in course.items()])
            steps.append(sorted({place, second or place}))
    folder = imported(logs, 200, "grad_norm: grad")
    for seed, expected in enumerate(steps, start=1):
        (signal,) = alarms(folder, seed, "spikes")["spikes"]
        assert (signal["evidence"]["steps"], signal["onset"], signal["last"]) == (expected, expected[0], expected[-1])
        assert signal["value"] == pytest.approx(scale * factor)
        assert "the import does not say" in signal["says"] and "logged before clipping" not in signal["says"]


def test_case_25_what_a_series_begins_with_is_no_spike_and_a_short_run_says_that_it_is_too_short():
    rng = random.Random(26)
    shapes = [lambda step: 30 * 0.4**step, lambda step: 50.0 if step == 1 else 0.0, lambda step: 9 / step**3]
    logs = [[{"step": step, "grad": 1 + rng.gauss(0, 0.05) + shape(step)} for step in range(1, 101)] for shape in shapes]
    logs += [[{"step": step, "grad": 9.0 if step == 15 else 1 + rng.gauss(0, 0.05)} for step in range(1, 21)]]
    folder = imported(logs, 100, "grad_norm: grad")
    assert [alarms(folder, seed, "spikes")["spikes"] for seed in (1, 2, 3)] == [[], [], []]
    short = next(detection for detection in health(folder, "only-s4")["detections"] if detection["detector"] == "spikes")
    assert short["state"] == "not_applicable" and re.fullmatch("grad_norm: 20 rows, 21 are needed", short["reason"])


# 50 to 55, 67 and 68: which run a log is of ----------------------------------------------------------------------------------------


def test_case_52_a_checkpoint_has_made_at_least_its_steps_and_did_not_fail(tmp_path):
    """The page never says that a run ended, or did not end well, because the state of a checkpoint lies there."""
    rows = [row(random.Random(52), step) | {"step": step} for step in range(1, 61)]
    Path("logs").mkdir()
    for seed, (done, planned) in enumerate([(60, 80), (60, 60)], start=1):
        Path(f"logs/{seed}.jsonl").write_text(json.dumps({"global_step": done, "max_steps": planned, "log_history": rows}))
    text = SPEC.replace("format: jsonl", "format: trainer_state").replace("TARGET", "80").replace("METRICS", METRICS)
    make(Path.cwd(), "states", text.replace("SEEDS", "[1, 2]").replace("ROLE", "treatment"))
    folder = compiled("states")
    page = html.unescape((run(folder) / "index.md").read_text(encoding="utf-8"))
    first, second = health(folder, "only-s1"), health(folder, "only-s2")
    assert (first["state"], first["reasons"]) == (
        "unknown", ["gate steps: unknown (at least 60 steps done, as the state of a checkpoint says)"],
    )  # fmt: skip
    assert (second["state"], second["included"]) == ("finished", False), "it made the 60 steps that it was told to make, of 80"
    assert "did not end well" not in page and "last attempt failed" not in page


def test_case_67_a_run_without_a_row_stands_beside_others_that_count(tmp_path):
    """W&B's last step is -1 of a run that crashed before its first log."""
    rng = random.Random(67)
    Path("logs").mkdir()
    for seed in (1, 2, 3):
        lines = [] if seed == 2 else [{"train/global_step": step, **row(rng, step)} for step in range(1, 41)]
        lines = [{name: cell for name, cell in line.items() if name != "step"} for line in lines]
        state = "crashed" if seed == 2 else "finished"
        head = {"schema": SNAPSHOT, "id": str(seed), "state": state, "rows": len(lines), "last_history_step": len(lines) - 1, "config": {}}
        Path(f"logs/{seed}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in (head, *lines)))
    text = SPEC.replace("format: jsonl", "format: wandb").replace("TARGET", "40").replace("METRICS", METRICS)
    make(Path.cwd(), "empty", text.replace("SEEDS", "[1, 2, 3]").replace("ROLE", "treatment"))
    folder = compiled("empty")
    page = html.unescape((run(folder) / "index.md").read_text(encoding="utf-8"))
    assert [health(folder, f"only-s{seed}")["included"] for seed in (1, 2, 3)] == [True, False, True]
    assert "holds no row" in json.loads((folder / "only-s2/outcome.json").read_text())["error"] and "2 of 3" in page
    assert findings(folder)["only/reward/final"]["n"] == 2


def test_the_order_of_no_map_in_a_spec_enters_a_card(tmp_path):
    rng = random.Random(50)
    Path("logs").mkdir()
    lines = [{"arm": arm, "n": seed, **row(rng, step)} for arm in ("a", "b") for seed in (1, 2) for step in range(1, 11)]
    Path("logs/all.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    parts = {
        "import": ["format: jsonl", "path: logs/all.jsonl", "steps: 10", "WHERE", "METRICS", "preset: trl"],
        "where": ["arm: '{condition}'", "n: '{seed}'"],
        "metrics": ["reward: reward", "zero_signal_share: frac", "grad_norm: grad", "gate.b.score: std", "gate.a.score: frac"],
    }
    cards = set()
    for _ in range(6):
        mixed = {name: ", ".join(rng.sample(part, len(part))) for name, part in parts.items()}
        block = mixed["import"].replace("WHERE", f"where: {{{mixed['where']}}}").replace("METRICS", f"metrics: {{{mixed['metrics']}}}")
        keys = [f"runs: {{import: {{{block}}}}}", "title: T", "question: Q?", "seeds: [1, 2]", "health: {gates: {steps: complete}}"]
        keys += ["conditions: {a: {role: treatment, reward: x}, b: {reward: x, role: null_control}}"]
        make(Path.cwd(), "order", "\n".join(rng.sample(keys, len(keys))) + "\n")
        folder = compiled("order")
        cards.add("".join(path.read_text() for path in sorted(folder.rglob("*.card.json"))))
    assert len(cards) == 1
    for card in sorted(folder.glob("*/import.card.json")):
        assert collect(card.parent) == 0
    rewards = {
        name: json.loads((folder / name / "imported.json").read_text())["held"][0]["first"] for name in ("a-s1", "a-s2", "b-s1", "b-s2")
    }
    assert list(rewards.values()) == [lines[at]["reward"] for at in (0, 10, 20, 30)], "each run has its own rows of the one file"
