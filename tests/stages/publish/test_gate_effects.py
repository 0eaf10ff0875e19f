"""What each health gate changes stands on the page: of one gate, of several that overlap, of one that stops all and one that stops none."""

import html
import re
from pathlib import Path

import pytest
from example_experiment import dress
from test_page_from_analysis import synthetic

from stages.analyse.conclude import conclude
from stages.analyse.draw import draw
from stages.analyse.screen import screen
from stages.contracts.analysis_card import ConcludeCard, HealthGate, ScreenCard
from stages.contracts.artifact import read, write
from stages.contracts.finding import Findings
from stages.contracts.health import Health
from stages.contracts.layout import ExperimentFolder
from stages.publish import numbers
from stages.publish.experiment import load
from stages.publish.facts import Facts
from stages.publish.gate_effects import SAME, GateEffects, _few, gate_effects
from stages.publish.page import page

TRUNCATED = HealthGate(name="truncated", rule="below", metric="truncated", bound=0.5)
REWARD = HealthGate(name="reward", rule="above", metric="reward", bound=0.3)
ALL = HealthGate(name="all", rule="above", metric="reward", bound=99.0)
NONE = HealthGate(name="none", rule="below", metric="reward", bound=99.0)


def measured(project: Path, *gates: HealthGate) -> tuple[ExperimentFolder, GateEffects]:
    folder: ExperimentFolder = synthetic().complete(project)
    write(folder.screen_card, read(ScreenCard, folder.screen_card).model_copy(update={"gates": gates}))
    screen(folder.root)
    conclude(folder.root)
    draw(folder.root)
    dress(folder, read(ConcludeCard, folder.conclude_card))
    experiment = load(folder.root)
    return folder, gate_effects(experiment, Facts(experiment.findings))


def failed(folder: ExperimentFolder) -> dict[str, set[str]]:
    """Run -> what keeps it out: its gates' names, and `other`."""
    found = {}
    for path in folder.root.glob("*/health.json"):
        health = read(Health, path)
        found[health.run] = {reason.split(" ")[1].rstrip(":") if reason.startswith("gate ") else "other" for reason in health.reasons}
    return found


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


@pytest.mark.parametrize("gates", [(TRUNCATED,), (TRUNCATED, REWARD), (ALL,), (TRUNCATED, ALL), (NONE,), (TRUNCATED, REWARD, NONE)])
def test_every_number_with_and_without_each_gate(project: Path, gates: tuple[HealthGate, ...]) -> None:
    """Worked out again from the seeds' values and the reasons in health.json."""
    folder, effects = measured(project, *gates)
    out = failed(folder)
    assert {line.name for line in effects.gates} == {gate.name for gate in gates}
    for line in effects.gates:
        alone = sorted(run for run, why in out.items() if why == {line.name})
        assert line.alone == (numbers.listed(alone) or "none") or sorted(re.split(", | and ", line.alone)) == alone
    lines = {f"{line.subject} {line.label}": line for line in effects.numbers}
    checked = 0
    for found in read(Findings, folder.findings).findings:
        sides = {seed.run.rpartition("-s")[0] for seed in found.seeds}
        if len(sides) != 1 or found.statistic not in ("initial", "final", "change") or found.metric.startswith("evaluation."):
            continue
        values = {seed.run: seed.value for seed in found.seeds if seed.value is not None}
        line = lines.get(f"{found.subject} {found.metric} {found.statistic}")
        if not any(out[run] for run in values):
            assert line is None and found.with_all is None and not found.without_gate
            continue
        assert found.with_all == pytest.approx(mean(list(values.values()))), found
        for gate in gates:
            back = [value for run, value in values.items() if out[run] <= {gate.name}]
            counted = [value for run, value in values.items() if not out[run]]
            if len(back) == len(counted):
                assert gate.name not in found.without_gate
                continue
            assert found.without_gate[gate.name] == pytest.approx(mean(back))
            if line is not None:
                checked += 1
                assert numbers.number(mean(back), found.unit)[:3] in line.without[effects.columns.index(gate.name)]
    assert checked or gates in ((NONE,),)
    page(folder.root)
    text = html.unescape(re.sub(r"<[^>]*>", " ", (folder.page / "index.md").read_text(encoding="utf-8")))
    assert "What each gate changes" in text and effects.says in text
    for line in effects.numbers:
        assert line.label in text


def test_sentences_of_gates(project: Path) -> None:
    _, several = measured(project, TRUNCATED, ALL)
    assert several.says.startswith("inverted-s2: kept out by several gates, so without one of these gates it still does not count.")
    assert "random-s3: out for other reasons than a gate" in several.says
    truncated, everything = several.gates
    assert truncated.rule == "truncated share below 0.5 in steps 19-20" and truncated.alone == "none"
    assert truncated.fails == "inverted-s2 and random-s3 (not known)" and everything.alone.count("-s") == 10
    assert several.columns == ("all",)
    row = next(line for line in several.numbers if (line.subject, line.label) == ("shaped", "reward final"))
    assert "\u2013" in row.fact.striptags() and row.without == (row.with_all,)


def test_one_gate_brings_back_what_it_alone_keeps_out(project: Path) -> None:
    _, effects = measured(project, TRUNCATED)
    (line,) = effects.gates
    assert (line.alone, effects.columns) == ("inverted-s2", ("truncated",))
    found = {f"{one.subject} {one.label}": one for one in effects.numbers}
    assert found["inverted runs included"].without == ("3",) and found["inverted runs included"].fact.striptags() == "2"
    assert found["random reward initial"].without == (SAME,), "random-s3 failed, which no gate undoes"
    _, quiet = measured(project, NONE)
    assert [line.alone for line in quiet.gates] == ["none"] and quiet.columns == ()


def test_a_claim_says_what_each_of_several_gates_does_to_it(project: Path) -> None:
    """Entropy is 1 - step/100 + seed/1000, so every third seed fails; of 20 completions inverted passes 0, 1, 0 and zero 10, 11, 9."""
    entropy = HealthGate(name="entropy", rule="below", metric="entropy", bound=0.8075)
    folder, _ = measured(project, TRUNCATED, entropy)
    assert [run for run, why in sorted(failed(folder).items()) if why == {"entropy"}] == ["inverted-s3", "shaped-s3", "zero-s3"]
    page(folder.root)
    text = " ".join(html.unescape(re.sub(r"<[^>]*>", " ", (folder.page / "index.md").read_text(encoding="utf-8"))).split())
    # counted: 0/20 - 21/40; without the gates: 1/40 - 21/40, 0/40 - 30/60; with all: 1/60 - 30/60
    assert (
        "With them the number is \u22120.48. Without the gate entropy it is \u22120.50. Without the gate truncated it is \u22120.50."
        in text
    )


def test_of_many_runs_the_first_are_named() -> None:
    assert _few([]) == "none" and _few(["a", "b"]) == "a and b"
    many = _few([f"r{number}" for number in range(40)])
    assert many.startswith("r0, r1") and many.endswith("r18 and 21 more")
