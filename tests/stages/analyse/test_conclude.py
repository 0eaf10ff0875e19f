"""Findings and verdicts of the synthetic experiment, all worked out by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from scipy import stats
from synthetic import Run, claim_rule, complete, runs, write_cards, write_run

from stages.analyse.conclude import conclude
from stages.analyse.screen import screen
from stages.contracts.artifact import read
from stages.contracts.claim import ClaimRule, Contrast
from stages.contracts.files import file_digest
from stages.contracts.finding import Finding, Findings, Verdict
from stages.contracts.layout import ExperimentFolder

SHARE = "evaluation.tests.pass_share"
EXPECTED: dict[str, Any] = YAML(typ="safe").load(Path(__file__).with_name("synthetic.yaml"))
Experiment = Callable[..., tuple[dict[str, Finding], dict[str, Verdict]]]


def concluded(folder: ExperimentFolder) -> tuple[dict[str, Finding], dict[str, Verdict]]:
    screen(folder.root)
    conclude(folder.root)
    return conclusions(folder)


@pytest.fixture
def experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Experiment:
    """Findings and verdicts of other runs and cards."""

    def written(chosen_runs: list[Run], **cards: Any) -> tuple[dict[str, Finding], dict[str, Verdict]]:
        monkeypatch.chdir(tmp_path)
        folder = complete(tmp_path, chosen_runs=chosen_runs)
        write_cards(folder, chosen_runs, **cards)
        return concluded(folder)

    return written


def conclusions(folder: ExperimentFolder) -> tuple[dict[str, Finding], dict[str, Verdict]]:
    findings = read(Findings, folder.findings)
    assert len({finding.id for finding in findings.findings}) == len(findings.findings)
    return {finding.id: finding for finding in findings.findings}, {verdict.claim: verdict for verdict in findings.verdicts}


def test_every_finding_has_its_passport(finished: ExperimentFolder) -> None:
    findings, _ = conclusions(finished)
    for finding in findings.values():
        assert finding.id.split("/")[0] == finding.subject
        assert finding.says
        assert finding.method
        assert finding.unit
        assert (finding.value is None) == bool(finding.reason), finding.id
        assert (finding.low is None) == (finding.level is None), finding.id
        for source in finding.sources:
            assert source.sha256 == file_digest(Path(source.path))


def near(value: object) -> object:
    return pytest.approx(value, abs=1e-5) if isinstance(value, float) else value


def test_the_synthetic_experiment_gives_what_was_worked_out_by_hand(finished: ExperimentFolder) -> None:
    findings, verdicts = conclusions(finished)
    for id_, wanted in EXPECTED["findings"].items():
        assert {name: getattr(findings[id_], name) for name in wanted} == {name: near(value) for name, value in wanted.items()}, id_
    for claim, wanted in EXPECTED["verdicts"].items():
        assert {name: getattr(verdicts[claim], name) for name in wanted} == {name: near(value) for name, value in wanted.items()}, claim
    assert verdicts.keys() == EXPECTED["verdicts"].keys() and not findings.keys() & set(EXPECTED["absent"])
    final = findings["shaped-s1/reward/final"]
    assert [(source.path, source.attempt) for source in final.sources] == [("runs/synthetic/shaped-s1/history.parquet", "a-shaped-s1-2")]
    inverted = findings[f"inverted/{SHARE}/final"]
    assert [(seed.run, seed.included) for seed in inverted.seeds] == [("inverted-s1", True), ("inverted-s2", False), ("inverted-s3", True)]
    assert inverted.seeds[1].why == EXPECTED["left_out"]["inverted-s2"][0]
    assert [seed.included for seed in findings["inverted/gate.tests.reach/final"].seeds] == [True, False, True]
    assert len(findings[f"shaped-vs-zero/{SHARE}/final"].seeds) == 6
    for finding in findings.values():
        if finding.unit == "share" and finding.statistic not in ("change", "difference") and finding.low is not None:
            assert 0 <= finding.low <= (finding.high or 0) <= 1, finding.id


def test_equal_shares_of_all_seeds_are_no_certainty(experiment: Experiment) -> None:
    """Three seeds of 20 of 20: the t interval has no width, and says nothing of the completions' own error. Seeds that show no difference
    count once: as 20."""
    chosen_runs = [Run(name, seed, passed=passed) for name, passed in (("shaped", 20), ("zero", 10)) for seed in (1, 2, 3)]
    pair = Contrast(condition="shaped", against="zero")
    metric = "evaluation.tests.pass_share"
    claims = [
        claim_rule(id=f"c{number}", metric=metric, statistic="final", contrast=pair, direction="above", margin=margin, seeds=3)
        for number, margin in enumerate((0.2, 0.45))
    ]
    findings, verdicts = experiment(chosen_runs, claims=tuple(claims))
    share, contrast = findings[f"shaped/{metric}/final"], findings[f"shaped-vs-zero/{metric}/final"]
    assert (share.value, share.high, share.n) == (1.0, 1.0, 3)
    assert share.low == pytest.approx(20 / (20 + 1.959964**2))  # Wilson's lower end of n of n
    # Wilson of 10 of 20 is 0.2993 to 0.7007; Newcombe: 0.5 - sqrt(0.1611 ** 2 + 0.2007 ** 2) and 0.5 + 0.2007
    assert (contrast.low, contrast.high) == pytest.approx((0.2426, 0.7007), abs=1e-4)
    assert share.method == "seeds are equal; Wilson interval from 60 of 60 completions, counted as 20 independent ones"
    assert contrast.method.endswith(
        "Newcombe interval from 60 of 60 completions and 30 of 60 completions, counted as 20 and 20 independent ones"
    )
    assert share.equal_seeds and contrast.equal_seeds
    sure, unsure = verdicts.values()
    assert (sure.verdict, unsure.verdict, unsure.detectable, unsure.seeds_needed) == ("supported", "inconclusive", None, None)
    assert unsure.why.endswith("The seeds are equal, so their spread says nothing of how many it takes.")
    assert sure.why.endswith("all of the interval is above 0.2. The seeds are equal: the interval is that of their completions.")


def test_equal_values_that_are_no_shares_decide_nothing(experiment: Experiment) -> None:
    """Three seeds of length 5 exactly, three of 7: no interval holds a margin or leaves it out. A constant reward has none either."""
    chosen_runs = [Run(name, seed, passed=10) for name in ("shaped", "zero") for seed in (1, 2, 3)]
    for run in chosen_runs:
        run.cells = {"completion_tokens": dict.fromkeys(range(1, 21), 5.0 if run.condition == "shaped" else 7.0)}
    pair = Contrast(condition="shaped", against="zero")
    claims = (
        claim_rule(id="apart", metric="completion_tokens", contrast=pair, direction="below", margin=-1.0),
        claim_rule(id="nothing", metric="reward", condition="zero", direction="above", margin=0.5),
    )
    findings, verdicts = experiment(chosen_runs, claims=claims)
    no_width = "no spread between seeds: the interval would have no width"
    for id_, value in (("shaped-vs-zero/completion_tokens/final", -2.0), ("zero/reward/change", 0.0)):
        finding = findings[id_]
        assert (finding.value, finding.low, finding.level, finding.detectable, finding.n) == (value, None, None, None, 3)
        assert finding.method == no_width
    assert {(own.verdict, own.detectable, own.seeds_needed) for own in verdicts.values()} == {("inconclusive", None, None)}
    assert (
        verdicts["apart"].why == f"completion_tokens (final) of shaped minus zero is -2 in 3 and 3 seeds: {no_width}, and decides nothing."
    )


def test_equal_shares_of_a_wrong_unit_have_no_interval(experiment: Experiment) -> None:
    """An import may log 150 where 1.5 was meant, and 1.5 where 0.015 was: no such share has an interval of its completions."""
    chosen_runs = [Run("shaped", seed, passed=10, cells={"truncated": dict.fromkeys(range(1, 21), 1.5)}) for seed in (1, 2, 3)]
    findings, _ = experiment(chosen_runs, claims=(), gates={})
    final = findings["shaped/truncated/final"]
    assert (final.value, final.low, final.equal_seeds) == (1.5, None, True)


def test_a_run_that_ends_inside_its_last_window_says_so(experiment: Experiment) -> None:
    """Of 40 steps the last window is 37-40. The first run's gradient breaks for good at 38, the second dies after 39."""
    chosen_runs = [Run("shaped", seed, target=40, steps=40, passed=10) for seed in (1, 2, 3)]
    for run in chosen_runs:
        run.cells = {"completion_tokens": {step: float(step) for step in range(1, 41)}}
    chosen_runs[0].nonfinite = (38, 39, 40)
    chosen_runs[1].steps, chosen_runs[1].finished, chosen_runs[1].failure = 39, False, "verifier"
    findings, _ = experiment(chosen_runs, claims=())
    final = findings["shaped/completion_tokens/final"]
    assert (final.value, final.n, final.with_all) == (38.5, 1, pytest.approx((37 + 38 + 38.5) / 3))
    broken, died, whole = final.seeds
    assert broken.why.endswith("; a mean over step 37 only, because the run ends inside steps 37-40")
    assert died.why.endswith("; a mean over steps 37-39 only, because the run ends inside steps 37-40")
    assert (whole.why, broken.value, died.value) == ("", 37.0, 38.0)
    assert [seed.why for seed in findings["shaped/completion_tokens/change"].seeds] == [seed.why for seed in final.seeds]
    assert "only" not in "".join(seed.why for seed in findings["shaped/completion_tokens/initial"].seeds)
    own = "mean over the logged steps of one run; a mean over steps 37-39 only, because the run ends inside steps 37-40"
    assert findings["shaped-s2/completion_tokens/final"].method == own


def test_attempts_are_counted_from_the_ledger(folder: ExperimentFolder) -> None:
    folder.run("zero-s1").attempts.unlink()
    assert concluded(folder)[0]["zero/attempts/finished"].n == 2


def test_case_21_attempts_of_each_condition_have_their_interval(experiment: Experiment) -> None:
    """3 finished of 18 attempts beside 9 of 9: each condition by itself, and never the 12 of 27 alone."""
    chosen_runs = [Run("random", seed, passed=8, killed_before=5, attempt=f"sixth-{seed}") for seed in (1, 2, 3)]
    chosen_runs += [Run("zero", seed, passed=10) for seed in range(1, 10)]
    findings, _ = experiment(chosen_runs, claims=())
    counted = {name: findings[f"{name}/attempts/finished"] for name in ("random", "zero", "experiment")}
    assert {name: (share.k, share.n) for name, share in counted.items()} == {"random": (3, 18), "zero": (9, 9), "experiment": (12, 27)}
    ends = {name: (round(share.low or 0, 2), round(share.high or 0, 2)) for name, share in counted.items()}
    assert (ends["random"], ends["zero"]) == ((0.06, 0.39), (0.70, 1.0))


def _claim(**changes: Any) -> ClaimRule:
    fields: dict[str, Any] = {"id": "c", "metric": SHARE, "statistic": "final", "condition": "shaped", "direction": "above", "margin": 0.5}
    return claim_rule(**{**fields, "seeds": 3, **changes})


def _verdict(folder: ExperimentFolder, chosen_runs: list[Run] | None = None, **changes: Any) -> Verdict:
    write_cards(folder, chosen_runs or runs(), claims=(_claim(**changes),))
    return concluded(folder)[1]["c"]


def test_claims_on_changes_of_a_condition(folder: ExperimentFolder) -> None:
    assert _verdict(folder, statistic="change", margin=0.2).verdict == "supported"  # 0.35 +- 0.124 against the untrained model
    reward = _verdict(folder, statistic="change", metric="reward", margin=0.39)  # every seed moves by exactly 3.15 / 8
    assert (reward.verdict, reward.finding) == ("inconclusive", "shaped/reward/change")


def test_case_43_a_single_seed_is_void(folder: ExperimentFolder) -> None:
    first = [run for run in runs() if run.seed == 1]
    alone = _verdict(folder, first, seeds=1)
    assert alone.verdict == "void"
    assert "no interval" in alone.why
    assert concluded(folder)[0][f"shaped/{SHARE}/final"].value == 0.9


def test_missing_evaluations_make_a_claim_void(folder: ExperimentFolder) -> None:
    folder.run("shaped-s2").evaluation.unlink()
    missing = _verdict(folder)
    assert missing.verdict == "void"
    assert missing.why == "Void: shaped has 2 of the 3 seeds needed (shaped-s2: it was not evaluated)."


def test_a_claim_may_count_excluded_runs_too(folder: ExperimentFolder) -> None:
    strict = _verdict(folder, condition="inverted", direction="below", margin=0.2)
    assert strict.verdict == "void"
    lenient = _verdict(folder, condition="inverted", direction="below", margin=0.6, included_only=False)
    # 0, 0.05, 0: mean 0.016667, half width 4.302653 x 0.016667 = 0.0717, on the logit scale 4.3756: up to 0.5740
    assert (lenient.verdict, lenient.finding) == ("supported", f"inverted/{SHARE}/final-with-excluded")


def test_non_finite_steps_enter_no_finding(folder: ExperimentFolder) -> None:
    """Step 20 of shaped-s1 is skipped: its final value is that of step 19 alone."""
    bad = replace(runs()[0], nonfinite=(20,))
    write_run(folder.run(bad.name), bad)
    findings, _ = concluded(folder)
    assert findings["shaped-s1/reward/final"].value == pytest.approx(6.1 / 8)
    assert findings["shaped/gate.tests.pass/final"].k == 33 - 7


def test_case_15_and_16_changes_are_absolute(folder: ExperimentFolder) -> None:
    first = replace(runs()[0], cells={"loss": {step: 0.0018 if step <= 2 else 0.0352 for step in range(1, 21)}})
    second = replace(runs()[1], cells={"loss": {step: 0.1410 if step <= 2 else 0.1394 for step in range(1, 21)}})
    for run in (first, second):
        write_run(folder.run(run.name), run)
    write_cards(folder, runs(), metrics=("loss",))
    findings, _ = concluded(folder)
    assert findings["shaped-s1/loss/change"].value == pytest.approx(0.0334)
    assert findings["shaped-s2/loss/change"].value == pytest.approx(-0.0016)
    assert findings["shaped-s2/loss/change"].unit == "loss"


def test_an_experiment_without_any_data_still_concludes(folder: ExperimentFolder) -> None:
    for path in [
        *folder.root.rglob("*.parquet"),
        *folder.root.rglob("outcome.json"),
        *folder.root.rglob("attempts.jsonl"),
        folder.preflight,
    ]:
        path.unlink()
    findings, verdicts = concluded(folder)
    assert {verdict.verdict for verdict in verdicts.values()} == {"void"}
    assert verdicts["shaped-teaches"].why == (
        "Void: shaped has 0 of the 3 seeds needed (shaped-s1, shaped-s2 and shaped-s3: not trained: no outcome was recorded); "
        "zero has 0 of the 3 seeds needed (zero-s1, zero-s2 and zero-s3: not trained: no outcome was recorded)."
    )
    assert findings["experiment/runs/included"].value == 0
    assert findings["experiment/attempts/finished"].reason == "no attempt is in the ledger"
    assert findings["shaped/reward/final"].value is None


def test_the_same_input_gives_the_same_bytes(again: ExperimentFolder) -> None:
    first = again.findings.read_bytes()
    concluded(again)
    assert again.findings.read_bytes() == first


def test_a_run_s_change_has_an_interval_and_what_it_could_have_shown(experiment: Experiment) -> None:
    """Six steps a window make two batches of three each: 1 and 1 before, 1.2 and 1.5 after."""
    chosen_runs = [Run(name, seed, target=60, steps=60, passed=10) for name in ("shaped", "zero") for seed in (1, 2, 3)]
    for run in chosen_runs:
        run.cells = {"reward": {step: (step % 3) + (0.1 if step > 54 else 0.0) * (step - 54) for step in range(1, 61)}}
    findings, _ = experiment(chosen_runs, claims=())
    change = findings["shaped-s1/reward/change"]
    assert change.value == pytest.approx(0.35)
    half = stats.t.ppf(0.975, 1) * 0.15  # batches of 1.2 and 1.5: the error of their mean is 0.15, the other window has none
    assert (change.low, change.high) == pytest.approx((0.35 - half, 0.35 + half), abs=1e-9)
    assert change.detectable is not None and change.detectable > half
    assert change.method == "t interval over batch means of one run's steps"
    assert findings["shaped-s1/reward/final"].low is None
    assert findings["shaped/reward/change"].detectable is None  # three equal seeds: no spread


def test_points_of_training_are_shares_of_each_runs_own_steps(experiment: Experiment) -> None:
    rewards = {step: step / 100 for step in range(1, 41)}
    long, short, dead = (Run("shaped", 1, target=40, steps=40), Run("shaped", 2), Run("shaped", 3, steps=8, finished=False, failure="bug"))
    for run in (long, short, dead):
        run.cells = {"reward": {step: rewards[step] for step in range(1, run.steps + 1)}}
    findings, _ = experiment([long, short, dead], points=("reward",), claims=())
    at = {run.name: [findings[f"{run.name}/reward/at-{share}"] for share in (25, 50, 75)] for run in (long, short, dead)}
    assert [finding.window for finding in at["shaped-s1"]] == ["steps 9-12", "steps 19-22", "steps 29-32"]
    assert [finding.value for finding in at["shaped-s1"]] == pytest.approx([0.105, 0.205, 0.305])
    assert [finding.value for finding in at["shaped-s2"]] == pytest.approx([0.055, 0.105, 0.155])
    assert [finding.value for finding in at["shaped-s3"]] == [pytest.approx(0.055), None, None]
    assert at["shaped-s3"][1].reason == "the log ends at step 8"
    mean = findings["shaped/reward/at-50"]
    assert (mean.value, mean.window, mean.n) == (pytest.approx(0.155), "windows differ between runs", 2)
    assert "about 50% of the way" in mean.says
    assert not any(id_.endswith("/at-50") for id_ in findings if "/reward/" not in id_)  # of what the card names alone
