"""Imports that say how each run ended, and runs that were tried several times: the study of ../shared/data/wu17-v3 in its own words."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import pytest

from stages.contracts.attempt import read_attempts
from stages.train.collect import collect_again
from tests.e2e.imported import compiled, findings, health, make, run

SUMMARIES = (Path(__file__).parent / "summaries.yaml").read_text(encoding="utf-8")
STATED = SUMMARIES.replace("    steps_done:", "    state: state\n    steps_done:", 1)
LOGS = (Path(__file__).parent / "imported.yaml").read_text(encoding="utf-8")


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def summary(condition, seed, state, steps=299):
    numbers = ("initial_reward_avg", "final_reward_avg", "final_reward_std", "initial_loss_avg", "final_loss_avg", "final_grad_norm")
    shares = ("avg_clipped_ratio", "avg_frac_reward_zero_std", "avg_step_time")
    values = dict.fromkeys((*numbers, *shares), 0.1) | {"final_kl": 0.0, "nan_grad_step": None, "nan_kl_from_step": None}
    return {"condition": condition, "seed": seed, "steps_completed": steps, "state": state, **values}


def page_of(folder):
    return html.unescape((run(folder) / "index.md").read_text(encoding="utf-8"))


def test_a_study_whose_source_says_that_all_runs_finished_has_no_banner_about_it(project):
    conditions = ("fv_shaped", "random_reward", "ut_inverted", "zero_reward")
    runs = [summary(condition, seed, "finished") for condition in conditions for seed in (42, 123, 456)]
    (project / "summary.json").write_text(json.dumps(runs))
    make(project, "wu17", STATED)
    folder = compiled("wu17")
    page = page_of(folder)
    assert "Whether they finished is unknown" not in page and "Failed runs" not in page
    assert {health(folder, f"fv-shaped-s{seed}")["state"] for seed in (42, 123, 456)} == {"finished"}
    finished = findings(folder)["experiment/attempts/finished"]
    assert (finished["k"], finished["n"]) == (12, 12)


@pytest.mark.parametrize(
    ("word", "state", "reason"),
    [
        ("crashed", "failed", "its source says that it did not end well: `state` says `crashed`"),
        ("Finished", "finished", None),
        ("running", "unknown", None),
        ("waiting for godot", "unknown", None),
        (None, "unknown", None),
    ],
)
def test_words_of_a_source(project, word, state, reason):
    conditions = ("fv_shaped", "random_reward", "ut_inverted", "zero_reward")
    runs = [summary(condition, seed, word if seed == 42 else "finished") for condition in conditions for seed in (42, 123, 456)]
    (project / "summary.json").write_text(json.dumps(runs))
    make(project, "wu17", STATED)
    folder = compiled("wu17")
    run(folder)
    screened = health(folder, "fv-shaped-s42")
    assert screened["state"] == state and screened["included"] is (reason is None)
    assert reason is None or reason in screened["reasons"]
    if word == "running":
        assert "still running: `state` says `running`" in (folder / "fv-shaped-s42/outcome.json").read_text()


def log(path, steps, state=None):
    rows = [
        {"step": step, "reward": 0.3 + step / 50, "clipped": 0.0, "frac_reward_zero_std": 0.0, "grad_norm": 1.0}
        for step in range(1, steps + 1)
    ]
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in [*rows, *([{"state": state}] if state else [])]))


def test_each_log_of_a_run_is_an_attempt_and_the_furthest_counts(project):
    """27 runs of a source are 12 and 15 that failed; here 6 and 3."""
    files = {f"{name}-s{seed}": f"logs/{name}-{seed}.jsonl" for name in ("shaped", "zero") for seed in (1, 2, 3)}
    for path in files.values():
        log(project / path, 20, "finished")
    log(project / "logs/shaped-1-b.jsonl", 7, "crashed")
    log(project / "logs/shaped-1-c.jsonl", 20, "finished")
    log(project / "logs/zero-2-b.jsonl", 12, "killed")
    (project / "logs/zero-2-c.jsonl").write_text('{"other": 1}\n')
    tries = {**files, "shaped-s1": [files["shaped-s1"], "logs/shaped-1-c.jsonl", "logs/shaped-1-b.jsonl"]}
    tries["zero-s2"] = ["logs/zero-2-c.jsonl", "logs/zero-2-b.jsonl", files["zero-s2"]]
    spec = LOGS.replace("    path: logs/{condition}-{seed}.jsonl\n", f"    files: {json.dumps(tries)}\n    state: state\n")
    make(project, "again", spec)
    folder = compiled("again")
    page = page_of(folder)
    finished = findings(folder)["experiment/attempts/finished"]
    assert (finished["k"], finished["n"]) == (7, 10), "shaped-s1 finished twice; zero-s2 was killed once and once left no numbers"
    assert "Tries that finished: shaped 4 of 5; zero 3 of 5; all conditions 7 of 10." in re.sub(r"<[^>]*>", "", page)
    ledger = read_attempts(folder / "shaped-s1/attempts.jsonl")
    assert [attempt.started.log for attempt in ledger] == ["logs/shaped-1-b.jsonl", files["shaped-s1"], "logs/shaped-1-c.jsonl"]
    assert [attempt.state for attempt in read_attempts(folder / "zero-s2/attempts.jsonl")] == ["failed", "failed", "finished"]
    imported = json.loads((folder / "shaped-s1/imported.json").read_text())
    assert imported["source"]["path"] == "logs/shaped-1-c.jsonl" and imported["attempt"] == ledger[-1].started.attempt
    assert "the run was tried 3 times, and the log that came furthest counts: logs/shaped-1-c.jsonl" in imported["notes"]
    assert page.count("logs/zero-2-b.jsonl") > 1, "every log is pinned under Methods, and named at its attempt"
    assert "logs/zero-2-b.jsonl" in (folder / "dvc.yaml").read_text()
    collect_again(project / "copy", [folder / "shaped-s1"])
    assert (project / "copy/shaped-s1/imported.json").read_bytes() == (folder / "shaped-s1/imported.json").read_bytes()
    run(folder)
    again = findings(folder)["experiment/attempts/finished"]
    assert (again["k"], again["n"]) == (7, 10), "reading the logs again is no other try"
