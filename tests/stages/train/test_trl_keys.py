"""Keys of `train` and `model.adapter` that TRL and PEFT act on: the names are theirs, each reaches them, and does what it says."""

import dataclasses

import peft
import pyarrow.parquet as pq
import pytest
import torch
import trl
import yaml
from random_model import LORA, random_model, run_folder
from safetensors.torch import load_file

from compiler.language.libraries import CONFIGURATIONS, fields
from compiler.problems import elsewhere
from stages.contracts.algorithms import ALGORITHMS
from stages.contracts.artifact import read
from stages.contracts.attempt import Outcome
from stages.contracts.diagnostic import StageError
from stages.contracts.evaluation import EvaluateCard
from stages.contracts.model import Adapter, ModelRef
from stages.contracts.run_card import TrainCard
from stages.contracts.training import GrpoSettings, RlooSettings
from stages.train.evaluate import _Models
from stages.train.model import lora
from stages.train.trl import settings, trl_settings

LIBRARY = {"grpo": trl.GRPOConfig, "rloo": trl.RLOOConfig, "sft": trl.SFTConfig, "lora": peft.LoraConfig}
OWN = {"algorithm", "early_stop", "num_train_epochs", "generation", "guards", "deterministic", "trl", "kind", "peft"}
RENAMED = {"warmup_ratio"}
"""transformers 5 reads a `warmup_steps` below 1 as a ratio."""
PLAIN = {"max_steps": 4, "learning_rate": 1e-2, "max_completion_length": 6, "save_steps": 2}
GROUPED = PLAIN | {"per_device_train_batch_size": 8, "num_generations": 4}
FULL = Adapter(kind="full")


def section(name):
    return Adapter if name == "lora" else ALGORITHMS[name].settings


def library_fields(name):
    return {field.name: field for field in dataclasses.fields(LIBRARY[name])}


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_names_are_those_of_the_library_and_a_key_that_no_card_names_has_its_default(name):
    theirs = library_fields(name)
    assert set(fields(name)) == set(theirs), "read from the source, without an import"
    ours = {key: field for key, field in section(name).model_fields.items() if key not in OWN | RENAMED}
    assert set(ours) <= set(theirs)
    left_out = {key: field.default for key, field in ours.items() if field.exclude_if is not None and field.default not in (None, ())}
    assert left_out == {key: theirs[key].default for key in left_out}


def card(algorithm, adapter=LORA, **more):
    plain = GROUPED if algorithm != "sft" else {**PLAIN, "max_completion_length": None}
    train = section(algorithm).model_validate({"algorithm": algorithm, **{k: v for k, v in plain.items() if v is not None}, **more})
    model = ModelRef.model_construct(quantization="none", hub=False, adapter=adapter)
    return TrainCard.model_construct(train=train, seed=1, device="cpu", gpus=1, model=model, reward=object())


@pytest.mark.parametrize("algorithm", ["grpo", "rloo", "sft"])
def test_what_octavo_sets_is_not_passed_on(algorithm, tmp_path):
    """E252 refuses own keys and words of elsewhere.yaml: nothing else may be set here, or `trl` could override it."""
    given = {*settings(card(algorithm), tmp_path)}
    if algorithm != "sft":
        given |= {*trl_settings(card(algorithm, generation={"engine": "continuous_batching"}))}
    assert given <= set(section(algorithm).model_fields) | set(elsewhere()["E201"])


VALUES = yaml.safe_load("""
{warmup_ratio: 0.5, adam_beta1: 0.8, adam_beta2: 0.95, adam_epsilon: 1.0e-6, optim: adafactor, disable_dropout: true,
top_k: 7, min_p: 0.1, repetition_penalty: 1.2, steps_per_generation: 3, shuffle_dataset: false,
mask_truncated_completions: true, sync_ref_model: true, ref_model_mixup_alpha: 0.5, ref_model_sync_steps: 3,
epsilon_high: 0.28, delta: 4.0, loss_type: sapo, sapo_temperature_neg: 1.5, sapo_temperature_pos: 1.2,
vespo_k_pos: 2.5, vespo_lambda_pos: 2.5, vespo_k_neg: 2.5, vespo_lambda_neg: 2.5, importance_sampling_level: sequence,
off_policy_mask_threshold: 0.5, use_bias_correction_kl: false, top_entropy_quantile: 0.2, entropy_coef: 0.01,
use_adaptive_entropy: true, entropy_coef_min: 0.001, entropy_coef_max: 0.5, entropy_coef_delta: 0.01, entropy_target: 0.4,
cast_lm_head_to_fp32: true}
""") | {"reward_clip_range": (-1.0, 1.0)}


@pytest.mark.parametrize("algorithm", ["grpo", "rloo", "sft"])
def test_each_key_reaches_the_configuration(algorithm, tmp_path):
    optional = {key for key, field in section(algorithm).model_fields.items() if field.exclude_if is not None} - OWN
    assert optional <= set(VALUES), "a new key needs a value here"
    given = {key: VALUES[key] for key in optional}
    passed_on = {"neftune_noise_alpha": 5.0}
    config = LIBRARY[algorithm](**settings(card(algorithm, **given, trl=passed_on), tmp_path))
    assert {key: getattr(config, key) for key in given if key != "warmup_ratio"} == {k: v for k, v in given.items() if k != "warmup_ratio"}
    assert config.warmup_steps == 2 and config.neftune_noise_alpha == 5.0
    untouched = LIBRARY[algorithm](**settings(card(algorithm), tmp_path))
    assert all(getattr(untouched, key) != value for key, value in given.items() if key != "warmup_ratio")


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return random_model(tmp_path_factory.mktemp("base"))


def trained(folder, base, train, adapter=LORA, killed_in=None, **more):
    """(cells by step and metric, completions) of a run; `killed_in`: it is killed in this step first, and resumes."""
    kind = RlooSettings if more.get("algorithm") == "rloo" else GrpoSettings
    folder.mkdir()
    run = run_folder(folder, base, kind.model_validate(GROUPED | more), adapter=adapter)
    if killed_in is not None:
        assert train(more.get("algorithm", "grpo"), folder, killed_in=killed_in) is None
    assert train(more.get("algorithm", "grpo"), folder) == 0
    outcome = read(Outcome, run.outcome)
    assert outcome.finished, outcome.error
    rows = pq.read_table(run.history).to_pylist()
    cells = {(row["step"], row["metric"]): row["value"] for row in rows if not row["metric"].endswith("seconds")}
    return cells, pq.read_table(run.completions).to_pylist()


def test_an_optimizer_whose_package_is_missing_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(StageError, match="bitsandbytes is not installed") as caught:
        settings(card("grpo", optim="adamw_8bit"), tmp_path)
    assert caught.value.code == "S278"


class Begun(Exception):
    """Training began, with this number of steps."""


@pytest.mark.parametrize(
    ("algorithm", "epochs", "more"),
    [
        *[("grpo", 2, {}), ("grpo", 0.5, {}), ("rloo", 2, {"num_iterations": 2}), ("grpo", 3, {"steps_per_generation": 4})],
        *[("grpo", 1.5, {"gradient_accumulation_steps": 3}), ("sft", 2, {}), ("sft", 1.5, {"gradient_accumulation_steps": 3})],
    ],
)
def test_epochs_are_the_steps_that_trl_counts(base, tmp_path, algorithm, epochs, more):
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback

    class Listener(TrainerCallback):
        def on_train_begin(self, args, state, control, **rest):
            raise Begun(state.max_steps)

    own = card(algorithm, per_device_train_batch_size=4, **more).train
    arguments = settings(card(algorithm, per_device_train_batch_size=4, **more), tmp_path) | {"max_steps": -1, "num_train_epochs": epochs}
    trainer = {"grpo": trl.GRPOTrainer, "rloo": trl.RLOOTrainer, "sft": trl.SFTTrainer}[algorithm]
    rows = [{"prompt": f"{number}", "completion": "x"} if algorithm == "sft" else {"prompt": f"{number}"} for number in range(23)]
    training = trainer(
        model=AutoModelForCausalLM.from_pretrained(base),
        args=LIBRARY[algorithm](**arguments),
        train_dataset=Dataset.from_list(rows),
        processing_class=AutoTokenizer.from_pretrained(base),
        callbacks=[Listener()],
        **({} if algorithm == "sft" else {"reward_funcs": [lambda completions, **rest: [0.0] * len(completions)]}),
    )
    with pytest.raises(Begun) as begun:
        training.train()
    assert own.steps(epochs, 23, 1) == begun.value.args[0]


@pytest.mark.e2e
def test_keys_that_a_step_shows(tmp_path, base, train):
    """Each against a run that differs from it in this key alone."""
    plain, completions = trained(tmp_path / "plain", base, train)
    assert plain[2, "grad_norm"] > 0 and len({row["text"] for row in completions if row["step"] == 1}) > 4

    greedy, completions = trained(tmp_path / "greedy", base, train, top_k=1)
    assert all(len({row["text"] for row in completions if (row["step"], row["prompt_id"]) == place}) == 1 for place in places(completions))
    assert greedy[1, "zero_signal_share"] == 1.0

    masked, completions = trained(tmp_path / "masked", base, train, mask_truncated_completions=True)
    cut = next(step for step in (1, 2, 3, 4) if all(row["truncated"] for row in completions if row["step"] == step))
    assert masked[cut, "grad_norm"] == 0.0 < plain[cut, "grad_norm"]

    schedule = {"lr_scheduler_type": "constant_with_warmup", "warmup_ratio": 0.5}
    warm, _ = trained(tmp_path / "warm", base, train, **schedule)
    assert [warm[step, "learning_rate"] for step in (1, 2, 3, 4)] == pytest.approx([0.0, 5e-3, 1e-2, 1e-2])

    _, completions = trained(tmp_path / "reused", base, train, steps_per_generation=2)
    assert {row["step"] for row in completions} == {1, 3} and len([row for row in completions if row["step"] == 1]) == 16

    bonus, _ = trained(tmp_path / "bonus", base, train, entropy_coef=0.5, use_adaptive_entropy=True, entropy_target=9.0)
    assert bonus[2, "entropy_coef"] > bonus[1, "entropy_coef"] > 0.5 and bonus[2, "loss"] < plain[2, "loss"]


def places(completions):
    return {(row["step"], row["prompt_id"]) for row in completions}


@pytest.mark.e2e
@pytest.mark.parametrize("loss", ["cispo", "sapo", "luspo", "vespo"])
def test_losses_teach(tmp_path, base, train, loss):
    level = "sequence" if loss == "luspo" else "token"
    cells, _ = trained(tmp_path / "run", base, train, loss_type=loss, importance_sampling_level=level, num_iterations=2)
    assert cells[1, "grad_norm"] > 0


@pytest.mark.e2e
@pytest.mark.parametrize("more", [{"algorithm": "rloo"}, {"sync_ref_model": True, "ref_model_sync_steps": 1, "ref_model_mixup_alpha": 0.5}])
def test_all_weights_and_a_reference_that_moves(tmp_path, base, train, more):
    """A run that is killed in step 4 and goes on from its checkpoint logs what the undisturbed one logs, the KL among it."""
    more |= {"beta": 0.1}
    whole, _ = trained(tmp_path / "whole", base, train, adapter=FULL, **more)
    resumed, _ = trained(tmp_path / "cut", base, train, adapter=FULL, killed_in=4, **more)
    assert whole == resumed and whole[4, "kl"] > 0
    learnt = load_file(tmp_path / "whole/runs/small/short-s1/adapter/model.safetensors")
    before = load_file(base / "model.safetensors")
    assert all(not torch.equal(learnt[name], before[name]) for name in before if "layers" in name)
    if "sync_ref_model" in more:
        still, _ = trained(tmp_path / "still", base, train, adapter=FULL, beta=0.1)
        assert whole[4, "kl"] < still[4, "kl"], "it follows the policy"


ADAPTERS = [
    {"bias": "all"},
    {"use_rslora": True},
    {"use_dora": True},
    *({"init_lora_weights": start} for start in ("gaussian", "orthogonal", "pissa", "olora")),
    {"modules_to_save": ("lm_head",), "target_modules": ("q_proj",)},
    {"layers_to_transform": (0,), "target_modules": ("q_proj",)},
    {"peft": {"rank_pattern": {"q_proj": 2}}},
]


@pytest.mark.parametrize("more", ADAPTERS, ids=[next(iter(more)) + str(next(iter(more.values()))) for more in ADAPTERS])
def test_an_adapter_is_evaluated_as_it_was_trained_and_leaves_the_base_model_to_the_next(tmp_path, base, more):
    adapter = LORA.model_copy(update=more)
    ref = ModelRef(base="tiny", path=str(base), revision="0", adapter=adapter)
    ids = torch.arange(2, 12)[None]
    models = _Models(EvaluateCard.model_construct(model=ref, device="cpu", data=None))
    shown = []

    def sample(network, *rest, **named):
        shown.append(network(input_ids=ids).logits.detach())
        return []

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("stages.train.evaluate.sample", sample)
        patch.setattr("stages.train.evaluate.prompt_texts", lambda *rest: [])
        models.card = models.card.model_copy(update={"samples": 1})
        models.sample(None, [], 0)
        torch.manual_seed(1)
        network = peft.get_peft_model(models.base, lora(adapter))
        with torch.no_grad():
            for _, value in network.named_parameters():
                if value.requires_grad:
                    value.add_(torch.randn_like(value) * 0.1)
        network.save_pretrained(tmp_path)
        expected = network(input_ids=ids).logits.detach()
        models.base = None
        models.sample(tmp_path, [], 0)
        models.sample(None, [], 0)
    assert torch.allclose(shown[1], expected, atol=1e-4) and not torch.allclose(shown[0], expected, atol=1e-2)
    assert torch.allclose(shown[2], shown[0], atol=1e-5)
