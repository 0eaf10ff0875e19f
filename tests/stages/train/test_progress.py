"""What people see while a run trains: on a terminal, in CI, and as JSON."""

import contextlib
import json
import os
import pty
import re
import sys

import pytest

from stages.train.progress import Progress

CELLS = {
    "reward": 0.723, "group_range": 0.3149, "zero_signal_share": 0.125, "truncated": 0.0, "skipped": 0.0,
    "gate.format.pass_share": 0.984, "gate.format.score": 1.0, "gate.tests.pass_share": None,
    "step_seconds": 0.72, "generation_seconds": 0.41, "reward_seconds": 0.09, "update_seconds": 0.22,
}  # fmt: skip
WORDS = "reward 0.72  spread 0.31  zero-signal 12%  truncated 0%  format 98% -> tests -"


@pytest.fixture(autouse=True)
def plain(monkeypatch):
    for name in ("OCTAVO_PROGRESS", "CI", "NO_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)


def test_elsewhere_a_line_now_and_then(capsys):
    progress = Progress("quickstart shaped-s1", 2, 60)
    for number in range(1, 61):
        progress.step(number, CELLS)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 10 and all("\x1b" not in line for line in lines)
    assert re.sub(r"[\d.]+ s/step", "T s/step", lines[0]) == (
        f"quickstart shaped-s1 (attempt 2)  step 6/60  0:00:00 left  {WORDS}  T s/step  generation 0.41 s  rewards 0.09 s  update 0.22 s"
    )


def test_json_on_request_is_strict_and_has_every_step(capsys, monkeypatch):
    monkeypatch.setenv("OCTAVO_PROGRESS", "json")
    progress = Progress("quickstart shaped-s1", 1, 3)
    progress.step(1, CELLS)
    progress.step(2, {"reward": {"nonfinite": "nan"}, "skipped": 1.0, "objective.kl": -0.5, "truncated": None})
    monkeypatch.setenv("OCTAVO_PROGRESS", "off")
    Progress("a b", 1, 1).step(1, CELLS)
    first, second = (json.loads(line, parse_constant=pytest.fail) for line in capsys.readouterr().out.splitlines())
    assert first.pop("seconds_left") >= 0.0
    assert first == {
        "progress": "quickstart shaped-s1", "attempt": 1, "step": 1, "steps": 3,
        "reward": 0.723, "group_range": 0.3149, "zero_signal_share": 0.125, "truncated": 0.0, "gates": {"format": 0.984, "tests": None},
        "skipped": 0, "seconds": {"step": 0.72, "generation": 0.41, "reward": 0.09, "update": 0.22},
    }  # fmt: skip
    assert (second["reward"], second["truncated"], second["objective.kl"], second["skipped"]) == (None, None, -0.5, 1)


@pytest.mark.parametrize(("columns", "end"), [(30, "s1 (attempt 1)"), (250, "update 0.22 s")])
def test_on_a_terminal_one_line_is_written_again(monkeypatch, columns, end):
    ours, theirs = pty.openpty()
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm")
    with os.fdopen(theirs, "w") as terminal:
        monkeypatch.setattr(sys, "stdout", terminal)
        progress = Progress("quickstart s1", 1, 2)
        progress.step(1, CELLS)
        progress.step(2, CELLS)
        monkeypatch.setenv("CI", "true")
        assert (progress.mode, Progress("a b", 1, 2).mode) == ("live", "lines")
        monkeypatch.undo()
    written = b""
    with contextlib.suppress(OSError):  # the end of a terminal; a kernel under load hands on what was written in parts
        while part := os.read(ours, 65536):
            written += part
    os.close(ours)
    empty, first, second = written.decode("ascii").split("\r\x1b[K")
    assert empty == "" and len(first) < columns and len(second.rstrip()) < columns and second.endswith("\n") and not first.endswith("\n")
    assert (f"  {WORDS}  " in first) == (columns == 250) and end in first


def test_a_terminal_that_goes_away_is_no_failure(monkeypatch):
    progress = Progress("a b", 1, 2)
    reading, writing = os.pipe()
    os.close(reading)
    broken = os.fdopen(writing, "w")
    monkeypatch.setattr(sys, "stdout", broken)
    progress.step(2, CELLS)
    assert progress.mode == "off"
    progress.step(2, CELLS)
    monkeypatch.undo()
    with contextlib.suppress(BrokenPipeError):
        broken.close()
