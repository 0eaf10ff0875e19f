"""What the next attempt changes, and whether it begins by itself: from the ledger and the policy alone."""

import json

import pytest
import torch
from safetensors.torch import save_file

from stages.contracts.attempt import Attempt, Changed, Ended, Started
from stages.contracts.retries import NONE, Retries
from stages.train.environment import versions
from stages.train.resume import begins_at, change, keep, why_not_again, with_batch_size

ALL = Retries.model_validate(
    {
        "attempts": 6,
        "out_of_memory": {"microbatch": "halve"},
        "nonfinite": {"resume": "last_finite_checkpoint"},
        "verifier": {"restart_verifier": True},
        "preempted": {"resume": "last_checkpoint"},
    }
)
FILES = ("trainer_state.json", "optimizer.pt", "adapter_model.safetensors")


def attempt(number, failure, step=10, changed=None, killed=False):
    started = Started(
        attempt=f"a{number}", number=number, at=f"2026-01-01T00:00:{number:02}Z", card_id="c", commit=None, host="h",
        devices=("cpu",), versions=versions(), sandbox="none", resumed_from=None, changed=changed,
    )  # fmt: skip
    outcome = "failed" if failure else "finished"
    ended = Ended(attempt=started.attempt, at=started.at, outcome=outcome, failure=failure, last_step=step, seconds=1.0)
    return Attempt(started=started, ended=None if killed else ended)


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        ("out_of_memory", Changed(after="a1", failure="out_of_memory", microbatch=8)),
        ("nonfinite", Changed(after="a1", failure="nonfinite", resume="last_finite_checkpoint")),
        ("verifier", Changed(after="a1", failure="verifier", restart_verifier=True)),
        ("interrupted", Changed(after="a1", failure="preempted", resume="last_checkpoint")),
        ("bug", None), ("disk", None), ("data", None), ("refused", None), (None, None),
    ],
)  # fmt: skip
def test_each_class_changes_its_own(failure, expected):
    assert change([attempt(1, failure)], ALL, 16) == expected
    assert change([attempt(1, failure)], NONE, 16) is None, "without a policy nothing changes"
    if failure == "interrupted":
        assert change([attempt(1, None, killed=True)], ALL, 16) == expected, "a start without an end"


def test_the_microbatch_is_halved_again_and_stays_halved():
    """16, 8, 4; then another failure keeps 4; then 2; then 1, which has no half."""
    first = change([attempt(1, "out_of_memory")], ALL, 16)
    second = change([attempt(2, "out_of_memory", changed=first)], ALL, 16)
    third = change([attempt(3, "nonfinite", changed=second)], ALL, 16)
    assert (first.microbatch, second.microbatch, third.microbatch, third.resume) == (8, 4, 4, "last_finite_checkpoint")
    smallest = Changed(after="a3", failure="out_of_memory", microbatch=1)
    assert change([attempt(4, "out_of_memory", changed=smallest)], ALL, 16).microbatch == 1
    assert why_not_again([attempt(4, "out_of_memory", changed=smallest)], ALL, 16, 4) == "a micro-batch of 1 cannot be halved"
    assert why_not_again([attempt(1, "out_of_memory")], ALL, 15, 1) == "a micro-batch of 15 cannot be halved"
    assert change([], ALL, 16) is None and change([attempt(1, None)], ALL, 16) is None


def test_begins_by_itself_until_the_policy_ends_it():
    failed = attempt(1, "nonfinite")
    assert why_not_again([failed], ALL, 16, 1) is None
    assert why_not_again([failed], ALL, 16, 6) == "6 attempts in a row failed, and `retries.attempts` is 6"
    for failure in ("bug", "disk", "data", "refused", "reward", "interrupted", None):
        assert why_not_again([attempt(1, failure)], ALL, 16, 1) == "", failure
    assert why_not_again([failed], NONE, 16, 1) == ""


def test_two_that_fail_alike_end_it():
    """Class, step and change count; the first attempt changed nothing, so the second is not like it."""
    changed = change([attempt(1, "nonfinite")], ALL, 16)
    two = [attempt(1, "nonfinite"), attempt(2, "nonfinite", changed=changed)]
    assert why_not_again(two, ALL, 16, 2) is None
    third = change(two, ALL, 16)
    assert why_not_again([*two, attempt(3, "nonfinite", changed=third)], ALL, 16, 3).startswith(
        "two attempts failed alike (nonfinite after step 10)"
    )
    assert why_not_again([*two, attempt(3, "nonfinite", step=11, changed=third)], ALL, 16, 3) is None
    assert why_not_again([*two, attempt(3, "verifier", changed=third)], ALL, 16, 3) is None


def checkpoint(folder, step, weight=1.0, moment=1.0):
    path = folder / f"checkpoint-{step}"
    path.mkdir(parents=True)
    (path / "trainer_state.json").write_text(json.dumps({"global_step": step, "train_batch_size": 16}))
    save_file({"lora": torch.tensor([0.0, weight])}, path / "adapter_model.safetensors")
    torch.save({"state": {0: {"exp_avg": torch.tensor([moment])}}, "param_groups": [{"lr": 0.1}]}, path / "optimizer.pt")
    return path


FAILED = attempt(2, "nonfinite", step=20)


@pytest.fixture
def trainer(tmp_path):
    """The folder of checkpoints, with a manifest beside it."""
    keep(tmp_path)
    return tmp_path / "trainer"


@pytest.mark.parametrize("broken", [{"weight": float("nan")}, {"moment": float("inf")}])
def test_goes_back_to_the_newest_finite_checkpoint_after_numbers_that_were_not(trainer, broken):
    checkpoint(trainer, 4)
    good, bad = checkpoint(trainer, 8), checkpoint(trainer, 12, **broken)
    assert begins_at(trainer, FILES, [attempt(1, "bug")], None) == (bad, 12)
    assert begins_at(trainer, FILES, [FAILED], None) == (good, 8) and not bad.exists()


def test_a_checkpoint_from_which_no_step_was_finished_is_left_behind(trainer):
    """Weights of 1e30 are finite, and their logits are not."""
    started = FAILED.started.model_copy(update={"resumed_from": 8})
    good, huge = checkpoint(trainer, 4), checkpoint(trainer, 8, weight=1e30)
    for last_step, expected in ((9, (huge, 8)), (8, (good, 4))):
        before = [attempt(2, "nonfinite", step=last_step).model_copy(update={"started": started})]
        assert begins_at(trainer, FILES, before, None) == (huge, 8), "the policy says nothing of it"
        assert begins_at(trainer, FILES, before, change(before, ALL, 16)) == expected


def test_the_size_in_a_checkpoint_is_rewritten(tmp_path):
    path = checkpoint(tmp_path, 4)
    with_batch_size(path, 8)
    assert json.loads((path / "trainer_state.json").read_text()) == {"global_step": 4, "train_batch_size": 8}
