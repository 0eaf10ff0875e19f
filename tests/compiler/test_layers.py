"""defaults < parent < shared < experiment < condition < profile; maps merge, lists replace, null removes."""

import pytest


def with_zero(spec: str, train: str, smoke: str | None = None) -> str:
    zero = "  zero: {reward: {constant: 0.0}, role: null_control%s}\n"
    text = spec.replace(zero % "", zero % f", train: {train}")
    assert text != spec
    return text if smoke is None else text[: text.index("profiles:")] + f"profiles:\n  smoke: {smoke}\n"


RATE = "{learning_rate: 5e-4}"


@pytest.mark.parametrize(
    ("condition", "profile", "key", "expected"),
    [
        ("{}", None, "learning_rate", 1e-3),
        (RATE, None, "learning_rate", 5e-4),
        (RATE, "{seeds: [1]}", "learning_rate", 5e-4),
        (RATE, "{train: {learning_rate: 9e-4}}", "learning_rate", 9e-4),
        ("{}", "{train: {learning_rate: 9e-4}}", "learning_rate", 9e-4),
        (RATE, "{conditions: {zero: {train: {learning_rate: 7e-4}}}}", "learning_rate", 7e-4),
        (RATE, "{train: {learning_rate: 9e-4}, conditions: {zero: {train: {learning_rate: 7e-4}}}}", "learning_rate", 7e-4),
        ("{gradient_accumulation_steps: null}", None, "gradient_accumulation_steps", 1),
        ("{beta: 0.5}", "{train: {beta: null}}", "beta", 0.0),
    ],
)
def test_precedence(compiled, spec, condition, profile, key, expected):
    cards = compiled(with_zero(spec, condition, profile), "example@smoke" if profile else "example").cards
    assert getattr(cards.train["zero"].train, key) == expected
    assert cards.train["shaped"].train.gradient_accumulation_steps == 2


def test_a_profile_replaces_lists_and_removes_conditions(compiled, spec):
    example = compiled(with_zero(spec, "{}", "{seeds: [9]}"), "example@smoke")
    assert [run.name for run in example.expansion.runs] == ["shaped-s9", "zero-s9"]
    smoke = "profiles: {smoke: {conditions: {shaped: null}, rewards: null, evaluation: null}}"
    example = compiled(spec[: spec.index("claims:")] + smoke, "example@smoke")
    assert [run.name for run in example.expansion.runs] == ["zero-s1", "zero-s2", "zero-s3"]


def test_each_value_knows_its_place_and_layer(compiled, spec):
    smoke = "{train: {max_steps: 2, save_steps: 1}, conditions: {zero: {train: {beta: 0.1}}}}"
    example = compiled(with_zero(spec, RATE, smoke), "example@smoke")
    origins = example.origins.cards["zero/train.card.json"]
    lines = example.experiment.document.lines
    for pointer, layer, text in [
        ("/train/learning_rate", "condition", "5e-4"),
        ("/train/max_steps", "profile", "2"),
        ("/train/beta", "profile", "0.1"),
        ("/train/num_generations", "experiment", "4"),
        ("/data/path", "experiment", "data/train.jsonl"),
        ("/model/adapter/r", "experiment", "8"),
    ]:
        place = origins[pointer]
        assert place.layer == layer, pointer
        assert lines[place.line - 1][place.column - 1 :].startswith(text), pointer
    assert origins["/train/top_p"].layer == "defaults" and origins["/train/top_p"].file is None
