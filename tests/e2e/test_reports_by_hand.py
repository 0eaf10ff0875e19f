"""Two reports that people wrote, against octavo on the same data: each row of guide/differences.md is a finding, as its page prints it."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from compiler.build.inputs import Inputs
from compiler.build.pipeline import named
from compiler.compile import compile_all
from stages.analyse.statistics import proportion
from stages.contracts.history import metric
from tests.e2e.imported import compiled, findings, health, make, run

ROOT = Path(__file__).parents[2]
SHARED = ROOT.parent / "shared"
SUMMARY = SHARED / "data" / "wu17-v3" / "wandb_summary.json"
LINES = SHARED / "seeds" / "002_dbbfed26dc2af41b.txt"
GUIDE = (ROOT / "site/docs/guide/differences.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| `([^`]+)` \| (.+) \| (.+) \|$", GUIDE, re.MULTILINE)


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """The summaries of the first report, imported and concluded: (the page as Markdown, findings, health of each run)."""
    if not SUMMARY.exists():
        pytest.skip("the shared summaries are not here")
    root = tmp_path_factory.mktemp("study")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        (root / "summary.json").write_bytes(SUMMARY.read_bytes())
        make(root, "wu17", (Path(__file__).parent / "summaries.yaml").read_text(encoding="utf-8"))
        folder = compiled("wu17")
        page = (run(folder) / "index.md").read_text(encoding="utf-8")
        yield page, findings(folder), {path.parent.name: health(folder, path.parent.name) for path in folder.glob("*/health.json")}


def plain(markup: str) -> str:
    return html.unescape(re.sub(r"<[^>]*>", "", markup)).replace("\u202f", " ").strip()


def printed(page: str, finding: str) -> set[str]:
    """Every form in which the page prints a finding."""
    return {plain(text) for text in re.findall(rf'<a class="fact[^>]* data-finding="{re.escape(finding)}"[^>]*>(.*?)</a>', page)}


def test_the_guide_has_tables_to_hold_against_the_data():
    assert len(ROWS) == 24 and len({finding for finding, _, _ in ROWS}) == 24


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_every_number_of_the_guide_is_what_the_page_prints(study, row):
    finding, _, text = row
    page, values, _ = study
    assert finding in values and text in {form.replace(" / ", " of ") for form in printed(page, finding)}


def test_case_45_summaries_of_a_real_study(study):
    page, values, healths = study
    for name, condition in json.loads(SUMMARY.read_text())["conditions"].items():
        for statistic in ("final", "initial"):
            value = values[f"{name.replace('_', '-')}/reward/{statistic}"]
            assert (value["with_all"] or value["value"]) == pytest.approx(condition[f"avg_{statistic}_reward"])
    truncated, gated = values["fv-shaped-s42/truncated/final"], healths["fv-shaped-s42"]
    assert truncated["value"] == pytest.approx(0.9495833)
    assert "mean over the whole run" in truncated["method"] and "no window" in truncated["window"]
    assert not gated["included"] and "grad_norm is persistently non-finite from step 21" in gated["reasons"][0]
    assert all(healths[name]["included"] for name in ("fv-shaped-s123", "zero-reward-s42")), "their last values are finite"
    states = {each["detector"]: (each["state"], each["reason"]) for each in gated["detections"]}
    assert states["collapse"] == ("not_observable", "only a summary was imported: there is no series to look at")
    assert states["spikes"][0] == "not_observable" and "No curve was drawn: only summaries were imported" in plain(page)
    first_screen = plain(page.partition('<h2 id="evidence">')[0])
    assert "truncated share 0.95" in first_screen and "zero-signal share 0.53" in first_screen


def test_numbers_in_the_guides_sentences(study):
    page, values, _ = study
    assert values["fv-shaped/reward/change"]["with_all"] == pytest.approx(-0.0017, abs=5e-5) and "fell by 0.0017" in GUIDE
    assert (
        values["fv-shaped-vs-zero-reward/reward/change"]["detectable"] == pytest.approx(0.97, abs=0.005)
        and "±0.97 would have shown" in GUIDE
    )
    assert values["zero-reward/zero_signal_share/final"]["value"] == 1.0
    assert values["random-reward-s456/loss/change"]["value"] == pytest.approx(0.0334, abs=5e-5) and "that is +0.0334" in GUIDE
    every = [row for condition in json.loads(SUMMARY.read_text())["conditions"].values() for row in condition["runs"]]
    assert not any(row["early_stopped"] for row in every) and "`early_stopped` is false in all twelve" in GUIDE and len(every) == 12
    assert [row["name"] for row in every if row["has_nan_kl"] and row["final_kl"] != "NaN"] == [
        "fv_shaped/seed_123",
        "zero_reward/seed_42",
        "zero_reward/seed_123",
    ]
    assert plain(page).count("unknown (log ends at 299)") == 11
    assert (
        'class="fact word void" href="numbers.html#passport-verdict/shaped-moves"' in page
        and "+680" not in plain(page)
        and "11.6" not in plain(page)
    )
    shaped, others = proportion(3, 18, 0.95), proportion(9, 9, 0.95)
    assert [round(x, 2) for x in (shaped.value, shaped.low, shaped.high)] == [0.17, 0.06, 0.39] and "0.17 [0.06, 0.39]" in GUIDE
    assert [round(x, 2) for x in (others.value, others.low, others.high)] == [1.0, 0.7, 1.0] and "1.00 [0.70, 1.00]" in GUIDE


def test_the_page_holds_every_table_of_the_report_that_the_summaries_carry(study):
    """Per seed: state, steps, reward, its deviation, loss, gradient norm, KL; per condition: the same and the time of a step."""
    page, values, _ = study
    for slug, condition in json.loads(SUMMARY.read_text())["conditions"].items():
        name = slug.replace("_", "-")
        for row in condition["runs"]:
            expected = {
                "steps/done": row["steps_completed"], "reward/initial": row["initial_reward_avg"], "reward/final": row["final_reward_avg"],
                "reward_std/final": row["final_reward_std"], "loss/initial": row["initial_loss_avg"], "loss/final": row["final_loss_avg"],
                "grad_norm/final": row["final_grad_norm"], "kl/final": row["final_kl"], "step_seconds/final": row["avg_step_time"],
                "truncated/final": row["avg_clipped_ratio"], "zero_signal_share/final": row["avg_frac_reward_zero_std"],
            }  # fmt: skip
            for statistic, value in expected.items():
                got = values[f"{name}-s{row['seed']}/{statistic}"]["value"]
                assert got is None if value == "NaN" else got == pytest.approx(value), (name, row["seed"], statistic)
                if not statistic.startswith("loss/initial"):
                    assert printed(page, f"{name}-s{row['seed']}/{statistic}"), (name, row["seed"], statistic)
    text = plain(page)
    assert "zero-reward-s123 (log ends at 299)" in text and "zero-reward-s123 (failed)" not in text, "unknown is no failure"
    assert "persistent, step 21" in text and text.count("transient, step") == 3 and "transient, step 281" in text
    assert "By the sources' summaries, gradient norm" in text and "In the last window, gradient norm" not in text


SIXTH = GUIDE.partition("## Six lines of a log")[2].partition("## The plots")[0]
THIRD = re.findall(r"^\| [^|`]+ \| (.*) \|$", GUIDE.partition("## The plots of two PPO runs")[2], re.MULTILINE)
PLOTS = re.findall(r"`([a-z_.]+)`", "".join(THIRD))


def test_the_third_reports_plots_are_drawn_of_a_ppo_run(monkeypatch):
    monkeypatch.chdir(ROOT)
    (experiment,) = compile_all([named("length-ppo")], Inputs())
    assert len(PLOTS) == 15 and set(PLOTS) <= set(experiment.cards.page.curves)
    assert all(metric(name) for name in PLOTS)


SECOND = """
title: Six lines of a log
question: Does the learning rate rise or fall?
runs:
  import:
    format: text
    path: learning-{seed}.log
    pattern: "[Epoch {epoch}]  loss={loss}  grad={grad}  lr={lr}  reward={reward}±{spread}  syntax_rew={syntax}±{syntax_spread}  \
entropy={entropy}  frac_zero_std={zero}"
    epoch: epoch
    steps_per_epoch: 1000
    steps: 1000
    metrics: {loss: loss, grad_norm: grad, learning_rate: lr, reward: reward, entropy: entropy, zero_signal_share: zero}
seeds: [1]
conditions: {ocaml: {reward: structure types compile tests, role: treatment}}
questions: [{ask: "What was the reward?", show: reward}]
"""


@pytest.mark.skipif(not LINES.exists(), reason="the shared reports are not here")
def test_six_lines_of_the_second_report(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = [line for line in LINES.read_bytes().splitlines() if line.startswith(b"[Epoch 0.2")]
    Path("learning-1.log").write_bytes(b"\n".join(lines) + b"\n")
    make(tmp_path, "six", SECOND)
    folder = compiled("six")
    page = plain((run(folder) / "index.md").read_text(encoding="utf-8"))
    rows = pq.read_table(folder / "ocaml-s1/history.parquet").to_pylist()
    series = {name: [(row["step"], row["value"]) for row in rows if row["metric"] == name] for name in {row["metric"] for row in rows}}
    steps = [280, 285, 290, 292, 295, 297]
    assert series == {
        "loss": list(zip(steps, [-0.0469, -0.0333, 0.0111, -0.0210, -0.0269, -0.0109], strict=True)),
        "grad_norm": list(zip(steps, [0.0838, 0.0362, 0.0406, 0.0317, 0.0286, 0.0380], strict=True)),
        "learning_rate": list(zip(steps, [3.58e-6, 3.58e-6, 3.57e-6, 3.57e-6, 3.56e-6, 3.55e-6], strict=True)),
        "reward": list(zip(steps, [0.102, 0.066, 0.115, 0.084, 0.073, 0.113], strict=True)),
        "entropy": list(zip(steps, [0.155, 0.090, 0.165, 0.078, 0.103, 0.110], strict=True)),
        "zero_signal_share": list(zip(steps, [0.0, 0.0, 0.25, 0.25, 0.5, 0.25], strict=True)),
    }
    ranges = {name: (min(v for _, v in rows), max(v for _, v in rows)) for name, rows in series.items()}
    printed = {"loss": "−0.047 to 0.011", "grad_norm": "0.029 to 0.084", "entropy": "0.078 to 0.165", "reward": "0.066 to 0.115"}
    for name, (lowest, highest) in ranges.items():
        if name in printed:
            span = f"{lowest:.3f} to {highest:.3f}".replace("-", "−")
            assert span == printed[name] and span in SIXTH and all(part in page for part in span.split(" to ")), name
    spreads = [float(line.split(b"reward=")[1].split(b"  ")[0].split(b"\xb1")[-1]) for line in lines]
    parts = [spread / reward for spread, (_, reward) in zip(spreads, series["reward"], strict=True)]
    assert f"{min(parts):.0%} to {max(parts):.0%}" == "57% to 109%" and "57% to 109%" in SIXTH
    assert sum(v for _, v in series["zero_signal_share"]) / 6 == pytest.approx(0.21, abs=0.005) and "on average 0.21" in SIXTH
    assert "6 lines were written in a wrong encoding and repaired" in page and "6 rows print 2 epochs" in page
    assert "the log's index is the epoch, not the step" in page and "280 to 297" in page and "unknown (log ends at 297)" in page
    assert findings(folder)["ocaml/reward/final"]["value"] is None, "steps 280 to 297 of 1000 lie in no window"
