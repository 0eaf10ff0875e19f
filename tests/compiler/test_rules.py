"""Cross-field rules: where the golden texts show one case each, these show the borders."""

import re
import shlex
import urllib.parse
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from compiler.checks.training import whole_groups
from compiler.problems import Rejected
from stages.contracts.names import slug


def codes(compiled, text, name="example") -> list[str]:
    """Codes of errors, or of warnings when there are no errors."""
    try:
        return [problem.code for problem in compiled(text, name).warnings]
    except Rejected as rejected:
        return [problem.code for problem in rejected.diagnostics]


def test_the_example_is_clean(compiled, spec):
    assert codes(compiled, spec) == []
    assert codes(compiled, spec, "example@smoke") == []


_NAMES = st.one_of(st.text(max_size=80), st.from_regex(r"[a-zA-Z0-9._ /$-]{0,70}", fullmatch=True), st.from_regex(r"[a-z0-9-]{1,66}"))


@settings(derandomize=True)
@given(_NAMES)
@example("a\n")
@example("com9")
@example("x" * 64)
@example("\u0661")  # a digit, and none of these ten
@example("a-vs-b")
def test_case_40_any_name_is_plain_to_shells_paths_addresses_and_findings_or_refused(name):
    try:
        assert slug(name) == name
    except Exception as refused:
        assert getattr(refused, "type", None) in ("E206", "E207", "E207.versus"), refused
        return
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-") and 0 < len(name) <= 64
    assert shlex.quote(name) == urllib.parse.quote(name, safe="") == Path(name).name == name
    assert not name.startswith("-") and name not in ("con", "aux", "nul", "prn", "com1", "lpt9") and "-vs-" not in name


@given(st.integers(1, 64), st.integers(1, 12), st.integers(2, 64))
def test_every_fix_for_groups_works(per_device, accumulation, group):
    if per_device * accumulation % group == 0:
        return
    fixes = whole_groups(per_device, accumulation, group)
    steps = re.findall(r"`(?:gradient_accumulation_steps: )?(\d+)` \(batch (\d+)\)", fixes)
    assert steps
    for step, batch in steps:
        assert int(step) * per_device == int(batch) and int(batch) % group == 0
    for size in re.findall(r"num_generations: (\d+)", fixes):
        assert per_device * accumulation % int(size) == 0 and int(size) >= 2


def test_fixes_for_huge_numbers_are_found_at_once():
    assert "gradient_accumulation_steps" in whole_groups(999_999_937, 10**9, 10**15)


@pytest.mark.parametrize(("steps", "expected"), [("4", []), ("12", []), ("13", ["W303"])])
def test_save_steps(compiled, spec, steps, expected):
    assert codes(compiled, spec.replace("save_steps: 4", f"save_steps: {steps}")) == expected


@pytest.mark.parametrize(
    ("length", "expected"),
    [("46", []), ("47", ["W305"]), ("60", ["W305"]), ("61", ["E309"])],
)
def test_context_of_64_with_prompts_of_4_words_and_18_bytes(compiled, spec, length, expected):
    assert codes(compiled, spec.replace("max_completion_length: 16", f"max_completion_length: {length}")) == expected


@pytest.mark.parametrize(
    ("bound", "expected"),
    [
        ("{below: 100%}", []),
        ("{below: 1.01}", ["E315"]),
        ("{below: 0}", ["E315"]),
        ("{above: 0}", []),
        ("{above: 1}", ["E315"]),
        ("{above: -0.1}", ["E315"]),
    ],
)
def test_bounds_of_shares(compiled, spec, bound, expected):
    assert codes(compiled, spec.replace("truncated: {below: 50%}", f"truncated: {bound}")) == expected


def test_bounds_of_other_metrics_are_free(compiled, spec):
    assert codes(compiled, spec.replace("truncated: {below: 50%}", "grad_norm: {below: 100}, gate.tests.unknown_share: {below: 1%}")) == []


@pytest.mark.parametrize(
    ("claim", "expected"),
    [
        ("metric: reward\n    condition: shaped", []),
        ("metric: reward\n    contrast: {condition: shaped, against: zero}", ["E308"]),
        ("metric: group_range\n    contrast: {condition: shaped, against: zero}", ["E308"]),
        ("metric: reward\n    statistic: change\n    contrast: {condition: shaped, against: zero}", []),
        ("metric: reward\n    statistic: change\n    contrast: {condition: zero, against: shaped}", ["E308"]),
        ("metric: completion_tokens\n    contrast: {condition: shaped, against: zero}", []),
        ("metric: gate.tests.pass_share\n    condition: shaped", []),
        ("metric: gate.tests.pass_share\n    condition: zero", ["E305"]),
        ("metric: evaluation.tests.seconds\n    condition: shaped", ["E305"]),
        ("metric: evaluation.format.score\n    condition: shaped", ["E305"]),
        ("metric: loss of hope\n    condition: shaped", ["E305"]),
        ("metric: loss\n    condition: shaped", ["E464"]),
        ("metric: loss\n    contrast: {condition: shaped, against: zero}", ["E464"]),
        ("metric: reward_std\n    contrast: {condition: shaped, against: zero}", ["E308"]),
    ],
)
def test_metrics_of_claims(compiled, spec, claim, expected):
    text = spec.replace("metric: evaluation.tests.pass_share\n    contrast: {condition: shaped, against: zero}", claim)
    assert text == spec or codes(compiled, text) == expected


def test_equal_rewards_may_be_compared(compiled, spec):
    text = spec.replace("conditions:\n", "conditions:\n  slow: {reward: shaped, role: treatment, train: {learning_rate: 1e-5}}\n")
    text = text.replace("metric: evaluation.tests.pass_share", "metric: reward").replace("against: zero", "against: slow")
    assert codes(compiled, text) == []


def test_a_profile_may_have_too_few_seeds_for_its_claims(compiled, spec):
    text = spec.replace("seeds: [1, 2, 3]", "seeds: [1, 2]")
    assert codes(compiled, text) == ["E306"]
    assert codes(compiled, spec, "example@smoke") == []


def test_an_error_of_a_profile_points_into_the_profile(compiled, spec):
    with pytest.raises(Rejected) as caught:
        compiled(spec.replace("max_steps: 2, save_steps: 1}", "max_steps: 2, save_steps: 1, num_generations: 3}"), "example@smoke")
    problem = caught.value.diagnostics[0]
    assert problem.code == "E304" and problem.place.line == 57


def test_one_score_for_two_equal_gates(compiled, spec):
    """Rewards may share a gate; only different settings are ambiguous, not different decisions."""
    twice = "  strict:\n    gates: [{tests: {kind: python_tests, answer: expression, arguments: [x], timeout: 1000ms, on_fail: 0}}]\n"
    text = spec.replace("conditions:\n", f"{twice}\nconditions:\n  strict: {{reward: strict, role: control}}\n")
    assert codes(compiled, text) == ["W301"]


def test_a_condition_with_data_of_its_own_needs_the_rows_of_its_examples(compiled, spec, work):
    rows = "".join(f'{{"id": "row-{n}", "prompt": "a", "tests": []}}\n' for n in (1, 2))
    (work / "data/other.jsonl").write_text(rows)
    text = spec.replace("conditions:\n", "conditions:\n  other: {reward: shaped, role: control, data: {train: {path: data/other.jsonl}}}\n")
    assert codes(compiled, text) == ["E312", "E312"]


def test_errors_come_in_file_order_and_warnings_with_them(compiled, spec):
    text = spec.replace("save_steps: 4", "save_steps: 40").replace("against: zero", "against: zeros").replace("rows: 4", "rows: 5")
    assert codes(compiled, text) == ["E317", "W303", "E302"]


def test_sharing_one_block_through_an_anchor(compiled, spec):
    text = spec.replace("  shaped:\n    gates:", "  shaped: &r\n    gates:").replace("conditions:\n", "  again: *r\n\nconditions:\n", 1)
    text = text.replace("  zero: {", "  again: {reward: again, role: control}\n  zero: {")
    assert codes(compiled, text) == []


SECRETS = ("wandb-" + "a1" * 20, "key " + "0f" * 20, "sk-" + "a" * 24, "ghp_" + "b" * 36, "-----BEGIN RSA PRIVATE KEY-----")


@pytest.mark.parametrize("value", SECRETS)
def test_secrets_wherever_they_stand(compiled, spec, value):
    assert "E318" in codes(compiled, spec.replace("tags: [example]", f"tags: [{value!r}]"))
    assert "E318" in codes(compiled, spec.replace("owner: octavo", f"{value!r}: x"))
    assert "E318" in codes(compiled, spec.replace("expect: 1.0}", f"expect: 1.0, because: {value!r}}}"))


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ("warmup_steps: 0", []),
        ("warmup_steps: 3", ["E355"]),
        ("warmup_steps: 3\n  lr_scheduler_type: constant_with_warmup", []),
        ("warmup_steps: 11\n  lr_scheduler_type: cosine", []),
        ("warmup_steps: 12\n  lr_scheduler_type: cosine", ["E356"]),
    ],
)
def test_warm_up(compiled, spec, keys, expected):
    assert codes(compiled, spec.replace("  save_steps: 4", f"  {keys}\n  save_steps: 4")) == expected


def test_a_profile_may_be_shorter_than_the_warm_up(compiled, spec):
    text = spec.replace("  save_steps: 4", "  warmup_steps: 3\n  lr_scheduler_type: linear\n  save_steps: 4")
    assert codes(compiled, text, "example@smoke") == []


def test_transformers_still_ignores_the_warm_up_of_a_constant_schedule():
    """Why E355 exists; when this fails, the rule is to go."""
    import torch
    from transformers import get_scheduler

    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.5)
    get_scheduler("constant", optimizer, num_warmup_steps=10, num_training_steps=20)
    assert optimizer.param_groups[0]["lr"] == 0.5


@pytest.mark.parametrize(
    ("reward", "expected"),
    [("{constant: 0.5}", []), ("{random: uniform}", ["E357"]), ("shaped", ["E357"]), ("{invert: shaped}", ["E357"]), ("nothing", [])],
)
def test_null_controls_are_trained_without_a_signal(compiled, spec, reward, expected):
    text = spec.replace("zero: {reward: {constant: 0.0}", f"zero: {{reward: {reward}")
    text = text.replace("conditions:\n", "  nothing: {gates: [{same: {kind: constant, score: 0.5}}]}\n\nconditions:\n", 1)
    problem_codes = [code for code in codes(compiled, text) if code not in ("W301", "W307")]
    assert problem_codes == expected


def test_evaluation_prompts_that_are_trained_on_are_counted(compiled, spec, work):
    rows = (work / "data/heldout.jsonl").read_text().splitlines()
    (work / "data/train.jsonl").write_text(
        "\n".join([(work / "data/train.jsonl").read_text().strip(), rows[1].replace('"id": "', '"id": "z')])
    )
    warnings = compiled(spec).warnings
    assert [(warning.code, warning.what) for warning in warnings] == [("W310", "1 of 4 evaluation prompts are also in `data/train.jsonl`")]
