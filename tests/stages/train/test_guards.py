"""Gradients and logits that are not finite: skipped, counted, repaired; a policy whose logits are not finite."""

import math
from types import SimpleNamespace

import pytest
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from stages.contracts.training import Guards
from stages.train.attempts import Stopped
from stages.train.guards import InvalidLogits, NonfiniteGuard, policy_finite


def step(guard, model, number, gradient):
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, gradient)
    guard.on_pre_optimizer_step(None, SimpleNamespace(global_step=number), None, model=model)


def guarded(**fields):
    return NonfiniteGuard(Guards(**fields)), torch.nn.Linear(2, 1)


def test_a_nonfinite_gradient_changes_no_weight_and_is_marked():
    guard, model = guarded()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    before = model.weight.detach().clone()
    step(guard, model, 0, float("nan"))
    optimizer.step()
    assert guard.skipped and torch.equal(model.weight, before)
    step(guard, model, 1, 1.0)
    assert guard.skipped, "it is marked until the recorder logs it: PPO takes several optimizer steps between two logs"
    guard.skipped = False
    step(guard, model, 2, 1.0)
    optimizer.step()
    assert not guard.skipped and not torch.equal(model.weight, before)


def test_the_attempt_stops_after_so_many_in_a_row_and_one_good_step_resets():
    guard, model = guarded(stop_after_skipped=2)
    for number, gradient in enumerate([float("inf"), 1.0, float("inf")]):
        step(guard, model, number, gradient)
    with pytest.raises(Stopped, match=r"2 steps in a row had a non-finite gradient, the last one step 4") as caught:
        step(guard, model, 3, float("nan"))
    assert caught.value.failure == "nonfinite"


def test_finite_weights_can_still_make_a_policy_that_is_not():
    class Policy(torch.nn.Module):
        device = torch.device("cpu")

        def __init__(self, scale):
            super().__init__()
            self.scale = torch.nn.Parameter(torch.tensor(scale))

        def forward(self, input_ids, attention_mask):
            return SimpleNamespace(logits=input_ids.float() * self.scale * self.scale)

    class Batch(dict):
        def to(self, device):
            return self

    def tokenizer(prompt, return_tensors):
        return Batch(input_ids=torch.ones(1, 3, dtype=torch.long), attention_mask=torch.ones(1, 3))

    assert policy_finite(Policy(1.0), tokenizer, "double\n")
    assert not policy_finite(Policy(1e30), tokenizer, "double\n")


def test_the_count_in_a_row_goes_on_where_the_attempt_before_left_it():
    guard, model = NonfiniteGuard(Guards(stop_after_skipped=3), in_a_row=2), torch.nn.Linear(2, 1)
    with pytest.raises(Stopped, match=r"3 steps in a row had a non-finite gradient, the last one step 8"):
        step(guard, model, 7, float("nan"))


def test_values_are_repaired_and_rows_counted():
    guard = InvalidLogits()
    scores = torch.tensor([[1.0, math.nan, 2.0], [0.0, 1.0, 2.0], [math.inf, -math.inf, 0.0]])
    repaired = guard(torch.zeros(3, 1, dtype=torch.long), scores)
    lowest, highest = torch.finfo(torch.float32).min, torch.finfo(torch.float32).max
    assert repaired.tolist() == [[1.0, lowest, 2.0], [0.0, 1.0, 2.0], [highest, lowest, 0.0]]
    assert (guard.taken(), guard.taken()) == (2, 0)


def test_a_policy_of_nans_samples_to_the_end():
    """Without the guard transformers raises; with it every token of both rows is counted."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2, "intermediate_size": 32}
    model = Qwen2ForCausalLM(Qwen2Config(vocab_size=40, **sizes, eos_token_id=None, pad_token_id=0))
    model.lm_head.weight.data[7] = math.nan
    prompt = torch.tensor([[1, 2], [3, 4]])
    asked = {"max_new_tokens": 3, "do_sample": True, "attention_mask": torch.ones_like(prompt)}
    with pytest.raises(RuntimeError):
        model.generate(prompt, **asked)
    guard = InvalidLogits()
    guard.attach(model)
    output = model.generate(prompt, **asked)
    assert output.shape == (2, 5) and 7 not in output[:, 2:].flatten().tolist()
    assert guard.taken() == 6
