"""`train` by its algorithm: which keys there are, which stage trains, what a page draws."""

import json

import pytest

from compiler.problems import Rejected

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
    assert "stages.train.trl" in commands(plain)


def test_a_child_that_changes_the_algorithm_says_so(spec, work, compiled):
    from compiler.build.inputs import Inputs
    from compiler.build.pipeline import named
    from compiler.compile import compile_all

    compiled(spec)
    keys = "per_device_train_batch_size: null, gradient_accumulation_steps: null, num_generations: null"
    child = f"""title: The same under PPO
parent: example
changes:
  train: {{algorithm: ppo, {keys}, batch_size: 4, mini_batch_size: 2, kl: {{controller: fixed}}}}
hypothesis: A value head needs no groups.
"""
    (work / "specs/child.yaml").write_text(child)
    (experiment,) = compile_all([named("child")], Inputs())
    assert {setup.train.algorithm for setup in experiment.expansion.setups} == {"ppo"}
    (work / "specs/child.yaml").write_text(child.replace("batch_size: 4, mini", "batch_size: 3, mini"))
    with pytest.raises(Rejected) as caught:
        compile_all([named("child")], Inputs())
    assert [problem.code for problem in caught.value.diagnostics if problem.severity == "error"] == ["E381"]


ZERO = "  zero: {reward: {constant: 0.0}, role: null_control}\n"
GOLD = "  gold: {role: control, train: {algorithm: sft, learning_rate: 3.0e-4, max_length: 64}}\n"


def with_gold(spec, gold=GOLD):
    return spec.replace(ZERO, ZERO + gold)


def only_gold(spec):
    begin, end = spec.index("rewards:\n"), spec.index("health:\n")
    text = spec[:begin] + "conditions:\n  gold: {role: treatment}\n\n" + spec[end:]
    text = text.replace("  scores: [tests]", "  max_completion_length: 16\n  scores: [{same: {kind: exact_match, column: answer}}]")
    text = text.replace("  gates: {nonfinite: not persistent, truncated: {below: 50%}, steps: complete}", "  gates: {steps: complete}")
    begin, end = text.index("claims:"), text.index("profiles:")
    text = text[:begin] + text[end:]
    return with_train(text, "train: {algorithm: sft, max_steps: 12, learning_rate: 1e-3, max_length: 64, save_steps: 4}\n")


def test_gold_answers_beside_rewards_move_no_other_card(spec, files):
    """The cards of the conditions with a reward keep every byte. Preflight knows that others train, and asks the same."""
    before, after = files(spec).files, files(with_gold(spec)).files
    ours = "/gold-s"
    kept = [path for path in before if path.endswith(("/train.card.json", "/preflight.card.json"))]
    after = {path: text.replace('  "supervised": true,\n', "") for path, text in after.items()}
    assert len(kept) == 7 and all(before[path] == after[path] for path in kept)
    cards = {path: json.loads(text) for path, text in after.items() if ours in path and path.endswith("/train.card.json")}
    assert sorted(card["seed"] for card in cards.values()) == [1, 2, 3]
    card = cards["runs/example/gold-s1/train.card.json"]
    assert "reward" not in card and card["data"]["answer"] == "answer"
    expected = {"algorithm": "sft", "max_steps": 12, "save_steps": 4, "learning_rate": 3e-4, "per_device_train_batch_size": 4}
    assert {key: card["train"][key] for key in expected} == expected, "keys that both algorithms have are taken over"
    assert not {"num_generations", "temperature", "max_completion_length"} & set(card["train"])


def test_gold_answers_are_trained_without_asking_preflight(spec, files):
    project = files(with_gold(spec))
    texts = project.files
    pipeline = texts["runs/example/dvc.yaml"]
    stage = pipeline[pipeline.index("train-gold-s1:") : pipeline.index("train-gold-s2:")]
    assert "stages.train.supervised runs/example/gold-s1" in stage and "permission" not in stage and "data/train.jsonl" in stage
    assert "stages.train.trl runs/example/shaped-s1" in pipeline and "gold.permission" not in pipeline
    preflight = json.loads(texts["runs/example/preflight/preflight.card.json"])
    assert [condition["name"] for condition in preflight["conditions"]] == ["shaped", "zero"]
    origins = json.loads(project.ignored["runs/example/origins.json"])["cards"]["gold/train.card.json"]
    line = with_gold(spec).splitlines().index(GOLD.rstrip()) + 1
    assert origins["/train/learning_rate"]["line"] == line and origins["/train/learning_rate"]["layer"] == "condition"
    assert origins["/train/max_steps"]["layer"] == "experiment" and origins["/train/gradient_checkpointing"]["layer"] == "defaults"
    assert not any(pointer.startswith("/reward") for pointer in origins)


def test_an_experiment_of_gold_answers_alone(spec, files):
    texts = files(only_gold(spec)).files
    assert not any("preflight" in path for path in texts) and "preflight" not in texts["runs/example/dvc.yaml"]
    assert commands(files(only_gold(spec)).files) == {"stages.train.supervised", "stages.train.evaluate"}
    draw = json.loads(texts["runs/example/analysis/draw.card.json"])
    assert draw["curves"] == ["loss", "mean_token_accuracy", "entropy", "grad_norm"]
    assert [condition["supervised"] for condition in draw["conditions"]] == [True]
    assert json.loads(texts["runs/example/analysis/evaluate.card.json"])["max_completion_length"] == 16


def test_all_weights_of_one_condition(spec, files):
    gold = GOLD.replace("max_length: 64}", "max_length: 64}, model: {adapter: {kind: full}}")
    texts = files(with_gold(spec, gold)).files
    model = {name: json.loads(texts[f"runs/example/{name}-s1/train.card.json"])["model"]["adapter"] for name in ("shaped", "gold")}
    assert model["gold"] == {"kind": "full"} and model["shaped"]["kind"] == "lora" and model["shaped"]["r"] == 8


@pytest.mark.parametrize(
    ("train", "gold", "first", "others"),
    [
        (None, "", "grpo-default", {}),
        (PPO, "", "ppo-default", {}),
        (None, GOLD, "grpo-default", {"gold": "sft-default"}),
        (PPO, GOLD, "ppo-default", {"gold": "sft-default"}),
    ],
)
def test_the_health_profile_follows_the_algorithm(spec, files, train, gold, first, others):
    text = with_gold(spec, gold).replace("  profile: grpo-default\n", "")
    texts = files(text if train is None else with_train(text, train)).files
    card = json.loads(texts["runs/example/analysis/screen.card.json"])
    assert card["profile"] == first and {own["condition"]: own["profile"] for own in card.get("others", [])} == others
    words = "; ".join([first, *(f"{name}: {profile}" for name, profile in others.items())])
    assert json.loads(texts["runs/example/page.card.json"])["health_profile"] == words


def test_a_claim_needs_a_metric_that_both_sides_log(spec, compiled):
    """Rewards and gold answers meet on the shared evaluation and on the metrics of any training."""
    claim = "  - {id: both, says: Both., metric: METRIC, contrast: {condition: shaped, against: gold}, above: 0.05}\n"
    begin = spec.index("profiles:")
    for metric, refused in (("evaluation.tests.pass_share", False), ("entropy", False), ("reward", True), ("mean_token_accuracy", True)):
        text = with_gold(spec[:begin].rstrip("\n") + "\n" + claim.replace("METRIC", metric) + "\n" + spec[begin:])
        if refused:
            with pytest.raises(Rejected) as caught:
                compiled(text)
            assert [problem.code for problem in caught.value.diagnostics if problem.severity == "error"] == ["E305"]
        else:
            compiled(text)


def test_a_stop_rule_of_all_names_what_gold_answers_do_not_log(spec, compiled):
    """A red flag on the reward must leave them out, an early stop of their own may ask for their loss."""
    flag = "stop: {red_flags: [{when: reward < 0.1, after: 50%CONDITIONS}]}\n\n"
    for conditions, refused in (("", True), (", conditions: [shaped]", False)):
        text = with_gold(spec).replace("profiles:", flag.replace("CONDITIONS", conditions) + "profiles:")
        if refused:
            with pytest.raises(Rejected) as caught:
                compiled(text)
            assert "E361" in [problem.code for problem in caught.value.diagnostics]
        else:
            compiled(text)
    own = compiled(with_gold(spec, GOLD.replace("max_length: 64", "max_length: 64, early_stop: {when: loss < 0.1, for: 2 steps}")))
    stop = own.cards.train["gold"].stop
    assert stop is not None and stop.rules[0].id == "early_stop" and own.cards.train["shaped"].stop is None
