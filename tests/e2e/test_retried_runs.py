"""Retries and kills with real training: what one stage call does, and that kills at any moment change no number."""

import json
import os
import random
import re
import signal
import subprocess
import sys
import time

import pyarrow.parquet as pq
import pytest

from stages.contracts.artifact import file_digest, read
from stages.contracts.attempt import Changed, Outcome
from stages.train.attempts import end

pytestmark = pytest.mark.e2e
TIMED = re.compile(r"seconds|step_time")
KILLS = int(os.environ.get("OCTAVO_CHAOS", "3"))
"""`OCTAVO_CHAOS=30 pytest tests/e2e/test_retried_runs.py -k chaos` for the long one."""
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


def numbers(run):
    """(step, metric) -> value of the last attempt that logged it, timings left out; and the completions of each step likewise."""
    rows, completions = (pq.read_table(path).to_pylist() for path in (run.history, run.completions))
    history = {(row["step"], row["metric"]): row["value"] for row in rows if not TIMED.search(row["metric"])}
    last = {row["step"]: row["attempt"] for row in completions}
    texts = [(row["step"], row["prompt_id"], row["text"], row["reward"]) for row in completions if row["attempt"] == last[row["step"]]]
    return history, texts


def start(project):
    """The stage in a process of its own, to be killed."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    command = [sys.executable, "-m", "stages.train.trl", f"runs/small/{RUN}"]
    return subprocess.Popen(command, cwd=project.root, env=project.environment(OMP_NUM_THREADS="1"), **quiet)


def steps_logged(project):
    """Lines in the journal of the run that is being trained."""
    return sum(path.read_bytes().count(b"\n") for path in project.root.glob(".cache/checkpoints/*/history.jsonl"))


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
    _, before = numbers(project.run(RUN))
    run = anew(project, "retries: {attempts: 4, out_of_memory: {microbatch: halve}}\n")
    monkeypatch.chdir(project.root)
    process = start(project)
    while process.poll() is None and not list(project.root.glob(".cache/checkpoints/*/trainer/checkpoint-2/trainer_state.json")):
        time.sleep(0.01)  # it is the last file of a checkpoint
    process.send_signal(signal.SIGKILL)
    process.wait()
    killed = project.attempts(RUN)[-1]
    assert killed.ended is None
    identity = {"card_id": killed.started.card_id, "attempt": killed.started.attempt}
    failed = Outcome(**identity, finished=False, steps_done=2, target_steps=4, failure="out_of_memory", error="recorded by the test")
    end(run, killed.started, failed, 1.0)
    stage(project)
    last = project.attempts(RUN)[-1]
    assert last.started.changed == Changed(after=killed.started.attempt, failure="out_of_memory", microbatch=8)
    assert (last.state, last.started.resumed_from, last.started.card_id) == ("finished", 2, killed.started.card_id)
    assert json.loads(run.card.read_text())["train"]["per_device_train_batch_size"] == 16
    _, after = numbers(run)
    assert len(after) == 4 * 16 and [row[:3] for row in after] == [row[:3] for row in before]


def test_what_fails_alike_is_given_up(project):
    """A learning rate of 1e30 ends every attempt in the same step: the third is the last of six."""
    edits = (("learning_rate: 1.0e-3", "learning_rate: 1.0e+30"), ("save_steps: 2", "save_steps: 1"))
    anew(project, "retries: {attempts: 6, nonfinite: {resume: last_finite_checkpoint}}\n", *edits)
    output = stage(project)
    attempts = project.attempts(RUN)
    assert {attempt.ended.failure for attempt in attempts} == {"nonfinite"} and 3 <= len(attempts) <= 5
    assert "not tried again by itself: two attempts failed alike (nonfinite after step" in output
    assert attempts[-1].started.changed.resume == "last_finite_checkpoint"


def test_chaos_kills_at_any_moment_change_no_number(project):
    """SIGKILL at random moments until nothing is left to kill: history, completions and adapter as undisturbed."""
    settings = [("max_steps: 4", "max_steps: 8"), ("save_steps: 2", "save_steps: 1")]
    run = anew(project, "", *settings)
    stage(project)
    expected, adapter = numbers(run), file_digest(run.adapter / "adapter_model.safetensors")
    run.attempts.unlink()
    run.outcome.unlink()
    chance, killed, went_on = random.Random(11), 0, 0
    while killed < KILLS:
        process = start(project)
        until = steps_logged(project) + chance.randint(0, 2)
        while process.poll() is None and steps_logged(project) < until:
            time.sleep(0.01)
        time.sleep(chance.uniform(0.0, 1.0 if until else 12.0))
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            killed += 1
        assert process.wait() in (0, -signal.SIGKILL)
        went_on += project.attempts(RUN)[-1].started.resumed_from is not None if run.attempts.exists() else 0
        if run.outcome.exists() and project.attempts(RUN)[-1].state == "finished":
            assert numbers(run) == expected
            run.attempts.unlink()  # it was faster than the kill: from the start again
            run.outcome.unlink()
    stage(project)
    assert numbers(run) == expected
    assert file_digest(run.adapter / "adapter_model.safetensors") == adapter
    attempts = project.attempts(RUN)
    assert attempts[-1].state == "finished" and "failed" not in {attempt.state for attempt in attempts}
    assert went_on or attempts[-1].started.resumed_from is not None, "no attempt went on from a checkpoint: the kills came too early"
