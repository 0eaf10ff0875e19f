"""A run that a declared rule stops: trained for real, killed on the way, gone on with, finished once and for all."""

import os
import signal
import subprocess
import sys
import time

import pytest

from stages.contracts.artifact import read
from stages.contracts.attempt import Outcome

pytestmark = pytest.mark.e2e
RULE = "train: {max_steps: 12, early_stop: {when: learning_rate > 0, for: 9 steps}}"


def test_a_rule_stops_a_run_also_after_a_kill(project):
    """Of 12 steps; the rule holds from step 1 on, so it stops the run at step 9, whichever attempt has seen the first steps."""
    project.edit("shaped: {reward: shaped, role: treatment}", f"shaped: {{reward: shaped, role: treatment, {RULE}}}")
    project.octavo("compile")
    run, before = project.run("shaped-s1"), len(project.attempts("shaped-s1"))
    command = [sys.executable, "-m", "stages.train.trl", run.root.relative_to(project.root).as_posix()]
    killed = subprocess.Popen(command, cwd=project.root, env=project.environment(), stdout=subprocess.PIPE, text=True)
    assert killed.stdout is not None
    for line in killed.stdout:
        if "step 5/12" in line:  # checkpoints of steps 2 and 4 are there
            os.kill(killed.pid, signal.SIGKILL)
            break
    killed.wait()
    time.sleep(0.2)
    output = project.call(*command)
    assert "stopped by early_stop at step 9 of 12" in output
    outcome = read(Outcome, run.outcome)
    assert outcome.finished and (outcome.steps_done, outcome.target_steps) == (9, 12)
    assert outcome.stopped is not None and (outcome.stopped.rule, outcome.stopped.step) == ("early_stop", 9)
    first, second = project.attempts("shaped-s1")[before:]
    assert (first.state, second.state) == ("killed", "finished")
    assert second.started.resumed_from == 4 and second.ended is not None and second.ended.stopped == outcome.stopped
    assert (run.adapter / "adapter_model.safetensors").exists()
