"""What a logged loss says about learning, by algorithm."""

from __future__ import annotations

_SURROGATE = (
    "{}'s logged loss is no measure of progress: on-policy it is {}, plus beta times KL. It can fall, rise or stay whatever is "
    "learned, so nothing here rests on it."
)
_SAYS = {
    "grpo": _SURROGATE.format("GRPO", "minus the covariance of advantage and length, as token losses are normalised"),
    "rloo": _SURROGATE.format("RLOO", "a mean of advantages that are zero on average"),
    "ppo": "PPO's logged losses are no measure of progress: the policy's is a surrogate that starts anew with every batch, the value's "
    "says how well returns are predicted. Nothing here rests on them.",
    "sft": "This loss is what supervised training minimises, on the training data: a lower one says that they are imitated better, and "
    "nothing about other prompts.",
}
_OTHER = (
    "What this loss means depends on the program that trained: with GRPO, RLOO and PPO it is no measure of progress. octavo decides "
    "nothing by it."
)
SURROGATES = ("grpo", "rloo", "ppo")
"""Algorithms whose loss is no measure of progress."""


def loss_words(algorithm: str) -> str:
    """One or two sentences for a reader who takes a falling loss for learning."""
    return _SAYS.get(algorithm, _OTHER)
