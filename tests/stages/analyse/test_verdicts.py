"""Verdicts against a second, plain computation on many odd seeds; what they print; claims that nothing may decide."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import optimize, special, stats
from synthetic import CONDITIONS, Run, claim_rule, complete, write_cards

from stages.analyse.conclude import conclude
from stages.analyse.screen import screen
from stages.analyse.verdicts import refusal
from stages.contracts.analysis_card import OtherCondition, RunRef
from stages.contracts.artifact import read
from stages.contracts.claim import ClaimRule, Contrast, Elsewhere
from stages.contracts.finding import Findings
from stages.rules import beside, bound_text

METRIC = "kl"


def _claim(id_: str, direction: str, margin: float, **changes: Any) -> ClaimRule:
    fields: dict[str, Any] = {"metric": METRIC, "statistic": "final", "condition": "shaped", "seeds": 2}
    return claim_rule(**{"id": id_, "direction": direction, "margin": margin, **fields, **changes})


def _concluded(root: Path, sides: dict[str, list[float]], claims: list[ClaimRule], out: frozenset[str] = frozenset()) -> Findings:
    """Runs whose every step has the given length; those in `out` fail the gate on truncated completions."""
    chosen_runs = []
    for name, values in sides.items():
        for seed, value in enumerate(values, 1):
            run = Run(name, seed, passed=10, cells={METRIC: dict.fromkeys(range(1, 21), value)})
            run.truncated_from = 1 if run.name in out else None
            chosen_runs.append(run)
    folder = complete(root, chosen_runs=chosen_runs)
    write_cards(folder, chosen_runs, claims=tuple(claims))
    screen(folder.root)
    conclude(folder.root)
    return read(Findings, folder.findings)


def _plain(left: list[float], right: list[float] | None, margin: float, direction: str, seeds: int) -> str:
    """The definitions of statistics.md, by scipy."""
    if min(len(left), len(left if right is None else right)) < max(seeds, 2):
        return "void"
    if len(set(left)) == 1 and (right is None or len(set(right)) == 1):
        return "inconclusive"
    if right is None:
        low, high = stats.t.interval(0.95, len(left) - 1, np.mean(left), stats.sem(left))
    else:
        low, high = stats.ttest_ind(left, right, equal_var=False).confidence_interval(0.95)
    if direction == "below":
        low, high, margin = -high, -low, -margin
    return "supported" if low > margin else "refuted" if high < margin else "inconclusive"


ODD = (
    [1.0, 2.0, 3.0],
    [5.0, 5.0, 5.0],
    [5.0, 5.0, 5.1],
    [-1e-9, 1e-9, 3e-9],
    [1e9, 1e9 + 1, 1e9 + 2],
    [3.0],
    [3.0, 4.0],
    [0.0, 0.0, 0.0, 9.0],
    [7.0] * 9 + [7.5],
)


@pytest.mark.filterwarnings("ignore:Precision loss:RuntimeWarning")  # scipy's, of seeds that are nearly equal
@pytest.mark.parametrize("left", range(len(ODD)))
def test_verdicts_are_those_of_a_plain_computation(left: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for right in (ODD[(left + shift) % len(ODD)] for shift in (1, 4)):
        sides = {"shaped": ODD[left], "zero": right}
        rules = [
            (direction, margin, seeds, pair)
            for direction in ("above", "below")
            for margin in (-2.0, 0.0, 1.5, 2.0, 5.0, 1e9)
            for seeds in (1, 3)
            for pair in (False, True)
        ]
        contrast = {"condition": None, "contrast": Contrast(condition="shaped", against="zero")}
        claims = [_claim(f"c{i}", d, m, seeds=s, **(contrast if pair else {})) for i, (d, m, s, pair) in enumerate(rules)]
        conclusions = _concluded(tmp_path, sides, claims)
        assert conclusions.claims_tested == len(claims)
        for (direction, margin, seeds, pair), verdict in zip(rules, conclusions.verdicts, strict=True):
            wanted = _plain(ODD[left], right if pair else None, margin, direction, seeds)
            assert verdict.verdict == wanted, (sides, direction, margin, seeds, pair, verdict.why)
            assert (verdict.detectable is None) or wanted == "inconclusive"


def test_a_run_that_is_left_out_of_one_side_leaves_the_other_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """(1, 2, 3) without its last against (0, 0.5, 0.25): Welch of two and three seeds; needs of three seeds make it void."""
    monkeypatch.chdir(tmp_path)
    pair = {"condition": None, "contrast": Contrast(condition="shaped", against="zero")}
    sides = {"shaped": [1.0, 2.0, 3.0], "zero": [0.0, 0.5, 0.25]}
    claims = [_claim("two", "above", -9.0, **pair), _claim("three", "above", -9.0, seeds=3, **pair)]
    claims += [_claim("all", "above", -9.0, seeds=3, included_only=False, **pair)]
    conclusions = _concluded(tmp_path, sides, claims, frozenset({"shaped-s3"}))
    contrast = next(finding for finding in conclusions.findings if finding.id == f"shaped-vs-zero/{METRIC}/final")
    welch = stats.ttest_ind([1.0, 2.0], sides["zero"], equal_var=False).confidence_interval(0.95)
    assert (contrast.low, contrast.high) == (pytest.approx(welch.low), pytest.approx(welch.high))
    assert (contrast.value, contrast.n, contrast.with_all) == (1.25, 2, 1.75)
    assert [verdict.verdict for verdict in conclusions.verdicts] == ["supported", "void", "supported"]
    assert conclusions.verdicts[1].why.startswith("Void: shaped has 2 of the 3 seeds needed (shaped-s3: gate truncated:")


@pytest.mark.parametrize("against", [[0.0, 0.1, 0.3], [0.2, 0.2, 0.2]])
def test_what_would_have_shown_and_seeds_needed_by_a_second_computation(
    against: list[float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Power by the definition, a normal over a scaled chi, integrated; Welch's degrees of freedom also where one spread is 0."""
    monkeypatch.chdir(tmp_path)
    left, margin = [0.0, 1.0, 2.5], 0.5
    claim = _claim("c", "above", margin, condition=None, contrast=Contrast(condition="shaped", against="zero"))
    verdict = _concluded(tmp_path, {"shaped": left, "zero": against}, [claim]).verdicts[0]

    def spread(n: int) -> tuple[float, float]:
        parts = [np.var(group, ddof=1) / n for group in (left, against)]
        return sum(parts) ** 0.5, sum(parts) ** 2 / sum(part**2 / (n - 1) for part in parts)

    def power(distance: float, n: int) -> float:
        error, freedom = spread(n)
        at = (np.arange(4000) + 0.5) / 4000  # the midpoint rule on the chi's own quantiles
        scales = np.sqrt(stats.chi2.ppf(at, freedom) / freedom)
        return float(special.ndtr(distance / error - stats.t.ppf(0.975, freedom) * scales).mean())

    assert verdict.verdict == "inconclusive" and verdict.detectable is not None and verdict.seeds_needed is not None
    assert verdict.detectable == pytest.approx(optimize.brentq(lambda d: power(d, 3) - 0.8, 0, 50), rel=2e-3)
    distance = abs(np.mean(left) - np.mean(against) - margin)
    assert power(distance, verdict.seeds_needed) >= 0.8 > power(distance, verdict.seeds_needed - 1)


def test_what_is_printed_lies_where_the_number_lies() -> None:
    assert [beside(x, 0.05) for x in (0.0499999, 0.05, 0.05000004, 0.04, -0.0, 1234.5)] == [
        "0.0499999",
        "0.05",
        "0.05000004",
        "0.04",
        "0",
        "1.23e+03",
    ]
    assert [bound_text(x) for x in (0.05, 5.0, 0.1234567, -1e-5, 1e12)] == ["0.05", "5", "0.1234567", "-1e-05", "1000000000000"]
    rng = np.random.default_rng(0)
    for margin in (0.05, -0.3, 0.0, 1e6, 0.1 + 0.2):
        for x in margin + rng.normal(0, 1, 200) * 10.0 ** rng.integers(-14, 1, 200):
            assert np.sign(float(beside(float(x), margin)) - margin) == np.sign(float(x) - margin)


def test_a_claim_is_decided_against_a_condition_of_another_experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Welch's interval, from the other experiment's own files; its run that fails a health gate does not count, and a loss is named."""
    monkeypatch.chdir(tmp_path)
    lengths = {"before": (5.0, 6.0, 8.0, 50.0), "after": (3.0, 4.0, 4.5)}

    def run(seed: int, passed: int, length: float) -> Run:
        return Run("shaped", seed, passed=passed, cells={METRIC: dict.fromkeys(range(1, 21), length)})

    before = [run(seed, *values) for seed, values in enumerate(zip((8, 9, 11, 20), lengths["before"], strict=True), 1)]
    before[3].truncated_from = 1
    other = complete(tmp_path, "before", before)
    screen(other.root)
    own = [run(seed, *values) for seed, values in enumerate(zip((18, 17, 16), lengths["after"], strict=True), 1)]
    folder = complete(tmp_path, "after", own)
    pair = Contrast(condition="shaped", against=Elsewhere(experiment="before", condition="shaped"))
    fields: dict[str, Any] = {"metric": "evaluation.tests.pass_share", "contrast": pair, "direction": "above"}
    shorter = claim_rule(id="shorter", margin=0.0, **fields | {"metric": METRIC, "direction": "below"})
    rules = (claim_rule(id="better", margin=0.0, **fields), claim_rule(id="four", margin=0.0, seeds=4, **fields), shorter)
    refs = tuple(RunRef(name=run.name, condition="shaped", seed=run.seed, target_steps=run.target) for run in before)
    others = (OtherCondition(experiment="before", condition=CONDITIONS[0], runs=refs, evaluation=("tests",)),)
    write_cards(folder, own, claims=rules, elsewhere=others)
    screen(folder.root)
    conclude(folder.root)
    conclusions = read(Findings, folder.findings)
    findings = {each.id: each for each in conclusions.findings}
    length = findings[f"shaped-vs-before:shaped/{METRIC}/final"]
    welch = stats.ttest_ind(lengths["after"], lengths["before"][:3], equal_var=False).confidence_interval(0.95)
    assert (length.low, length.high) == pytest.approx(tuple(welch))
    finding = findings["shaped-vs-before:shaped/evaluation.tests.pass_share/final"]
    assert finding.value == pytest.approx(0.85 - 1.4 / 3)
    assert [seed.run for seed in finding.seeds if not seed.included] == ["before:shaped-s4"]
    assert "runs/before/shaped-s1/evaluation.parquet" in {source.path for source in finding.sources}
    levels = {each.id: each.value for each in conclusions.findings if each.subject.startswith("before:")}
    assert levels == pytest.approx({f"before:shaped/{finding.metric}/final": 1.4 / 3, f"before:shaped/{METRIC}/final": 19 / 3})
    better, four, shorter_verdict = conclusions.verdicts
    assert shorter_verdict.verdict == ("supported" if welch.high < 0 else "inconclusive")
    assert better.verdict == "supported" and "shaped minus before:shaped" in better.why
    assert four.verdict == "void" and "before:shaped has 3 of the 4 seeds needed (before:shaped-s4: gate truncated" in four.why


def test_an_end_just_inside_the_margin_is_printed_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """(1, 2, 3) ends at 4.48414: with three digits that of 4.484 looks like the margin itself."""
    monkeypatch.chdir(tmp_path)
    verdict = _concluded(tmp_path, {"shaped": [1.0, 2.0, 3.0]}, [_claim("c", "below", 4.4842), _claim("d", "below", 4.484)]).verdicts
    assert verdict[0].why == ("kl (final) of shaped is 2 (95% interval -0.484 to 4.48, 3 seeds): all of the interval is below 4.4842.")
    assert "interval -0.484 to 4.4841, 3 seeds): the interval contains 4.484." in verdict[1].why


def test_changes_that_differ_by_rounding_alone_are_equal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """(0.1 + 0.2 + 0.3) / 3 and (0.3 + 0.2 + 0.1) / 3 are two doubles: a change of -6e-17 beside two of 0 is no spread of seeds."""
    monkeypatch.chdir(tmp_path)
    up, down, steps = [0.1, 0.2, 0.3], [0.3, 0.2, 0.1], (1, 2, 3, 28, 29, 30)
    chosen_runs = [Run("shaped", seed, target=30, steps=30, passed=10) for seed in (1, 2, 3)]
    for run in chosen_runs:
        run.cells = {METRIC: {**dict.fromkeys(range(1, 31), 9.0), **dict(zip(steps, up + (down if run.seed == 1 else up), strict=True))}}
    folder = complete(tmp_path, chosen_runs=chosen_runs)
    write_cards(folder, chosen_runs, claims=(_claim("one", "below", 0.05, statistic="change"),))
    screen(folder.root)
    conclude(folder.root)
    conclusions = read(Findings, folder.findings)
    change = next(finding for finding in conclusions.findings if finding.id == f"shaped/{METRIC}/change")
    assert len({seed.value for seed in change.seeds}) == 2
    assert (conclusions.verdicts[0].verdict, change.equal_seeds, change.low, change.detectable) == ("inconclusive", True, None, None)


def test_no_verdict_rests_on_a_loss_that_is_no_progress() -> None:
    """A policy's loss; not the loss of gold answers, not an imported one, not a value loss."""

    def claim(metric: str, **changes: Any) -> ClaimRule:
        return _claim("c", "below", 0.0, metric=metric, **changes)

    assert refusal(claim("loss"), CONDITIONS).startswith("loss of shaped is no progress (on-policy: minus the covariance")
    pair = Contrast(condition="shaped", against="zero")
    assert refusal(claim("loss.policy", condition=None, contrast=pair), CONDITIONS).startswith(
        "loss.policy of shaped and zero is no progress"
    )
    gold = tuple(condition.model_copy(update={"supervised": condition.name == "shaped"}) for condition in CONDITIONS)
    assert refusal(claim("loss"), gold) == refusal(claim("loss"), CONDITIONS, {"shaped"}) == refusal(claim("loss.value"), CONDITIONS) == ""
