"""`train: {algorithm: command}`: a real little program, its success, and every way in which it can go wrong."""

from __future__ import annotations

import html
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stages.analyse.conclude import conclude
from stages.analyse.draw import draw
from stages.analyse.screen import screen
from stages.contracts.artifact import read
from stages.contracts.attempt import Outcome, read_attempts
from stages.contracts.layout import RunFolder
from stages.contracts.stage import ROOT
from stages.publish.page import page
from tests.e2e.imported import compiled, findings, health, make

PROGRAM = Path(__file__).parent / "program"


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_bytes((PROGRAM / "train.py").read_bytes())
    return tmp_path


def spec(**settings: object) -> str:
    """The spec with other settings of the treatment."""
    text = (PROGRAM / "spec.yaml").read_text(encoding="utf-8")
    return text.replace("settings: {gain: 0.02}", f"settings: {json.dumps({'gain': 0.02, **settings})}")


def start(run: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "stages.train.command", run.as_posix()]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, text=True, **pipes)


def train(run: Path) -> tuple[int, str]:
    """Exit code and standard error."""
    process = start(run)
    _, errors = process.communicate(timeout=60)
    return process.returncode, errors


def outcome(run: Path) -> Outcome:
    return read(Outcome, RunFolder(run).outcome)


def test_a_program_trains_every_run_and_the_page_says_so(project):
    make(project, "own", spec())
    folder = compiled("own")
    for run in sorted(path.parent for path in folder.glob("*/import.card.json")):
        assert train(run) == (0, "")
    screen(folder)
    conclude(folder)
    draw(folder)
    page(folder)
    assert outcome(folder / "gains-s1").finished and outcome(folder / "gains-s1").steps_done == 20
    assert findings(folder)["gains-vs-zero/reward/change"]["value"] == pytest.approx(0.02 * 18)
    assert health(folder, "gains-s2")["included"]
    text = html.unescape((folder / "page/index.md").read_text(encoding="utf-8"))
    assert ">Program</h2>" in text and "python train.py {card} {out}" in text and "octavo did not train" not in text
    stages = (folder / "dvc.yaml").read_text()
    assert "cmd: python -m stages.train.command runs/own/gains-s1" in stages and "- train.py" in stages


PLANNED = """
import json, sys
from pathlib import Path
card, out = json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2])
turn = len(list(out.glob("turn-*")))
(out / f"turn-{turn}").touch()
with (out / "log.jsonl").open("a") as log:
    for first, last in card["command"]["settings"]["plan"][turn]:
        for step in range(first, last + 1):
            log.write(json.dumps({"step": step, "reward": step, "clipped": 0.1, "zero": 0.0, "grad_norm": 0.1}) + "\\n")
"""


@pytest.mark.parametrize(
    ("plan", "done"),
    [
        ([[], [[1, 1]], [[2, 19]], [[20, 20]]], [0, 1, 19, 20]),
        ([[[1, 12]], [[13, 15], [1, 3]], [[1, 20]]], [12, 3, 20]),  # it begins again without its checkpoint
        ([[[1, 20], [1, 5]], [[5, 20]]], [5, 20]),  # it reached the end once, and trained over it
    ],
)
def test_case_20_no_attempt_is_complete_below_its_target_whatever_its_exit_code(project, plan, done):
    (project / "train.py").write_text(PLANNED)
    make(project, "own", spec(plan=plan))
    folder = compiled("own")
    run = folder / "gains-s1"
    for number, steps in enumerate(done):
        code, errors = train(run)
        result, attempt = outcome(run), read_attempts(run / "attempts.jsonl")[number]
        finished = steps == 20
        assert (code, result.finished, result.steps_done) == (0, finished, steps)
        assert (attempt.state, attempt.ended.last_step) == ("finished" if finished else "failed", steps)
        assert finished or result.failure == ("bug" if steps else "data")
        assert finished or steps == 0 or f"exit code 0 after {steps} of 20 steps" in errors
    screen(folder)
    assert health(folder, "gains-s1")["state"] == "finished" and health(folder, "gains-s1")["steps_done"] == 20


@pytest.mark.parametrize(
    ("how", "failure", "words"),
    [
        ("crash", "bug", "exit code 1: CUDA error: device-side assert"),
        ("silent", "data", "left no log.jsonl"),
        ("absent", "bug", "`no-such-program` cannot be run"),
    ],
)
def test_a_failure_has_its_class_and_the_programs_last_words(project, how, failure, words):
    text = spec(fail=how)
    make(project, "own", text.replace("[python, train.py,", "[no-such-program, train.py,") if how == "absent" else text)
    run = compiled("own") / "gains-s1"
    code, errors = train(run)
    assert code == 0 and words in errors and outcome(run).failure == failure
    assert json.loads((run / "imported.json").read_text())["rows"] == 0


def test_nan_gradients_gate_the_run_out(project):
    make(project, "own", spec(fail="nan"))
    folder = compiled("own")
    train(folder / "gains-s1")
    screen(folder)
    assert not health(folder, "gains-s1")["included"] and health(folder, "gains-s1")["valid_until"] == 5
    assert json.loads((folder / "gains-s1/retry.json").read_text())["after"] is None, "it did what it was asked"


def test_a_signal_ends_the_program_and_the_next_attempt_goes_on(project):
    make(project, "own", spec(seconds=0.8))
    run = compiled("own") / "gains-s1"
    process = start(run)
    while not (logs := [*project.glob(".cache/checkpoints/*/out/log.jsonl")]) or len(logs[0].read_text().splitlines()) < 3:
        time.sleep(0.05)
    code, errors = train(run)
    assert code == 1 and "S210" in errors, "two attempts of one run never run at once"
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert process.returncode == 130 and outcome(run).failure == "interrupted"
    lines = logs[0].read_text()
    time.sleep(0.5)
    assert logs[0].read_text() == lines, "the program has ended with us"
    assert train(run)[0] == 0 and outcome(run).finished
    assert [attempt.state for attempt in read_attempts(run / "attempts.jsonl")] == ["failed", "finished"]


def test_changed_code_is_refused_before_anything_runs(project):
    make(project, "own", spec())
    run = compiled("own") / "gains-s1"
    (project / "train.py").write_text("print('other')\n")
    code, errors = train(run)
    assert code == 1 and "S289" in errors and not (run / "attempts.jsonl").exists()


def test_a_profile_shortens_the_runs(project):
    make(project, "own", spec())
    card = json.loads((compiled("own@smoke") / "gains-s1/import.card.json").read_text())
    assert card["target_steps"] == 4 and card["command"]["settings"] == {"gain": 0.02}
    zero = json.loads(Path("runs/own@smoke/zero-s1/import.card.json").read_text())
    assert zero["command"]["settings"] == {"gain": 0.0}
