"""Checks across fields: where the golden texts show one case each, these show the borders."""

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

WEIGHTED = (Path(__file__).parents[1] / "golden" / "weighted" / "spec.yaml").read_text(encoding="utf-8")
CLAIM = "metric: evaluation.tests.pass_share\n    contrast: {condition: shaped, against: zero}"
BOTH = "\n    contrast: {condition: shaped, against: zero}"
BOUND, STEPS, REWARD = "truncated: {below: 50%}", "  save_steps: 4", "zero: {reward: {constant: 0.0}"


def codes(compiled, text, name="example") -> list[str]:
    """Codes of errors, or of warnings when there are no errors."""
    try:
        return [problem.code for problem in compiled(text, name).warnings]
    except Rejected as rejected:
        return [problem.code for problem in rejected.diagnostics]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("", "", ""),
        (STEPS, "  save_steps: 12", ""),
        (STEPS, "  save_steps: 13", "W303"),
        # a context of 64, and prompts of 4 words and 18 bytes
        ("max_completion_length: 16", "max_completion_length: 46", ""),
        ("max_completion_length: 16", "max_completion_length: 47", "W305"),
        ("max_completion_length: 16", "max_completion_length: 60", "W305"),
        ("max_completion_length: 16", "max_completion_length: 61", "E309"),
        (BOUND, "truncated: {below: 100%}", ""),
        (BOUND, "truncated: {below: 1.01}", "E315"),
        (BOUND, "truncated: {below: 0}", "E315"),
        (BOUND, "truncated: {above: 0}", ""),
        (BOUND, "truncated: {above: 1}", "E315"),
        (BOUND, "truncated: {above: -0.1}", "E315"),
        (BOUND, "grad_norm: {below: 100}, gate.tests.unknown_share: {below: 1%}", ""),
        (CLAIM, "metric: reward\n    condition: shaped", ""),
        (CLAIM, f"metric: reward{BOTH}", "E308"),
        (CLAIM, f"metric: group_range{BOTH}", "E308"),
        (CLAIM, f"metric: reward_std{BOTH}", "E308"),
        (CLAIM, f"metric: reward\n    statistic: change{BOTH}", ""),
        (CLAIM, "metric: reward\n    statistic: change\n    contrast: {condition: zero, against: shaped}", "E308"),
        (CLAIM, f"metric: completion_tokens{BOTH}", ""),
        (CLAIM, "metric: gate.tests.pass_share\n    condition: shaped", ""),
        (CLAIM, "metric: gate.tests.pass_share\n    condition: zero", "E305"),
        (CLAIM, "metric: evaluation.tests.seconds\n    condition: shaped", "E305"),
        (CLAIM, "metric: evaluation.format.score\n    condition: shaped", "E305"),
        (CLAIM, "metric: loss of hope\n    condition: shaped", "E305"),
        (CLAIM, "metric: loss\n    condition: shaped", "E464"),
        (CLAIM, f"metric: loss{BOTH}", "E464"),
        ("seeds: [1, 2, 3]", "seeds: [1, 2]", "E306"),
        (STEPS, f"  warmup_steps: 0\n{STEPS}", ""),
        (STEPS, f"  warmup_steps: 3\n{STEPS}", "E355"),
        (STEPS, f"  warmup_steps: 3\n  lr_scheduler_type: constant_with_warmup\n{STEPS}", ""),
        (STEPS, f"  warmup_steps: 11\n  lr_scheduler_type: cosine\n{STEPS}", ""),
        (STEPS, f"  warmup_steps: 12\n  lr_scheduler_type: cosine\n{STEPS}", "E356"),
        # null controls are trained without a signal
        (REWARD, "zero: {reward: {constant: 0.5}", ""),
        (REWARD, "zero: {reward: {random: uniform}", "E357"),
        (REWARD, "zero: {reward: shaped", "E357"),
        (REWARD, "zero: {reward: {invert: shaped}", "E357"),
    ],
)
def test_borders(compiled, spec, old, new, expected):
    assert old in spec
    assert codes(compiled, spec.replace(old, new)) == expected.split()


def test_a_profile_is_no_evidence_and_may_have_too_few_seeds_and_be_shorter_than_the_warm_up(compiled, spec):
    assert codes(compiled, spec, "example@smoke") == []
    text = spec.replace(STEPS, f"  warmup_steps: 3\n  lr_scheduler_type: linear\n{STEPS}")
    assert codes(compiled, text, "example@smoke") == []


def test_a_profile_that_says_it_is_evidence_is_checked_like_one(compiled, spec):
    text = spec.replace("  smoke: {", "  smoke: {evidence: true, ")
    assert set(codes(compiled, text, "example@smoke")) == {"E306"}
    whole = text.replace("seeds: [1]}", "seeds: [4, 5, 6]}")
    assert codes(compiled, whole, "example@smoke") == []
    page = compiled(whole, name="example@smoke").cards.page
    assert page.evidence and not page.is_small and compiled(spec, name="example@smoke").cards.page.is_small


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("weight: 80%", "weight: 0.8", ""),
        ("weight: 80%", "weight: 0.8000000001", ""),
        ("weight: 80%", "weight: 0.80001", "E346"),
        ("from: 50%", "from: 91%", ""),
        ("from: 50%", "from: 92%", "E352"),
        ("from: 25%", "from: 0%", "E353"),
        ("from: 25%", "from: 42%", "E352"),
        ("from: 50%", "from: 100%", "E352"),
        ("from: 50%", "from: -1%", "E208"),
        ("    penalties:", "    cap: 50%\n    penalties:", "E203"),
        ("    penalties:", "    cap: 0.5\n    penalties:", ""),
        ("factor: 0.3", "set: 0", ""),
        ("factor: 0.3", "factor: 2", "E205"),
        ("when: truncated and not tests.pass", "when: yes", "E351"),
        ("when: truncated and not tests.pass", "when: true", "E203"),
        (", needs: format", "", ""),
        ("scores: [tests]", "scores: [tests, {tests: {when: truncated}}]", "E319"),
    ],
)
def test_borders_of_weighted_rewards(compiled, old, new, expected):
    assert WEIGHTED.count(old) == 1
    assert codes(compiled, WEIGHTED.replace(old, new)) == expected.split()


def test_a_profile_may_be_too_short_for_the_phases_of_a_reward(compiled):
    assert codes(compiled, WEIGHTED.replace("from: 50%", "from: 80%"), "example@smoke") == []


def test_penalties_and_caps_go_with_both_ways_to_combine(compiled, spec):
    more = "    cap: 0.9\n    penalties: [{long: {when: truncated, set: 0}}]"
    card = compiled(spec.replace("    unknown: {limit: 5%}", f"    unknown: {{limit: 5%}}\n{more}")).cards.train["shaped"].reward
    assert (card.combine, card.cap, card.penalties[0].set) == ("first_decides", 0.9, 0.0)


def test_a_score_made_of_others_is_on_the_card_and_can_be_claimed(compiled):
    text = WEIGHTED.replace("scores: [tests]", "scores: [format, tests, {neat-and-wrong: {when: format.pass and not tests.pass}}]")
    cards = compiled(text.replace("metric: evaluation.tests", "metric: evaluation.neat-and-wrong")).cards.single
    ((name, when),) = [(score.name, score.when.model_dump()) for score in cards["analysis/evaluate.card.json"].combined]
    both = ({"gate": "format", "status": "pass", "holds": True}, {"gate": "tests", "status": "pass", "holds": False})
    assert (name, when) == ("neat-and-wrong", {"all": both})
    conclude = cards["analysis/conclude.card.json"]
    assert conclude.evaluation == ("format", "tests", "neat-and-wrong")
    assert conclude.claims[0].metric == "evaluation.neat-and-wrong.pass_share"


def test_equal_rewards_may_be_compared(compiled, spec):
    text = spec.replace("conditions:\n", "conditions:\n  slow: {reward: shaped, role: treatment, train: {learning_rate: 1e-5}}\n")
    text = text.replace("metric: evaluation.tests.pass_share", "metric: reward").replace("against: zero", "against: slow")
    assert codes(compiled, text) == []


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
    assert codes(compiled, text.replace("  zero: {", "  again: {reward: again, role: control}\n  zero: {")) == []


@pytest.mark.parametrize(
    "value", ["wandb-" + "a1" * 20, "key " + "0f" * 20, "sk-" + "a" * 24, "ghp_" + "b" * 36, "-----BEGIN RSA PRIVATE KEY-----"]
)
def test_secrets_wherever_they_stand(compiled, spec, value):
    assert "E318" in codes(compiled, spec.replace("tags: [example]", f"tags: [{value!r}]"))
    assert "E318" in codes(compiled, spec.replace("owner: octavo", f"{value!r}: x"))
    assert "E318" in codes(compiled, spec.replace("expect: 1.0}", f"expect: 1.0, because: {value!r}}}"))


def test_evaluation_prompts_that_are_trained_on_are_counted(compiled, spec, work):
    row = (work / "data/heldout.jsonl").read_text().splitlines()[1].replace('"id": "', '"id": "z')
    with (work / "data/train.jsonl").open("a") as stream:
        stream.write(f"\n{row}")
    (warning,) = compiled(spec).warnings
    assert (warning.code, warning.what) == ("W310", "1 of 4 evaluation prompts are also in `data/train.jsonl`")


def test_transformers_still_ignores_the_warm_up_of_a_constant_schedule():
    """Why E355 exists; when this fails, the rule is to go."""
    import torch
    from transformers import get_scheduler

    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.5)
    get_scheduler("constant", optimizer, num_warmup_steps=10, num_training_steps=20)
    assert optimizer.param_groups[0]["lr"] == 0.5


@settings(derandomize=True)
@given(st.one_of(st.text(max_size=80), st.from_regex(r"[a-zA-Z0-9._ /$-]{0,70}", fullmatch=True), st.from_regex(r"[a-z0-9-]{1,66}")))
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
@example(999_999_937, 10**9, 10**15)  # at once
def test_every_fix_for_groups_works(per_device, accumulation, group):
    if per_device * accumulation % group == 0:
        return
    (steps, batch) = re.fullmatch(
        r"`gradient_accumulation_steps: (\d+)` \(batch (\d+)\)", whole_groups(per_device, accumulation, group)
    ).groups()
    assert int(steps) * per_device == int(batch) and int(batch) % group == 0
