"""Compiled generation: the copy computes what the policy computes, the loop samples from it, and what cannot be done falls back."""

import json
import math

import pyarrow.parquet as pq
import pytest
import torch
from peft import LoraConfig, get_peft_model
from random_model import random_model, run_folder
from torch.nn.attention import SDPBackend
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

from stages.contracts.diagnostic import StageError
from stages.contracts.model import ModelRef
from stages.contracts.ppo import PpoSettings
from stages.contracts.run_card import TrainCard
from stages.contracts.training import GenerationSettings, GrpoSettings
from stages.train import decoding, rollouts
from stages.train.decoding import Choice, Decoder, Shape, Unsupported, rollout_model
from stages.train.determinism import sampling
from stages.train.rollouts import Rollouts
from stages.train.trl import determinism, engine, trl_settings

LLAMA = (LlamaConfig, LlamaForCausalLM, {"num_key_value_heads": 4})
QWEN = (Qwen2Config, Qwen2ForCausalLM, {"num_key_value_heads": 2, "tie_word_embeddings": True})


def policy(kind, **adapter):
    configuration, model, sizes = kind
    torch.manual_seed(3)
    config = configuration(
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        vocab_size=40,
        max_position_embeddings=128,
        **sizes,
    )
    peft_model = get_peft_model(model(config), LoraConfig(r=2, target_modules="all-linear", task_type="CAUSAL_LM", **adapter))
    with torch.no_grad():
        for name, value in peft_model.named_parameters():
            if "lora_B" in name:
                value.normal_(0.0, 0.3)
            elif "norm" not in name and "lora" not in name:
                value.mul_(6.0)
    return peft_model.eval()


def log_probabilities(model, ids, attention, width, temperature):
    """Of the last `width` tokens, by the policy itself in one forward pass."""
    places = (attention.cumsum(1) - 1).clamp(min=0)
    with torch.no_grad():
        logits = model(input_ids=ids, attention_mask=attention, position_ids=places).logits
    return (logits[:, -width - 1 : -1] / temperature).log_softmax(-1).gather(-1, ids[:, -width:, None])[..., 0]


def prompts():
    ids = torch.randint(3, 40, (3, 7), generator=torch.Generator().manual_seed(5))
    attention = torch.ones_like(ids)
    ids[1, :4], attention[1, :4] = 0, 0
    return ids, attention


@pytest.mark.parametrize("kind", [LLAMA, QWEN], ids=["llama", "qwen"])
def test_the_loop_reports_the_log_probabilities_of_the_policy(kind):
    model = policy(kind)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    copied = rollout_model(model)
    copied.refresh()
    ids, attention = prompts()
    decoder = Decoder(copied.model, Shape(3, 16, 9), Choice(0.7, 1.0, (), 0, False), compiled=False)
    for _ in range(2):  # the second run begins where nothing of the first is left
        tokens, logps, _ = decoder.run(ids, attention)
        seen = torch.cat([attention, torch.ones_like(tokens)], 1)
        expected = log_probabilities(model, torch.cat([ids, tokens], 1), seen, 9, 0.7)
        assert torch.allclose(logps, expected, atol=1e-4)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items()), "sampling changes no weight of the policy"


def test_a_changed_adapter_is_sampled_after_a_refresh_only_and_what_is_shared_costs_nothing():
    model = policy(QWEN)
    copied = rollout_model(model)
    copied.refresh()
    assert copied.model.model.embed_tokens.weight.data_ptr() == model.get_base_model().model.embed_tokens.weight.data_ptr()
    ids, _ = prompts()
    old = copied.model(input_ids=ids).logits.clone()
    with torch.no_grad():
        for name, value in model.named_parameters():
            if "lora_B" in name:
                value.add_(0.2)
    assert torch.equal(copied.model(input_ids=ids).logits, old)
    copied.refresh()
    assert torch.allclose(copied.model(input_ids=ids).logits, model(input_ids=ids).logits, atol=1e-4)
    assert not torch.allclose(copied.model(input_ids=ids).logits, old, atol=1e-2)


@pytest.mark.parametrize(("top_p", "kept"), [(1.0, {0, 1, 2}), (0.8, {0, 1}), (0.5, {0})])
def test_tokens_are_drawn_as_often_as_they_are_likely(top_p, kept):
    """0.6, 0.3 and 0.1; a nucleus holds the fewest tokens that reach its mass."""
    model = policy(LLAMA)
    rows = 4000
    decoder = Decoder(rollout_model(model).model, Shape(rows, 8, 1), Choice(1.0, top_p, (), 0, False), compiled=False)
    likely = torch.full((40,), -50.0)
    likely[:3] = torch.tensor([0.6, 0.3, 0.1]).log()
    decoder.scores.copy_(likely.expand(rows, -1))
    torch.manual_seed(1)
    with torch.no_grad():
        decoder._token()
    drawn = decoder.tokens[:, 0].bincount(minlength=3) / rows
    mass = sum((0.6, 0.3, 0.1)[token] for token in kept)
    for token, share in enumerate((0.6, 0.3, 0.1)):
        assert float(drawn[token]) == pytest.approx(share / mass if token in kept else 0.0, abs=0.03)
    assert float(decoder.logps[decoder.tokens[:, 0] == 0][0, 0]) == pytest.approx(math.log(0.6), abs=1e-4), "before the nucleus"


def test_logits_that_are_not_finite_are_repaired_and_counted():
    decoder = Decoder(rollout_model(policy(LLAMA)).model, Shape(2, 8, 1), Choice(1.0, 1.0, (), 0, True), compiled=False)
    decoder.scores.zero_()
    decoder.scores[0, 7] = torch.inf
    with torch.no_grad():
        decoder._token()
    assert int(decoder.repaired) == 1 and int(decoder.tokens[0, 0]) == 7


@pytest.mark.parametrize(
    ("adapter", "why"),
    [
        ({"modules_to_save": ["embed_tokens"]}, "more than an adapter"),
        ({"use_dora": True}, "no plain LoRA"),
        ({"lora_bias": True}, "no plain"),
    ],
)
def test_a_policy_whose_adapter_is_more_than_a_product_is_refused(adapter, why):
    with pytest.raises(Unsupported, match=why):
        rollout_model(policy(LLAMA, **adapter))


def test_a_policy_without_an_adapter_is_sampled_from_its_own_weights():
    model = policy(QWEN).merge_and_unload()
    copied = rollout_model(model)
    own, shared = model.state_dict(), copied.model.state_dict()
    assert own.keys() == shared.keys() and all(own[name].data_ptr() == shared[name].data_ptr() for name in own)
    ids, _ = prompts()
    assert torch.allclose(copied.model(input_ids=ids).logits, model(input_ids=ids).logits, atol=1e-4)


class Trainer:
    """What Rollouts touches of a trainer of TRL."""

    def __init__(self, model, shift):
        self.model, self.accelerator, self._metrics, self.shift = model, self, {"train": {}}, shift
        for end in ("mean", "max"):
            self._metrics["train"][f"sampling/sampling_logp_difference/{end}"] = []

    def unwrap_model(self, model):
        return model

    def _get_per_token_logps_and_entropies(self, model, ids, attention, width):
        return (log_probabilities(model, ids, attention, width, 1.0) + self.shift,)


def sampled(shift=0.0, **settings):
    """What the ledger says, and the means of the logged differences."""
    trainer, notes = Trainer(policy(QWEN), shift), {}
    Rollouts(GenerationSettings(engine="compiled", torch_compile=False), None, notes).attach(trainer)
    ids, attention = prompts()
    how = GenerationConfig(max_new_tokens=6, do_sample=True, eos_token_id=1, pad_token_id=0, temperature=1.0, top_k=0, **settings)
    output = trainer.model.generate(input_ids=ids, attention_mask=attention, generation_config=how)
    after = (output[:, 7:] == 1).cumsum(1) - (output[:, 7:] == 1).long() == 0
    trainer._get_per_token_logps_and_entropies(trainer.model, output, torch.cat([attention, after.long()], 1), output.shape[1] - 7)
    return notes["generation"], trainer._metrics["train"]["sampling/sampling_logp_difference/mean"]


def test_rollout_and_training_are_compared_and_another_policy_is_noticed():
    note, means = sampled()
    assert note == "compiled, without torch.compile" and means == [pytest.approx(0.0, abs=1e-4)]
    note, means = sampled(shift=0.5)
    assert note == "transformers: rollout and training differ by 0.500 nats a token" and means == [pytest.approx(0.5, abs=1e-3)]


def test_what_the_loop_cannot_do_transformers_does(monkeypatch, capsys):
    """A copy that would take 0.9 of the free memory, and the training step needs its part."""
    amounts = iter([(100, 10), (10, 100)])
    monkeypatch.setattr(rollouts, "_memory", lambda device: next(amounts))
    note, means = sampled()
    assert note.startswith("transformers: no memory for a copy that samples") and means == []
    assert "transformers generates instead" in capsys.readouterr().err


def card(device, quantization="none", **generation):
    model = ModelRef.model_construct(quantization=quantization)
    settings = GrpoSettings(
        max_steps=1, learning_rate=1.0, max_completion_length=1, generation=GenerationSettings(**generation) if generation else None
    )
    return TrainCard[GrpoSettings].model_construct(device=device, model=model, train=settings, reward=object())


def test_engines():
    assert [engine(card("cpu")), engine(card("cuda")), engine(card("cuda", "nf4"))] == ["transformers", "compiled", "compiled"]
    ppo_settings = PpoSettings(algorithm="ppo", max_steps=1, learning_rate=1.0, max_completion_length=1)
    ppo = [TrainCard[PpoSettings].model_construct(device=device, model=card("cpu").model, train=ppo_settings) for device in ("cpu", "cuda")]
    assert [engine(ppo_card) for ppo_card in ppo] == ["transformers", "compiled"] and "generation" not in ppo_settings.model_dump()
    assert [engine(card("cuda", "int8")), engine(card("cpu", engine="compiled"))] == ["transformers", "compiled"]
    assert trl_settings(card("cpu")) == {} == trl_settings(card("cuda"))
    assert trl_settings(card("cuda", engine="continuous_batching")) == {"use_transformers_continuous_batching": True}


def test_what_is_deterministic_of_a_run_on_a_gpu():
    """The engines that serve many requests sample as they like; cuDNN's attention is left out by the decoder itself."""
    kinds = {engine_name: determinism(card("cuda", engine=engine_name)) for engine_name in ("compiled", "transformers", "vllm")}
    assert kinds == {"compiled": "all", "transformers": "all", "vllm": "update"}
    off = card("cuda")
    settings = off.train.model_copy(update={"deterministic": False})
    assert determinism(off.model_copy(update={"train": settings})) == "none" and settings.model_dump()["deterministic"] is False
    assert "deterministic" not in card("cuda").train.model_dump()  # no card changes by it
    assert SDPBackend.CUDNN_ATTENTION not in decoding.ATTENTION


def test_deterministic_kernels_are_off_while_sampling():
    torch.use_deterministic_algorithms(True)
    try:
        assert sampling()(torch.are_deterministic_algorithms_enabled)() is False
        assert torch.are_deterministic_algorithms_enabled()
    finally:
        torch.use_deterministic_algorithms(False)


def test_vllm_is_named_when_it_is_missing():
    with pytest.raises(StageError, match="vllm is not installed") as caught:
        trl_settings(card("cuda", engine="vllm"))
    assert caught.value.code == "S245"


@pytest.mark.e2e
@pytest.mark.parametrize("limits", [{}, {"top_k": 40, "top_p": 0.95, "min_p": 0.01, "repetition_penalty": 1.5}])
def test_a_run_samples_what_it_samples_with_transformers(tmp_path, train, limits):
    """On a CPU both draw the same random numbers in the same order."""
    base, results = random_model(tmp_path / "base"), {}
    for engine_name in ("transformers", "compiled"):
        folder = tmp_path / engine_name
        folder.mkdir()
        plain = {"max_steps": 3, "learning_rate": 1e-2, "max_completion_length": 6, "save_steps": 2, "num_generations": 4, "beta": 0.04}
        how = {"generation": {"engine": engine_name, "torch_compile": False}, "per_device_train_batch_size": 8}
        run = run_folder(folder, base, GrpoSettings.model_validate(plain | how | limits))
        assert train("grpo", folder) == 0
        rows = pq.read_table(run.history).to_pylist()
        ended = json.loads(run.attempts.read_text().splitlines()[-1])
        texts = [row["text"] for row in pq.read_table(run.completions).to_pylist()]
        results[engine_name] = texts, ended.get("generation"), {(row["step"], row["metric"]): row["value"] for row in rows}
    assert results["transformers"][0] == results["compiled"][0]
    assert (results["transformers"][1], results["compiled"][1]) == (None, "compiled, without torch.compile")
    for step in (1, 2, 3):
        assert results["compiled"][2][step, "sampling/sampling_logp_difference/max"] < 1e-4
