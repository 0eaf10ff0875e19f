"""Octavo's PPO on a model of a few thousand random weights: its invariants, what it learns, and that a killed run resumes exactly."""

import pyarrow.parquet as pq
import pytest
import torch
from random_model import ROWS, random_model, run_folder

from stages.contracts.algorithms import ALGORITHMS
from stages.contracts.artifact import read
from stages.contracts.attempt import Changed, Outcome, read_attempts
from stages.contracts.model import Adapter, ModelRef
from stages.contracts.ppo import PpoSettings
from stages.contracts.run_card import TrainCard
from stages.contracts.training import Guards, OwnGenerationSettings
from stages.train.guards import NonfiniteGuard
from stages.train.model import load_base
from stages.train.ppo_policy import Policy
from stages.train.ppo_trainer import PpoTrainer, restore, save
from stages.train.resume import with_microbatch
from stages.train.rollouts import METRIC, Rollouts


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return random_model(tmp_path_factory.mktemp("base"))


def settings(**changes):
    plain = {"algorithm": "ppo", "max_steps": 4, "learning_rate": 1e-2, "max_completion_length": 6, "batch_size": 8, "mini_batch_size": 4}
    return PpoSettings.model_validate(plain | {"ppo_epochs": 2, "kl": {"init_kl_coef": 0.1}} | changes)


class Listener:
    def __init__(self):
        self.rows = []

    def on_log(self, args, state, control, logs, **rest):
        self.rows.append({name: value for name, value in logs.items() if name != "step_time"})

    def on_step_end(self, *rest, **more):
        pass

    def on_pre_optimizer_step(self, *rest, **more):
        pass


def capitals(prompts, completions, ids, *, id, trainer_state):
    return [sum("a" <= letter <= "z" for letter in text) / 6 for text in completions]


def trainer(base, reward=capitals, seed=3, compiled=False, **changes):
    chosen = settings(**changes)
    card = ModelRef(base="tiny", path=str(base), revision="0", adapter=Adapter(r=4))
    model, tokenizer = load_base(card, "cpu", bf16=chosen.bf16)
    torch.manual_seed(seed)
    policy = Policy(model, card.adapter, checkpointing=chosen.gradient_checkpointing)
    if compiled:
        policy.rollouts = Rollouts(OwnGenerationSettings(engine="compiled", torch_compile=False), None, {})
    listener = Listener()
    ppo = PpoTrainer(
        chosen, policy, tokenizer, [(row, row["prompt"]) for row in ROWS], ends={0, 1}, seed=seed, reward=reward, callbacks=[listener]
    )
    return ppo, listener.rows


def nothing(_):
    pass


def trained(base, **changes):
    ppo, rows = trainer(base, **changes)
    ppo.train(nothing)
    return ppo, rows


def test_before_the_first_step_policy_and_reference_are_one(base):
    _, rows = trained(base, max_steps=1)
    (first,) = rows
    assert first["objective.kl"] == 0.0 and first["kl"] == 0.0 and first["value.mean"] == 0.0
    assert first["policy.first_ratio"] == pytest.approx(1.0, abs=1e-6)
    assert first["objective.rlhf_reward"] == first["objective.scores"], "no KL, no penalty"
    assert first["optimizer_steps_share"] == 1.0 and not any(first[name] for name in first if name.startswith("left_out."))
    assert first["optimizer_steps"] == 4.0  # 2 epochs x 2 minibatches
    drawn = {name for name in ALGORITHMS["ppo"].curves if name.partition(".")[0] in ("objective", "loss", "value", "policy", "advantages")}
    assert drawn <= set(first)


def test_no_reward_and_no_penalty_move_nothing(base):
    ppo, rows = trainer(base, reward=lambda *rest, **more: [0.0] * 8, kl={"init_kl_coef": 0.0, "controller": "fixed"})
    before = [parameter.clone() for parameter in ppo.policy.trainable()]
    ppo.train(nothing)
    assert [row["grad_norm"] for row in rows] == [0.0] * 4 and [row["advantages"] for row in rows] == [0.0] * 4
    assert all(torch.equal(old, new) for old, new in zip(before, ppo.policy.trainable(), strict=True))


def test_the_reward_rises(base):
    _, rows = trained(base, max_steps=40, batch_size=32, mini_batch_size=16, kl={"init_kl_coef": 0.01})
    scores = [row["objective.scores"] for row in rows]
    assert sum(scores[-5:]) / 5 > 2 * sum(scores[:5]) / 5


@pytest.mark.parametrize("compiled", [False, True], ids=["transformers", "compiled"])
def test_a_resumed_run_logs_what_an_undisturbed_one_logs(base, tmp_path, compiled):
    _, undisturbed = trained(base, compiled=compiled)
    begun, rows = trainer(base, save_steps=2, compiled=compiled)
    begun.settings = begun.settings.model_copy(update={"max_steps": 2})
    begun.train(lambda ppo: save(ppo, tmp_path))
    torch.manual_seed(99)
    resumed, later = trainer(base, save_steps=2, compiled=compiled)
    restore(resumed, tmp_path / "checkpoint-2")
    resumed.train(lambda ppo: save(ppo, tmp_path))
    assert rows + later == undisturbed
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint-2", "checkpoint-4"]


def test_the_compiled_engine_samples_what_transformers_samples(base):
    """On a CPU both draw the same random numbers in the same order; the difference of log-probabilities is logged beside."""
    _, plain = trained(base, max_steps=3)
    ppo, rows = trained(base, max_steps=3, compiled=True)
    assert ppo.policy.rollouts.notes == {"generation": "compiled, without torch.compile"}
    assert [row.pop(f"{METRIC}/mean") for row in rows] == pytest.approx([0.0] * 3, abs=1e-5)
    assert all(0 <= row.pop(f"{METRIC}/max") < 1e-4 for row in rows)
    assert rows == [{name: pytest.approx(value, rel=1e-3, abs=1e-5) for name, value in row.items()} for row in plain]


def test_an_engine_that_samples_another_policy_is_left(base, capsys):
    """The copy forgets its refresh: after the first update it samples the policy of before, which the difference tells."""
    ppo, rows = trainer(base, max_steps=3, learning_rate=0.3, compiled=True)
    ppo.policy.sample(ppo.tokenizer, [ROWS[0]["prompt"]] * 8, {0, 1}, 6, 1.0, 1.0)
    ppo.policy.rollouts._model._merged.clear()
    ppo.train(nothing)
    assert rows[0][f"{METRIC}/mean"] < 1e-4 and rows[1][f"{METRIC}/mean"] > 0.3 and f"{METRIC}/mean" not in rows[2]
    assert "transformers generates instead" in capsys.readouterr().err and "differ by" in ppo.policy.rollouts.notes["generation"]


def test_what_is_scored_elsewhere_is_not_compared(base):
    ppo, rows = trained(base, max_steps=1, compiled=True, temperature=0.7, scoring_temperature=1.0)
    assert f"{METRIC}/mean" not in rows[0] and ppo.policy.rollouts.refused is None


def test_compiled_completions_are_as_wide_as_the_longest(base):
    ppo, _ = trainer(base, compiled=True)
    ends = {0, 1, *range(2, 258, 2)}
    sampled = ppo.policy.sample(ppo.tokenizer, [row["prompt"] for row in ROWS], ends, 40, 1.0, 1.0)
    assert sampled.width == int(sampled.mask.sum(1).max()) < 40
    for ids, mask in zip(sampled.completions.tolist(), sampled.mask.tolist(), strict=True):
        length = next((place + 1 for place, token in enumerate(ids) if token in ends), len(ids))
        assert mask == [1.0] * length + [0.0] * (sampled.width - length)


def test_a_step_of_several_minibatches_is_one_step_of_their_batch(base):
    logged = []
    for minibatch, accumulation in ((8, 1), (4, 2), (2, 4)):
        _, rows = trained(base, max_steps=2, ppo_epochs=1, mini_batch_size=minibatch, gradient_accumulation_steps=accumulation)
        logged.append([[row[name] for name in ("loss", "grad_norm", "policy.approxkl", "loss.value", "objective.scores")] for row in rows])
    assert logged[1] == [pytest.approx(row, rel=1e-4, abs=1e-7) for row in logged[0]]
    assert logged[2] == [pytest.approx(row, rel=1e-4, abs=1e-7) for row in logged[0]]


def test_recomputed_activations_change_nothing(base):
    _, kept = trained(base, max_steps=2)
    _, again = trained(base, max_steps=2, gradient_checkpointing=True)
    names = ("loss", "grad_norm", "objective.kl", "loss.value", "policy.first_ratio")
    assert [[row[name] for name in names] for row in again] == [pytest.approx([row[name] for name in names], rel=1e-4) for row in kept]


def test_in_bfloat16_sampling_and_training_still_agree(base):
    ppo, rows = trained(base, max_steps=2, bf16=True)
    assert {parameter.dtype for parameter in ppo.policy.trainable()} == {torch.float32}, "only the base model is held in bfloat16"
    assert [row["policy.first_ratio"] for row in rows] == pytest.approx([1.0, 1.0], abs=1e-3) and rows[1]["grad_norm"] > 0


def test_an_unknown_reward_is_no_number(base):
    def half(prompts, completions, ids, *, id, trainer_state):
        return [None if place % 2 else 1.0 for place in range(len(completions))]

    ppo, rows = trainer(base, reward=half, max_steps=1)
    batch, logs = ppo._scored()
    assert batch.mask.sum(1)[1::2].tolist() == [0.0] * 4 and (batch.mask.sum(1)[::2] > 0).all()
    assert not batch.advantages[1::2].any() and not batch.returns[1::2].any()
    assert logs["objective.scores"] == 1.0

    silent, rows = trainer(base, reward=lambda *rest, **more: [None] * 8, max_steps=1)
    before = [parameter.clone() for parameter in silent.policy.trainable()]
    silent.train(nothing)
    assert (rows[0]["optimizer_steps_share"], rows[0]["left_out.unscored"]) == (0.0, 4.0)
    assert rows[0]["loss"] is None and rows[0]["objective.scores"] is None and rows[0]["returns"] is None
    assert all(torch.equal(old, new) for old, new in zip(before, silent.policy.trainable(), strict=True))


def test_a_step_that_target_kl_rejects_is_in_no_mean(base):
    """The first step is taken at a ratio of 1; the second is rejected."""
    _, rows = trained(base, max_steps=1, learning_rate=0.5, ppo_epochs=4, target_kl=1e-4)
    row = rows[0]
    assert row["optimizer_steps"] == 1.0 and row["optimizer_steps_share"] == 1 / 8
    assert (row["left_out.target_kl"], row["left_out.nonfinite"], row["left_out.unscored"]) == (7.0, 0.0, 0.0)
    assert row["policy.approxkl"] == pytest.approx(0.0, abs=1e-9) and row["policy.ratio"] == pytest.approx(1.0, abs=1e-6)
    assert row["policy.first_ratio"] == row["policy.ratio"]


def test_a_step_that_the_guard_skips_is_in_no_mean_and_says_why(base):
    ppo, rows = trainer(base, max_steps=1)
    ppo.callbacks = [*ppo.callbacks, NonfiniteGuard(Guards())]
    plain, calls = ppo._gradients, []

    def broken(whole):
        calls.append(whole)
        measured = plain(whole)
        if len(calls) == 2:
            for parameter in ppo.policy.trainable():
                parameter.grad.fill_(float("nan"))
            return {name: float("nan") for name in measured}
        return measured

    ppo._gradients = broken
    ppo.train(nothing)
    row = rows[0]
    assert row["optimizer_steps_share"] == 3 / 4 and row["left_out.nonfinite"] == 1.0 and row["left_out.target_kl"] == 0.0
    assert all(value is None or value == value for value in row.values()) and row["grad_norm"] > 0
    assert all(torch.isfinite(parameter).all() for parameter in ppo.policy.trainable())


def test_a_callback_can_stop_the_run(base, tmp_path):
    class Stop(Listener):
        def on_step_end(self, args, state, control, **rest):
            control.should_training_stop = state.global_step == 2

    ppo, rows = trainer(base, save_steps=100)
    ppo.callbacks = [*ppo.callbacks, Stop()]
    ppo.train(lambda ppo: save(ppo, tmp_path))
    assert len(rows) == 2 and (tmp_path / "checkpoint-2").is_dir()


def test_every_round_holds_every_prompt_once(base):
    ppo, _ = trainer(base)
    seen = []
    for ppo.state.global_step in range(3):  # 24 prompts: two rounds of 12
        seen += [row["id"] for row, _ in ppo.prompts()]
    assert sorted(seen[:12]) == sorted(seen[12:]) == sorted(row["id"] for row in ROWS) and seen[:12] != seen[12:]


def _history(run):
    rows = pq.read_table(run.history).to_pylist()
    latest = {}
    for row in rows:  # a step that two attempts made counts as the later one made it
        if not row["metric"].endswith("seconds"):
            latest[row["step"], row["metric"]] = (row["value"], row["state"], row["tokens"])
    return latest


def test_after_a_lack_of_memory_half_the_minibatch_makes_the_same_step(base, tmp_path):
    run = run_folder(tmp_path, base, settings(mini_batch_size=4, gradient_accumulation_steps=2))
    card = read(TrainCard[PpoSettings], run.card)
    halved = with_microbatch(card, Changed(after="a1", failure="out_of_memory", microbatch=2)).train
    assert (halved.mini_batch_size, halved.gradient_accumulation_steps, halved.batch_size) == (2, 4, 8)
    assert with_microbatch(card, None) is card


@pytest.mark.e2e
def test_a_killed_stage_resumes_as_if_nothing_had_happened(base, tmp_path, train):
    for name in ("killed", "whole"):
        (tmp_path / name).mkdir()
    killed, whole = (run_folder(tmp_path / name, base, settings(max_steps=20, save_steps=5)) for name in ("killed", "whole"))
    assert train("ppo", tmp_path / "whole") == 0
    assert train("ppo", tmp_path / "killed", killed_in=12) is None and train("ppo", tmp_path / "killed") == 0
    attempts = read_attempts(killed.attempts)
    assert [attempt.state for attempt in attempts] == ["killed", "finished"] and attempts[1].started.resumed_from == 10
    assert read(Outcome, killed.outcome).finished and read(Outcome, killed.outcome).steps_done == 20
    assert _history(killed) == _history(whole)
    assert (killed.adapter / "adapter_model.safetensors").read_bytes() == (whole.adapter / "adapter_model.safetensors").read_bytes()
    assert not (killed.adapter / "value_head.pt").exists()
    seconds = {(row["step"], row["metric"]): row["value"] for row in pq.read_table(whole.history).to_pylist()}
    parts = [sum(seconds[step, f"{part}_seconds"] for part in ("generation", "reward", "update")) for step in range(1, 21)]
    assert parts == pytest.approx([seconds[step, "step_seconds"] for step in range(1, 21)])
