"""What people see while a run trains: on a terminal, in CI, and as JSON."""

import contextlib
import errno
import json
import os
import pty
import re
import select
import subprocess
import sys
import termios

import pytest

from stages.contracts.stage import ROOT
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


PROGRAM = f"""
from stages.train.progress import Progress
progress = Progress("quickstart shaped-s1", 1, 3)
for step in (1, 2, 3):
    progress.step(step, {CELLS!r})
"""


def screen(columns, **environment):
    """What the program writes to a terminal of this width."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, columns))
    kept = {name: value for name, value in os.environ.items() if name not in ("CI", "NO_COLOR", "COLUMNS", "OCTAVO_PROGRESS")}
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=theirs, stdout=theirs, env={**kept, "PYTHONPATH": str(ROOT), "TERM": "xterm", **environment}
    )
    os.close(theirs)
    written = b""
    while select.select([ours], [], [], 60)[0]:
        try:
            piece = os.read(ours, 65536)
        except OSError as error:
            assert error.errno == errno.EIO
            break
        if not piece:
            break
        written += piece
    os.close(ours)
    assert process.wait() == 0
    return written.decode("ascii")


@pytest.mark.parametrize("columns", [30, 80, 250])
def test_on_a_terminal_the_same_rows_are_written_again(columns):
    text = screen(columns)
    drawings = text.replace("\r\n", "\n").split("\x1b[J")
    assert len(drawings) == 4 and text.endswith("\r\n")
    rows = [re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", row).strip("\r") for row in drawings[1].split("\n")]
    assert max(len(row) for row in rows) < columns, "no row wraps"
    up = len(drawings[2].replace("\r", "").rstrip().split("\n")) - 1
    assert (f"\x1b[{up}A" in drawings[1]) == (up > 0), "the cursor goes back to the first row"
    assert " ".join(WORDS.split()) in " ".join(" ".join(rows).split())


def test_in_ci_a_terminal_is_none():
    assert "\x1b" not in screen(80, CI="true") and "\x1b" not in screen(80, TERM="dumb")


def test_a_terminal_that_goes_away_is_no_failure(monkeypatch):
    progress = Progress("a b", 1, 2)
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w", closefd=True) as broken:
        monkeypatch.setattr(sys, "stdout", broken)
        progress.step(2, CELLS)
        assert progress.mode == "off"
        progress.step(2, CELLS)
        monkeypatch.undo()
        with contextlib.suppress(BrokenPipeError):
            broken.close()
