"""Does the same seed give the same run on a GPU, and what does that cost?

    python benchmarks/determinism.py [--parts 1.5b,7b,7b-nf4,ppo,...] [--steps N] [--kills N] [--budget SECONDS] [--tiny]

Each part trains one run of octavo's own stage with random weights of a real shape (`gpu_step.py`): in one process, in a second process with
the same seed, in one that is killed at random moments and resumed, and with `train: {deterministic: false}`. It prints the first step and
metric that differ, or `equal` where history, completions and adapter are equal bit by bit, and the median seconds of a step of both
settings. `--tiny` shows on a CPU that the script works.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests/stages/train"))
sys.path.insert(0, str(Path(__file__).parents[1]))

from gpu_step import ROWS, make_model
from random_model import run_folder, start

from stages.contracts.layout import RunFolder
from stages.contracts.model import Adapter
from stages.contracts.ppo import PpoSettings
from stages.contracts.training import GrpoSettings, TrainSettings

ROOT = Path(__file__).parents[1]
LENGTH = {"max_completion_length": 256, "temperature": 0.9, "learning_rate": 1e-5, "bf16": True}
GRPO = {**LENGTH, "per_device_train_batch_size": 16, "num_generations": 16, "beta": 0.04}
PPO = {**LENGTH, "algorithm": "ppo", "batch_size": 16, "mini_batch_size": 8, "ppo_epochs": 2}
PARTS: dict[str, tuple[str, str, Mapping[str, Any]]] = {
    "1.5b": ("1.5b", "none", GRPO),
    "1.5b-recorded": ("1.5b", "none", GRPO | {"generation": {"engine": "compiled", "torch_compile": False}}),
    "1.5b-transformers": ("1.5b", "none", GRPO | {"generation": {"engine": "transformers"}}),
    "1.5b-checkpointing": ("1.5b", "none", GRPO | {"gradient_checkpointing": True}),
    "7b": ("7b", "none", GRPO),
    "7b-nf4": ("7b", "nf4", GRPO),
    "ppo": ("1.5b", "none", PPO),
}
"""Name -> shape, quantisation, settings."""
ADAPTER = Adapter(r=16, lora_alpha=32, target_modules=("q_proj", "k_proj", "v_proj", "o_proj"))
TIMED = ("seconds", "duration", "per_second")


def trained(folder: Path, base: Path, settings: TrainSettings, quantization: str, device: str, kills: int = 0) -> RunFolder:
    """The folder of a finished run whose stage was killed so often before. Raises AssertionError with what it printed."""
    folder.mkdir()
    run = run_folder(folder, base, settings, 1, device, ADAPTER, ROWS)
    card = json.loads(run.card.read_text())
    if quantization != "none":
        run.card.write_text(json.dumps(card | {"model": card["model"] | {"quantization": quantization}}))
    chance = random.Random(7)
    for _ in range(kills):
        process = start(settings.algorithm, folder)
        begun, steps = steps_done(folder), chance.randint(0, 6)
        while process.poll() is None and steps_done(folder) <= begun + steps:
            time.sleep(0.01)
        time.sleep(chance.uniform(0, 1))
        process.send_signal(signal.SIGKILL)
        process.communicate()
    process = start(settings.algorithm, folder)
    output, _ = process.communicate()
    assert process.returncode == 0 and json.loads(run.outcome.read_text())["finished"], output[-2000:] + run.attempts.read_text()
    return run


def steps_done(folder: Path) -> int:
    return sum(path.read_bytes().count(b"\n") for path in folder.glob(".cache/checkpoints/*/history.jsonl"))


def results(run: RunFolder) -> tuple[dict[tuple[int, str], str], list[tuple[Any, ...]], bytes, list[float]]:
    """(step, metric) -> value of the last attempt that made the step, as text; completions; adapter; seconds of each step."""
    import pyarrow.parquet as pq

    rows = pq.read_table(run.history).to_pylist()
    history = {
        (row["step"], row["metric"]): f"{row['value']!r} {row['state']}" for row in rows if not any(w in row["metric"] for w in TIMED)
    }
    seconds = {row["step"]: row["value"] for row in rows if row["metric"] == "step_seconds"}
    last: dict[int, str] = {}
    completions = pq.read_table(run.completions).to_pylist()
    for row in completions:
        last[row["step"]] = row["attempt"]
    texts = [(row["step"], row["prompt_id"], row["text"], row["reward"]) for row in completions if row["attempt"] == last[row["step"]]]
    return history, texts, (run.adapter / "adapter_model.safetensors").read_bytes(), [seconds[step] for step in sorted(seconds)]


def difference(one: RunFolder, other: RunFolder) -> str:
    """`equal`, or where two runs differ first."""
    (history, texts, adapter, _), (others, other_texts, other_adapter, _) = results(one), results(other)
    steps = sorted(key for key in {*history, *others} if history.get(key) != others.get(key))
    if steps:
        step = steps[0]
        return f"DIFFERENT from step {step[0]}: {step[1]} {history.get(step)} and {others.get(step)}; {len(steps)} of {len(history)} values"
    if texts != other_texts:
        return "DIFFERENT completions"
    return "equal" if adapter == other_adapter else "DIFFERENT adapters"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--parts", default=",".join(PARTS))
    options.add_argument("--steps", type=int, default=50)
    options.add_argument("--kills", type=int, default=0)
    options.add_argument("--budget", type=float, default=540.0)
    options.add_argument("--no-price", action="store_true", help="do not train with `deterministic: false`")
    options.add_argument("--tiny", action="store_true")
    chosen = options.parse_args()
    begun = time.monotonic()
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    device = "cpu" if chosen.tiny else "cuda"
    if not chosen.tiny:
        import torch

        print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}", flush=True)
    folder = Path(tempfile.mkdtemp())
    for part in chosen.parts.split(","):
        shape, quantization, raw = PARTS[part]
        raw = {**raw, "max_steps": chosen.steps, "save_steps": max(1, chosen.steps // 10)}
        if chosen.tiny:
            raw |= {"bf16": False, "max_completion_length": 8}
        kind = PpoSettings if raw.get("algorithm") == "ppo" else GrpoSettings
        base = make_model(folder, shape, chosen.tiny, not chosen.tiny)
        sides: dict[str, tuple[dict[str, Any], int]] = {"first": (raw, 0), "second": (raw, 0)}
        if chosen.kills:
            sides["killed"] = (raw, chosen.kills)
        if not chosen.no_price:
            sides["not deterministic"] = (raw | {"deterministic": False}, 0)
        runs: dict[str, RunFolder] = {}
        for side, (settings, kills) in sides.items():
            if time.monotonic() - begun > chosen.budget:
                print(f"{part} {side}: left out, the budget is spent", flush=True)
                continue
            started = time.monotonic()
            try:
                runs[side] = trained(folder / f"{part}-{side}", base, kind.model_validate(settings), quantization, device, kills)
            except AssertionError as error:
                print(f"{part} {side}: FAILED\n{error}", flush=True)
                continue
            seconds = results(runs[side])[3]
            took = f"{statistics.median(seconds[1:]):.3f} s a step [{time.monotonic() - started:.0f} s]"
            compared = "" if side == "first" or "first" not in runs else f"against the first: {difference(runs['first'], runs[side])}, "
            print(f"{part} {side}{f' {kills} times' if kills else ''}: {compared}{took}", flush=True)


if __name__ == "__main__":
    main()
