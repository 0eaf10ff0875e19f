"""Stop rules and expectations on recorded histories: hand-computed values, and the same answers that the live evaluator gave."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from run_from import read_history
from synthetic import Run, complete, runs, write_cards

from stages.analyse.conclude import conclude
from stages.analyse.outcomes import rows
from stages.analyse.screen import screen
from stages.contracts.artifact import read, write
from stages.contracts.attempt import Outcome, StoppedBy
from stages.contracts.expressions import AllOf, Comparison
from stages.contracts.files import file_digest
from stages.contracts.finding import Findings
from stages.contracts.health import Health
from stages.contracts.layout import ExperimentFolder
from stages.contracts.stops import Expectation, StopRule, StopRules
from stages.rules import Watch
from stages.train.recorder import Journal, cell, write_history

REWARD = Comparison(metric="reward", sign="<", value=0.8)
RISING = Comparison(metric="reward", slope=6, sign=">", value=0)


def concluded(folder: ExperimentFolder, chosen_runs: list[Run] | None = None, **rules: object) -> Findings:
    write_cards(folder, chosen_runs or runs(), **rules)
    screen(folder.root)
    conclude(folder.root)
    return read(Findings, folder.findings)


def expectation(**changes: object) -> Expectation:
    whole = {"id": "learns", "metric": "reward", "at": "100%", "above": 0.7, "conditions": ("shaped",), **changes}
    return Expectation.model_validate(whole)


def stops(*rules: StopRule, lights: tuple[StopRule, ...] = (), condition: str = "shaped") -> dict[str, StopRules]:
    return {condition: StopRules(rules=rules, green_lights=lights)}


def test_findings_without_rules_have_no_keys_for_them(folder: ExperimentFolder) -> None:
    concluded(folder)
    text = folder.findings.read_text()
    assert '"rules"' not in text and '"expectations"' not in text


def test_an_expectation_at_the_end_is_the_final_window(folder: ExperimentFolder) -> None:
    """Final rewards of shaped: (6.1 + 7.0) / 16 of seed 1; seeds 2 and 3 pass one and two completions less."""
    conclusions = concluded(folder, expectations=(expectation(),))
    numbers = {finding.id: finding for finding in conclusions.findings}
    [score] = conclusions.expectations
    assert [(run.run, run.state) for run in score.runs] == [("shaped-s1", "met"), ("shaped-s2", "met"), ("shaped-s3", "missed")]
    assert (score.state, score.place, score.finding) == ("missed", "100%", "shaped/expect.learns/met")
    for run in score.runs:
        at, final = numbers[run.finding], numbers[f"{run.run}/reward/final"]
        assert at.value == pytest.approx(final.value, rel=1e-12) and at.window == final.window == run.window
    assert numbers["shaped-s1/reward/at-100pct"].value == pytest.approx((6.1 + 7.0) / 16)
    count = numbers[score.finding]
    assert (count.k, count.n, count.value, count.unit) == (2, 3, 2.0, "runs")
    assert [seed.value for seed in count.seeds] == [1.0, 1.0, 0.0]
    assert count.sources[0].sha256 == file_digest(Path(count.sources[0].path))


@pytest.mark.parametrize(
    ("steps", "values", "bound", "state", "shown"),
    [
        (20, (0.0, 0.125), {"above": 0.0624}, "met", "0.0625 is above 0.0624"),
        (20, (0.0, 0.125), {"above": 0.0625}, "missed", "0.0625 is not above 0.0625"),
        (60, (1.0, 0.7, 0.7), {"above": 0.8}, "missed", "0.8 is not above 0.8"),  # their mean is 0.7999999999999999 in floats
        (60, (1.0, 0.7, 0.7), {"below": 0.8}, "missed", "0.8 is not below 0.8"),
        (60, (1.0, 0.7, 0.7), {"below": 0.81}, "met", "0.8 is below 0.81"),
        (8, (0.2, 0.6), {"above": 0.3}, "met", "0.4 is above 0.3"),  # two steps of eight, the window of its findings
    ],
)
def test_both_sides_of_a_bound(
    folder: ExperimentFolder, steps: int, values: tuple[float, ...], bound: dict[str, float], state: str, shown: str
) -> None:
    """The window that ends at half of the run holds the values."""
    half = steps // 2
    cells = {half - place: value for place, value in enumerate(reversed(values))}
    chosen_runs = [Run("random", 1, target=steps, steps=steps, cells={"reward": cells})]
    folder = complete(Path(), "bounds", chosen_runs)
    asked = expectation(at="50%", conditions=("random",), **{"above": None, **bound})
    [score] = concluded(folder, chosen_runs, expectations=(asked,), claims=()).expectations[0].runs
    assert (score.state, score.why) == (state, shown)


def test_places_that_a_run_did_not_reach(folder: ExperimentFolder) -> None:
    """random-s3 ended after 7 of 20 steps: 35% is its last step, 40% is beyond."""
    cards = tuple(expectation(id=name, at=share, conditions=("random",)) for name, share in (("there", "35%"), ("beyond", "40%")))
    there, beyond = concluded(folder, expectations=(*cards,)).expectations
    assert there.runs[2].state != "not_reached"
    assert (beyond.runs[2].state, beyond.runs[2].why) == ("not_reached", "the run ends at step 7")


def test_a_rule_that_nobody_applied_while_it_trained(folder: ExperimentFolder) -> None:
    """shaped-s1 has 3.4 / 8 at steps 1-4; seed 3 passes 1 of 8 there. A run that went on all the same would have stopped."""
    rule = StopRule(id="red_flag-1", when=Comparison(metric="reward", sign="<", value=0.3), lasting=3, window=2)
    conclusions = concluded(folder, stops=stops(rule))
    by_run = {result.run: result for result in conclusions.rules}
    assert set(by_run) == {"shaped-s1", "shaped-s2", "shaped-s3"}
    assert by_run["shaped-s1"].state == "quiet"
    third = by_run["shaped-s3"]
    assert (third.state, third.says) == ("would_have_stopped", "reward < 0.3 for 3 logged steps in a row")
    numbers = {finding.id: finding for finding in conclusions.findings}
    assert numbers["shaped-s3/red_flag-1/stop-step"].value == 3
    assert numbers["shaped-s3/red_flag-1/value"].value == pytest.approx((1 + 0.6) / 8)
    assert numbers["shaped-s3/red_flag-1/first-step"].window == "steps 1-3"


def test_a_light_that_holds_back_is_named(folder: ExperimentFolder) -> None:
    flag = StopRule(id="red_flag-1", when=REWARD, window=2, after=4)
    light = StopRule(id="green_light-1", when=Comparison(metric="reward", sign=">=", value=0), window=2)
    conclusions = concluded(folder, stops=stops(flag, lights=(light,)))
    first = conclusions.rules[0]
    assert (first.state, first.lights, first.stop) == ("held_back", ("reward >= 0",), None)
    numbers = {finding.id: finding for finding in conclusions.findings}
    # steps 4..19: the mean of steps 18-19 is 6.1 / 8, that of 19-20 (6.1 + 7) / 16 > 0.8
    assert (numbers[first.first or ""].value, numbers[first.held or ""].value) == (4, 16)


def test_what_was_never_measured_is_unknown_and_not_quiet(folder: ExperimentFolder) -> None:
    both = AllOf(all=(REWARD, Comparison(metric="kl", sign=">", value=1)))
    conclusions = concluded(folder, stops=stops(StopRule(id="early_stop", when=both, lasting=2, window=2)))
    assert {(result.state, result.why) for result in conclusions.rules} == {("unknown", "kl: no number was logged")}


def test_a_stopped_run_is_finished_and_not_complete(folder: ExperimentFolder) -> None:
    rule = StopRule(id="red_flag-1", when=REWARD, lasting=4, window=2)
    chosen_runs = [Run("shaped", seed, steps=4 if seed == 1 else 20, attempt=f"a-{seed}") for seed in (1, 2, 3)]
    folder = complete(Path(), "stopped", chosen_runs)
    place = folder.run("shaped-s1")
    by = StoppedBy(rule="red_flag-1", step=4, says="reward at step 4 is 0.425")
    write(place.outcome, read(Outcome, place.outcome).model_copy(update={"stopped": by}))
    conclusions = concluded(folder, chosen_runs, stops=stops(rule), expectations=(expectation(),), claims=())
    health = read(Health, place.health)
    assert (health.state, health.included, health.stopped) == ("finished", False, by)
    assert health.reasons == ("gate steps: 4 of 20 steps done: stopped by red_flag-1 at step 4",)
    assert [result.state for result in conclusions.rules] == ["stopped", "would_have_stopped", "would_have_stopped"]
    assert conclusions.expectations[0].runs[0].why == "stopped by red_flag-1 at step 4"
    assert '"after": null' in place.retry.read_text()  # not due again


def test_a_history_that_is_not_the_trained_one_is_told(folder: ExperimentFolder) -> None:
    chosen_runs = [Run("shaped", 1, steps=4)]
    folder = complete(Path(), "other", chosen_runs)
    place = folder.run("shaped-s1")
    by = StoppedBy(rule="red_flag-1", step=3, says="")
    write(place.outcome, read(Outcome, place.outcome).model_copy(update={"stopped": by}))
    conclusions = concluded(folder, chosen_runs, stops=stops(StopRule(id="red_flag-1", when=REWARD, lasting=4, window=2)), claims=())
    assert conclusions.rules[0].why == "the trainer stopped the run by red_flag-1 at step 3, its history says red_flag-1 at step 4"


@pytest.mark.parametrize("when", [REWARD, RISING, AllOf(all=(REWARD, RISING))])
@pytest.mark.parametrize("lasting", [None, 3])
def test_live_and_recorded_answers_are_the_same(tmp_path: Path, when: object, lasting: int | None) -> None:
    """Two attempts, the second resumed from step 8: live the rules see the journal's rows first, then the new ones."""
    rules = {"id": "red_flag-1", "when": when, "lasting": lasting, "window": 4, "after": 3}
    stop = StopRules(
        rules=(StopRule.model_validate(rules),),
        green_lights=(StopRule(id="green_light-1", when=Comparison(metric="kl", sign="<", value=0.05), window=2),),
    )
    journal = Journal(tmp_path)
    values = [0.9, None, float("nan"), 0.7, 0.75, 0.1, 0.9, 0.2, 0.3, 0.35, 0.2, 0.33, 0.36, 0.4, 0.1, 0.0]

    def log(attempt: str, step: int, lower: float = 0.0) -> dict[str, object]:
        value = values[step - 1]
        cells = {"reward": cell(None if value is None else value - lower), "grad_norm": cell(float("nan") if step == 7 else 1.0)}
        if step % 3:
            cells["kl"] = cell(step / 100)
        journal.step(attempt=attempt, step=step, tokens=None, seconds=0.0, cells=cells)
        return cells

    for step in range(1, 12):
        log("a1", step, lower=0.5 if step > 8 else 0.0)  # what is lost with the resume says something else
    live = Watch(stop)
    for step, cells in journal.steps(until=8):
        live.see(step, cells)
    for step in range(9, 17):
        live.see(step, log("a2", step))
    write_history(tmp_path / "history.parquet", journal.history_rows(), card_id="c", attempt="a2")
    again = Watch(stop)
    run = read_history(tmp_path / "history.parquet")
    for step, row in rows(run, list(run.steps)):
        again.see(step, row)
    assert again.firings == live.firings
    assert live.firings


FIXTURES = Path(__file__).parents[4] / "shared" / "cases" / "fixtures"
HIGH = StopRule(id="red_flag-1", when=Comparison(metric="reward", sign=">=", value=0.8), lasting=3, window=2)
LOW = StopRule(id="red_flag-1", when=Comparison(metric="reward", sign="<", value=0.85), window=2)


@pytest.mark.skipif(not FIXTURES.exists(), reason="the cases are not part of the repository")
@pytest.mark.parametrize(
    ("name", "high", "low"),
    [
        ("healthy", 3, None),  # means of two steps: 0.885, 0.865, 0.859, 0.943, 0.896
        ("nan_persistent_from_3", None, None),  # from step 3 on no reward counts, however plausible
        ("nan_transient_step2_logging1", 5, 3),  # the row begins anew at step 3; of steps 2-3 only the 0.833 of step 3 counts
        ("num_iterations2_sparse_rows", 5, 5),  # rewards of steps 1, 3 and 5; steps 4-5 hold the 0.833 of step 5 alone
        ("all_none_reward", None, None),  # null is never a number
        ("zero_reward", None, 2),
    ],
)
def test_recorded_logs_of_the_trainer(tmp_path: Path, name: str, high: int | None, low: int | None) -> None:
    """The same answers live and from the recorded history, on logs that TRL wrote."""
    for rule, expected in ((HIGH, high), (LOW, low)):
        journal, stop = Journal(tmp_path / rule.when.sign), StopRules(rules=(rule,))  # type: ignore[union-attr]
        live = Watch(stop)
        for line in (FIXTURES / f"{name}.jsonl").read_text().splitlines():
            logged = json.loads(line)
            if "loss" in logged:
                cells = {metric: cell(logged[metric]) for metric in ("reward", "loss", "grad_norm") if metric in logged}
                journal.step(attempt="a", step=logged["step"], tokens=None, seconds=0.0, cells=cells)
                live.see(logged["step"], cells)
        write_history(journal.history.with_suffix(".parquet"), journal.history_rows(), card_id="c", attempt="a")
        again = Watch(stop)
        run = read_history(journal.history.with_suffix(".parquet"))
        for step, row in rows(run, list(run.steps)):
            again.see(step, row)
        assert (again.stopped, again.firings) == (live.stopped, live.firings)
        assert (live.stopped.step if live.stopped else None) == expected
