"""SIGKILL at random moments, for each algorithm: what a run leaves in the end is, number by number, that of an undisturbed run.

Without more, GRPO is killed four times. `OCTAVO_CHAOS=30 pytest tests/stages/train/test_chaos.py` kills thirty times an algorithm, and
GRPO on two processes. `OCTAVO_CHAOS_DEVICE=cuda` trains on a GPU.
"""

import os
import random
import signal
import time
from pathlib import Path

import pytest
from forked import begin
from random_model import finish, left, random_model, run_folder, start

from stages.contracts.attempt import read_attempts
from stages.contracts.ppo import PpoSettings
from stages.contracts.training import GrpoSettings, RlooSettings, SftSettings

pytestmark = pytest.mark.e2e
KILLS = int(os.environ.get("OCTAVO_CHAOS", "4"))
needs_minutes = pytest.mark.skipif("OCTAVO_CHAOS" not in os.environ, reason="minutes: OCTAVO_CHAOS=30 says how many kills")
DEVICE = os.environ.get("OCTAVO_CHAOS_DEVICE", "cpu")
PLAIN = {"max_steps": 8, "learning_rate": 1e-2, "save_steps": 1}
SAMPLED = PLAIN | {"max_completion_length": 6}
GROUPED = SAMPLED | {"per_device_train_batch_size": 8, "num_generations": 4}
GROUPED |= {"generation": {"engine": "compiled", "torch_compile": False}} if DEVICE == "cuda" else {}
CASES = {
    "ppo": (PpoSettings.model_validate(SAMPLED | {"algorithm": "ppo", "batch_size": 8, "mini_batch_size": 4}), 1),
    "rloo": (RlooSettings.model_validate(GROUPED | {"algorithm": "rloo"}), 1),
    "sft": (SftSettings.model_validate(PLAIN | {"algorithm": "sft", "per_device_train_batch_size": 4, "max_length": 24}), 1),
    "grpo": (GrpoSettings.model_validate(GROUPED), 1),
    "two-processes": (GrpoSettings.model_validate(GROUPED | {"per_device_train_batch_size": 4}), 2),
}
"""Settings, and how many processes."""
MOMENTS = ("start", "step", "checkpoint", "finishing")


def reached(folder, moment, before):
    """Whether the run has come to such a moment."""
    trainer = next(iter(folder.glob(".cache/checkpoints/*/trainer")), None)
    if moment == "start":
        return True
    if moment == "step":
        return sum(path.read_bytes().count(b"\n") for path in folder.glob(".cache/checkpoints/*/history.jsonl")) > before
    if moment == "checkpoint":  # one is being written: under its name while it has no state yet, or as `.partial`
        return trainer is not None and any(not (path / "trainer_state.json").exists() for path in trainer.iterdir())
    return trainer is not None and (trainer / "checkpoint-8").exists()


@needs_minutes
def test_ctrl_c_ends_two_processes_in_order(tmp_path):
    """A terminal sends it to both at once: the first answers for both, and none is left."""
    settings, processes = CASES["two-processes"]
    run = run_folder(tmp_path, random_model(tmp_path / "base"), settings, processes, DEVICE)
    process = start("grpo", tmp_path, group=True)
    while process.poll() is None and not reached(tmp_path, "step", 2):
        time.sleep(0.001)
    os.killpg(process.pid, signal.SIGINT)
    output, _ = process.communicate()
    (attempt,) = read_attempts(run.attempts)
    assert (process.returncode, attempt.state, attempt.ended.failure) == (130, "failed", "interrupted"), output
    time.sleep(2)  # multiprocessing's own tracker of resources ends after the stage
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)


@needs_minutes
def test_one_of_two_processes_is_killed(tmp_path):
    """The other one is told apart from a bug, and the next attempt goes on to the numbers of the undisturbed run."""
    base, (settings, processes) = random_model(tmp_path / "base"), CASES["two-processes"]
    for name in ("killed", "whole"):
        (tmp_path / name).mkdir()
    whole, run = (run_folder(tmp_path / name, base, settings, processes, DEVICE) for name in ("whole", "killed"))
    for name in ("whole", "killed"):
        process = start("grpo", tmp_path / name)
        while name == "killed" and process.poll() is None and not reached(tmp_path / name, "step", 2):
            time.sleep(0.001)
        if name == "killed":
            *_, other = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            os.kill(int(other), signal.SIGKILL)
        output, _ = process.communicate()
        assert process.returncode == 0, output
    (first,) = read_attempts(run.attempts)
    assert (first.state, first.ended.failure, first.ended.error) == ("failed", "interrupted", "rank 1 was killed by SIGKILL")
    finish("grpo", tmp_path / "killed")
    assert read_attempts(run.attempts)[-1].started.resumed_from is not None
    assert left(run) == left(whole)


@pytest.mark.parametrize("case", [name if name == "grpo" else pytest.param(name, marks=needs_minutes) for name in CASES])
def test_kills_at_any_moment_change_no_number(case, tmp_path):
    settings, processes = CASES[case]
    base = random_model(tmp_path / "base")
    for name in ("killed", "whole"):
        (tmp_path / name).mkdir()
    whole, run = (run_folder(tmp_path / name, base, settings, processes, DEVICE) for name in ("whole", "killed"))

    def start(name):
        return begin(settings.algorithm, tmp_path / name, "forkserver" if DEVICE == "cpu" and processes == 1 else "spawn")

    def finish(name):
        process = start(name)
        process.join(900)
        assert process.exitcode == 0, (tmp_path / name / "output.txt").read_text()

    finish("whole")
    expected, chance, killed, resumed, at = left(whole), random.Random(7), 0, 0, dict.fromkeys(MOMENTS, 0)
    folder = tmp_path / "killed"
    while killed < KILLS:
        moment = MOMENTS[killed % 4]
        before = sum(path.read_bytes().count(b"\n") for path in folder.glob(".cache/checkpoints/*/history.jsonl"))
        process = start("killed")
        while process.exitcode is None and not reached(folder, moment, before):
            time.sleep(0.001)
        time.sleep(chance.uniform(0.0, 1.0 if moment == "start" else 0.05))
        if process.exitcode is None:
            process.kill()
            killed, at = killed + 1, at | {moment: at[moment] + 1}
        process.join()
        attempts = read_attempts(run.attempts)
        resumed += bool(attempts) and attempts[-1].started.resumed_from is not None
        if run.outcome.exists() and attempts[-1].state == "finished":
            assert left(run) == expected
            run.attempts.unlink()
            run.outcome.unlink()
    finish("killed")
    assert left(run) == expected
    attempts = read_attempts(run.attempts)
    assert {attempt.state for attempt in attempts} <= {"killed", "finished"}
    resumed += attempts[-1].started.resumed_from is not None  # the last kill was while finishing, so its checkpoint is there
    assert all(at.values()) and resumed, f"{at}, {resumed} resumed"
