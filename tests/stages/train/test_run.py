"""One attempt of a run with an algorithm that only writes checkpoints: ledger, resume, manifest, signals, what is delivered."""

import errno
import json
import os
import shutil
import signal
from types import SimpleNamespace

import pytest
import torch
from random_model import run_folder
from safetensors.torch import save_file

from stages.contracts.artifact import Frozen, read, write
from stages.contracts.attempt import Outcome, read_attempts
from stages.contracts.diagnostic import StageError
from stages.contracts.layout import ExperimentFolder
from stages.contracts.plugin import Judgement
from stages.contracts.ppo import PpoSettings
from stages.contracts.retries import FiniteCheckpoint, Retries
from stages.contracts.reward import Gate, Reward
from stages.contracts.run_card import TrainCard
from stages.contracts.stage import TRIED, card_id
from stages.train import interrupts, resume
from stages.train.attempts import Stopped, checkpoints
from stages.train.rewards.compose import Composed, ReadyGate
from stages.train.run import attempt
from stages.train.scoring import TrainingReward

FILES = ("trainer_state.json", "optimizer.pt", "adapter_model.safetensors")


class Killed(BaseException):
    """As SIGKILL: nothing of ours runs after it."""


@pytest.fixture
def run(tmp_path, monkeypatch, signals):
    monkeypatch.chdir(tmp_path)
    return run_folder(tmp_path, tmp_path / "base", PpoSettings(algorithm="ppo", max_steps=4, learning_rate=0.1, max_completion_length=6))


def step(work, number, weight=1.0, gradient=1.0):
    """Log a step and write its checkpoint."""
    cells = {"reward": number / 10, "grad_norm": gradient}
    work.journal.step(attempt=work.started.attempt, step=number, tokens=number, seconds=float(number), cells=cells)
    folder = work.output / f"checkpoint-{number}"
    folder.mkdir(parents=True)
    save_file({"lora_A": torch.ones(2), "lora_B": torch.full((2,), weight)}, folder / "adapter_model.safetensors")
    torch.save({}, folder / "optimizer.pt")
    (folder / "adapter_config.json").write_text("{}")
    (folder / "trainer_state.json").write_text(json.dumps({"global_step": number}))
    return folder


def train(run, until=4, end=None, **how):
    """One attempt that goes on to a step and then ends so. Returns the exit code."""

    def fit(work):
        folders = [step(work, number, **how) for number in range(work.steps_before + 1, until + 1)]
        if end is not None:
            end()
        return folders[-1]

    return attempt(run.root, TrainCard[PpoSettings], "stages.train.ppo", fit, FILES)


def kill():
    raise Killed


def not_to_be_called():
    raise AssertionError("it trained one step too many")


def scratch(run):
    return checkpoints(card_id(read(TrainCard[PpoSettings], run.card)))


def last(run):
    return read_attempts(run.attempts)[-1]


def test_killed_while_finishing_no_step_is_trained_again(run):
    with pytest.raises(Killed):
        train(run, end=kill)
    assert last(run).ended is None and not run.outcome.exists()
    assert train(run, end=not_to_be_called) == 0
    assert last(run).started.resumed_from == 4 and read(Outcome, run.outcome).finished and (run.adapter / FILES[2]).exists()
    assert not scratch(run).exists()


def test_a_finished_run_that_is_asked_for_again_begins_anew(run):
    assert train(run) == 0 and train(run) == 0
    assert [entry.started.resumed_from for entry in read_attempts(run.attempts)] == [None, None]


def test_an_adapter_that_is_not_finite_is_no_result_also_with_the_next_attempt(run):
    assert train(run, weight=float("nan")) == 0
    assert last(run).ended.failure == "nonfinite" and "first in lora_B" in last(run).ended.error
    assert not (run.adapter / FILES[2]).exists()
    assert train(run, weight=float("nan")) == 0
    assert last(run).ended.failure == "nonfinite" and last(run).started.resumed_from is None, "no checkpoint of it is finite"
    assert train(run) == 0 and last(run).state == "finished"


def test_an_adapter_that_never_moved_is_a_bug_unless_nothing_pulled_it(run):
    train(run, weight=0.0)
    assert last(run).ended.failure == "bug" and "as it was at its start" in last(run).ended.error
    shutil.rmtree(scratch(run))
    assert train(run, weight=0.0, gradient=0.0) == 0 and last(run).state == "finished", "of a null control nothing changes"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_training_leaves_a_clean_ledger(run, number):
    assert train(run, until=2, end=lambda: os.kill(os.getpid(), number)) == 130
    assert (last(run).ended.failure, last(run).ended.error, last(run).ended.last_step) == ("interrupted", f"stopped by {number.name}", 2)
    assert read(Outcome, run.outcome).steps_done == 2
    interrupts._state.sentence = None  # the next process
    assert train(run) == 0 and last(run).started.resumed_from == 2


def test_a_signal_while_files_are_written_waits_for_them(run, monkeypatch):
    from stages.train import run as module

    written = module.write_history

    def and_a_signal(*arguments, **rest):
        os.kill(os.getpid(), signal.SIGINT)
        written(*arguments, **rest)

    monkeypatch.setattr(module, "write_history", and_a_signal)
    assert train(run) == 0 and last(run).state == "finished" and run.completions.exists()


def test_a_signal_before_the_attempt_leaves_no_attempt(run):
    interrupts._state.sentence = "stopped by SIGINT"
    with pytest.raises(KeyboardInterrupt):
        train(run)
    assert not run.attempts.exists()


def test_what_an_attempt_reached_is_its_own(run):
    """The first one logged step 3 and was killed before its checkpoint; the second one fails in its first step, after step 2."""
    with pytest.raises(Killed):
        train(run, until=3, end=kill)
    shutil.rmtree(scratch(run) / "trainer/checkpoint-3")

    def fit(work):
        raise ValueError("at once")

    assert attempt(run.root, TrainCard[PpoSettings], "stages.train.ppo", fit, FILES) == 0
    assert (last(run).started.resumed_from, last(run).ended.last_step, read(Outcome, run.outcome).steps_done) == (2, 2, 2)


def _broken_reward(plugin, step):
    """What the trainer's reward function does at a step when its gate gives this, or raises it."""

    class Plugin:
        Settings = Frozen

        @staticmethod
        def judge(settings, answers):
            if isinstance(plugin, Exception):
                raise plugin
            return [plugin] * len(answers)

    def end(work):
        gate = Gate(name="g", kind="format", settings={"pattern": "x"})
        reward = Reward(name="r", gates=(gate,))
        function = TrainingReward(reward, rows=[{"id": "a"}], seed=1, group=2, ends={0}, journal=work.journal, attempt=work.started.attempt)
        function.composed = Composed(reward, (ReadyGate(gate, Plugin, None),))
        function(["p"] * 2, ["x"] * 2, [[5, 0]] * 2, id=["a"] * 2, trainer_state=SimpleNamespace(global_step=step - 1, max_steps=4))

    return end


def _raises(error):
    def end(work):
        raise error

    return end


CRASHES = {
    "reward": lambda step: _broken_reward(ZeroDivisionError("division by zero"), step),
    "reward: no score": lambda step: _broken_reward(
        Judgement("unknown", None, "tone:score gave '2', which is no score", broken=True), step
    ),
    "verifier": lambda step: _broken_reward(Judgement("unknown", None, "the pool of workers died"), step),
    "out_of_memory": lambda step: lambda work: bytearray(1 << 62),
    "nonfinite": lambda step: _raises(Stopped("nonfinite", "3 gradients in a row were not finite")),
    "disk": lambda step: _raises(OSError(errno.ENOSPC, "No space left on device", "checkpoint")),
    "data": lambda step: _raises(StageError("S1", "a row has no prompt", why="x", fix="y")),
    "interrupted": lambda step: _raises(KeyboardInterrupt()),
    "bug": lambda step: _raises(ValueError("at step 4")),
}


@pytest.mark.parametrize("crash", sorted(CRASHES))
def test_case_9_a_crash_has_its_class_its_step_and_the_steps_done_before_it(run, crash):
    """In the first step, at a later one, in the last one; each attempt resumes where the one before it ended."""
    for step_of_it in (1, 3, 4):

        def fit(work, at=step_of_it):
            for number in range(work.steps_before + 1, at):
                step(work, number)
            CRASHES[crash](at)(work)
            raise AssertionError("it did not crash")

        code = attempt(run.root, TrainCard[PpoSettings], "stages.train.ppo", fit, FILES)
        assert code == (1 if crash == "disk" else 0)
        outcome, ended = read(Outcome, run.outcome), last(run).ended
        assert (outcome.finished, outcome.failure, outcome.steps_done) == (False, crash.split(":")[0], step_of_it - 1)
        assert (ended.outcome, ended.failure, ended.last_step) == ("failed", crash.split(":")[0], step_of_it - 1)
        if crash.split(":")[0] in ("reward", "verifier"):
            assert f"2 of 2 rewards of step {step_of_it} are unknown" in ended.error
    assert train(run) == 0 and read(Outcome, run.outcome).steps_done == 4
    assert [entry.state for entry in read_attempts(run.attempts)] == ["failed"] * 3 + ["finished"]


def test_checkpoints_of_other_libraries_are_refused_before_an_attempt_begins(run, monkeypatch):
    with pytest.raises(Killed):
        train(run, until=2, end=kill)
    now = {**resume.versions(), "torch": "99.0"}
    monkeypatch.setattr(resume, "versions", lambda: now)
    with pytest.raises(StageError, match=r"torch: .* then, 99\.0 now") as refused:
        train(run)
    assert refused.value.code == "S250" and len(read_attempts(run.attempts)) == 1
    assert "pip install torch==" in refused.value.fix and "rm -r .cache/checkpoints/" in refused.value.fix
    (scratch(run) / "manifest.json").unlink()
    with pytest.raises(StageError, match="nothing says what made them"):
        train(run)
    shutil.rmtree(scratch(run))
    assert train(run) == 0 and last(run).started.resumed_from is None


@pytest.mark.parametrize("change", [{"seed": 9}, {"learning_rate": 0.2}])
def test_case_19_a_run_with_another_seed_or_setting_never_goes_on_from_a_checkpoint(run, change):
    """The card's id names the folder of checkpoints, so a changed card has no checkpoint; the first card still has its own."""
    with pytest.raises(Killed):
        train(run, until=2, end=kill)
    card, first = read(TrainCard[PpoSettings], run.card), scratch(run)
    settings = {"train": card.train.model_copy(update=change)} if "seed" not in change else change
    write(run.card, card.model_copy(update=settings))
    assert scratch(run) != first
    assert train(run) == 0 and last(run).started.resumed_from is None
    write(run.card, card)
    assert train(run) == 0 and last(run).started.resumed_from == 2


def test_a_failure_is_tried_again_by_the_same_call_until_two_fail_alike(run, monkeypatch, capsys):
    calls = []
    policy = Retries(attempts=6, nonfinite=FiniteCheckpoint(resume="last_finite_checkpoint"))
    write(ExperimentFolder(run.root.parent).retries, policy)
    monkeypatch.setattr("stages.train.run.replace", lambda command, environment: calls.append(environment[TRIED]))
    for tried in ("1", "2", "3"):
        assert train(run, until=0, end=lambda: _raises(Stopped("nonfinite", "3 gradients in a row were not finite"))(None)) == 0
        monkeypatch.setenv(TRIED, tried)
    assert calls == ["1", "2"] and last(run).started.changed.resume == "last_finite_checkpoint"
    assert "not tried again by itself: two attempts failed alike (nonfinite after step 0)" in capsys.readouterr().err


def test_without_optimizer_state_nothing_goes_on(run):
    with pytest.raises(Killed):
        train(run, until=2, end=kill)
    (scratch(run) / "trainer/checkpoint-2/optimizer.pt").unlink()
    assert train(run) == 0 and last(run).started.resumed_from == 1
