"""Logits that are not finite: repaired before sampling, counted once a row and token."""

import math

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from stages.train.guards import InvalidLogits


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
    try:
        model.generate(prompt, **asked)
    except RuntimeError:
        refused = True
    else:
        refused = False
    guard = InvalidLogits()
    guard.attach(model)
    made = model.generate(prompt, **asked)
    assert refused and made.shape == (2, 5) and 7 not in made[:, 2:].tolist()[0] + made[:, 2:].tolist()[1]
    assert guard.taken() == 6
