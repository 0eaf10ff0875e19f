"""The section of expectations and stop rules, worked out by the analysis and written as a page."""

from __future__ import annotations

from pathlib import Path

import pytest
from example_experiment import dress, plain, read_with_care, section
from test_page_from_analysis import synthetic

from stages.analyse.conclude import conclude
from stages.analyse.draw import draw
from stages.analyse.screen import screen
from stages.contracts.analysis_card import ConcludeCard
from stages.contracts.artifact import read, write
from stages.contracts.attempt import Ended, Outcome, StoppedBy, read_attempts
from stages.contracts.expressions import Comparison
from stages.contracts.files import write_text
from stages.contracts.finding import Findings
from stages.contracts.layout import ExperimentFolder
from stages.contracts.lineage import Origin, Origins
from stages.contracts.stops import Expectation, StopRule, StopRules
from stages.publish.complete import complete
from stages.publish.experiment import load
from stages.publish.page import page
from stages.publish.passports import read_passports
from stages.publish.trace import trace

FLAG = StopRule(id="red_flag-1", when=Comparison(metric="reward", sign="<", value=0.3), lasting=3, window=2)
EARLY = StopRule(id="early_stop", when=Comparison(metric="reward", sign="<", value=0.2), lasting=2, window=2)
LOW = StopRule(id="red_flag-2", when=Comparison(metric="reward", sign="<", value=0.95), window=2, after=4)
BLIND = StopRule(id="early_stop", when=Comparison(metric="kl", sign=">", value=1), window=2)
LIGHT = StopRule(id="green_light-1", when=Comparison(metric="entropy", sign=">", value=0.5), window=2)
BY = StoppedBy(rule="early_stop", step=2, says="reward at step 2 (the condition held over steps 1-2) is 0.0125")
STOPS = {
    "shaped": StopRules(rules=(EARLY, FLAG)),
    "inverted": StopRules(rules=(LOW,), green_lights=(LIGHT,)),
    "random": StopRules(rules=(BLIND,)),
}
EXPECT = (
    Expectation(id="learns", metric="reward", at="100%", above=0.7, conditions=("shaped",)),
    Expectation(id="runs", metric="completion_tokens", at="2 steps", below=20, conditions=("shaped", "random")),
    Expectation(id="late", metric="reward", at="50%", above=0.9, conditions=("random",)),
)


def build(project: Path) -> ExperimentFolder:
    """The synthetic experiment with rules: an early stop of shaped-s3 at step 2, and whatever the others did."""
    runs = synthetic().runs()
    for run in runs:
        if run.name == "shaped-s3":
            run.steps, run.cells = 2, {"reward": {1: 0.0, 2: 0.0125}}
    folder: ExperimentFolder = synthetic().complete(project, chosen_runs=runs)
    place = folder.run("shaped-s3")
    write(place.outcome, read(Outcome, place.outcome).model_copy(update={"stopped": BY}))
    *before, last = place.attempts.read_text().splitlines()
    write_text(
        place.attempts, "\n".join([*before, Ended.model_validate_json(last).model_copy(update={"stopped": BY}).model_dump_json()]) + "\n"
    )
    synthetic().write_cards(folder, runs, expectations=EXPECT, stops=STOPS)
    screen(folder.root)
    conclude(folder.root)
    draw(folder.root)
    dress(folder, read(ConcludeCard, folder.conclude_card))
    origins = read(Origins, folder.origins)
    places = {f"/expectations/{index}": 80 + index for index in range(3)} | {"/stops/shaped/rules/0": 70}
    card = {pointer: Origin(file="specs/synthetic.yaml", line=line, column=5, layer="experiment") for pointer, line in places.items()}
    write(folder.origins, origins.model_copy(update={"cards": {**origins.cards, "analysis/conclude.card.json": card}}))
    page(folder.root)
    return folder


@pytest.fixture
def folder(project: Path) -> ExperimentFolder:
    return build(project)


def test_the_section_says_what_was_met_and_what_was_stopped(folder: ExperimentFolder) -> None:
    text = plain(section(folder, "Expectations and stop rules"))
    assert "reward above 0.7 at 100%" in text and "2 of 3 runs" in text
    assert "Not reached" not in text.split("completion length")[0]  # two met, one not reached: met
    assert "stopped by early_stop at step 2" in text
    assert "✗ Missed 0 of 3 runs" in text  # no random run has 0.9 half way
    assert "It stopped the run at step 2 ." in text
    assert "A green light held it back on" in text and "entropy > 0.5" in text
    assert "Nothing to look at: kl: no number was logged." in text
    assert "It never held." in text
    assert "specs/synthetic.yaml:80:5" in text and "specs/synthetic.yaml:70:5" in text


def test_the_first_screen_the_seeds_and_the_attempts_say_it_too(folder: ExperimentFolder) -> None:
    says = " ".join(read_with_care(load(folder.root)))
    assert "1 of 4 expectations missed: reward above 0.9 at 50% ( 0 of 3 runs of random)." in says
    assert "Stopped by a rule: shaped, by early_stop, 1 of 3 runs at step 2 ." in says
    seeds = plain(section(folder, "Seeds"))
    assert "stopped 2 / 20" in seeds and "stopped by early_stop at step 2" in seeds
    attempts = plain(section(folder, "Attempts"))
    assert "stopped by rule early_stop at step 2" in attempts and BY.says in attempts
    assert "early_stop" in (folder.figures / "curves-reward.svg").read_text()


def test_every_number_of_the_section_is_a_door(folder: ExperimentFolder) -> None:
    passports = read_passports(folder.page / "passports.js")["passports"]
    findings = {finding.id: finding for finding in read(Findings, folder.findings).findings}
    rules = [finding for finding in findings if "/early_stop/" in finding or "/expect." in finding or "/at-" in finding]
    assert rules
    for finding in rules:
        assert finding in passports
    traced = trace(folder.root, "shaped-s3/early_stop/stop-step")
    assert "stop rule early_stop" in traced and "stopped by early_stop" in traced
    assert "expectation learns" in trace(folder.root, "shaped/expect.learns/met")


def test_a_stopped_run_is_complete(folder: ExperimentFolder, capsys: pytest.CaptureFixture[str]) -> None:
    assert read_attempts(folder.run("shaped-s3").attempts)[-1].state == "finished"
    complete([folder.root])
    output = capsys.readouterr().out
    assert "stopped  shaped-s3: by early_stop at step 2 of 20" in output
    assert "failed   shaped-s3" not in output
