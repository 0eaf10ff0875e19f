"""Training with TRL's trainers: what all share (`to_the_end`, `settings`), and what those for grouped completions do (GRPO, RLOO).
TRL costs seconds to load."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from stages.contracts.generation import GenerationSettings
from stages.contracts.grouped import GroupedSettings
from stages.contracts.optimized import OptimizedSettings
from stages.contracts.run_card import TrainCard
from stages.train import ranks
from stages.train.attempts import Stopped
from stages.train.checkpoints import newest, of_ranks, weights
from stages.train.data import Row
from stages.train.engines import engine, trl_settings
from stages.train.model import load_base, lora, prompt_texts
from stages.train.progress import Progress
from stages.train.quantized import for_training
from stages.train.run import Work
from stages.train.scoring import TrainingReward
from stages.train.tracking import tracked

CHECKPOINT = ("trainer_state.json", "optimizer.pt", "scheduler.pt", "rng_state.pth")
"""Files of a complete checkpoint beside the weights. Without one of them transformers silently restarts the optimizer or the random
numbers."""

Trainer = Callable[..., Any]
"""`(settings, **parts)`: settings are the keyword arguments of the algorithm's configuration, parts those of its trainer."""

T = TypeVar("T", bound=OptimizedSettings)
G = TypeVar("G", bound=GroupedSettings)


def fit(work: Work[G], trainer: Trainer) -> Path:
    """Train to the end, on all devices of the card, and return the checkpoint that holds the adapter."""
    card = work.card
    command = ("-m", f"stages.train.{card.train.algorithm}", work.run.root.as_posix())
    task = {
        "card": card.model_dump(mode="json"),
        "started": work.started.model_dump(mode="json"),
        "journal": work.journal.history.parent.as_posix(),
        "output": work.output.as_posix(),
        "checkpoint": work.checkpoint[0].as_posix() if work.checkpoint else None,
        "done": work.steps_before,
    }
    with ranks.followers(card.gpus, command, work.output.parent / "ranks", task):
        return _fit(work, trainer)


def _fit(work: Work[G], trainer: Trainer) -> Path:
    from stages.train.callbacks import Clock, HistoryRecorder, Tracker
    from stages.train.guards import InvalidLogits, NonfiniteGuard

    card, steps, gates = work.card, work.card.train.max_steps, work.card.reward
    assert gates is not None  # the compiler gives every sampled algorithm one
    ranks.use_own_device(card.device)
    model, tokenizer = load_base(card.model, card.device, bf16=card.train.bf16)
    model = for_training(card.model, model, gradient_checkpointing=card.train.gradient_checkpointing)
    logits = InvalidLogits() if card.train.guards.remove_invalid_logits else None
    if logits is not None:
        logits.attach(model)
    reward = TrainingReward(
        gates,
        rows={row["id"]: row for row in work.rows},
        seed=card.seed,
        group=card.train.num_generations,
        ends={tokenizer.eos_token_id, tokenizer.pad_token_id},
        journal=work.journal,
        attempt=work.started.attempt,
    )
    guard = NonfiniteGuard(card.train.guards, work.journal.in_a_row(work.steps_before))
    progress = Progress(work.name, work.started.number, steps, begin_at=work.steps_before)
    generating = Clock()
    recorder = HistoryRecorder(work.journal, reward, guard, progress, work.started.attempt, work.stopping, logits, generating)
    with tracked(card, experiment=card.experiment, group=card.condition, name=work.run.name, attempt=work.started.attempt) as sink:
        listeners = [guard, recorder, *([Tracker(sink)] if sink else [])]
        training = built(card, trainer, model, tokenizer, work.rows, reward=reward, callbacks=listeners, output=work.output)
        if engine(card) == "compiled":
            from stages.train.rollouts import Rollouts

            rollouts = Rollouts(card.train.generation or GenerationSettings(), logits, work.said)
            rollouts.attach(training)
        training._generate = generating.around(training._generate)  # ends with lists of tokens, so a GPU has finished
        go_on_in_order(training, work.steps_before)
        return to_the_end(work, training, tokenizer)


def to_the_end(work: Work[T], training: Any, tokenizer: Any) -> Path:
    """Let a trainer train, from the checkpoint where there is one, and return the checkpoint that holds what was trained. Raises
    Stopped when the weights are not finite, or did not move although there were gradients."""
    from stages.train.guards import adapter_change, adapter_state, policy_finite

    card = work.card
    start = adapter_state(training.model)
    try:
        training.train(resume_from_checkpoint=str(work.checkpoint[0]) if work.checkpoint else None)
    except RuntimeError:  # sampling from a policy of NaNs raises; the policy itself tells whether that is what happened
        adapter_change(start, training.model)
        if not policy_finite(training.model, tokenizer, work.rows[0][card.data.prompt]):
            raise Stopped("nonfinite", f"the policy's logits are not finite after step {training.state.global_step}") from None
        raise
    if adapter_change(start, training.model) == 0.0 and work.journal.moved():
        raise Stopped("bug", "gradients were not zero and no trained weight changed: what is trained is not what has gradients")
    ranks.gathered([0])  # every rank has saved
    if ranks.rank():
        return work.output
    saved = newest(work.output, of_ranks((*CHECKPOINT, *weights(card.model.adapter.kind)), card.gpus))
    last = work.stopping.stopped.step if work.stopping.stopped else card.train.max_steps
    if saved is None or saved[1] != last:
        raise Stopped("bug", f"no complete checkpoint of step {last}")
    return saved[0]


def go_on_in_order(training: Any, steps_before: int) -> None:
    """TRL shuffles each round of the data with the next numbers of one generator, and begins with the first ones again in the round that
    a resumed run is in. The rounds that lie behind are drawn here and thrown away, so that every prompt comes when it would have come."""
    import torch

    plain = training._get_train_sampler

    def sampler(*arguments: Any, **named: Any) -> Any:
        found, settings = plain(*arguments, **named), training.args
        micro_steps = len(found) // settings.generation_batch_size
        steps = max(1, -(-micro_steps // settings.gradient_accumulation_steps))
        for _ in range(steps_before // steps):
            torch.randperm(found.num_samples, generator=found.generator)
        return found

    training._get_train_sampler = sampler


def built(
    card: TrainCard[G],
    trainer: Trainer,
    model: Any,
    tokenizer: Any,
    rows: Sequence[Row],
    *,
    reward: Callable[..., list[float | None]],
    callbacks: Sequence[Any],
    output: Path,
) -> Any:
    """A trainer of grouped completions."""
    import datasets
    from transformers import PrinterCallback

    prompts = prompt_texts(card.model, tokenizer, [row[card.data.prompt] for row in rows])
    training = trainer(
        {**settings(card, output), **trl_settings(card)},
        model=model,
        train_dataset=datasets.Dataset.from_list([{"prompt": text, "id": row["id"]} for text, row in zip(prompts, rows, strict=True)]),
        processing_class=tokenizer,
        reward_funcs=[reward],
        peft_config=lora(card.model.adapter),
        callbacks=list(callbacks),
    )
    training.remove_callback(PrinterCallback)
    return training


def settings(card: TrainCard[T], output: Path) -> dict[str, Any]:
    """Settings of any trainer, so that it logs every step as it was: with TRL's defaults a NaN loss is logged as 0.0 and steps are
    averaged."""
    return {
        **card.train.model_dump(exclude={"algorithm", "guards", "generation"}),
        "output_dir": str(output),
        "seed": card.seed,
        "use_cpu": card.device == "cpu",
        "logging_steps": 1,
        "logging_nan_inf_filter": False,
        "save_strategy": "steps",
        "save_total_limit": 2,
        "report_to": "none",
        "disable_tqdm": True,
        "dataloader_pin_memory": card.device != "cpu",
        **({"ddp_find_unused_parameters": False} if card.gpus > 1 else {}),
    }
