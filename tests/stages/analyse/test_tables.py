"""Findings for the page's tables, derived metrics and expectations with two sides, on the synthetic experiment."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from synthetic import CONDITIONS, claim_rule, complete, runs, write_cards, write_run

from stages.analyse.cells import NOT_FINITE, NULL
from stages.analyse.conclude import conclude
from stages.analyse.draw import draw
from stages.analyse.frames import read_run
from stages.analyse.screen import screen
from stages.analyse.verdicts import refusal
from stages.contracts.analysis_card import RunRef
from stages.contracts.artifact import read
from stages.contracts.claim import Contrast
from stages.contracts.finding import Findings
from stages.contracts.formulas import FormulaError, read_formula
from stages.contracts.layout import ExperimentFolder
from stages.contracts.reward import Phase
from stages.contracts.stops import Expectation

DERIVED = {"reward_cv": "group_range / reward", "twice": "2 * reward_cv"}


@pytest.fixture
def concluded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Findings with other cards; runs of one condition may be replaced."""

    def write(cells: dict[str, dict[int, float | None]] | None = None, **cards: Any) -> Findings:
        monkeypatch.chdir(tmp_path)
        chosen = [replace(run, cells=cells) if cells and run.condition == "shaped" else run for run in runs()]
        folder = complete(tmp_path, chosen_runs=chosen)
        write_cards(folder, chosen, **cards)
        screen(folder.root)
        conclude(folder.root)
        return read(Findings, folder.findings)

    return write


def test_the_numbers_of_tables_are_those_worked_out_by_hand(concluded: Any) -> None:
    """Weights change half way: a completion of steps 1-2 is paid 0.4 and 0.6, one of steps 19-20 0.2 and 0.8. Of eight completions seven
    have the format; seed s passes the tests with 3 - (s - 1) of them at first and with 6 and 7 - (s - 1) of them at the end."""
    phases = [{"from": 0, "weights": {"format": 0.4, "tests": 0.6}}, {"from": 0.5, "weights": {"format": 0.2, "tests": 0.8}}]
    weights = {"shaped": tuple(Phase.model_validate(phase) for phase in phases)}
    steps = {"step_seconds": {step: 90.0 if step == 1 else 36.0 for step in range(1, 21)}}
    findings = {finding.id: finding for finding in concluded(cells=steps, weights=weights).findings}
    wanted = {
        "shaped/gate.format.contribution/initial": 0.4 * 7 / 8,
        "shaped/gate.tests.contribution/initial": 0.6 * (3 + 2 + 1) / 3 / 8,
        "shaped/gate.tests.contribution/final": 0.8 * (6.5 + 5.5 + 4.5) / 3 / 8,
        "shaped/gates.contribution/final": 0.2 * 7 / 8 + 0.8 * 5.5 / 8,
        "shaped/step_seconds/mean": (90 + 19 * 36) / 20,
        "shaped-s1/hours/full-run": (90 + 19 * 36) / 3600,
        "random/steps/mean": (20 + 20 + 7) / 3,
        "shaped/detector.nonfinite/runs": 0,
        "zero/zero_signal_share/lowest": 1.0,
        "zero/zero_signal_share/outside": 60,
        "shaped/reward_std/final": None,
    }
    assert {id_: findings[id_].value if id_ in findings else None for id_ in wanted} == pytest.approx(wanted)
    lowest = findings["shaped/reward/lowest"]
    assert (lowest.value, lowest.window) == (pytest.approx((1 + 6 * 0.1) / 8), "step 1 of shaped-s3")
    classes = {id_: (finding.k, finding.n) for id_, finding in findings.items() if "gate.tests.error" in id_ and id_.startswith("shaped/")}
    assert classes == {
        "shaped/gate.tests.error-1/initial": (16, 30),
        "shaped/gate.tests.error-1/final": (6, 9),
        "shaped/gate.tests.error-2/initial": (14, 30),
        "shaped/gate.tests.error-2/final": (3, 9),
    }
    assert "with the reason: <i>no</i> name; final" in findings["shaped/gate.tests.error-1/final"].says


def test_a_derived_metric_is_a_metric_of_the_analysis(concluded: Any) -> None:
    """At step 19 of seed 1 six of eight pass, so the ranges of its two groups are 0.9 and 1; at step 20 they are 0 and 1. Where the reward
    is 0 nothing can be divided by it."""
    expected = Expectation(id="band", metric="reward_cv", at="50%", above=0.5, below=2.5, conditions=("shaped", "zero"))
    claim = claim_rule(id="calm", metric="reward_cv", condition="shaped", direction="below", margin=9.0)
    conclusions = concluded(derived=DERIVED, metrics=("reward_cv",), claims=(claim,), expectations=(expected,), curves=("reward_cv",))
    findings = {finding.id: finding for finding in conclusions.findings}
    (verdict,), scores = conclusions.verdicts, {score.condition: score for score in conclusions.expectations}
    assert verdict.verdict == "supported"
    means = {name: findings[f"shaped-s1/{name}/final"].value for name in ("reward_cv", "reward")}
    assert means["reward_cv"] == pytest.approx((0.95 / (6.1 / 8) + 0.5 / (7 / 8)) / 2)
    assert findings["shaped/reward_cv/final"].unit == "derived"
    assert findings["shaped/reward_cv/final"].says.startswith("reward_cv = group_range / reward, step by step")
    assert "null" in findings["zero-s1/reward_cv/final"].reason or "no value" in findings["zero-s1/reward_cv/final"].reason
    assert (scores["shaped"].direction, scores["shaped"].bound, scores["shaped"].upper) == ("between", 0.5, 2.5)
    assert [run.state for run in scores["shaped"].runs] == ["met", "met", "missed"]
    assert scores["shaped"].runs[0].why.endswith(" is between 0.5 and 2.5")
    assert scores["shaped"].runs[2].why == "2.638 is not between 0.5 and 2.5"  # (0.95 / 0.3125 + 0.95 / 0.425) / 2 is 2.638
    assert {run.state for run in scores["zero"].runs} == {"not_reached"}
    draw(Path("runs/synthetic"))
    assert "reward_cv" in Path("runs/synthetic/analysis/figures/curves-reward_cv.csv").read_text()


def test_cells_of_a_derived_metric_keep_their_states(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    cells: dict[str, dict[int, float | None]] = {
        "group_range": {1: 3.0, 2: 1.0, 3: None, 4: 1.0, 5: 1.0},
        "reward": {1: 2.0, 2: 0.0, 3: 1.0, 4: float("inf"), 6: 1.0},
    }
    folder = ExperimentFolder(Path("runs/x"))
    write_run(folder.run("shaped-s1"), replace(runs()[0], cells=cells))
    ref = RunRef(name="shaped-s1", condition="shaped", seed=1, target_steps=20)
    logged = read_run(folder.run("shaped-s1"), ref, CONDITIONS[0], (), DERIVED).logged("twice")
    pd.testing.assert_series_equal(logged, pd.Series([3.0, NULL, NULL, NOT_FINITE], index=[1, 2, 3, 4]), check_names=False)


def test_a_formula_is_arithmetic_and_nothing_else() -> None:
    values = {"a": 7.0, "gate.no-prose.score": 2.0}
    for text, wanted in (("a - gate.no-prose.score * 3", 1.0), ("-(a - 1) / 2 / 3", -1.0), ("2e1 + .5 - a", 13.5), ("a--a", 14.0)):
        assert read_formula(text).value(values) == pytest.approx(wanted), text
    for text in ("", "1 + 2", "a b", "a +", "(a", "a)", "a ** 2", "__import__('os')", "a.b()", "(" * 21 + "a" + ")" * 21, "a" * 301):
        with pytest.raises(FormulaError):
            read_formula(text)


def test_a_derived_metric_is_compared_as_what_it_is_made_of() -> None:
    """No verdict rests on a loss under another name, and rewards of two conditions stay apart."""
    pair = Contrast(condition="shaped", against="zero")
    derived = {"half": "loss / 2", "reward_cv": "group_range / reward"}
    loss = claim_rule(id="l", metric="half", condition="shaped", direction="below", margin=1.0)
    assert "half of shaped is no progress" in refusal(loss, CONDITIONS, (), derived)
    reward = claim_rule(id="r", metric="reward_cv", contrast=pair, direction="below", margin=1.0)
    assert "different rewards" in refusal(reward, CONDITIONS, (), derived)
