"""What issue after issue must keep true: what runs, what does not, what survives, and that the page says so."""

import os
import re
import signal
import subprocess
import sys
import time

import pytest

from stages.contracts.artifact import read
from stages.contracts.attempt import Outcome
from stages.contracts.finding import Findings

pytestmark = pytest.mark.e2e
ONCE = {f"{condition}-s{seed}": 1 for condition in ("shaped", "zero") for seed in (1, 2, 3)}


def test_the_first_repro_makes_everything_from_model_to_site(built):
    assert built.counts() == ONCE
    assert all(built.attempts(name)[0].state == "finished" for name in built.runs())
    findings = read(Findings, built.experiment.findings)
    assert [verdict.claim for verdict in findings.verdicts] == ["shaped-teaches"]
    page = (built.root / "build/site/experiments/small/index.html").read_text()
    assert "The shaped reward raises the pass share." in page
    assert (built.root / "runs/_models/small/model/model.safetensors").exists()


def test_a_second_repro_runs_nothing_and_words_retrain_nothing_and_reach_the_page(project):
    output = project.repro()
    assert "Running stage" not in output and "up to date" in output
    project.edit("title: Small", "# a comment\ntitle: Smaller")
    project.edit("says: The shaped reward raises", "says: The graded reward raises")
    project.octavo("compile")
    output = project.repro()
    assert [line for line in output.splitlines() if "Running stage" in line] == [
        "Running stage 'runs/small/dvc.yaml:page':",
        "Running stage 'site':",
        *[line for line in output.splitlines() if "Running stage" in line and "complete" in line],
    ]
    assert project.counts() == ONCE
    assert "The graded reward raises" in project.page()
    assert "Smaller" in (project.root / "build/site/experiments/small/index.html").read_text()


def test_a_changed_condition_trains_again_a_new_seed_adds_its_runs_and_a_killed_run_resumes(project):
    project.edit("shaped: {reward: shaped, role: treatment}", "shaped: {reward: shaped, role: treatment, train: {max_steps: 20}}")
    project.edit("seeds: [1, 2, 3]", "seeds: [1, 2, 3, 4]")
    project.octavo("compile")
    command, quiet = [sys.executable, "-m", "dvc", "repro", "train-shaped-s1"], {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    dvc = subprocess.Popen(command, cwd=project.experiment.root, env=project.environment(), start_new_session=True, **quiet)
    try:
        kill_when_checkpointed(project, dvc)
    finally:
        if dvc.poll() is None:
            os.killpg(dvc.pid, signal.SIGKILL)
        dvc.wait()
    assert dvc.returncode != 0
    killed = project.attempts("shaped-s1")[-1]
    assert killed.state == "killed" and len(project.attempts("shaped-s1")) == 2
    project.repro()
    assert project.counts() == {**ONCE, "shaped-s1": 3, "shaped-s2": 2, "shaped-s3": 2, "shaped-s4": 1, "zero-s4": 1}
    last = project.attempts("shaped-s1")[-1]
    assert last.state == "finished" and last.started.resumed_from >= 2
    assert read(Outcome, project.run("shaped-s1").outcome).steps_done == 20
    rows = re.findall(r'<tr><th[^>]*>shaped-s1</th><td>(\d)</td>.*?<span class="state (\w+)">', project.page())
    assert rows == [("1", "finished"), ("2", "killed"), ("3", "finished")]


def kill_when_checkpointed(project, dvc):
    """SIGKILL the training process once a checkpoint exists; dvc itself lives on and sees the failure."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if list(project.root.glob(".cache/checkpoints/*/trainer/checkpoint-*/trainer_state.json")):
            lock = project.root / ".cache/locks/small--shaped-s1.lock"
            os.kill(int(lock.read_text().split()[0]), signal.SIGKILL)
            dvc.wait(timeout=60)
            return
        assert dvc.poll() is None, "dvc ended before a checkpoint was written"
        time.sleep(0.05)
    raise AssertionError("no checkpoint within two minutes")


def test_a_failing_run_stops_no_sibling_and_the_page_shows_the_hole(project):
    diverging = "  diverging: {reward: shaped, role: control, train: {learning_rate: 1.0e+30}}\n"
    project.edit("  zero: {reward: {constant: 0.0}, ", diverging + "  zero: {reward: {constant: 0.0}, ")
    project.octavo("compile")
    output = project.repro("--keep-going", ok=False)
    assert "diverging-s1" in output
    for name in project.runs():
        assert project.attempts(name)[-1].state == ("failed" if name.startswith("diverging") else "finished")
    assert project.attempts("diverging-s1")[-1].ended.failure == "nonfinite"
    assert "diverging-s1" in project.page()
    assert "diverging" in (project.root / "build/site/experiments/small/index.html").read_text()
    output = project.repro("runs/small/dvc.yaml:train-diverging-s1")  # the next repro tries a failed run again; alike twice is given up
    assert "attempt 2 failed (nonfinite)" in output
    assert project.counts() == {**ONCE, "diverging-s1": 2, "diverging-s2": 1, "diverging-s3": 1}


def test_a_spec_error_writes_nothing(project):
    before = {path: path.read_bytes() for path in project.root.glob("runs/**/*") if path.is_file()}
    project.edit("num_generations: 4", "num_generations: 5")
    output = project.octavo("compile", ok=False)
    assert "specs/small.yaml:" in output and "E304" in output
    assert {path: path.read_bytes() for path in project.root.glob("runs/**/*") if path.is_file()} == before


def test_code_that_is_not_judged_is_refused_with_the_command_that_judges_it(project):
    stage = project.root / "stages/train/scoring.py"
    text = stage.read_text()
    stage.write_text(text + "\nLATER = 1\n")
    output = project.call(sys.executable, "-m", "stages.train.trl", "runs/small/shaped-s1", ok=False)
    stage.write_text(text)
    assert "S101" in output and "octavo code same --why" in output
    assert project.counts() == ONCE
