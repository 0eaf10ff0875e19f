"""Keys of TRL and PEFT in a spec: a pasted configuration is answered key by key, others are passed on, epochs become steps."""

import dataclasses
import json

import pytest

from compiler.problems import Rejected, elsewhere
from stages.contracts.algorithms import ALGORITHMS

ROW = {"prompt": "double then add 3\n", "answer": "(x*2)+3", "tests": [{"arguments": [1], "expected": 5}]}
TRAIN = "train:\n  max_steps: 12\n"


def codes(compiled, spec):
    with pytest.raises(Rejected) as caught:
        compiled(spec)
    return caught.value.diagnostics


@pytest.mark.parametrize(("algorithm", "configuration"), [("grpo", "GRPOConfig"), ("rloo", "RLOOConfig"), ("sft", "SFTConfig")])
def test_a_pasted_configuration_is_answered_key_by_key(compiled, spec, algorithm, configuration):
    """Each key of TRL is octavo's own, or has an answer of its own, or is one to pass on; none is merely unknown."""
    import trl

    own = ALGORITHMS[algorithm].settings.model_fields
    pasted = [field.name for field in dataclasses.fields(getattr(trl, configuration)) if field.name not in own]
    text = spec.replace("train:\n", f"train:\n  algorithm: {algorithm}\n" + "".join(f"  {key}: null_\n" for key in pasted), 1)
    answered = {
        diagnostic.what.split("`")[1]: diagnostic for diagnostic in codes(compiled, text) if diagnostic.code in ("E201", "E251", "E359")
    }
    assert set(pasted) <= set(answered)
    for key in pasted:
        fix = answered[key].fix
        assert answered[key].code != "E201" or fix == elsewhere()["E201"][key], key
        assert answered[key].code == "E201" or key in fix, key
    passed_on = {key for key in pasted if answered[key].code == "E251"}
    assert {"gradient_checkpointing_kwargs", "lr_scheduler_kwargs", "neftune_noise_alpha", "use_liger_kernel"} <= passed_on
    assert not passed_on & {"output_dir", "report_to", "seed", "push_to_hub", "deepspeed", "use_vllm", "eval_strategy"}


def test_what_is_passed_on_is_on_the_card_and_default_cards_know_nothing_of_it(files, spec):
    plain = json.loads(files(spec).files["runs/example/shaped-s1/train.card.json"])
    assert (
        not {"trl", "optim", "top_k", "num_train_epochs", "warmup_ratio"} & set(plain["train"]) and "bias" not in plain["model"]["adapter"]
    )
    text = spec.replace(TRAIN, TRAIN + "  trl: {neftune_noise_alpha: 5.0}\n").replace(
        "{r: 8, ", "{r: 8, peft: {alpha_pattern: {q_proj: 4}}, "
    )
    card = json.loads(files(text).files["runs/example/shaped-s1/train.card.json"])
    assert card["train"].pop("trl") == {"neftune_noise_alpha": 5.0}
    assert card["model"]["adapter"].pop("peft") == {"alpha_pattern": {"q_proj": 4}}
    assert card == plain


def test_limits_of_sampling_hold_in_preflight_too(files, spec):
    made = files(spec.replace(TRAIN, TRAIN + "  top_k: 20\n  min_p: 0.05\n")).files
    condition = json.loads(made["runs/example/preflight/preflight.card.json"])["conditions"][0]
    assert (condition["top_k"], condition["min_p"]) == (20, 0.05) and "repetition_penalty" not in condition


@pytest.mark.parametrize(("epochs", "steps"), [(2, 16), (0.5, 4)])
def test_epochs_become_steps_on_every_card(compiled, spec, work, epochs, steps):
    """A step is two prompts, 4 completions each."""
    (work / "data/train.jsonl").write_text("".join(json.dumps(ROW | {"id": f"row-{number}"}) + "\n" for number in range(17)))
    cards = compiled(spec.replace("  max_steps: 12\n", f"  num_train_epochs: {epochs}\n")).cards
    assert cards.train["shaped"].train.max_steps == steps == cards.conclude.runs[0].target_steps
    assert "num_train_epochs" not in cards.train["shaped"].train.model_dump()


def test_max_steps_wins_over_epochs_and_conditions_count_their_own_rows(compiled, spec):
    both = compiled(spec.replace(TRAIN, TRAIN + "  num_train_epochs: 2\n")).cards
    assert both.train["shaped"].train.max_steps == 12
    text = spec.replace("  max_steps: 12\n", "  num_train_epochs: 4\n").replace("save_steps: 4", "save_steps: 1")
    fewer = compiled(text.replace("role: treatment}", "role: treatment, data: {train: {rows: 2}}}")).cards
    assert fewer.train["shaped"].train.max_steps < fewer.train["zero"].train.max_steps
