"""Seconds of a GRPO step on one GPU, split into generation, reward and update: octavo's engines against a plain TRL script.

    python benchmarks/gpu_step.py [--tiny] [--budget SECONDS] [--parts NAME,NAME,NAME]
    python benchmarks/gpu_step.py [--tiny] --turns NAME,NAME --steps N

Models have random weights and the shapes of a 7B Llama and a 1.5B Qwen; 16 completions of one prompt a step, as in seed 1, nearly all of
them at full length. Both sides load the same files, train the same adapter with the same settings and score with the same reward. Each
part prints its line when it is done; a part that no longer fits into the budget is left out. Parts run in the order given; one that is
named twice runs twice (`qwen-plain,qwen-octavo,qwen-plain,qwen-octavo`: what drifts, drifts for both sides). `--turns` loads two parts and
takes a step of one, then a step of the other: generation that waits for Python drifts by a tenth from process to process and minute to
minute, and pairs of neighbouring steps hold that out. `--tiny` runs every part on a CPU, to see that it works: its seconds mean nothing.
"""

from __future__ import annotations

import argparse
import dataclasses
import gc
import statistics
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stages.contracts.generation import GenerationSettings
from stages.contracts.grpo import GrpoSettings
from stages.contracts.model_card import AdapterCard, DataCard, ModelCard
from stages.contracts.plugin import Answer
from stages.contracts.reward_card import GateCard, RewardCard
from stages.contracts.run_card import TrainCard
from stages.train.environment import prepare

SHAPES: dict[str, dict[str, int]] = {
    "7b": {"hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 30, "num_attention_heads": 32, "num_key_value_heads": 32},
    "1.5b": {"hidden_size": 1536, "intermediate_size": 8960, "num_hidden_layers": 28, "num_attention_heads": 12, "num_key_value_heads": 2},
}
VOCABULARY = {"7b": 102_400, "1.5b": 151_936}
PROMPT = 200
ROWS = [{"id": f"row-{number}", "prompt": "".join(chr(97 + (number * 7 + k) % 26) for k in range(PROMPT))} for number in range(64)]


@dataclass(frozen=True)
class Part:
    """One side of a comparison. `engine` None: the plain script."""

    name: str
    shape: str
    nf4: bool
    tokens: int
    engine: GenerationSettings | None
    steps: int
    seconds: float
    """What it takes on an H100, loading and compiling included: what the budget is compared with."""
    checkpointing: bool = False


TRANSFORMERS = GenerationSettings(engine="transformers")
COMPILED = GenerationSettings(engine="compiled")
RECORDED = GenerationSettings(engine="compiled", torch_compile=False)
BATCHING = GenerationSettings(engine="continuous_batching")
PARTS = (
    Part("bf16-plain", "7b", False, 256, None, 3, 50),
    Part("bf16-recorded", "7b", False, 256, RECORDED, 4, 30),
    Part("bf16-compiled", "7b", False, 256, COMPILED, 5, 70),
    Part("nf4-plain", "7b", True, 256, None, 4, 95),
    Part("nf4-octavo", "7b", True, 256, TRANSFORMERS, 4, 95),
    Part("nf4-compiled", "7b", True, 256, COMPILED, 5, 60),
    Part("bf16-octavo", "7b", False, 256, TRANSFORMERS, 3, 50),
    Part("qwen-plain", "1.5b", False, 256, None, 5, 65),
    Part("qwen-octavo", "1.5b", False, 256, TRANSFORMERS, 5, 65),
    Part("qwen-batching", "1.5b", False, 256, BATCHING, 4, 80),
    Part("qwen-compiled", "1.5b", False, 256, COMPILED, 5, 45),
    Part("nf4-512-plain", "7b", True, 512, None, 2, 90, checkpointing=True),
    Part("nf4-512-compiled", "7b", True, 512, COMPILED, 3, 80, checkpointing=True),
)


class Turns:
    """Two trainers of one process, each in a thread, take their steps in turn. Nobody works outside of its turn."""

    def __init__(self) -> None:
        self.condition, self.now, self.left = threading.Condition(), 0, [0, 1]

    def take(self, who: int) -> None:
        with self.condition:
            self.condition.wait_for(lambda: self.now == who)

    def give(self, who: int, last: bool = False) -> None:
        with self.condition:
            if last:
                self.left.remove(who)
            self.now = next((other for other in self.left if other != who), who)
            self.condition.notify_all()


@dataclass(frozen=True)
class Turn:
    """One trainer's place in the turns."""

    turns: Turns
    who: int

    def take(self) -> None:
        self.turns.take(self.who)

    def give(self) -> None:
        self.turns.give(self.who)


class Clock:
    """Wall seconds inside of the functions that it wraps, the device waited for before and after."""

    def __init__(self, cuda: bool) -> None:
        self.cuda, self.seconds = cuda, 0.0

    def now(self) -> float:
        if self.cuda:
            import torch

            torch.cuda.synchronize()
        return time.perf_counter()

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*positional: Any, **named: Any) -> Any:
            begun = self.now()
            try:
                return function(*positional, **named)
            finally:
                self.seconds += self.now() - begun

        return timed

    def taken(self) -> float:
        found, self.seconds = self.seconds, 0.0
        return found


def make_model(folder: Path, shape: str, tiny: bool, cuda: bool) -> Path:
    """Random weights of a shape and a tokenizer of 400 characters, saved once."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

    path = folder / shape
    if (path / "config.json").exists():
        return path
    vocabulary = {chr(33 + place) if place < 90 else f"<t{place}>": place for place in range(400)} | {"<pad>": 400, "<eos>": 401}
    inner = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token="!"))
    inner.pre_tokenizer, inner.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    PreTrainedTokenizerFast(tokenizer_object=inner, pad_token="<pad>", eos_token="<eos>", padding_side="left").save_pretrained(path)
    sizes = dict(SHAPES[shape], vocab_size=VOCABULARY[shape])
    if tiny:
        kept = {"num_attention_heads": 4, "num_key_value_heads": 4 if shape == "7b" else 2}
        sizes = {"hidden_size": 128, "intermediate_size": 192, "num_hidden_layers": 2, "vocab_size": 512, **kept}
    ids = {"max_position_embeddings": 4096, "pad_token_id": 400, "eos_token_id": 401, "bos_token_id": None}
    torch.set_default_dtype(torch.bfloat16 if cuda else torch.float32)
    with torch.device("cuda" if cuda else "cpu"):
        if shape == "7b":
            model = LlamaForCausalLM(LlamaConfig(**sizes, **ids))
        else:
            model = Qwen2ForCausalLM(Qwen2Config(**sizes, **ids, tie_word_embeddings=True))
    torch.set_default_dtype(torch.float32)
    model.save_pretrained(path)
    return path


def card_of(part: Part, path: Path, cuda: bool, tokens: int) -> TrainCard[GrpoSettings]:
    """The card of a run of seed 1's sizes."""
    settings = GrpoSettings(
        max_steps=part.steps,
        learning_rate=1e-6,
        per_device_train_batch_size=16,
        num_generations=16,
        beta=0.04,
        temperature=0.9,
        max_completion_length=tokens,
        bf16=cuda,
        gradient_checkpointing=part.checkpointing,
        save_steps=1000,
        generation=part.engine,
    )
    gate = GateCard(name="chars", kind="length", settings={"formula": "2 - chars/4096", "low": 0.0, "high": 2.0})
    adapter = AdapterCard(r=16, lora_alpha=32, target_modules=("q_proj", "k_proj", "v_proj", "o_proj"))
    return TrainCard[GrpoSettings](
        experiment="bench",
        condition=part.name,
        seed=1,
        null_control=False,
        model=ModelCard(base=part.shape, path=str(path), revision="0", quantization="nf4" if part.nf4 else "none", adapter=adapter),
        data=DataCard(path="none", sha256="0"),
        reward=RewardCard(name="chars", gates=(gate,)),
        train=settings,
        device="cuda" if cuda else "cpu",
        versions={},
        code_hash="0",
    )


@dataclass
class Measured:
    steps: list[tuple[float, float, float]]
    """(whole step, generation, reward) in seconds."""
    ours: list[float]
    """Seconds a step inside of octavo's own code; empty for the plain script."""
    said: str
    gib: float


def plain(card: TrainCard[GrpoSettings], folder: Path, turn: Turn | None = None) -> Measured:
    """A script as a user of TRL writes it: TRL's defaults where the card says nothing."""
    import datasets
    import torch
    from peft import LoraConfig, prepare_model_for_kbit_training
    from transformers import AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig
    from trl import GRPOConfig, GRPOTrainer

    from stages.train.rewards.compose import compose

    cuda, of = card.device == "cuda", card.train
    tokenizer = AutoTokenizer.from_pretrained(card.model.path, padding_side="left")
    dtype = torch.bfloat16 if cuda else torch.float32
    quantised: dict[str, Any] = {}
    if card.model.quantization == "nf4":
        quantised["quantization_config"] = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=dtype)
    model = AutoModelForCausalLM.from_pretrained(card.model.path, dtype=dtype, device_map={"": 0 if cuda else "cpu"}, **quantised)
    if quantised:
        model = prepare_model_for_kbit_training(model, use_gradient_checkpointing=of.gradient_checkpointing)
    composed, rows = compose(card.reward), {row["id"]: row for row in ROWS}
    clock = Clock(cuda)

    def reward(completions: list[str], id: list[str], **rest: Any) -> list[float | None]:
        return composed.score([Answer(text, rows[name]) for text, name in zip(completions, id, strict=True)]).rewards

    timed = clock.around(reward)
    timed.__name__ = "reward"
    settings = GRPOConfig(
        output_dir=str(folder),
        max_steps=of.max_steps,
        learning_rate=of.learning_rate,
        per_device_train_batch_size=of.per_device_train_batch_size,
        num_generations=of.num_generations,
        beta=of.beta,
        temperature=of.temperature,
        max_completion_length=of.max_completion_length,
        bf16=of.bf16,
        use_cpu=not cuda,
        gradient_checkpointing=of.gradient_checkpointing,
        lr_scheduler_type="constant",
        logging_steps=1,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        seed=card.seed,
    )
    adapter = LoraConfig(r=16, lora_alpha=32, target_modules=list(card.model.adapter.target_modules), task_type="CAUSAL_LM")
    trainer = GRPOTrainer(
        model=model,
        args=settings,
        reward_funcs=[timed],
        train_dataset=datasets.Dataset.from_list(ROWS),
        processing_class=tokenizer,
        peft_config=adapter,
    )
    return _timed(trainer, clock, cuda, list, lambda: "plain TRL", turn=turn)


def ours(card: TrainCard[GrpoSettings], folder: Path, turn: Turn | None = None) -> Measured:
    """The same training with all that octavo's stage puts around it (stages/train/with_trl.py)."""
    from stages.train.callbacks import HistoryRecorder
    from stages.train.engines import engine
    from stages.train.grpo import trainer as grpo_trainer
    from stages.train.guards import NonfiniteGuard
    from stages.train.model import load_base
    from stages.train.progress import Progress
    from stages.train.quantized import for_training
    from stages.train.recorder import Journal
    from stages.train.rollouts import METRIC, Rollouts
    from stages.train.scoring import TrainingReward
    from stages.train.stopping import Stopping
    from stages.train.with_trl import built

    cuda = card.device == "cuda"
    model, tokenizer = load_base(card.model, card.device, bf16=card.train.bf16)
    model = for_training(card.model, model, gradient_checkpointing=card.train.gradient_checkpointing)
    journal = Journal(folder / "journal")
    ends = {tokenizer.eos_token_id, tokenizer.pad_token_id}
    rows = {row["id"]: row for row in ROWS}
    reward: Any = TrainingReward(card.reward, rows=rows, seed=1, group=card.train.num_generations, ends=ends, journal=journal, attempt="a")
    guard = NonfiniteGuard(card.train.guards)
    recorder = HistoryRecorder(journal, reward, guard, Progress("bench", 1, card.train.max_steps), "a", Stopping(None, journal, 0))
    scoring, own = Clock(cuda), Clock(cuda)
    timed = scoring.around(reward)
    timed.__name__ = reward.__name__
    judging = Clock(cuda)
    reward.composed.score = judging.around(reward.composed.score)
    guard.on_pre_optimizer_step = own.around(guard.on_pre_optimizer_step)
    recorder.on_log = own.around(recorder.on_log)
    trainer = built(card, grpo_trainer, model, tokenizer, ROWS, reward=timed, callbacks=[guard, recorder], output=folder / "trainer")
    generated: dict[str, str] = {}
    if engine(card) == "compiled":
        rollouts = Rollouts(card.train.generation or GenerationSettings(), None, generated)
        rollouts._compare = own.around(rollouts._compare)  # type: ignore[method-assign]
        rollouts.attach(trainer)
    last = [0.0]

    def owned() -> list[float]:
        spent = own.taken() + sum(last) - judging.taken()
        return [spent]

    def said() -> str:
        rows = trainer.state.log_history
        found = [(row[f"{METRIC}/mean"], row[f"{METRIC}/max"]) for row in rows if f"{METRIC}/mean" in row]
        difference = (
            f", log-probabilities differ by {max(m for m, _ in found):.5f} mean, {max(x for _, x in found):.4f} max" if found else ""
        )
        return generated.get("generation", "transformers") + difference

    return _timed(trainer, scoring, cuda, owned, said, last, turn)


def _timed(
    trainer: Any,
    scoring: Clock,
    cuda: bool,
    owned: Callable[[], list[float]],
    said: Callable[[], str],
    last: list[float] | None = None,
    turn: Turn | None = None,
) -> Measured:
    import torch
    from transformers import PrinterCallback, TrainerCallback

    generating = Clock(cuda)
    trainer.remove_callback(PrinterCallback)
    trainer._generate = generating.around(trainer._generate)  # whatever samples
    steps: list[tuple[float, float, float]] = []
    own: list[float] = []

    class Steps(TrainerCallback):  # type: ignore[misc]
        begun = 0.0

        def on_step_begin(self, *rest: Any, **named: Any) -> None:
            if turn is not None:
                turn.take()
            self.begun = generating.now()

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **rest: Any) -> None:
            if "loss" not in (logs or {}):
                return
            steps.append((generating.now() - self.begun, generating.taken(), scoring.taken()))
            if last is not None:
                last[0] = steps[-1][2]
            own.extend(owned())
            print(f"  step {len(steps)}: {steps[-1][0]:.2f} s, generation {steps[-1][1]:.2f}, reward {steps[-1][2]:.3f}", flush=True)
            if turn is not None:
                turn.give()

    trainer.add_callback(Steps())
    if cuda:
        torch.cuda.reset_peak_memory_stats()
    if turn is not None:
        turn.give()  # it is built
        turn.take()
    trainer.train()
    return Measured(steps, own, said(), torch.cuda.max_memory_allocated() / 2**30 if cuda else 0.0)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--tiny", action="store_true")
    options.add_argument("--budget", type=float, default=1e9)
    options.add_argument("--turns", default="")
    options.add_argument("--steps", type=int, default=8)
    options.add_argument("--parts", default=",".join(part.name for part in PARTS))
    chosen = options.parse_args()
    begun = time.monotonic()
    import torch

    cuda = torch.cuda.is_available() and not chosen.tiny
    if not cuda and not chosen.tiny:
        print("no GPU here; --tiny shows on a CPU that it works")
        return
    prepare("cuda" if cuda else "cpu")
    print(f"{torch.cuda.get_device_name() if cuda else 'cpu'}, torch {torch.__version__}", flush=True)
    if chosen.turns:
        in_turn([next(part for part in PARTS if part.name == name) for name in chosen.turns.split(",")], chosen.steps, chosen.tiny, cuda)
        return
    wanted = chosen.parts.split(",")
    counted: dict[str, list[tuple[float, float, float]]] = {}
    folder = Path(tempfile.mkdtemp())
    for part in (part for name in wanted for part in PARTS if part.name == name):
        left = chosen.budget - (time.monotonic() - begun)
        if part.seconds > left:
            print(f"{part.name}: left out, {left:.0f} s left of the budget", flush=True)
            continue
        started = time.monotonic()
        try:
            path = make_model(folder, part.shape, chosen.tiny, cuda)
            card = card_of(part, path, cuda, 8 if chosen.tiny else part.tokens)
            made = time.monotonic() - started
            found = plain(card, folder / part.name) if part.engine is None else ours(card, folder / part.name)
        except Exception:
            traceback.print_exc()
            print(f"{part.name}: FAILED after {time.monotonic() - started:.0f} s", flush=True)
            continue
        finally:
            gc.collect()
            if cuda:
                torch.cuda.empty_cache()
        rest = found.steps[1:] or found.steps
        counted.setdefault(part.name, []).extend(rest)
        share = f", octavo's own code {statistics.median(found.ours[1:]) / _median(rest)[0]:.2%}" if len(found.ours) > 1 else ""
        print(
            f"{part.name}: {_split(rest)} (first {found.steps[0][0]:.1f}), peak {found.gib:.1f} GiB; {found.said}{share}"
            f" [{time.monotonic() - started:.0f} s, model {made:.0f} s]",
            flush=True,
        )
    for name, steps in counted.items():
        print(f"{name}, {len(steps)} steps: {_split(steps)}", flush=True)
        kind = name.removesuffix("-plain").rpartition("-")[0] or name
        whole = counted.get(f"{kind}-plain")
        if whole and not name.endswith("-plain"):
            ratio = _median(whole)[0] / _median(steps)[0]
            print(f"{name}: {ratio:.3f}x of plain TRL by medians, {_quickest(whole) / _quickest(steps):.3f}x by quickest steps", flush=True)


def in_turn(parts: list[Part], count: int, tiny: bool, cuda: bool) -> None:
    """Two parts, `count` steps each after a first one that is not counted, a step of each at a time."""
    folder, turns = Path(tempfile.mkdtemp()), Turns()
    path = make_model(folder, parts[0].shape, tiny, cuda)
    found: dict[int, Measured] = {}

    def run(who: int) -> None:
        part = dataclasses.replace(parts[who], steps=count + 1)
        turns.take(who)
        try:
            card = card_of(part, path, cuda, 8 if tiny else part.tokens)
            side = plain if part.engine is None else ours
            found[who] = side(card, folder / f"{who}", Turn(turns, who))
        except Exception:
            traceback.print_exc()
        finally:
            turns.give(who, last=True)

    threads = [threading.Thread(target=run, args=(who,)) for who in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if len(found) < 2:
        raise SystemExit("a side failed")
    for who, part in enumerate(parts):
        print(f"{part.name}, {count} steps: {_split(found[who].steps[1:])}; {found[who].said}", flush=True)
    ratios = [second[0] / first[0] for first, second in zip(found[0].steps[1:], found[1].steps[1:], strict=True)]
    sums = [sum(step[0] for step in found[who].steps[1:]) for who in (0, 1)]
    updates = [statistics.median(step[0] - step[1] - step[2] for step in found[who].steps[1:]) for who in (0, 1)]
    error = statistics.stdev(ratios) / len(ratios) ** 0.5
    print(
        f"{parts[1].name} / {parts[0].name}: pairs {statistics.mean(ratios):.4f} (standard error {error:.4f}, "
        f"{min(ratios):.3f}-{max(ratios):.3f}), sums {sums[1] / sums[0]:.4f}, updates {updates[1]:.4f} / {updates[0]:.4f} s",
        flush=True,
    )


def _median(steps: list[tuple[float, float, float]]) -> tuple[float, float, float]:
    whole, generation, reward = (statistics.median(step[place] for step in steps) for place in range(3))
    return whole, generation, reward


def _quickest(steps: list[tuple[float, float, float]]) -> float:
    return min(step[0] for step in steps)


def _split(steps: list[tuple[float, float, float]]) -> str:
    whole, generation, reward = _median(steps)
    spread = f"{_quickest(steps):.2f}-{max(step[0] for step in steps):.2f}"
    parts = f"generation {generation:.2f}, reward {reward:.3f}, update {whole - generation - reward:.2f}"
    return f"{whole:.2f} s a step ({spread}), {parts}"


if __name__ == "__main__":
    main()
