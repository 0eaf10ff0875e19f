"""One run on two processes: each samples and learns from its half, and the first alone scores, records and saves."""

import pyarrow.parquet as pq
import pytest
from random_model import ROWS, random_model, run_folder, start

from stages.contracts.artifact import read, write
from stages.contracts.attempt import Outcome
from stages.contracts.grpo import GrpoSettings
from stages.contracts.run_card import TrainCard
from stages.train import ranks
from stages.train.checkpoints import of_ranks
from stages.train.with_trl import CHECKPOINT


@pytest.mark.e2e
def test_a_run_on_two_processes(tmp_path):
    plain = {"max_steps": 2, "learning_rate": 1e-2, "max_completion_length": 6, "save_steps": 1, "num_generations": 4}
    run = run_folder(tmp_path, random_model(tmp_path / "base"), GrpoSettings.model_validate({**plain, "per_device_train_batch_size": 2}))
    card = read(TrainCard[GrpoSettings], run.card)
    write(run.card, card.model_copy(update={"gpus": 2}))
    stage = start("grpo", tmp_path)
    said, _ = stage.communicate(timeout=500)
    assert stage.returncode == 0 and read(Outcome, run.outcome).finished, said
    cells = {(row["step"], row["metric"]): row["value"] for row in pq.read_table(run.history).to_pylist()}
    rows = pq.read_table(run.completions).to_pylist()
    for step in (1, 2):
        made = [row for row in rows if row["step"] == step]
        assert len(made) == 4 and len({row["prompt_id"] for row in made}) == 1, "a group of four, two completions a process"
        assert {row["prompt_id"] for row in made} <= {row["id"] for row in ROWS} and {row["group"] for row in made} == {0}
        assert cells[step, "reward"] == pytest.approx(sum(row["reward"] for row in made) / 4)
    assert len(run.attempts.read_text().splitlines()) == 2, "one attempt, not one a process"


def test_one_process_needs_no_other():
    assert (ranks.rank(), ranks.world()) == (0, 1)
    assert ranks.gathered([1, 2]) == [1, 2] and ranks.from_first(lambda: 3) == 3


def test_each_rank_has_random_numbers_of_its_own_in_a_checkpoint():
    assert of_ranks(CHECKPOINT, 1) == CHECKPOINT
    assert set(of_ranks(CHECKPOINT, 2)) == set(CHECKPOINT) - {"rng_state.pth"} | {"rng_state_0.pth", "rng_state_1.pth"}
