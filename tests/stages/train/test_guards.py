from types import SimpleNamespace

import pytest

from stages.contracts.training import Guards
from stages.train.attempts import Stopped

torch = pytest.importorskip("torch")


def step(guard, model, number, gradient):
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, gradient)
    guard.on_pre_optimizer_step(None, SimpleNamespace(global_step=number), None, model=model)


def guarded(**fields):
    from stages.train.guards import NonfiniteGuard

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
    from stages.train.guards import policy_finite

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
    from stages.train.guards import NonfiniteGuard

    guard, model = NonfiniteGuard(Guards(stop_after_skipped=3), in_a_row=2), torch.nn.Linear(2, 1)
    with pytest.raises(Stopped, match=r"3 steps in a row had a non-finite gradient, the last one step 8"):
        step(guard, model, 7, float("nan"))
