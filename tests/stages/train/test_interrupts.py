"""What ends with dvc, and what does not: real processes, a real dvc."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stages.contracts.stage import ROOT

PROGRAM = """\
import os, time
from pathlib import Path
from stages.train import interrupts
with interrupts.deferred():  # as in a stage: the second signal, of the thread that waits for dvc, must not interrupt what the first began
    try:
        with interrupts.interruptible():
            interrupts.install_handlers()
            Path("pid.txt").write_text(str(os.getpid()))
            while True:
                time.sleep(0.05)
    except KeyboardInterrupt as stop:
        Path("stopped.txt").write_text(str(stop))
"""


def environment():
    kept = {name: value for name, value in os.environ.items() if not name.startswith("DVC_")}
    return {**kept, "PATH": f"{Path(sys.executable).parent}:{kept['PATH']}", "PYTHONPATH": str(ROOT), "DVC_NO_ANALYTICS": "1"}


def appears(path, process=None):
    """The text of a file that a process is about to write."""
    end = time.monotonic() + 60
    while not (path.exists() and path.read_text()):
        assert process is None or process.poll() is None, "it ended before it had begun"
        assert time.monotonic() < end, f"{path.name} was not written"
        time.sleep(0.02)
    return path.read_text()


@pytest.fixture(params=["/bin/sh", "/bin/bash"])
def running(request, tmp_path, monkeypatch):
    """A dvc whose stage runs the program. Debian's sh stays between dvc and the program; bash replaces itself by the program."""
    monkeypatch.setenv("SHELL", request.param)
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "dvc.yaml").write_text(f"stages: {{it: {{cmd: '{sys.executable} program.py'}}}}\n")
    dvc = [sys.executable, "-m", "dvc"]
    subprocess.run([*dvc, "init", "--no-scm", "--quiet"], cwd=tmp_path, env=environment(), check=True)
    process = subprocess.Popen([*dvc, "repro", "--quiet"], cwd=tmp_path, env=environment(), start_new_session=True)
    yield process, int(appears(tmp_path / "pid.txt", process))
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def test_a_stage_ends_in_order_when_its_dvc_is_killed(running, tmp_path):
    dvc, _ = running
    dvc.kill()
    dvc.wait()
    assert appears(tmp_path / "stopped.txt") == "stopped by SIGTERM"


def test_ctrl_c_ends_a_stage_in_order(running, tmp_path):
    dvc, _ = running
    os.killpg(dvc.pid, signal.SIGINT)  # as a terminal does: everyone in front of it gets one
    dvc.wait()
    assert (tmp_path / "stopped.txt").read_text() == "stopped by SIGINT"


def test_what_was_started_by_hand_outlives_its_shell_with_nohup(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    command = f"nohup {sys.executable} program.py >/dev/null 2>&1 & while [ ! -s pid.txt ]; do sleep 0.05; done"
    subprocess.run(["sh", "-c", command], cwd=tmp_path, env=environment(), check=True)
    stage = int((tmp_path / "pid.txt").read_text())
    os.kill(stage, signal.SIGHUP)
    time.sleep(0.3)
    assert not (tmp_path / "stopped.txt").exists()
    os.kill(stage, signal.SIGTERM)
    assert appears(tmp_path / "stopped.txt") == "stopped by SIGTERM"
