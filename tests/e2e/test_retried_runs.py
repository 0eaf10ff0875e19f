"""Retries with real training: what one stage call does. Kills at any moment: tests/stages/train/test_chaos.py."""

import json
import signal
import subprocess
import sys
import time

import pyarrow.parquet as pq
import pytest

from stages.contracts.artifact import read
from stages.contracts.attempt import Changed, Outcome
from stages.train.attempts import end

pytestmark = pytest.mark.e2e
RUN = "shaped-s1"


def stage(project, *, ok=True, **environment):
    return project.call(sys.executable, "-m", "stages.train.trl", f"runs/small/{RUN}", ok=ok, OMP_NUM_THREADS="1", **environment)


def anew(project, retries="", *edits):
    """The run with another policy, settings and no past."""
    for old, new in edits:
        project.edit(old, new)
    project.spec.write_text(project.spec.read_text() + retries)
    project.octavo("compile")
    project.run(RUN).attempts.unlink()
    return project.run(RUN)


def scored(run):
    """(step, prompt, text) of each completion of the last attempt that made the step."""
    rows = pq.read_table(run.completions).to_pylist()
    last = {row["step"]: row["attempt"] for row in rows}
    return [(row["step"], row["prompt_id"], row["text"]) for row in rows if row["attempt"] == last[row["step"]]]


def test_a_verifier_that_fails_is_restarted_in_the_same_call(project):
    """The gate knows nothing while its flag is up; the second attempt takes it down by being the second."""
    (project.root / "rewards").mkdir()
    (project.root / "rewards/__init__.py").write_text("")
    (project.root / "rewards/flaky.py").write_text(
        "from pathlib import Path\n\n\ndef score(text, row):\n"
        "    return None if Path('runs/small/shaped-s1/attempts.jsonl').read_text().count('started') < 2 else len(text) % 2\n"
    )
    gates = project.spec.read_text()
    start, stop = gates.index("    gates:\n      - format"), gates.index("    unknown:")
    project.spec.write_text(gates[:start] + "    gates: [{flaky: {kind: python, function: 'rewards.flaky:score'}}]\n" + gates[stop:])
    run = anew(
        project,
        "retries: {attempts: 4, verifier: {restart_verifier: true}}\n",
        ("scores: [tests]", "scores: [flaky]"),
        ("evaluation.tests.", "evaluation.flaky."),
    )
    permission = project.experiment.permission("shaped")
    permission.write_text(json.dumps({"schema": "octavo.permission/1", "condition": "shaped", "train": True, "reasons": []}))
    output = stage(project)
    first, second = project.attempts(RUN)
    assert (first.state, first.ended.failure, second.state) == ("failed", "verifier", "finished"), output
    assert second.started.changed == Changed(after=first.started.attempt, failure="verifier", restart_verifier=True)
    assert read(Outcome, run.outcome).finished


def test_half_a_microbatch_goes_on_from_a_checkpoint(project, monkeypatch):
    """16 completions a step in two micro-steps of 8, the same texts. Checkpoints hold the size too. Killed after step 2, recorded as a lack
    of memory: steps 3 and 4 are those of the whole."""
    before = scored(project.run(RUN))
    run = anew(project, "retries: {attempts: 4, out_of_memory: {microbatch: halve}}\n")
    monkeypatch.chdir(project.root)
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    command = [sys.executable, "-m", "stages.train.trl", f"runs/small/{RUN}"]
    process = subprocess.Popen(command, cwd=project.root, env=project.environment(OMP_NUM_THREADS="1"), **quiet)
    while process.poll() is None and not list(project.root.glob(".cache/checkpoints/*/trainer/checkpoint-2/trainer_state.json")):
        time.sleep(0.01)  # it is the last file of a checkpoint
    process.send_signal(signal.SIGKILL)
    process.wait()
    killed = project.attempts(RUN)[-1]
    assert killed.ended is None
    identity = {"card_id": killed.started.card_id, "attempt": killed.started.attempt}
    failed = Outcome(**identity, finished=False, steps_done=2, target_steps=4, failure="out_of_memory", error="recorded by the test")
    end(run, killed.started, failed, 1.0)
    stage(project, WANDB_MODE="offline")
    last = project.attempts(RUN)[-1]
    assert last.started.changed == Changed(after=killed.started.attempt, failure="out_of_memory", microbatch=8)
    assert (last.state, last.started.resumed_from, last.started.card_id) == ("finished", 2, killed.started.card_id)
    assert json.loads(run.card.read_text())["train"]["per_device_train_batch_size"] == 16
    assert len(before) == 4 * 16 and scored(run) == before
    name = last.started.attempt
    (path,) = (project.root / ".cache/wandb").glob(f"wandb/offline-run-*-{name}/run-{name}.wandb")
    content = path.read_bytes()
    assert all(word in content for word in (b"shaped", b"num_generations", name.encode())), "W&B gets group, card and attempt"
