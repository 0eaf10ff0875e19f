"""Changes of level and parts of a reward, each as a kind: any noise, stride, size and place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from healthy import alarms_by_length, memory
from hypothesis import given
from hypothesis import strategies as st
from run_from import ask, seen

from stages.analyse.changes import fall, jump
from stages.analyse.detectors import level, parts
from stages.analyse.frames import Run


@pytest.mark.parametrize("stride", [1, 5, 10])
@pytest.mark.parametrize("slow", [0.0, 0.2])
def test_a_fall_to_zero_is_seen_and_its_interval_holds_the_step(stride: int, slow: float) -> None:
    """Of a part of what benchmarks/false_alarms.py measures. The run learns before it falls, and its noise has a memory."""
    rounds, found, held = 25, 0, 0
    for index in range(rounds):
        rng = np.random.default_rng([index, stride, 3])
        n = int(rng.integers(600, 1500)) // stride * stride
        middle = int(rng.uniform(0.4, 0.6) * n)
        gone = np.clip((np.arange(n) - middle) / (slow * n) + 0.5, 0, 1) if slow else (np.arange(n) >= middle) * 1.0
        reward = (0.3 + 0.4 * np.arange(n) / n) * (1 - gone) + 0.05 * memory(rng, n, 0.9 * rng.random())
        run = seen(
            around={"target_steps": n, "imported": stride > 1},
            reward={stride * row: value for row, value in enumerate(reward.reshape(-1, stride).mean(axis=1).tolist(), 1)},
        )
        falls = [signal for signal in ask(level, run).signals if signal.kind == "fall"]
        found += bool(falls)
        held += bool(falls) and falls[0].evidence["low"] <= middle + 1 <= falls[0].evidence["high"]
    assert found >= 24 and held >= 0.95 * found


@pytest.mark.parametrize("stride", [1, 5, 10])
def test_healthy_runs_of_any_length_and_memory_are_quiet(stride: int) -> None:
    counted = alarms_by_length(20, stride)
    assert [warned for warned, _ in counted.values()] == [0, 0] and counted["level"][1] >= 10


@given(seed=st.integers(0, 999), size=st.floats(1e-6, 1e6), place=st.integers(25, 95))
def test_the_unit_of_a_series_does_not_matter(seed: int, size: float, place: int) -> None:
    rows = np.where(np.arange(120) < place, 0.6, 0.05) + 0.05 * np.random.default_rng(seed).normal(size=120)
    plain, scaled = fall(rows, 6.0, 0.2), fall(size * rows, 6.0, 0.2)
    assert plain and scaled and plain[:3] == scaled[:3] and scaled.before == pytest.approx(size * plain.before)
    assert plain.low <= place <= plain.high and plain.before == pytest.approx(0.6, abs=0.1)
    upward = jump(-rows + 1, 6.0, 0.2)
    assert upward is None or (upward.after > upward.before and upward.low <= place <= upward.high)


def run_of(groups: list[dict[str, list[float | None]]], **metrics: Any) -> Run:
    """A run with these groups of completions, one a step: scores and rewards by name."""
    run = seen(around={"target_steps": len(groups)}, **metrics)
    rows = [
        {"step": step, "group": 0, "truncated": False, "text": "x"} | {name: values[place] for name, values in group.items()}
        for step, group in enumerate(groups, 1)
        for place in range(len(group["reward"]))
    ]
    run.completions = pd.DataFrame(rows).astype(dict.fromkeys(groups[0], float))
    return run


A, B = "gate.a.score", "gate.b.score"


def test_case_64_parts_that_cancel_and_a_part_that_differs_between_prompts_only() -> None:
    scores = {A: {1: 0.4, 2: 0.6}, B: {1: 0.6, 2: 0.4}}
    cancel = ask(parts, run_of([{A: [0, 1], B: [1, 0], "reward": [0.5, 0.5]}] * 40, reward=0.5, **scores))
    assert [(s.kind, s.value, s.evidence) for s in cancel.signals] == [("cancel", 1.0, {"k": 40, "n": 40})]
    assert (
        "in 40 of 40 groups the scores of several parts (score of a, score of b) differ and the reward does not" in cancel.signals[0].says
    )
    between = ask(parts, run_of([{A: [step % 2] * 2, B: [0, 1], "reward": [0, 1]} for step in range(40)], reward=0.5, **scores))
    assert [(s.kind, s.metric, s.evidence) for s in between.signals] == [("between", A, {"k": 0, "n": 40})]
    healthy = ask(parts, run_of([{A: [0, 1], B: [0, 1], "reward": [0, 1]}] * 40, reward=0.5, **scores))
    assert (healthy.state, healthy.signals, healthy.reason) == ("looked", (), "")
    few = ask(parts, run_of([{A: [0, 1], B: [1, 0], "reward": [0.5, 0.5]}] * 19, reward=0.5, **scores))
    assert not few.signals and "fewer than 20 groups" in few.reason


def test_a_part_that_answers_for_some_completions_says_so() -> None:
    scores = {A: {1: 0.4, 2: 0.6}, B: {1: 0.6, 2: 0.4}}
    some = ask(parts, run_of([{A: [0, 1], B: [None, 1], "reward": [0, 1]}] * 40, reward=0.5, **scores))
    assert [(s.kind, s.severity, s.value) for s in some.signals] == [("some", "info", 0.5)]
    assert some.signals[0].says == "the score of b is known of 40 of 80 completions, and its mean is over those only"


def test_a_score_that_the_reward_pays_less_for_may_fall() -> None:
    """An inverted reward: its parts fall because they are paid to."""
    course = {step: (0.5 if step < 30 else 0.01) * (1 + 0.01 * (step % 5)) for step in range(1, 61)}
    series = {"reward": {step: 1 - value for step, value in course.items()}, A: course, B: dict.fromkeys(course, 0.5)}
    for sign in (-1, 1):
        groups = [{A: [step % 2] * 2, B: [0, 1], "reward": [0.5 + sign * (step % 2 - 0.5)] * 2} for step in range(60)]
        run = run_of(groups, **series)
        signals = [
            signal for plugin in (level, parts) for signal in ask(plugin, run).signals if signal.metric == A and signal.kind == "fall"
        ]
        assert (run.paid_to_fall == {A}) is (sign < 0) and bool(signals) is False
    alone = run_of(groups, **{name: values for name, values in series.items() if name != "reward"})
    assert [signal.metric for signal in ask(level, alone).signals] == [A]
