"""Octavo's PPO against that of TRL 1.12, the last one with PPO: same model, same adapter, same completions and scores, update by update.

    make bench-ppo        (or: python benchmarks/ppo_against_trl.py --build)

TRL 1.12 goes into `build/trl-1.12` and is used by a process of its own; nothing else sees it. That process trains a LoRA policy and a
separate value model for a few updates and writes down what it sampled and logged. Here octavo's own code then makes the same updates from
the same start: every number below comes from octavo's weights, which have gone their own way since the first update. Completions have no
end of text, because TRL 1.12 puts the score of a completion that has one a position later than octavo and TRL 0.11 do.
Needs runs/_models/tiny/model (`make demo`, or `dvc repro runs/_models/tiny/dvc.yaml`).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
TRL, OUT, MODEL = ROOT / "build/trl-1.12", ROOT / "build/ppo-against-trl", ROOT / "runs/_models/tiny/model"
UPDATES, BATCH, EPOCHS, TOKENS, RATE, KL, SEED = 5, 16, 4, 12, 1e-3, 0.05, 7
NAMES = {
    "objective.scores": "objective/scores",
    "objective.kl": "objective/kl",
    "objective.entropy": "objective/entropy",
    "objective.non_score_reward": "objective/non_score_reward",
    "objective.rlhf_reward": "objective/rlhf_reward",
    "loss.policy": "loss/policy_avg",
    "loss.value": "loss/value_avg",
    "policy.approxkl": "policy/approxkl_avg",
    "policy.clipfrac": "policy/clipfrac_avg",
    "policy.ratio": "val/ratio",
    "value.clipfrac": "val/clipfrac_avg",
}
TENSORS = ("logprobs", "ref_logprobs", "values", "advantages", "returns")


def main() -> None:
    os.chdir(ROOT)
    os.environ |= {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error", "TRL_EXPERIMENTAL_SILENCE": "1"}
    if "--trl" in sys.argv:
        theirs()
        return
    if not MODEL.is_dir():
        print(f"no model at {MODEL.relative_to(ROOT)}: make demo first")
        return
    if not TRL.is_dir():
        if "--build" not in sys.argv:
            print("TRL 1.12 is not built: make bench-ppo")
            return
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(TRL), "trl==1.12.0"]
        subprocess.run(pip, check=True)
    subprocess.run([sys.executable, __file__, "--trl"], check=True, env={**os.environ, "PYTHONPATH": str(TRL)})
    ours()


def theirs() -> None:
    """Train with TRL and write the start, and every update's rollout and logs."""
    import datasets
    import torch
    from peft import LoraConfig
    from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, AutoTokenizer, set_seed
    from trl.experimental.ppo import PPOConfig, PPOTrainer

    OUT.mkdir(parents=True, exist_ok=True)
    tokenizer = AutoTokenizer.from_pretrained(MODEL, padding_side="left")
    rows = [json.loads(line) for line in (ROOT / "data/quickstart/train.jsonl").read_text().splitlines()[: BATCH * UPDATES]]
    data = datasets.Dataset.from_list([{"input_ids": tokenizer(row["prompt"])["input_ids"]} for row in rows])
    set_seed(SEED)
    value, reward = (AutoModelForSequenceClassification.from_pretrained(MODEL, num_labels=1) for _ in range(2))
    value.save_pretrained(OUT / "value")
    settings = PPOConfig(
        output_dir=str(OUT / "trl"),
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        seed=SEED,
        report_to="none",
        save_strategy="no",
        disable_tqdm=True,
        learning_rate=RATE,
        lr_scheduler_type="constant",
        per_device_train_batch_size=BATCH,
        gradient_accumulation_steps=1,
        num_mini_batches=1,
        num_ppo_epochs=EPOCHS,
        total_episodes=BATCH * UPDATES,
        response_length=TOKENS,
        temperature=1.0,
        kl_coef=KL,
        kl_estimator="k1",
        cliprange=0.2,
        cliprange_value=0.2,
        vf_coef=0.1,
        gamma=1.0,
        lam=0.95,
        num_sample_generations=0,
        missing_eos_penalty=None,
        stop_token=None,
    )
    trainer = PPOTrainer(
        args=settings,
        processing_class=tokenizer,
        model=AutoModelForCausalLM.from_pretrained(MODEL),
        ref_model=None,
        reward_model=reward,
        value_model=value,
        train_dataset=data,
        peft_config=LoraConfig(r=8, lora_alpha=16, lora_dropout=0.0, target_modules="all-linear", task_type="CAUSAL_LM"),
    )
    trainer.policy_model.save_pretrained(OUT / "adapter")
    updates: list[dict[str, Any]] = []

    def log(metrics: dict[str, float], *rest: Any) -> None:
        seen = sys._getframe(1).f_locals  # those of PPOTrainer.train
        kept = {name: seen[name].clone() for name in ("query_responses", "scores", *TENSORS)}
        updates.append({**kept, "context": seen["context_length"], "padded": int(seen["padding_mask"].sum()), "logs": dict(metrics)})

    trainer.log = log
    trainer.train()
    torch.save(updates, OUT / "updates.pt")


def ours() -> None:
    """The same updates with octavo's trainer, and the largest differences."""
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, AutoTokenizer

    sys.path.insert(0, str(ROOT))
    from stages.contracts.ppo import PpoSettings
    from stages.train.ppo_policy import Policy, SampledBatch
    from stages.train.ppo_trainer import PpoTrainer

    class TwoModels(Policy):
        """Octavo's policy, with a value model of its own instead of a head, and with completions that were sampled elsewhere."""

        def __init__(self) -> None:
            torch.nn.Module.__init__(self)
            self.network = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(MODEL), OUT / "adapter", is_trainable=True)
            self.value = AutoModelForSequenceClassification.from_pretrained(OUT / "value")
            self.checkpointing = False
            self.value_head = self._no_head
            self.next: SampledBatch | None = None

        def _no_head(self, hidden: torch.Tensor) -> torch.Tensor:
            return hidden.new_zeros((*hidden.shape[:-1], 1))

        def sample(self, *arguments: Any, **rest: Any) -> SampledBatch:
            assert self.next is not None
            return self.next

        def read(self, sampled: SampledBatch, temperature: float) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
            logps, entropy, _ = super().read(sampled, temperature)
            body = getattr(self.value, self.value.base_model_prefix)
            places = (sampled.attention.cumsum(1) - 1).clamp(min=0)
            hidden = body(input_ids=sampled.ids, attention_mask=sampled.attention, position_ids=places, use_cache=False).last_hidden_state
            return logps, entropy, self.value.score(hidden[:, -sampled.width - 1 : -1])[..., 0]

    class Listener:
        def on_pre_optimizer_step(self, *arguments: Any, **rest: Any) -> None:
            pass

    plain = {
        "algorithm": "ppo",
        "max_steps": UPDATES,
        "learning_rate": RATE,
        "batch_size": BATCH,
        "mini_batch_size": BATCH,
        "ppo_epochs": EPOCHS,
        "max_completion_length": TOKENS,
        "max_grad_norm": 1e9,  # TRL's PPO does not clip gradients
        "kl": {"controller": "fixed", "init_kl_coef": KL, "estimator": "k1"},
    }
    settings = PpoSettings.model_validate(plain)
    tokenizer = AutoTokenizer.from_pretrained(MODEL, padding_side="left")
    policy = TwoModels()
    scores: list[float] = []
    trainer = PpoTrainer(
        settings,
        policy,
        tokenizer,
        [({"id": str(place)}, "") for place in range(BATCH)],
        ends=set(),
        seed=SEED,
        reward=lambda *arguments, **rest: list(scores),
        callbacks=[Listener()],
    )
    worst: dict[str, float] = {}
    for update in torch.load(OUT / "updates.pt", weights_only=False):
        assert update["padded"] == 0, "a completion holds the padding token: another seed"
        ids, width = update["query_responses"], update["query_responses"].shape[1] - update["context"]
        policy.next = SampledBatch(ids, (ids != tokenizer.pad_token_id).long(), torch.ones(len(ids), width))
        scores[:] = update["scores"].tolist()
        batch, logs = trainer._scored()
        logs |= trainer._learn(batch)
        trainer.state.global_step += 1
        mine = {"logprobs": batch.logps, "values": batch.values, "advantages": batch.advantages, "returns": batch.returns}
        for name, tensor in mine.items():
            worst[name] = max(worst.get(name, 0.0), float((tensor - update[name]).abs().max()))
        for name, theirs_name in NAMES.items():
            logged = logs[name]
            assert logged is not None
            worst[name] = max(worst.get(name, 0.0), abs(logged - update["logs"][theirs_name]))
        shown = "  ".join(
            f"{name} {logs[name]:.5f}/{update['logs'][NAMES[name]]:.5f}" for name in ("objective.kl", "loss.policy", "loss.value")
        )
        print(f"update {trainer.state.global_step} (octavo/TRL): {shown}")
    print(f"largest difference over {UPDATES} updates of {EPOCHS} epochs, {BATCH} completions of {TOKENS} tokens")
    for name, value in worst.items():
        print(f"  {name:28} {value:.1e}")


if __name__ == "__main__":
    main()
