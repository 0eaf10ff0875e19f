"""RLOO through TRL: the same recorder, guards, gates and files as GRPO."""

from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest
from random_model import random_model, run_folder

from stages.contracts.artifact import read
from stages.contracts.attempt import Outcome
from stages.contracts.training import RlooSettings
from stages.train.trl import continue_order


@pytest.mark.e2e
def test_a_run(tmp_path, train, capsys):
    plain = {"algorithm": "rloo", "max_steps": 3, "learning_rate": 1e-2, "max_completion_length": 6, "save_steps": 2}
    settings = RlooSettings.model_validate(plain | {"per_device_train_batch_size": 8, "num_generations": 4})
    run = run_folder(tmp_path, random_model(tmp_path / "base"), settings)
    assert train("rloo", tmp_path) == 0 and read(Outcome, run.outcome).finished
    assert "RLOO, 3 steps, reward short" in capsys.readouterr().out

    cells = {(row["step"], row["metric"]): row["value"] for row in pq.read_table(run.history).to_pylist()}
    for step in (1, 2, 3):
        rewards = [row["reward"] for row in pq.read_table(run.completions).to_pylist() if row["step"] == step]
        assert len(rewards) == 8 and cells[step, "reward"] == pytest.approx(sum(rewards) / 8)
        parts = [cells[step, f"{part}_seconds"] for part in ("generation", "reward", "update")]
        assert min(parts) > 0 and sum(parts) == pytest.approx(cells[step, "step_seconds"]), "the step's time, split into three"
        assert cells[step, "zero_signal_share"] is not None and cells[step, "grad_norm"] > 0 and cells[step, "skipped"] == 0.0
    assert cells[1, "kl"] == pytest.approx(0.0, abs=1e-6) and cells[3, "kl"] != 0.0, "beta is 0.05 by default"
    assert (run.adapter / "adapter_model.safetensors").stat().st_size > 0


@pytest.mark.parametrize("accumulation", [1, 2])
def test_a_resumed_run_sees_the_prompts_in_the_order_of_the_whole(accumulation):
    """12 prompts, 2 a step: a round of 6 steps. TRL's own sampler, asked for three rounds, against one that begins in each of them."""
    from trl.trainer.utils import RepeatSampler

    settings = SimpleNamespace(generation_batch_size=8, steps_per_generation=accumulation, gradient_accumulation_steps=accumulation)

    def sampler():
        return RepeatSampler(list(range(12)), mini_repeat_count=4, batch_size=2, repeat_count=accumulation, seed=3)

    whole = sampler()
    rounds = [list(whole) for _ in range(3)]
    assert rounds[0] != rounds[1] != rounds[2]
    for step, expected in ((0, 0), (5, 0), (6, 1), (11, 1), (12, 2)):
        training = SimpleNamespace(_get_train_sampler=sampler, args=settings)
        continue_order(training, step)
        assert list(training._get_train_sampler()) == rounds[expected], step
