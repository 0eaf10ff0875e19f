"""Stage: train one run with PPO and a LoRA adapter. The trainer is octavo's own: TRL's was removed in 1.13.

python -m stages.train.ppo runs/<experiment>/<run>
"""

from __future__ import annotations

from pathlib import Path

from stages.contracts.generation import OwnGenerationSettings
from stages.contracts.ppo import PpoSettings
from stages.contracts.run_card import TrainCard
from stages.contracts.stage import main
from stages.train.attempts import Stopped
from stages.train.checkpoints import newest
from stages.train.engines import engine
from stages.train.model import end_tokens, load_base, prompt_texts
from stages.train.progress import Progress
from stages.train.quantized import for_training
from stages.train.run import Work, attempt
from stages.train.scoring import TrainingReward
from stages.train.tracking import tracked

MODULE = "stages.train.ppo"
CHECKPOINT = (
    "trainer_state.json",
    "optimizer.pt",
    "scheduler.pt",
    "rng_state.pth",
    "value_head.pt",
    "adapter_model.safetensors",
    "adapter_config.json",
)
"""Files of a complete checkpoint (stages/train/ppo_checkpoint.py writes them)."""


def train(folder: Path) -> int:
    """One attempt of a run; the exit code (stages/train/run.py)."""
    return attempt(folder, TrainCard[PpoSettings], MODULE, _fit, CHECKPOINT)


def _fit(work: Work[PpoSettings]) -> Path:
    from transformers import set_seed

    from stages.train.callbacks import Clock, HistoryRecorder, Tracker
    from stages.train.guards import InvalidLogits, NonfiniteGuard, adapter_change, adapter_state, policy_finite
    from stages.train.ppo_checkpoint import restore, save
    from stages.train.ppo_policy import Policy
    from stages.train.ppo_trainer import PpoTrainer
    from stages.train.rollouts import Rollouts

    card, settings, gates = work.card, work.card.train, work.card.reward
    assert gates is not None  # the compiler gives every sampled algorithm one
    model, tokenizer = load_base(card.model, card.device, bf16=settings.bf16)
    model = for_training(card.model, model, gradient_checkpointing=settings.gradient_checkpointing)
    logits = InvalidLogits() if settings.guards.remove_invalid_logits else None
    if logits is not None:
        logits.attach(model)
    set_seed(card.seed)
    policy = Policy(model, card.model.adapter, settings.gradient_checkpointing)
    if engine(card) == "compiled":
        policy.rollouts = Rollouts(settings.generation or OwnGenerationSettings(), logits, work.said)
    ends = end_tokens(model, tokenizer)
    reward = TrainingReward(
        gates,
        rows={row["id"]: row for row in work.rows},
        seed=card.seed,
        group=1,
        ends=ends,
        journal=work.journal,
        attempt=work.started.attempt,
    )
    guard = NonfiniteGuard(settings.guards, work.journal.in_a_row(work.steps_before))
    progress = Progress(work.name, work.started.number, settings.max_steps, begin_at=work.steps_before)
    generating = Clock()
    recorder = HistoryRecorder(work.journal, reward, guard, progress, work.started.attempt, work.stopping, logits, generating)
    policy.sample = generating.around(policy.sample)  # type: ignore[method-assign]
    with tracked(card, experiment=card.experiment, group=card.condition, name=work.run.name, attempt=work.started.attempt) as sink:
        trainer = PpoTrainer(
            settings,
            policy,
            tokenizer,
            list(zip(work.rows, prompt_texts(card.model, tokenizer, [row[card.data.prompt] for row in work.rows]), strict=True)),
            ends=ends,
            seed=card.seed,
            reward=reward,
            callbacks=[guard, recorder, *([Tracker(sink)] if sink else [])],
        )
        start = adapter_state(policy.network)
        if work.checkpoint:
            restore(trainer, work.checkpoint[0])
        try:
            trainer.train(lambda trained: save(trained, work.output))
        except RuntimeError:  # sampling from a policy of NaNs raises; the policy itself tells whether that is what happened
            adapter_change(start, policy.network)
            if not policy_finite(policy.network, tokenizer, work.rows[0][card.data.prompt]):
                raise Stopped("nonfinite", f"the policy's logits are not finite after step {trainer.state.global_step}") from None
            raise
    adapter_change(start, policy.network)
    saved = newest(work.output, CHECKPOINT)
    if saved is None or saved[1] != trainer.state.global_step:
        raise Stopped("bug", f"no complete checkpoint of step {trainer.state.global_step}")
    return saved[0]


if __name__ == "__main__":
    main(train, "python -m stages.train.ppo runs/<experiment>/<run>")
