from __future__ import annotations

import csv
import re
from dataclasses import replace
from xml.etree import ElementTree

import pandas as pd
import pytest
from synthetic import runs, write_cards, write_run

from stages.analyse import draw as draw_module
from stages.analyse import picture
from stages.analyse.conclude import conclude
from stages.analyse.draw import draw
from stages.analyse.lines import points_shown, thinned
from stages.analyse.screen import screen
from stages.contracts.artifact import read
from stages.contracts.expressions import AllOf, Comparison
from stages.contracts.figure import Figure
from stages.contracts.finding import Findings
from stages.contracts.layout import ExperimentFolder
from stages.contracts.stops import Expectation, StopRule, StopRules

METRICS = ("reward", "zero_signal_share", "truncated", "completion_tokens", "grad_norm")
CONDITIONS = ("shaped", "inverted", "random", "zero")
NAMES = (*(f"curves-{metric}" for metric in METRICS), "evaluation-tests", *(f"funnel-{condition}" for condition in CONDITIONS))
SVG = "{http://www.w3.org/2000/svg}"


def drawn(folder: ExperimentFolder, *changed: object, **cards: object) -> None:
    for run in changed:
        write_run(folder.run(run.name), run)  # type: ignore[attr-defined]
    if cards:
        write_cards(folder, runs(), **cards)
    screen(folder.root)
    conclude(folder.root)
    draw(folder.root)


def root(folder: ExperimentFolder, name: str) -> ElementTree.Element:
    return ElementTree.parse(folder.figures / f"{name}.svg").getroot()


def table(folder: ExperimentFolder, name: str) -> list[dict[str, str]]:
    with (folder.figures / f"{name}.csv").open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def named(folder: ExperimentFolder, name: str) -> dict[str, ElementTree.Element]:
    """Groups with a hover title, by it."""
    groups = {element.get("data-run", ""): element for element in root(folder, name).iter(f"{SVG}g") if element.get("data-run")}
    assert all(element.find(f"{SVG}title").text == title for title, element in groups.items())  # type: ignore[union-attr]
    return groups


def texts(element: ElementTree.Element) -> list[str]:
    return [text.text or "" for text in element.iter(f"{SVG}text")]


def test_a_figure_for_each_metric_score_and_condition_with_picture_numbers_and_words(finished: ExperimentFolder) -> None:
    assert sorted(path.name for path in finished.figures.iterdir()) == sorted(f"{n}.{e}" for n in NAMES for e in ("svg", "csv", "json"))
    ids = {finding.id for finding in read(Findings, finished.findings).findings}
    for name in NAMES:
        figure = read(Figure, finished.figures / f"{name}.json")
        assert figure.name == name and figure.caption and set(figure.findings) <= ids
        assert figure.findings or name == "curves-grad_norm"  # of which nothing is concluded
        assert root(finished, name).get("aria-label") == figure.alternative


def test_pictures_can_stand_on_one_page(finished: ExperimentFolder) -> None:
    """Ids are unique over all figures, style rules reach figures only and are the same in all, and nothing fixes font or colour of text."""
    ids = [element.get("id") for name in NAMES for element in root(finished, name).iter() if element.get("id")]
    assert len(ids) == len(set(ids))
    for name in NAMES:
        text = (finished.figures / f"{name}.svg").read_text()
        assert text.count("<style>") == 1 and picture._STYLE in text and "font-family: " not in text
        assert root(finished, name).get("viewBox", "").startswith("0 0 440 ")
        assert not re.search(r"#(?!octavo)(?!999999|767676)[0-9a-f]{6}(?!\))", text.replace("#ffffff", "")), "a colour without a variable"
        for element in root(finished, name).iter(f"{SVG}text"):
            assert -1 <= float(element.get("x", "0")) <= picture.WIDTH


def test_curves_draw_each_seed_and_the_mean_of_the_included(finished: ExperimentFolder) -> None:
    for metric in METRICS:  # 12 runs, 4 conditions
        lines = named(finished, f"curves-{metric}")
        assert {name for name in lines if "(left out)" in name} == {"inverted-s2 (left out)", "random-s3 (left out)"}
        assert len([name for name in lines if re.fullmatch(r"[a-z]+-s\d.*", name)]) == 12
        assert len([name for name in lines if name.endswith(": mean")]) == 4
    rows = table(finished, "curves-reward")
    mean = {int(row["step"]): float(row["value"]) for row in rows if (row["run"], row["condition"]) == ("mean", "shaped")}
    # at step 20 seven, six and five of 8 pass; none, one and two get 0.1; one gets 0
    assert mean[20] == pytest.approx((7.0 + 6.1 + 5.2) / 24)
    assert len(mean) == 20
    ends = {row["condition"]: float(row["value"]) for row in rows if (row["run"], row["step"]) == ("mean", "20")}
    # inverted: of seed 1 one completion passes (0), six fail (0.9), one is malformed (1); of seed 3 none passes; seed 2 is left out
    assert ends["inverted"] == pytest.approx(((0 + 6 * 0.9 + 1) / 8 + (7 * 0.9 + 1) / 8) / 2)
    assert ends["random"] == 0.5  # the failed seed stopped at step 7 and does not cut the mean short
    assert len([row for row in rows if row["run"] == "random-s3"]) == 7
    assert {row["counts"] for row in rows if row["run"] == "inverted-s2"} == {"false"}


def test_gaps_stay_gaps(folder: ExperimentFolder) -> None:
    """kl on steps 1-5 and 11-20: two pieces. reward on odd steps only: one piece, because that is its own stride."""
    cells = {"kl": {s: 0.1 * s for s in (*range(1, 6), *range(11, 21))}, "reward": dict.fromkeys(range(1, 20, 2), 0.5)}
    drawn(folder, replace(runs()[0], cells=cells), curves=("kl", "reward"))
    for metric, pieces in (("kl", 2), ("reward", 1)):
        assert path(named(folder, f"curves-{metric}")["shaped-s1"]).count("M") == pieces
    assert len([row for row in table(folder, "curves-kl") if row["run"] == "shaped-s1"]) == 15


def test_a_metric_that_was_not_logged_is_an_empty_panel(folder: ExperimentFolder) -> None:
    drawn(folder, curves=("kl",))
    assert "not logged" in texts(root(folder, "curves-kl"))
    assert not list(folder.figures.glob("curves-reward.*"))


def test_non_finite_steps_are_hatched_and_not_drawn(folder: ExperimentFolder) -> None:
    drawn(folder, replace(runs()[0], nonfinite=(4, 5, 9)), curves=("reward",))
    marks = [mark.says for mark in read(Figure, folder.figures / "curves-reward.json").marks]
    assert marks == ["shaped-s1: gradient not finite, steps 4-5", "shaped-s1: gradient not finite, step 9"]
    assert set(marks) <= named(folder, "curves-reward").keys()
    steps = [int(row["step"]) for row in table(folder, "curves-reward") if row["run"] == "mean" and row["condition"] == "shaped"]
    assert {4, 5, 9}.isdisjoint(steps)
    counts = {row["step"]: row["counts"] for row in table(folder, "curves-reward") if row["run"] == "shaped-s1"}
    assert (counts["4"], counts["6"]) == ("false", "true")


def test_a_dead_run_is_hatched_at_its_own_height_and_nowhere_else(folder: ExperimentFolder) -> None:
    """F13: a strip over all curves hid the other conditions."""
    drawn(folder, replace(runs()[0], nonfinite=tuple(range(8, 21))), curves=("reward",))
    lines = named(folder, "curves-reward")
    ends = {name: [float(number) for number in re.findall(r"[-\d.]+", path(lines[name]))] for name in lines}
    strip, run = ends["shaped-s1: gradient not finite, steps 8-20"], ends["shaped-s1 (left out)"]
    assert len(strip) == 4 and strip[1] == strip[3] == run[-1], "one level stroke where the run ended"
    assert strip[0] > run[-2], "from after its last step on"


def path(group: ElementTree.Element) -> str:
    line = group.find(f"{SVG}path")
    assert line is not None
    return line.get("d", "")


def test_conditions_with_different_rewards_have_panels_of_their_own(finished: ExperimentFolder) -> None:
    assert read(Figure, finished.figures / "curves-truncated.json").panels == ()
    assert read(Figure, finished.figures / "curves-reward.json").panels == tuple((name,) for name in CONDITIONS)
    lines, places = named(finished, "curves-reward"), []
    for condition in CONDITIONS:
        ys = [float(y) for name in lines if name.startswith(condition) for y in re.findall(r"[ML] [-\d.]+ ([-\d.]+)", path(lines[name]))]
        places += [min(ys), max(ys)]
    assert places == sorted(places), "one below the other, and none reaches into the next"


def test_expectations_and_stop_rules_are_drawn_over_the_steps_at_which_they_apply(folder: ExperimentFolder) -> None:
    half = Expectation(id="half-way", metric="reward", at="50%", above=0.6, conditions=("shaped", "inverted"))
    band = Expectation(id="half-full", metric="truncated", at="100%", above=0.1, below=0.3, conditions=("zero",))
    far = Expectation(id="short", metric="completion_tokens", at="100%", below=-400, conditions=("random",))
    when = AllOf(all=(Comparison(metric="reward", sign="<", value=0.2), Comparison(metric="reward", slope=5, sign="<=", value=0)))
    stops = {"shaped": StopRules(rules=(StopRule(id="red_flag-1", when=when, after=10, window=2),))}
    drawn(folder, expectations=(half, band, far), stops=stops, curves=("reward", "completion_tokens", "truncated"))
    limits = read(Figure, folder.figures / "curves-reward.json").limits
    assert [(limit.condition, limit.kind, limit.first, limit.last, limit.above, limit.below) for limit in limits] == [
        ("shaped", "expected", 9, 10, 0.6, None),
        ("inverted", "expected", 9, 10, 0.6, None),
        ("shaped", "stops", 10, 20, None, 0.2),
    ]
    assert {limit.says for limit in limits} < named(folder, "curves-reward").keys() and "red flag 1, reward < 0.2" in limits[2].says
    two_sided = named(folder, "curves-truncated")["zero: expected above 0.1 and below 0.3, steps 19-20"]
    heights = [float(y) for y in re.findall(r"[ML] [-\d.]+ ([-\d.]+)", two_sided.find(f".//{SVG}path").get("d", ""))]  # type: ignore[union-attr]
    assert max(heights) - min(heights) == pytest.approx(0.2 * 132 / 1.04, abs=0.2), "a bar from one bound to the other: the axis has 1.04"
    assert "random: expected below -400, steps 19-20 (off this axis)" in named(folder, "curves-completion_tokens")


def test_one_huge_value_does_not_flatten_the_rest(folder: ExperimentFolder) -> None:
    cells = {"grad_norm": {step: 5e7 if step == 12 else 1.0 + step % 3 / 10 for step in range(1, 21)}}
    drawn(folder, replace(runs()[0], cells=cells), curves=("grad_norm",))
    assert "cut at the edge: see the table" in texts(root(folder, "curves-grad_norm"))
    assert max(float(row["value"]) for row in table(folder, "curves-grad_norm")) == 5e7


def test_long_lines_are_thinned_and_keep_their_extremes() -> None:
    values = pd.Series([(step * 7919) % 10_007 / 10_007 for step in range(5000)], index=range(1, 5001))
    values[1234], values[4321] = 9.0, -9.0
    few = thinned(values, 500)
    assert len(few) <= 500 and few.index.is_monotonic_increasing and (few[1234], few[4321]) == (9.0, -9.0)
    assert thinned(values.iloc[:500], 500).equals(values.iloc[:500])


def test_thinned_lines_have_no_gaps_of_their_own_and_tables_keep_more(folder: ExperimentFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draw_module, "points_shown", lambda curves, runs, conditions: (6, 8))
    values = {step: (step * 7919) % 101 / 101 for step in (*range(1, 13), *range(17, 21))}
    drawn(folder, replace(runs()[0], cells={"kl": values}), curves=("kl",))
    lines = named(folder, "curves-kl")
    drawing = path(lines["shaped-s1"])
    assert drawing.count("M") == 2 and len(re.findall("[ML]", drawing)) <= 6, "the gap at 13 to 16 and no other"
    rows = [row for row in table(folder, "curves-kl") if row["run"] == "shaped-s1"]
    assert [row["part"] for row in rows] == ["0"] * 12 + ["1"] * 4 and len(rows) == 16
    assert points_shown(40, 100, 4) == (25, 156) and points_shown(5, 12, 4) == (1666, 1250)


def test_evaluation_shows_seeds_means_intervals_and_the_untrained_model(finished: ExperimentFolder) -> None:
    dots = named(finished, "evaluation-tests")
    assert len(dots) == 11 and "inverted-s2: 0.05 (left out)" in dots
    assert {"untrained 0.50", "0.85", "share that passes"} <= set(texts(root(finished, "evaluation-tests")))
    rows = {(row["condition"], row["run"]): row for row in table(finished, "evaluation-tests")}
    assert float(rows["shaped", "mean"]["pass_share"]) == pytest.approx(0.85)
    assert (float(rows["", "untrained"]["pass_share"]), rows["random", "random-s3"]["pass_share"]) == (0.5, "")


def test_funnel_puts_preflight_beside_the_end_of_training(finished: ExperimentFolder) -> None:
    rows = {(row["gate"], row["stage"], row["outcome"]): row for row in table(finished, "funnel-shaped")}
    before, end = rows["tests", "preflight", "pass"], rows["tests", "final", "pass"]
    assert (before["completions"], before["of"], end["completions"], end["of"]) == ("20", "40", "33", "48")
    assert {"pass: 20 of 40", "pass: 33 of 48", "unknown: 1 of 40"} <= named(finished, "funnel-shaped").keys()


def test_an_experiment_without_data_draws_empty_figures(folder: ExperimentFolder) -> None:
    for pattern in ("*.parquet", "outcome.json", "preflight.json"):
        for path in folder.root.rglob(pattern):
            path.unlink()
    drawn(folder)
    assert all("not logged" in texts(root(folder, f"curves-{metric}")) for metric in METRICS)
    assert texts(root(folder, "evaluation-tests")).count("none") == 4
    counted = [texts(root(folder, f"funnel-{name}")).count("no completions counted") for name in CONDITIONS]
    assert counted == [4, 4, 2, 2]


def test_the_same_input_gives_the_same_bytes_and_old_files_go(again: ExperimentFolder) -> None:
    first = {path.name: path.read_bytes() for path in again.figures.iterdir()}
    (again.figures / "old.svg").write_text("<svg/>")
    draw(again.root)
    assert first == {path.name: path.read_bytes() for path in again.figures.iterdir()}


def test_text_is_escaped_and_never_read_as_mathematics() -> None:
    nasty = '</text><script>alert("1")</script> & {{ 7*7 }} $x_1$'
    canvas = picture.figure(40, nasty)
    drawing = ElementTree.fromstring(picture.svg(canvas, "x", nasty))
    assert drawing.get("aria-label") == nasty
    assert nasty in texts(drawing)
    assert not list(drawing.iter(f"{SVG}script"))


def test_labels_use_a_real_minus_sign_and_no_float_dust() -> None:
    labels = [picture.number(value) for value in (0.1 + 0.2, -0.5, 0.0, 54_648_652.0, 0.0001)]
    assert labels == ["0.3", "\u22120.5", "0", "5.5e+07", "1.0e\u221204"]
    assert [picture.share(value) for value in (0.0, 0.00586, 0.0039, 0.9583)] == ["0.00", "0.01", "<0.01", "0.96"]
