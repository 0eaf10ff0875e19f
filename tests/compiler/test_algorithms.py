"""`train` by its algorithm: which keys there are, which stage trains, what a page draws."""

import json

import pytest

from compiler.diagnostics import Rejected

PPO = """train:
  algorithm: ppo
  max_steps: 12
  learning_rate: 1e-3
  batch_size: 4
  mini_batch_size: 2
  max_completion_length: 16
  save_steps: 4
  kl: {controller: fixed}
"""


def with_train(spec, text):
    begin = spec.index("train:\n  max_steps")
    return spec[:begin] + text + "\n" + spec[spec.index("seeds:", begin) :]


def commands(files):
    pipeline = next(text for path, text in files.items() if path == "runs/example/dvc.yaml")
    return {line.split()[3] for line in pipeline.splitlines() if line.strip().startswith("cmd: python -m stages.train.")}


def test_a_spec_without_an_algorithm_is_grpo(spec, files):
    plain = files(spec).files
    named = files(spec.replace("train:\n  max_steps", "train:\n  algorithm: grpo\n  max_steps")).files
    cards = [path for path in plain if path.startswith("runs/example/") and path.endswith("/train.card.json")]
    assert len(cards) == 6 and [plain[path] for path in cards] == [named[path] for path in cards]
    assert json.loads(plain["runs/example/zero-s1/train.card.json"])["train"]["algorithm"] == "grpo"
    assert "stages.train.grpo" in commands(plain)


@pytest.mark.parametrize("algorithm", ["rloo", "ppo"])
def test_the_stage_follows_the_algorithm(spec, files, algorithm):
    rloo = spec.replace("train:\n  max_steps", "train:\n  algorithm: rloo\n  max_steps")
    made = files(rloo if algorithm == "rloo" else with_train(spec, PPO)).files
    found = commands(made)
    assert f"stages.train.{algorithm}" in found and "stages.train.grpo" not in found
    assert json.loads(made["runs/example/shaped-s1/train.card.json"])["train"]["algorithm"] == algorithm


def test_ppo_has_one_completion_a_prompt_and_curves_of_its_own(spec, files):
    made = files(with_train(spec, PPO)).files
    preflight = json.loads(made["runs/example/preflight/preflight.card.json"])
    assert {condition["num_generations"] for condition in preflight["conditions"]} == {1}
    curves = json.loads(made["runs/example/analysis/draw.card.json"])["curves"]
    assert {"objective.kl", "value.explained_variance", "kl"} <= set(curves)
    assert not {"zero_signal_share", "group_range"} & set(curves)


def test_a_profile_and_a_condition_give_settings_of_the_algorithm(spec, compiled):
    text = with_train(spec, PPO).replace(
        "smoke: {train: {max_steps: 2, save_steps: 1}", "smoke: {train: {max_steps: 2, kl: {target: null}}"
    )
    text = text.replace("role: null_control}", "role: null_control, train: {kl: {init_kl_coef: 0.5}}}")
    setups = {setup.name: setup.train for setup in compiled(text, "example@smoke").expansion.setups}
    assert (setups["zero"].max_steps, setups["zero"].kl.init_kl_coef, setups["shaped"].kl.init_kl_coef) == (2, 0.5, 0.2)


def test_a_child_that_changes_the_algorithm_says_so(spec, work, compiled):
    from compiler.compile import compile_all
    from compiler.inputs import Inputs
    from compiler.pipeline import named

    compiled(spec)
    keys = "per_device_train_batch_size: null, gradient_accumulation_steps: null, num_generations: null"
    child = f"""title: The same under PPO
parent: example
changes:
  train: {{algorithm: ppo, {keys}, batch_size: 4, mini_batch_size: 2, kl: {{controller: fixed}}}}
hypothesis: A value head needs no groups.
"""
    (work / "specs/child.yaml").write_text(child)
    (one,) = compile_all([named("child")], Inputs())
    assert {setup.train.algorithm for setup in one.expansion.setups} == {"ppo"}
    (work / "specs/child.yaml").write_text(child.replace("batch_size: 4, mini", "batch_size: 3, mini"))
    with pytest.raises(Rejected) as caught:
        compile_all([named("child")], Inputs())
    assert [found.code for found in caught.value.diagnostics if found.severity == "error"] == ["E381"]
