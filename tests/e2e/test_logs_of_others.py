"""Rows 46 to 66 of ../shared/cases/README.md about strides, impossible numbers and cells without a number: log -> health -> page."""

from __future__ import annotations

import html
import itertools
import json
import math
import random
from pathlib import Path
from typing import Any

import pytest

from stages.analyse.draw import draw
from stages.publish.page import page
from tests.e2e.imported import compiled, findings, health, make, run
from tests.e2e.test_kinds_of_logs import alarms, imported

COLUMNS = (
    "reward: reward, zero_signal_share: frac_reward_zero_std, truncated: completions/clipped_ratio, grad_norm: grad_norm, "
    "loss: {column: loss, optional: true}, kl: {column: kl, optional: true}, entropy: {column: entropy, optional: true}, "
    "step_seconds: {column: step_time, optional: true}, gate.math.score: {column: rewards/math/mean, optional: true}"
)
Rows = list[dict[str, Any]]


_SEEDS = itertools.count(1)


def healthy(steps: int = 60, stride: int = 1, **fixed: Any) -> Rows:
    """What TRL logs of a run that learns, with other noise each time: means over the stride, and the gradient of its last step."""
    rng, rows = random.Random(next(_SEEDS)), list[dict[str, Any]]()
    for step in range(stride, steps + 1, stride):
        silent = [rng.random() < 0.8 for _ in range(stride)]
        row = {"step": step, "reward": 0.3 + 0.4 * step / steps + rng.gauss(0, 0.02), "frac_reward_zero_std": sum(silent) / stride * 0.25}
        row |= {"grad_norm": 0.3 + rng.random() / 10, "completions/clipped_ratio": 0.05, "loss": rng.gauss(0, 0.01), "step_time": 30.0}
        rows.append({**row, "kl": 0.02 + rng.random() / 100, **fixed})
    return rows


def page_of(folder: Path) -> str:
    draw(folder)
    page(folder)
    return html.unescape((folder / "page/index.md").read_text(encoding="utf-8"))


def detection(folder: Path, seed: int, kind: str) -> dict[str, Any]:
    return next(own for own in health(folder, f"only-s{seed}")["detections"] if own["detector"] == kind)


def signals(folder: Path, seed: int, kind: str) -> list[dict[str, Any]]:
    return list(detection(folder, seed, kind)["signals"])


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_case_46_a_stride_of_five_is_healthy_and_hides_what_single_steps_had() -> None:
    rows = healthy(200, 5)
    for row in rows:  # four of five steps have no group with a spread; in most rows the last one has none
        row |= {"frac_reward_zero_std": 0.85, "grad_norm": 0.05 if row["step"] % 15 == 0 else 0.0}
    folder = imported([rows], 200, COLUMNS)
    own = health(folder, "only-s1")
    assert own["included"] and own["stride"] == 5 and alarms(folder, 1, "gradient", "nonfinite") == {"gradient": [], "nonfinite": []}
    for kind in ("gradient", "nonfinite"):
        assert detection(folder, 1, kind)["state"] == "not_observable"
        assert "not observable at this stride" in detection(folder, 1, kind)["reason"]
    (time,) = signals(folder, 1, "throughput")
    assert time["value"] == 30.0 and "about 100 min in all" in time["says"], "200 steps of 30 s, not 40"
    (silent,) = signals(folder, 1, "zero_signal")
    assert (silent["onset"], silent["detected"]) == (5, 10)
    text = page_of(folder)
    assert text.count("unknown between logged steps") == 1 and "0 of 0" not in text and "no trained weight is connected" not in text


def test_case_47_onset_is_the_first_row() -> None:
    logs = [healthy(60, stride, **{"completions/clipped_ratio": 0.925}) for stride in (1, 5, 10, 20)]
    folder = imported(logs, 60, COLUMNS)
    assert [signals(folder, seed, "truncation")[0]["onset"] for seed in (1, 2, 3, 4)] == [1, 5, 10, 20]
    assert [signals(folder, seed, "truncation")[0]["severity"] for seed in (1, 2, 3, 4)] == ["severe"] * 4


def test_cases_48_and_49_impossible_numbers_have_their_own_advice() -> None:
    falls = [(10_833, 421_404, 1083.3), (1_678, 100_282, 167.8), (907, 10_606, 90.7), (65, 709, 6.5)]
    at_start = healthy(60)
    for row, (kl, norm, loss) in zip(at_start, falls, strict=False):
        row |= {"kl": kl, "grad_norm": norm, "loss": loss, "frac_reward_zero_std": 1.0, "completions/clipped_ratio": 1.0}
    always = [{**row, "kl": 5_000 + row["step"]} for row in healthy(60)]
    once = [{**row, "kl": 3_000.0 if row["step"] == 30 else row["kl"]} for row in healthy(60)]
    exploded = [{**row, "grad_norm": 54_648_652.0 if row["step"] == 30 else row["grad_norm"]} for row in healthy(60)]
    folder = imported([at_start, always, once, exploded], 60, COLUMNS)
    sizes = {signal["metric"]: signal for signal in signals(folder, 1, "impossible")}
    assert {name: (own["kind"], own["onset"], own["last"], own["severity"]) for name, own in sizes.items()} == {
        "kl": ("start", 1, 3, "warning"), "grad_norm": ("grad_norm", 1, 3, "warning"), "loss": ("loss", 1, 1, "warning"),
    }  # fmt: skip
    assert signals(folder, 2, "impossible")[0]["severity"] == "severe" and signals(folder, 2, "kl_reference")[0]["kind"] == "impossible"
    assert [(own["kind"], own["onset"]) for own in signals(folder, 3, "impossible")] == [("later", 30)]
    assert not signals(folder, 4, "impossible") and signals(folder, 4, "spikes")[0]["onset"] == 30
    text = page_of(folder)
    assert "sampling and training do not compute the same probabilities" in text and "a larger beta or a lower rate holds it" not in text


def test_case_54_a_batch_without_a_spread_has_no_group_with_one() -> None:
    rows = [{"step": s, "reward": 0.3 if s == 1 else 0.0, "reward_std": 0.46 if s == 1 else 0.0, "grad_norm": 1e-3} for s in range(1, 81)]
    spread = [{**row, "reward": 0.3, "reward_std": 0.4} for row in rows]
    folder = imported([rows, spread], 80, "reward: reward, reward_std: reward_std, grad_norm: grad_norm")
    (silent,), (streak,) = signals(folder, 1, "zero_signal"), signals(folder, 1, "collapse")
    assert (silent["onset"], silent["severity"], streak["onset"], streak["last"]) == (2, "severe", 2, 80)
    for kind in ("zero_signal", "collapse"):
        assert detection(folder, 2, kind)["state"] == "not_observable", "a spread of the batch says nothing of its groups"


def test_cases_58_59_60_61_and_62_cells_without_a_number_are_told_apart() -> None:
    nan, steps = math.nan, range(1, 61)
    asked_not = healthy(60)
    for row in asked_not:
        row["rewards/math/mean"] = nan if row["step"] > 40 or row["step"] % 3 else 0.5
    broken_part = [{**row, "rewards/math/mean": math.inf} for row in healthy(60)]
    filler = [[cell for row in healthy(60) for cell in (row, {"step": row["step"], "eval/a": 1.0, "eval/b": 2.0})] for _ in range(2)]
    names = {name for row in filler[0] for name in row}
    frames = zip(filler, (None, nan), strict=True)
    filler_null, filler_nan = ([{name: row.get(name, empty) for name in names} for row in rows] for rows, empty in frames)
    other_call = [{**row, "grad_norm": nan} for row in filler_nan]  # a column of the frame that this run never logged
    words = [
        {**row, "kl": "No Log" if row["step"] < 30 else row["kl"], "grad_norm": "-" if row["step"] % 5 else 0.3} for row in healthy(60)
    ]
    never = [{**row, "kl": nan, "entropy": None} for row in healthy(60)]
    dead = [{**row, "grad_norm": nan, "loss": 0.0} for row in healthy(60)]
    breaks = [{**row, "kl": nan if row["step"] > 40 else row["kl"]} for row in healthy(60)]
    logs = [asked_not, broken_part, filler_null, filler_nan, other_call, words, never, dead, breaks]
    folder = imported(logs, 60, COLUMNS)
    included = [health(folder, f"only-s{seed}")["included"] for seed in range(1, 10)]
    assert included == [True, True, True, True, True, True, True, False, True]
    found = {seed: {own["metric"]: own for own in signals(folder, seed, "nonfinite")} for seed in range(1, 10)}
    assert [list(found[seed]) for seed in range(1, 10)] == [[], ["gate.math.score"], [], [], [], [], [], ["gradient"], ["kl"]]
    assert "60 of 60 logged steps are Infinity" in found[2]["gate.math.score"]["says"] and found[8]["gradient"]["onset"] == 1
    assert "are NaN" in found[9]["kl"]["says"], "NaN and Infinity are told apart"
    assert not signals(folder, 3, "zero_signal") and not signals(folder, 4, "zero_signal"), "no completion was left unscored"
    notes = [" ".join(health(folder, f"only-s{seed}")["notes"]) for seed in range(1, 10)]
    assert f"not asked, which is no fault: `rewards/math/mean` {sum(s > 40 or s % 3 > 0 for s in steps)} of 60 rows" in notes[0]
    assert "no number in any row, so it counts as not logged: `grad_norm`" in notes[4]
    assert "no number in any row, so it counts as not logged: `entropy`, `kl`" in notes[6]
    assert "kl is persistently non-finite from step 41, and no claim rests on it" in health(folder, "only-s9")["gates"][0]["says"]
    text = page_of(folder)
    assert "no completion was ever scored" not in text and "60 of 60 logged steps are NaN" in text


@pytest.mark.parametrize(("rows", "stride"), [(1, 1), (2, 1), (8, 25)])
def test_case_62_too_few_rows_decide_no_gate(rows: int, stride: int) -> None:
    log = healthy(rows * stride, stride)
    for row in log[-2:]:
        row["grad_norm"] = math.nan
    own = health(imported([log], rows * stride, COLUMNS), "only-s1")
    assert own["gates"][0]["passed"] is None and "cannot decide" in own["reasons"][0] and not own["included"]


def test_a_run_is_gated_out_for_a_metric_that_a_claim_uses() -> None:
    spec = """title: A claim on KL
question: Does KL rise?
runs: {import: {format: jsonl, path: "logs/{seed}.jsonl", steps: 60, metrics: {reward: reward, kl: kl, grad_norm: grad_norm}}}
seeds: [1, 2, 3]
conditions: {only: {reward: theirs, role: treatment}}
health: {gates: {nonfinite: not persistent}}
claims: [{id: rises, says: It rises., metric: kl, condition: only, statistic: change, above: 0, needs: {seeds: 3}}]
"""
    Path("logs").mkdir()
    for seed in (1, 2, 3):
        rows = [{**row, "kl": math.nan if row["step"] > 40 else row["kl"]} for row in healthy(60)]
        Path(f"logs/{seed}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    make(Path.cwd(), "claimed", spec)
    run(folder := compiled("claimed"))
    assert health(folder, "only-s1")["reasons"] == ["gate nonfinite: kl is persistently non-finite from step 41"]


def test_a_streak_of_a_stop_rule_is_counted_in_steps() -> None:
    spec = """title: A rule on a log of every fifth step
question: Would the rule have stopped it?
runs: {import: {format: jsonl, path: "logs/{seed}.jsonl", steps: 100, metrics: {reward: reward, zero_signal_share: frac_reward_zero_std}}}
seeds: [1]
conditions: {only: {reward: theirs, role: treatment}}
health: {gates: {steps: complete}}
stop: {red_flags: [{when: zero_signal_share == 1, for: 15 steps}]}
"""
    Path("logs").mkdir()
    rows = [{**row, "frac_reward_zero_std": float(row["step"] >= 30)} for row in healthy(100, 5)]
    Path("logs/1.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    make(Path.cwd(), "rule", spec)
    run(folder := compiled("rule"))
    (rule,) = json.loads((folder / "analysis/findings.json").read_text())["rules"]
    own = findings(folder)[rule["stop"]]
    assert own["value"] == 45.0 and "here 4 rows, one in 5 steps" in rule["says"], "steps 30 to 45, not the 71 of 15 rows"


def test_cases_65_and_66_an_infinite_reward_and_one_repeated_sign() -> None:
    infinite = healthy(60)
    infinite[30] |= {"reward": math.inf, "frac_reward_zero_std": 0.0}
    sign = [{**row, "reward": 0.0, "entropy": 0.0, "completions/clipped_ratio": 1.0, "grad_norm": 0.0} for row in healthy(60)]
    folder = imported([infinite, [{**row, "frac_reward_zero_std": 1.0} for row in sign], healthy(60)], 60, COLUMNS)
    (reward,) = signals(folder, 1, "nonfinite")
    assert reward["onset"] == 31 and "is Infinity" in reward["says"] and "groups without signal is unknown there" in reward["says"]
    (output,) = signals(folder, 2, "degenerate")
    assert (output["kind"], output["onset"]) == ("output", 1) and "entropy is 0 nats per token and 100% of completions are cut" in output[
        "says"
    ]
    nothing = detection(folder, 3, "degenerate")
    assert nothing["signals"] == [] and ("texts" in nothing["reason"] or nothing["state"] != "looked"), "it did not look at texts"
    assert "the output is degenerate" in page_of(folder)
