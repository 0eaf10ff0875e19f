"""SIGTERM while a run trains: the step is finished and saved, and the next attempt goes on from it to the numbers of an undisturbed run."""

import os
import signal
import time

import pytest
import torch
import transformers
from random_model import finish, left, random_model, run_folder, start

from stages.contracts.artifact import read
from stages.contracts.attempt import Outcome, read_attempts
from stages.contracts.layout import CHECKPOINTS
from stages.contracts.ppo import PpoSettings
from stages.contracts.training import GrpoSettings, RlooSettings, SftSettings
from stages.train import interrupts
from stages.train.progress import Progress
from stages.train.scoring import TrainingReward

PLAIN = {"max_steps": 8, "learning_rate": 1e-2, "save_steps": 5}
SAMPLED = PLAIN | {"max_completion_length": 6}
GROUPED = SAMPLED | {"per_device_train_batch_size": 8, "num_generations": 4}
SETTINGS = {
    "grpo": GrpoSettings.model_validate(GROUPED),
    "two passes": GrpoSettings.model_validate(GROUPED | {"num_iterations": 2, "save_steps": 100}),
    "rloo": RlooSettings.model_validate(GROUPED | {"algorithm": "rloo"}),
    "ppo": PpoSettings.model_validate(SAMPLED | {"algorithm": "ppo", "batch_size": 8, "mini_batch_size": 4}),
    "sft": SftSettings.model_validate(PLAIN | {"algorithm": "sft", "per_device_train_batch_size": 4, "max_length": 24}),
}
MOMENTS = {
    "sampling": (transformers.GenerationMixin, "generate", 3),
    "scoring": (TrainingReward, "__call__", 3),
    "recording": (Progress, "step", 3),
    "saving": (torch, "save", 1),
}
"""Where the signal comes: what is called then, and in which call of it."""


def terminated_in(patch, moment, times=1):
    """Send ourselves SIGTERM in such a call, so many times, after the call has begun."""
    place, name, wanted = MOMENTS[moment]
    plain, calls = getattr(place, name), []

    def and_a_signal(*arguments, **named):
        calls.append(name)
        if len(calls) == wanted:
            for _ in range(times):
                os.kill(os.getpid(), signal.SIGTERM)
        return plain(*arguments, **named)

    patch.setattr(place, name, and_a_signal)


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("case", "moment", "saved"),
    [
        ("grpo", "sampling", 3), ("grpo", "scoring", 3), ("grpo", "saving", 5), ("two passes", "recording", 4),
        ("rloo", "recording", 3), ("ppo", "scoring", 3), ("sft", "recording", 3),
    ],
)  # fmt: skip
def test_the_step_is_saved_and_the_numbers_stay(case, moment, saved, tmp_path, train, monkeypatch):
    base, settings = random_model(tmp_path / "base"), SETTINGS[case]
    for name in ("whole", "stopped"):
        (tmp_path / name).mkdir()
    whole, run = (run_folder(tmp_path / name, base, settings) for name in ("whole", "stopped"))
    assert train(settings.algorithm, tmp_path / "whole") == 0
    with monkeypatch.context() as patch:
        terminated_in(patch, moment, times=2)  # a scheduler signals all processes, and one may pass it on
        assert train(settings.algorithm, tmp_path / "stopped") == 130
    (first,) = read_attempts(run.attempts)
    assert (first.ended.failure, first.ended.error) == ("interrupted", f"stopped by SIGTERM, step {saved} is saved")
    outcome = read(Outcome, run.outcome)
    assert (first.ended.last_step, outcome.steps_done, outcome.finished) == (saved, saved, False)
    interrupts._state = interrupts._SignalState()  # the next process
    assert train(settings.algorithm, tmp_path / "stopped") == 0
    assert read_attempts(run.attempts)[-1].started.resumed_from == saved
    assert left(run) == left(whole)


@pytest.mark.e2e
def test_once_more_ends_at_once(tmp_path, train, monkeypatch):
    """Nothing half-written is gone on from."""
    run = run_folder(tmp_path, random_model(tmp_path / "base"), SETTINGS["grpo"])
    monkeypatch.setattr(interrupts, "TOGETHER_SECONDS", -1.0)
    terminated_in(monkeypatch, "saving", times=2)
    assert train("grpo", tmp_path) == 130
    (first,) = read_attempts(run.attempts)
    assert (first.ended.failure, first.ended.error, first.ended.last_step) == ("interrupted", "stopped by SIGTERM", 5)
    interrupts._state = interrupts._SignalState()
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    assert train("grpo", tmp_path) == 0
    assert [attempt.started.resumed_from for attempt in read_attempts(run.attempts)] == [None, None], "its checkpoint was not whole"


def test_another_signal_or_another_time_does_not_wait(signals):
    interrupts.install_handlers()
    with pytest.raises(KeyboardInterrupt, match="stopped by SIGINT"), interrupts.saving_first():
        os.kill(os.getpid(), signal.SIGINT)
    interrupts._state = interrupts._SignalState()
    with pytest.raises(KeyboardInterrupt, match="stopped by SIGTERM"), interrupts.saving_first():
        os.kill(os.getpid(), signal.SIGTERM)
        assert interrupts.is_to_save()
        os.kill(os.getpid(), signal.SIGINT)
    interrupts._state = interrupts._SignalState()
    with pytest.raises(KeyboardInterrupt, match="stopped by SIGTERM"):
        os.kill(os.getpid(), signal.SIGTERM)


WAITS = """
import time
from pathlib import Path
from stages.train import interrupts
from stages.train.recorder import Journal
plain = Journal.step
def step(journal, **line):
    plain(journal, **line)
    end = time.monotonic() + 120
    if line["step"] == 3 and line["attempt"].startswith("short-s1-a1"):
        Path("reached.txt").touch()
        while not interrupts.is_to_save() and time.monotonic() < end:
            time.sleep(0.02)
Journal.step = step
"""
"""Python reads it at its start: the first of two processes waits in step 3 of the first attempt until it is asked to save."""


@pytest.mark.e2e
def test_two_processes_save_the_same_step(tmp_path):
    """All processes of the job get the signal, as Slurm sends it; none is left."""
    base, settings = random_model(tmp_path / "base"), SETTINGS["grpo"].model_copy(update={"per_device_train_batch_size": 4})
    for name in ("whole", "stopped", "waits"):
        (tmp_path / name).mkdir()
    (tmp_path / "waits/sitecustomize.py").write_text(WAITS)
    whole, run = (run_folder(tmp_path / name, base, settings, 2) for name in ("whole", "stopped"))
    finish("grpo", tmp_path / "whole")
    process = start("grpo", tmp_path / "stopped", tmp_path / "waits", group=True)
    while process.poll() is None and not (tmp_path / "stopped/reached.txt").exists():
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGTERM)
    output, _ = process.communicate(timeout=300)
    (first,) = read_attempts(run.attempts)
    assert (process.returncode, first.ended.error) == (130, "stopped by SIGTERM, step 3 is saved"), output
    assert next(tmp_path.glob(f"stopped/{CHECKPOINTS}/*/trainer/checkpoint-3/rng_state_1.pth")).stat().st_size
    end = time.monotonic() + 60
    while time.monotonic() < end:  # multiprocessing's own tracker of resources ends after the stage
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            break
        time.sleep(0.1)
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)
    finish("grpo", tmp_path / "stopped")
    assert read_attempts(run.attempts)[-1].started.resumed_from == 3
    assert left(run) == left(whole)
