"""Stage: train one run with one of TRL's algorithms for groups of completions (GRPO, RLOO): a LoRA adapter, or all weights.

    python -m stages.train.trl runs/<experiment>/<run>

`prepared`, `settings` and `train_to_end` serve the stages of other algorithms too. TRL takes seconds to import, so it is imported late.
"""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import Discriminator

from stages.contracts.attempt import Determinism
from stages.contracts.layout import ExperimentFolder
from stages.contracts.run_card import TrainCard
from stages.contracts.stage import main
from stages.contracts.training import GenerationSettings, GrpoSettings, RlooSettings, TrlSettings, VllmSettings
from stages.train import interrupts, ranks
from stages.train.attempts import Stopped
from stages.train.determinism import UNSUPPORTED, sampling, use_deterministic_updates
from stages.train.model import end_tokens, for_training, load_base, lora, prompt_texts
from stages.train.refusals import refusal
from stages.train.resume import newest, required_files
from stages.train.run import Work, attempt
from stages.train.scoring import TrainingReward
from stages.train.stop_texts import StopTexts, stopping_criteria
from stages.train.tracking import tracked, tracking

MODULE = "stages.train.trl"
CHECKPOINT = ("trainer_state.json", "optimizer.pt", "scheduler.pt", "rng_state.pth")
"""Files of a complete checkpoint beside the weights. Without one of them transformers silently restarts the optimizer or the random
numbers."""

GroupedCard = TrainCard[Annotated[GrpoSettings | RlooSettings, Discriminator("algorithm")]]
T = TypeVar("T", bound=TrlSettings)


def train(folder: Path) -> int:
    """One attempt of a run; the exit code (stages/train/run.py)."""
    return attempt(folder, GroupedCard, MODULE, fit, CHECKPOINT)


def fit(work: Work[Any]) -> Path:
    """Train to the end, on all devices of the card, and return the checkpoint that holds the adapter."""
    card = work.card
    if card.gpus > 1 and ranks.world() == 1:
        ranks.launch(work, fit)
        return saved_checkpoint(work, CHECKPOINT)
    import datasets
    import trl
    from transformers import PrinterCallback

    config, trainer = {"grpo": (trl.GRPOConfig, trl.GRPOTrainer), "rloo": (trl.RLOOConfig, trl.RLOOTrainer)}[card.train.algorithm]
    with prepared(work, group=card.train.num_generations, pad_ends=True) as parts:
        texts = prompt_texts(card.model, card.data, parts.tokenizer, work.rows)
        prompts = [{"prompt": text, "id": row["id"]} for text, row in zip(texts, work.rows, strict=True)]
        training = trainer(
            args=config(**settings(card, work.output), **trl_settings(card)),
            model=parts.model,
            train_dataset=datasets.Dataset.from_list(prompts),
            processing_class=parts.tokenizer,
            reward_funcs=[parts.reward],
            peft_config=lora(card.model.adapter),
            callbacks=parts.listeners,
        )
        training.remove_callback(PrinterCallback)
        if card.train.sync_ref_model:
            from stages.train.callbacks import KeptReference

            training.add_callback(KeptReference(training.ref_model, work.checkpoint))
        if engine(card) == "compiled":
            from stages.train.rollouts import Rollouts

            Rollouts(card.train.generation or GenerationSettings(), parts.logits, work.notes, parts.stops).attach(training)
        if parts.stops.texts:
            _stop_at_texts(training, parts)
        training._generate = parts.generating.around(sampling()(training._generate))  # ends with lists of tokens, so a GPU has finished
        continue_order(training, work.steps_before)
        return train_to_end(work, training)


@dataclass(frozen=True)
class Prepared:
    """What every algorithm sets up before it builds its trainer. `ends`: tokens that end a completion."""

    model: Any
    tokenizer: Any
    ends: set[int]
    stops: StopTexts
    """Texts that end one too."""
    logits: Any
    """An InvalidLogits (stages/train/guards.py), or None when the card leaves logits alone."""
    reward: Any
    """A TrainingReward, or None for an algorithm without a reward."""
    generating: Any
    """A Clock for the function that samples."""
    listeners: list[Any]


@contextlib.contextmanager
def prepared(work: Work[Any], *, group: int = 1, pad_ends: bool = False, tokens_before: int = 0) -> Iterator[Prepared]:
    """The model ready to train, the reward and the listeners of an attempt; tracked in W&B while inside. Raises Stopped when training
    inside failed and the policy's logits are not finite.

    `group`: completions of a prompt. `pad_ends`: a completion that ends in padding was not cut. `tokens_before`: those of the steps
    before a resume, for a trainer that counts from its own start."""
    from stages.train.callbacks import Clock, HistoryRecorder
    from stages.train.guards import InvalidLogits, NonfiniteGuard, policy_finite

    card, settings = work.card, work.card.train
    if card.device == "cuda":
        work.notes["determinism"] = determinism(card)
        if settings.deterministic:
            use_deterministic_updates()
    # an adapter is trained in float32 beside weights in bfloat16; steps as small as those of RL are lost in weights in bfloat16
    model, tokenizer = load_base(card.model, card.device, bf16=settings.bf16 and card.model.adapter.kind == "lora")
    model = for_training(card.model, model, gradient_checkpointing=settings.gradient_checkpointing)
    ends, texts = end_tokens(model, tokenizer), StopTexts.from_data(card.data, tokenizer)
    logits = reward = clock = None
    if card.reward is not None:
        clock = Clock()
        if settings.guards.remove_invalid_logits:
            logits = InvalidLogits()
            logits.attach(model)
        reward = TrainingReward(
            card.reward,
            rows=work.rows,
            seed=card.seed,
            group=group,
            ends=ends | {tokenizer.pad_token_id} if pad_ends else ends,
            stops=texts,
            journal=work.journal,
            attempt=work.started.attempt,
        )
    guard = NonfiniteGuard(settings.guards, work.journal.in_a_row(work.steps_before))
    with tracked(card, work.run.name, work.started.attempt, tracking(ExperimentFolder(work.run.root.parent))) as tracker:
        if tracker is not None and tracker.place:
            work.notes["wandb"] = tracker.place
        recorder = HistoryRecorder(work, guard, reward, logits, clock, tokens_before, tracker)
        try:
            yield Prepared(model, tokenizer, ends, texts, logits, reward, clock, [guard, recorder])
        except RuntimeError as error:  # sampling from a policy of NaNs raises; the policy itself shows whether that is what happened
            if UNSUPPORTED in str(error):
                what = f"{error}".partition(".")[0]
                raise Stopped("bug", f"{what}; `train: {{deterministic: false}}` trains without, and the run cannot be repeated") from None
            if policy_finite(model, tokenizer, prompt_texts(card.model, card.data, tokenizer, work.rows[:1])[0]):
                raise
            last = max(work.steps_before, work.journal.last_step(work.started.attempt))
            raise Stopped("nonfinite", f"the policy's logits are not finite after step {last}") from None


def _stop_at_texts(training: Any, parts: Prepared) -> None:
    """End completions at the texts of the spec, whatever samples: rows of transformers' `generate` stop there, and of the others the
    tokens behind are dropped, as those behind an end token are."""
    policy = training.accelerator.unwrap_model(training.model)
    generate, sample = policy.generate, training._generate_single_turn

    def stopping(*arguments: Any, **named: Any) -> Any:
        return generate(*arguments, **named, **stopping_criteria(parts.stops, named["input_ids"].shape[1]))

    def cut(*arguments: Any, **named: Any) -> Any:
        output = sample(*arguments, **named)  # GRPO's has log-probabilities beside the tokens
        completions, logps = output if isinstance(output, tuple) else (output, None)
        lengths = [parts.stops.length(ids, parts.ends) for ids in completions]
        kept = [ids[:length] for ids, length in zip(completions, lengths, strict=True)]
        if not isinstance(output, tuple):
            return kept
        return kept, logps and [row[:length] for row, length in zip(logps, lengths, strict=True)]

    policy.generate, training._generate_single_turn = stopping, cut


def train_to_end(work: Work[Any], training: Any) -> Path:
    """Let a trainer of TRL train, from the checkpoint where there is one, and return the checkpoint that holds what was trained."""
    with interrupts.saving_first():
        training.train(resume_from_checkpoint=str(work.checkpoint[0]) if work.checkpoint else None)
    ranks.gathered([0])  # every rank has saved
    return saved_checkpoint(work, CHECKPOINT) if ranks.world() == 1 else work.output  # of several ranks the stage looks


def saved_checkpoint(work: Work[Any], files: Sequence[str]) -> Path:
    """The checkpoint of the last step, with `files` and the weights. Raises Stopped when it is not complete, KeyboardInterrupt when SIGTERM
    has ended training and an earlier step is saved."""
    saved = newest(work.output, required_files(files, work.card))
    last = work.stopping.stopped.step if work.stopping.stopped else work.card.train.max_steps
    if saved is None or saved[1] != last:
        if saved and interrupts.is_to_save():
            raise KeyboardInterrupt(f"{interrupts.received()}, step {saved[1]} is saved")
        raise Stopped("bug", f"no complete checkpoint of step {last}")
    return saved[0]


def continue_order(training: Any, steps_before: int) -> None:
    """TRL shuffles each round of the data with the next numbers of one generator, and a resumed run would begin with the first numbers
    again. Draw the numbers of the finished rounds and discard them, so that every prompt comes when it would have come."""
    import torch

    plain = training._get_train_sampler

    def sampler(*arguments: Any, **named: Any) -> Any:
        order, settings = plain(*arguments, **named), training.args
        if not order.shuffle:
            return order
        micro_steps = len(order) // settings.generation_batch_size
        steps = max(1, -(-micro_steps // settings.gradient_accumulation_steps))
        for _ in range(steps_before // steps):
            torch.randperm(order.num_samples, generator=order.generator)
        return order

    training._get_train_sampler = sampler


def settings(card: TrainCard[T], output: Path) -> dict[str, Any]:
    """Settings of any trainer of TRL, so that it logs every step as it was: with TRL's defaults a NaN loss is logged as 0.0 and steps
    are averaged. Raises StageError S278 when the optimizer's package is not installed."""
    if card.train.uses_bitsandbytes and importlib.util.find_spec("bitsandbytes") is None:
        raise refusal("S278.optim", optim=card.train.optim)
    return {
        **card.train.trl,
        **card.train.model_dump(exclude={"algorithm", "guards", "generation", "deterministic", "trl", "warmup_ratio"}),
        "warmup_steps": card.train.warmup,
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


def engine(card: TrainCard[Any]) -> str:
    """`auto` resolved: `compiled` on a GPU, `transformers` on a CPU. Quantisation to 8 bits stays with `transformers`."""
    chosen = card.train.generation.engine if card.train.generation else "auto"
    if chosen != "auto":
        return chosen
    return "compiled" if card.device == "cuda" and card.model.quantization != "int8" else "transformers"


def determinism(card: TrainCard[Any]) -> Determinism:
    """What is deterministic of a run on a GPU: no setting of ours reaches into the engines that serve many requests."""
    if not card.train.deterministic:
        return "none"
    return "update" if card.reward is not None and engine(card) in ("vllm", "continuous_batching") else "all"


def trl_settings(card: TrainCard[Any]) -> dict[str, Any]:
    """Keyword arguments of TRL's configuration. Raises StageError S245 when the engine's package is not installed."""
    chosen = engine(card)
    is_loaded_again = card.model.hub and card.model.adapter.kind == "full"  # the reference model, by its name
    reference = {"model_init_kwargs": {"revision": card.model.revision}} if is_loaded_again else {}
    if chosen == "continuous_batching":
        return {"use_transformers_continuous_batching": True, **reference}
    if chosen != "vllm":
        return reference
    if importlib.util.find_spec("vllm") is None:
        raise refusal("S245")
    vllm = (card.train.generation or GenerationSettings()).vllm or VllmSettings()
    return {"use_vllm": True, **reference, **{f"vllm_{key}": value for key, value in vllm.model_dump().items()}}


if __name__ == "__main__":
    main(train, "python -m stages.train.trl runs/<experiment>/<run>")
