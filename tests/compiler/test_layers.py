"""defaults < experiment < condition < profile; maps merge, lists replace, null removes."""

import pytest

OVERRIDE = """
  zero: {reward: {constant: 0.0}, role: null_control, train: %s}
"""


def with_zero(spec: str, train: str, smoke: str | None = None) -> str:
    text = spec.replace("\n  zero: {reward: {constant: 0.0}, role: null_control}\n", OVERRIDE % train)
    assert text != spec
    return text if smoke is None else text[: text.index("profiles:")] + f"profiles:\n  smoke: {smoke}\n"


@pytest.mark.parametrize(
    ("condition", "profile", "expected"),
    [
        ("{}", None, 1e-3),
        ("{learning_rate: 5e-4}", None, 5e-4),
        ("{learning_rate: 5e-4}", "{seeds: [1]}", 5e-4),
        ("{learning_rate: 5e-4}", "{train: {learning_rate: 9e-4}}", 9e-4),
        ("{}", "{train: {learning_rate: 9e-4}}", 9e-4),
        ("{learning_rate: 5e-4}", "{conditions: {zero: {train: {learning_rate: 7e-4}}}}", 7e-4),
        ("{learning_rate: 5e-4}", "{train: {learning_rate: 9e-4}, conditions: {zero: {train: {learning_rate: 7e-4}}}}", 7e-4),
    ],
)
def test_precedence(compiled, spec, condition, profile, expected):
    one = compiled(with_zero(spec, condition, profile), "example@smoke" if profile else "example")
    assert one.cards.train["zero"].train.learning_rate == expected


def test_null_removes_back_to_the_default(compiled, spec):
    one = compiled(with_zero(spec, "{gradient_accumulation_steps: null}"))
    assert one.cards.train["zero"].train.gradient_accumulation_steps == 1
    assert one.cards.train["shaped"].train.gradient_accumulation_steps == 2


def test_null_in_a_profile_outranks_a_condition(compiled, spec):
    one = compiled(with_zero(spec, "{beta: 0.5}", "{train: {beta: null}}"), "example@smoke")
    assert one.cards.train["zero"].train.beta == 0.0


def test_lists_replace(compiled, spec):
    one = compiled(with_zero(spec, "{}", "{seeds: [9]}"), "example@smoke")
    assert [run.name for run in one.expansion.runs] == ["shaped-s9", "zero-s9"]


def test_a_profile_removes_a_condition(compiled, spec):
    smoke = "profiles: {smoke: {conditions: {shaped: null}, rewards: null, evaluation: null}}"
    one = compiled(spec[: spec.index("claims:")] + smoke, "example@smoke")
    assert [run.name for run in one.expansion.runs] == ["zero-s1", "zero-s2", "zero-s3"]


def test_each_value_knows_its_place_and_layer(compiled, spec):
    smoke = "{train: {max_steps: 2, save_steps: 1}, conditions: {zero: {train: {beta: 0.1}}}}"
    one = compiled(with_zero(spec, "{learning_rate: 5e-4}", smoke), "example@smoke")
    origins = one.origins.cards["zero/train.card.json"]
    lines = one.experiment.document.lines
    for pointer, layer, text in [
        ("/train/learning_rate", "condition", "5e-4"),
        ("/train/max_steps", "profile", "2"),
        ("/train/beta", "profile", "0.1"),
        ("/train/num_generations", "experiment", "4"),
        ("/data/path", "experiment", "data/train.jsonl"),
        ("/model/adapter/r", "experiment", "8"),
    ]:
        found = origins[pointer]
        assert found.layer == layer, pointer
        assert lines[found.line - 1][found.column - 1 :].startswith(text), pointer
    assert origins["/train/top_p"].layer == "defaults" and origins["/train/top_p"].file is None


def test_every_leaf_of_a_train_card_has_an_origin(compiled, spec):
    one = compiled(spec)
    exempt = {"/experiment", "/seed", "/code"}

    def leaves(pointer, value):
        if isinstance(value, dict):
            return [deep for key, inner in value.items() for deep in leaves(f"{pointer}/{key}", inner)]
        if isinstance(value, list) and value and isinstance(value[0], dict):
            return [deep for index, inner in enumerate(value) for deep in leaves(f"{pointer}/{index}", inner)]
        return [pointer]

    for name, card in one.cards.train.items():
        values = leaves("", card.model_dump(mode="json", exclude={"code"}))
        missing = set(values) - set(one.origins.cards[f"{name}/train.card.json"]) - exempt
        assert missing - {"/reward/examples"} == set(), name
