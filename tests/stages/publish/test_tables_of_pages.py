"""Tables of conditions, seeds, ranges and gates on a page that the analysis stages have worked out."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import metrics_reference
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from example_experiment import dress, plain, section
from test_page_from_analysis import synthetic

from stages.analyse.conclude import conclude
from stages.analyse.detectors import kl_sign, steps_taken, throughput, truncation, update_size, value_fit, zero_signal
from stages.analyse.draw import draw
from stages.analyse.screen import screen
from stages.contracts.algorithms import AnyTrainCard
from stages.contracts.analysis_card import ConcludeCard
from stages.contracts.artifact import read, write
from stages.contracts.history import METRICS
from stages.contracts.layout import ExperimentFolder
from stages.contracts.page_card import PageCard, PageLayout, Tables
from stages.contracts.reward import Phase
from stages.contracts.stops import Expectation
from stages.publish.page import page


def build(project: Path, layout: Tables | None = None, **cards: Any) -> ExperimentFolder:
    """The page of the synthetic experiment with its own columns, and one sentence about `shaped`."""
    runs = synthetic().runs()
    runs[10].nonfinite, runs[11].nonfinite = (5, 18, 19, 20), (5,)  # zero-s2 and zero-s3
    for run in runs:
        run.cells = {"step_seconds": dict.fromkeys(range(1, 21), 36.0)}
    folder: ExperimentFolder = synthetic().complete(project, chosen_runs=runs)
    synthetic().write_cards(folder, runs, **cards)
    for stage in (screen, conclude, draw):
        stage(folder.root)
    dress(folder, read(ConcludeCard, folder.conclude_card))
    card = read(PageCard, folder.page_card)
    own = {"hypotheses": {"shaped": "It <b>learns</b> most."}, "layout": PageLayout(tables=layout or Tables())}
    write(folder.page_card, card.model_copy(update=own))
    page(folder.root)
    return folder


def rows(markup: str) -> dict[str, list[str]]:
    """First cell -> cells of each row of the first table, as a reader sees them."""
    table = markup.split("</table>")[0]
    cells = [[plain(cell) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row)] for row in re.findall(r"<tr[^>]*>(.*?)</tr>", table)]
    return {first: rest for first, *rest in cells}


def seed_rows(markup: str, condition: str) -> dict[str, list[str]]:
    return rows(markup.split(f'id="seeds-{condition}"')[1].split("</tbody>")[0])


def test_a_column_of_five_points_of_training_has_a_passport_for_each(project: Path) -> None:
    folder = build(project, Tables(seeds=("reward points",), conditions=("reward points",)), points=("reward",))
    run = read(ConcludeCard, folder.conclude_card).runs[0]
    history = pq.read_table(folder.run(run.name).history).to_pandas()
    rewards = history[history["metric"] == "reward"].set_index("step")["value"]
    windows = [(1, 2), (5, 6), (10, 11), (15, 16), (19, 20)]  # of 20 steps, a tenth each
    printed = [f"{rewards.loc[first:last].mean():.2f}" for first, last in windows]
    cell = seed_rows(section(folder, "Seeds"), "shaped")["1"][0]
    assert cell == " → ".join(printed)
    ids = re.findall(r'data-finding="(shaped-s1/reward/[^"]*)"', section(folder, "Seeds"))
    assert ids == [f"shaped-s1/reward/{point}" for point in ("initial", "at-25", "at-50", "at-75", "final")]
    assert "tenths about 25, 50 and 75% of the way" in section(folder, "Seeds")
    assert rows(section(folder, "Conditions"))["shaped treatment, reward shaped"][0].count("→") == 4


def test_the_usual_columns_have_one_value_a_cell_and_none_is_empty(project: Path) -> None:
    folder = build(project)
    conditions, seeds = section(folder, "Conditions"), section(folder, "Seeds")
    heads = [plain(head) for head in re.findall(r"<th[^>]*>(.*?)</th>", conditions.split("</thead>")[0].split("</tr>")[1])]
    assert heads == [
        "runs in",
        "steps",
        "tests",
        "first",
        "last",
        "change",
        "zero signal",
        "truncated",
        "loss",
        "collapsed",
        "not finite",
        "s a step",
        "h a run",
    ]
    shaped = rows(conditions)["shaped treatment, reward shaped"]
    assert shaped == [
        "3 of 3",
        "20",
        "0.85 [0.68, 0.94]",
        "0.31",
        "0.71",
        "+0.40",
        "0.08",
        "0.00",
        "0.02",
        "0 of 3",
        "0 of 3",
        "36.0",
        "0.20",
    ]
    assert rows(conditions)["untrained base model"][2] == "0.50 [0.30, 0.70]"
    assert "Expected: It &#60;b&#62;learns" in conditions
    heads = [plain(head) for head in re.findall(r"<th[^>]*>(.*?)</th>", seeds.split("</thead>")[0].split("</tr>")[1])]
    assert heads[:5] == ["state", "steps", "tests", "first", "last"] and heads[-3:] == ["collapsed", "not finite", "attempts"]
    assert [seed_rows(seeds, "zero")[seed][-2] for seed in "123"] == ["none", "persistent, step 18", "transient, step 5"]
    failed = seed_rows(seeds, "random")["3"]
    assert failed[:3] == ["failed", "7 / 20", "–"] and all("→" not in cell for cell in failed)
    for cell in re.findall(r"<td[^>]*>(.*?)</td>", conditions.split("</table>")[0]):
        assert not cell or "data-finding" in cell or "Expected" in cell, "every number has a passport"


def test_the_author_chooses_columns(project: Path) -> None:
    layout = Tables(conditions=("reward change", "twice", "evaluation.tests.score"), seeds=("steps", "twice first", "kl"))
    folder = build(project, layout, derived={"twice": "2 * reward"}, metrics=("twice",))
    conditions, seeds = section(folder, "Conditions"), section(folder, "Seeds")
    assert rows(conditions)["shaped treatment, reward shaped"][1] == "1.41"
    assert 'href="../../reference/metrics.html#gate-score"' in conditions and "metrics.html#twice" not in conditions
    assert seed_rows(seeds, "shaped")["1"] == ["20 / 20", "0.85", "–"], "a chosen column stays, although nothing logs it"


def test_ranges_are_held_against_what_was_expected(project: Path) -> None:
    band = Expectation(id="band", metric="reward", at="50%", above=0.1, below=0.9, conditions=("shaped",))
    ranges = section(build(project, expectations=(band,)), "Conditions").split("Ranges seen and ranges expected")[1]
    by_metric = {plain(body.split("</th>")[0]): plain(body) for body in re.findall(r"<tbody>(.*?)</tbody>", ranges, flags=re.DOTALL)}
    assert "shaped 0.20 step 1 of shaped-s3 0.88 step 20 of shaped-s1 between 0.1 and 0.9 at 50% inside" in by_metric["reward"]
    assert (
        "inverted 0.00 step 1 of inverted-s1 0.88 step 11 of inverted-s2 at most 0.3 outside at 10 of 60 steps"
        in by_metric["truncated share"]
    )
    assert "zero 1.00 step 1 of zero-s1 1.00 step 1 of zero-s1 at most 0.3 outside at 55 of 55 steps" in by_metric["zero-signal share"]


def test_what_each_gate_adds_sums_to_the_reward(project: Path) -> None:
    weights = {"shaped": (Phase.model_validate({"from": 0, "weights": {"format": 0.4, "tests": 0.6}}),)}
    folder = build(project, weights=weights)
    reward = section(folder, "Reward")
    assert "Why completions failed a gate" in reward
    assert "tests <i>no</i> name 16 of 30 6 of 9" in plain(reward)
    assert "&#60;i&#62;no" in reward, "the words of a model stay words"
    assert "Adds to the reward" not in reward, "the reward of the example is not weighted"
    for seed in (1, 2, 3):
        path = folder.run(f"shaped-s{seed}").card
        card = read(AnyTrainCard, path)  # type: ignore[type-var]
        weighted = card.reward.model_copy(update={"combine": "weighted"})
        write(path, card.model_copy(update={"reward": weighted}))
    page(folder.root)
    table = rows(section(folder, "Reward").split('aria-label="Scores of the gates of shaped"')[1])
    assert table["tests"][-2:] == ["0.15", "0.41"] and table["format"][-2:] == ["0.35", "0.35"]
    assert table["sum of what they add"][-2:] == ["0.50", "0.76"] and table["reward"][-2:] == ["0.31", "0.71"]


def test_a_score_with_grades_leads_with_its_mean(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a point for a failed completion: 0.85 of 20 pass, so the mean is 0.925."""
    graded = synthetic().write_evaluation

    def write_graded(path: Path, passed: int, **more: Any) -> None:
        graded(path, passed, **more)
        table = pq.read_table(path)
        column = table.schema.get_field_index("gate.tests.score")
        scores = pa.array([score or 0.5 for score in table.column(column).to_pylist()])
        pq.write_table(table.set_column(column, "gate.tests.score", scores).replace_schema_metadata(table.schema.metadata), path)

    monkeypatch.setattr(synthetic(), "write_evaluation", write_graded)
    folder = build(project)
    conditions = section(folder, "Conditions")
    shaped = rows(conditions)["shaped treatment, reward shaped"]
    assert shaped[2].startswith("0.92 [") and shaped[3] == "0.85 [0.68, 0.94]"
    assert (folder.figures / "evaluation-tests-score.svg").exists() and (folder.figures / "evaluation-tests.svg").exists()
    heads = [plain(head) for head in re.findall(r"<th[^>]*>(.*?)</th>", conditions.split("</thead>")[0].split("</tr>")[1])]
    assert heads[2:4] == ["tests score", "tests passes"]


def test_the_reference_of_metrics_is_that_of_the_table() -> None:
    assert metrics_reference.PAGE.read_text(encoding="utf-8") == metrics_reference.generated(), "run: make fix"


def test_healthy_ranges_are_those_of_the_detectors() -> None:
    wanted = {
        "zero_signal_share": (None, zero_signal.Settings().warn_above),
        "truncated": (None, truncation.Settings().warn_above),
        "unknown_share": (None, throughput.Settings().unknown),
        "objective.kl": (kl_sign.Settings().below, None),
        "policy.approxkl": (None, update_size.Settings().kl),
        "policy.clipfrac": (None, update_size.Settings().clipped),
        "policy.ratio": (1 - update_size.Settings().ratio, 1 + update_size.Settings().ratio),
        "optimizer_steps_share": (steps_taken.Settings().below, None),
        "value.explained_variance": (value_fit.Settings().below, None),
    }
    assert {name: METRICS[name].healthy for name in wanted} == wanted
    assert all(metric.source for metric in METRICS.values() if metric.healthy != (None, None))
