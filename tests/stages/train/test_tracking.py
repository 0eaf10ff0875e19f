"""W&B as it is: offline it writes a file; a server that is not there, or never answers, costs seconds and no run."""

import os
import socket
import subprocess
import sys

import pytest

from stages.contracts.stage import ROOT
from stages.train.tracking import configured

PROGRAM = """\
from types import SimpleNamespace
from stages.train.tracking import tracked
card = SimpleNamespace(experiment="quickstart", condition="shaped", model_dump=lambda mode: {"condition": "shaped"})
with tracked(card, "shaped-s1", "shaped-s1-a1-0001") as sink:
    for step in (1, 2):
        sink.log(step, {"reward": step / 4, "loss": float("nan")})
print("trained")
"""


def tracked(folder, **environment):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("WANDB_")}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=folder, env={**kept, "PYTHONPATH": str(ROOT), **environment}, capture_output=True, text=True
    )
    assert done.returncode == 0 and done.stdout.endswith("trained\n"), done.stdout + done.stderr
    return done.stdout


def logged(folder):
    (file,) = (folder / ".cache/wandb/wandb").glob("offline-run-*-shaped-s1-a1-0001/run-shaped-s1-a1-0001.wandb")
    return file


def test_offline_every_step_is_in_the_file(tmp_path):
    pytest.importorskip("wandb")
    tracked(tmp_path, WANDB_MODE="offline")
    content = logged(tmp_path).read_bytes()
    for word in (b"shaped-s1", b"quickstart", b"condition", b"train/reward"):
        assert word in content, word


@pytest.mark.parametrize("answers", [False, True])
def test_a_server_that_cannot_be_reached_costs_no_run(tmp_path, answers):
    pytest.importorskip("wandb")
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        if answers:
            server.listen()  # it takes connections, and never says anything
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
        output = tracked(tmp_path, WANDB_API_KEY="a" * 40, WANDB_BASE_URL=address, WANDB_INIT_TIMEOUT="2")
    assert "W&B did not start" in output and "wandb sync" in output
    assert b"train/reward" in logged(tmp_path).read_bytes()


def test_it_is_off_unless_asked_for(monkeypatch):
    for name in ("WANDB_MODE", "WANDB_API_KEY", "WANDB_DISABLED"):
        monkeypatch.delenv(name, raising=False)
    assert not configured()
    monkeypatch.setenv("WANDB_API_KEY", "x")
    assert configured()
    monkeypatch.setenv("WANDB_MODE", "disabled")
    assert not configured()
