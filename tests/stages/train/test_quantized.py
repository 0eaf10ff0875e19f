"""Base models in fewer bits, on a CPU, with the real bitsandbytes where it is installed."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from stages.contracts.diagnostic import StageError
from stages.contracts.model import Adapter, ModelRef
from stages.train.model import quantization

ROOT = Path(__file__).parents[3]
HAS = importlib.util.find_spec("bitsandbytes") is not None
TRAIN = """
import json, sys, torch
from types import SimpleNamespace
from transformers import Qwen2Config, Qwen2ForCausalLM, PreTrainedTokenizerFast
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
folder, bits = sys.argv[1:]
bpe = Tokenizer(models.BPE()); bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
bpe.train_from_iterator(["x"], trainers.BpeTrainer(
    vocab_size=260, special_tokens=["<pad>", "<eos>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
PreTrainedTokenizerFast(tokenizer_object=bpe, pad_token="<pad>", eos_token="<eos>").save_pretrained(folder)
torch.manual_seed(0)
sizes = dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=2, intermediate_size=128)
whole = Qwen2ForCausalLM(Qwen2Config(vocab_size=320, **sizes)); whole.save_pretrained(folder)
from peft import get_peft_model
from stages.contracts.model import Adapter, ModelRef
from stages.train.model import load_base, lora, sample
from stages.train.model import for_training
card = ModelRef(base="b", path=folder, revision="r", quantization=bits, adapter=Adapter())
model, tokenizer = load_base(card, "cpu")
kinds = {type(module).__name__ for module in model.modules() if "Linear" in type(module).__name__}
ids = torch.tensor([[1, 2, 3, 4]])
with torch.no_grad():
    away = float((model(ids).logits - whole.eval()(ids).logits).abs().max() / whole(ids).logits.abs().max())
how = SimpleNamespace(max_completion_length=3, temperature=1.0, top_p=1.0)
made = sample(model, tokenizer, ["two"], how, per_prompt=2, seed=0)
policy = get_peft_model(for_training(card, model, False), lora(card.adapter))
optimizer = torch.optim.AdamW([p for p in policy.parameters() if p.requires_grad], lr=1e-2)
policy.train(); losses = []
for _ in range(8):
    loss = policy(input_ids=ids, labels=ids).loss
    loss.backward(); optimizer.step(); optimizer.zero_grad(); losses.append(float(loss))
trained = sorted({name.rsplit(".", 2)[-2] if "lora" not in name else "lora" for name, p in policy.named_parameters() if p.requires_grad})
print(json.dumps({"kinds": sorted(kinds), "away": away, "made": len(made[0]), "first": losses[0], "last": losses[-1], "trained": trained}))
"""


def card(bits: str) -> ModelRef:
    return ModelRef(base="owner/model", path="models/m", revision="r", quantization=bits, adapter=Adapter())


def test_weights_as_they_are_ask_nothing():
    assert quantization(card("none"), "cpu") == {}


@pytest.mark.skipif(HAS, reason="bitsandbytes is installed")
def test_without_bitsandbytes_the_message_says_what_to_install():
    with pytest.raises(StageError) as caught:
        quantization(card("nf4"), "cpu")
    assert caught.value.code == "S278" and "[quantization]" in caught.value.fix and "nf4" in caught.value.what


@pytest.mark.skipif(not HAS, reason="bitsandbytes is not installed")
@pytest.mark.parametrize(("bits", "kind", "most"), [("nf4", "Linear4bit", 0.3), ("int8", "Linear8bitLt", 0.05)])
def test_loads_samples_and_trains_an_adapter(tmp_path, bits, kind, most):
    """NF4 rounds to 16 values a weight: logits move by some per cent, and not by nothing; int8 by less."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}", "OMP_NUM_THREADS": "1"}
    ran = subprocess.run([sys.executable, "-c", TRAIN, str(tmp_path / "m"), bits], capture_output=True, text=True, env=environment)
    assert ran.returncode == 0, ran.stderr
    results = json.loads(ran.stdout.splitlines()[-1])
    assert kind in results["kinds"] and 0 < results["away"] < most and results["made"] == 2
    assert results["trained"] == ["lora"] and results["last"] < results["first"]
