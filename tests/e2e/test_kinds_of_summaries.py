"""Row 45 of ../shared/cases/README.md for its whole kind: summaries of runs, with any values, missing ones and NaN among them.

The files have the shape of the study's own (`../shared/data/wu17-v3`); what is right is read from them here.
"""

from __future__ import annotations

import html
import json
import math
import random
import re
import statistics
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.imported import compiled, findings, health, make, run

SPEC = (Path(__file__).parent / "summaries.yaml").read_text(encoding="utf-8")
CONDITIONS = ("fv_shaped", "random_reward", "ut_inverted", "zero_reward")
SEEDS = (42, 123, 456)


def summary(rng: random.Random, condition: str, seed: int) -> dict[str, Any]:
    """One run. A third have a gradient that is not finite at the end, some had one before; KL may be absent as a value."""
    broken = rng.random() < 0.33
    since = rng.randint(1, 299) if broken or rng.random() < 0.2 else None
    return {
        "name": f"{condition}/seed_{seed}",
        "condition": condition,
        "seed": seed,
        "steps_completed": rng.choice([300, 300, 299, 151, 0]),
        "initial_reward_avg": rng.uniform(-1, 2),
        "final_reward_avg": rng.uniform(-1, 2),
        "final_reward_std": rng.uniform(0, 1),
        "initial_loss_avg": rng.gauss(0, 0.01),
        "final_loss_avg": 0.0 if broken else rng.gauss(0, 0.01),
        "final_grad_norm": rng.choice(["NaN", "Infinity", float("nan")]) if broken else 10 ** rng.uniform(-3, 4),
        "nan_grad_step": since if since is None else float(since),
        "final_kl": rng.choice([None, rng.gauss(0, 0.1)]),
        "nan_kl_from_step": None,
        "avg_clipped_ratio": rng.choice([0.0, 0.05, 0.6, 0.95, 1.0]),
        "avg_frac_reward_zero_std": rng.choice([0.0, 0.2, 0.53, 0.95, 1.0]),
        "avg_step_time": rng.uniform(1, 90),
    }


@pytest.mark.parametrize("seed", range(2))
def test_case_45_the_page_says_what_the_file_says_and_leaves_out_what_broke(tmp_path, monkeypatch, seed):
    monkeypatch.chdir(tmp_path)
    rng = random.Random(seed)
    runs = {condition: [summary(rng, condition, run_seed) for run_seed in SEEDS] for condition in CONDITIONS}
    content = {"conditions": {name: {"n_runs": 3, "runs": group} for name, group in runs.items()}}
    (tmp_path / "summary.json").write_text(json.dumps(content), encoding="utf-8")
    make(tmp_path, "wu17", SPEC)
    folder = compiled("wu17")
    page = html.unescape((run(folder) / "index.md").read_text(encoding="utf-8"))
    values = findings(folder)
    top = re.sub(r"<[^>]*>", "", page.partition('<h2 id="evidence">')[0])
    warned = 0
    for name, group in runs.items():
        slug, counted = name.replace("_", "-"), []
        for row in group:
            screened, broken = health(folder, f"{slug}-s{row['seed']}"), not math.isfinite(float(row["final_grad_norm"]))
            assert screened["included"] is not broken, screened["reasons"]
            if broken:
                assert f"grad_norm is persistently non-finite from step {int(row['nan_grad_step'])}" in screened["reasons"][0]
            assert screened["state"] == ("finished" if row["steps_completed"] == 300 else "unknown")
            assert screened["steps_done"] == row["steps_completed"]
            run_name = f"{slug}-s{row['seed']}"
            for metric, key in (("reward", "final_reward_avg"), ("truncated", "avg_clipped_ratio"), ("kl", "final_kl")):
                assert values[f"{run_name}/{metric}/final"]["value"] == (row[key] if row[key] is None else pytest.approx(row[key]))
            change = values[f"{run_name}/reward/change"]["value"]
            assert change == pytest.approx(row["final_reward_avg"] - row["initial_reward_avg"])
            assert values[f"{run_name}/grad_norm/final"]["value"] == (None if broken else pytest.approx(row["final_grad_norm"]))
            counted += [] if broken else [row]
            signals = {s["metric"]: s["severity"] for d in screened["detections"] for s in d["signals"] if d["detector"] == "summary"}
            assert (signals.get("truncated") is not None) == (row["avg_clipped_ratio"] > 0.3)
            expected = "info" if name == "zero_reward" else "severe" if row["avg_frac_reward_zero_std"] > 0.9 else "warning"
            assert signals.get("zero_signal_share") == (expected if row["avg_frac_reward_zero_std"] > 0.3 else None)
            warned += any(severity != "info" for severity in signals.values())
        for statistic, key in (("final", "final_reward_avg"), ("initial", "initial_reward_avg")):
            value = values[f"{slug}/reward/{statistic}"]
            assert value["value"] == (pytest.approx(statistics.fmean(row[key] for row in counted)) if counted else None)
            if len(counted) < 3:
                assert value["with_all"] == pytest.approx(statistics.fmean(row[key] for row in group))
            assert value["low"] is None or len(counted) > 1
    worst = max((row for group in runs.values() for row in group), key=lambda row: row["avg_clipped_ratio"])
    assert f"truncated share {worst['avg_clipped_ratio']:.2f}" in top, "the worst share is on the first screen"
    assert warned and "No curve was drawn: only summaries were imported" in page
