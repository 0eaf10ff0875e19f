from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
from synthetic import complete, runs, write_cards, write_run

from stages.analyse import svg
from stages.analyse.conclude import conclude
from stages.analyse.draw import draw
from stages.analyse.screen import screen
from stages.contracts.artifact import read
from stages.contracts.figure import Figure
from stages.contracts.finding import Findings
from stages.contracts.layout import ExperimentFolder

METRICS = ("reward", "zero_signal_share", "truncated", "completion_tokens", "grad_norm")
NAMES = (
    "claims",
    *(f"curves-{metric}" for metric in METRICS),
    "evaluation-tests",
    *(f"funnel-{condition}" for condition in ("shaped", "inverted", "random", "zero")),
)
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ExperimentFolder:
    monkeypatch.chdir(tmp_path)
    return complete(tmp_path)


def drawn(folder: ExperimentFolder) -> None:
    screen(folder.root)
    conclude(folder.root)
    draw(folder.root)


def picture(folder: ExperimentFolder, name: str) -> ElementTree.Element:
    return ElementTree.parse(folder.figures / f"{name}.svg").getroot()


def table(folder: ExperimentFolder, name: str) -> list[dict[str, str]]:
    with (folder.figures / f"{name}.csv").open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def marked(root: ElementTree.Element, *words: str) -> list[ElementTree.Element]:
    """Elements that carry all the given classes."""
    return [element for element in root.iter() if set(words) <= set(element.get("class", "").split())]


def texts(root: ElementTree.Element) -> list[str]:
    return [element.text or "" for element in root.iter(f"{SVG}text")]


def test_a_figure_for_each_metric_score_condition_and_all_claims_with_picture_numbers_and_words(folder: ExperimentFolder) -> None:
    drawn(folder)
    assert sorted(path.name for path in folder.figures.iterdir()) == sorted(f"{n}.{e}" for n in NAMES for e in ("svg", "csv", "json"))
    known = {finding.id for finding in read(Findings, folder.findings).findings}
    for name in NAMES:
        figure = read(Figure, folder.figures / f"{name}.json")
        assert figure.name == name
        assert figure.caption
        assert set(figure.findings) <= known
        assert figure.findings or name == "curves-grad_norm"  # of which nothing is concluded
        assert picture(folder, name).get("aria-label") == figure.alternative


def test_pictures_can_stand_on_one_page(folder: ExperimentFolder) -> None:
    """Ids are unique over all figures, style rules reach figures only and are the same in all, and nothing fixes a colour of text."""
    drawn(folder)
    styles = {picture(folder, name).find(f"{SVG}style").text for name in NAMES}  # type: ignore[union-attr]
    assert len(styles) == 1  # so that a page needs them once
    ids = [element.get("id") for name in NAMES for element in picture(folder, name).iter() if element.get("id")]
    assert len(ids) == len(set(ids))
    for name in NAMES:
        root = picture(folder, name)
        assert root.get("id") == f"octavo-{name}"
        assert root.get("viewBox", "").startswith("0 0 440 ")
        style = root.find(f"{SVG}style")
        assert style is not None
        selectors = [part.strip() for rule in re.findall(r"([^{}]+)\{[^{}]*\}", style.text or "") for part in rule.split(",")]
        assert selectors
        assert all(re.fullmatch(r"\.octavo-figure( \.[a-z0-9]+| text)?", selector) for selector in selectors)
        assert "text{fill:currentColor" in (style.text or "")
        assert not list(root.iter(f"{SVG}script"))
        width = 440
        for element in root.iter(f"{SVG}text"):
            assert -1 <= float(element.get("x", "0")) <= width


def test_curves_draw_each_seed_thin_and_the_mean_of_the_included_thick(folder: ExperimentFolder) -> None:
    drawn(folder)
    for metric in METRICS:  # 12 runs, 4 conditions, no gaps
        root = picture(folder, f"curves-{metric}")
        assert len(marked(root, "seed")) == 12
        assert len(marked(root, "mean")) == 4
        left_out = {(element.find(f"{SVG}title").text or "") for element in marked(root, "seed", "out")}  # type: ignore[union-attr]
        assert left_out == {"inverted-s2 (left out)", "random-s3 (left out)"}
        assert {row["metric"] for row in table(folder, f"curves-{metric}")} == {metric}
    rows = table(folder, "curves-reward")
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
    sparse = replace(
        runs()[0], cells={"kl": {s: 0.1 * s for s in (*range(1, 6), *range(11, 21))}, "reward": dict.fromkeys(range(1, 20, 2), 0.5)}
    )
    write_run(folder.run(sparse.name), sparse)
    write_cards(folder, runs(), curves=("kl", "reward"))
    drawn(folder)
    pieces = {
        metric: [element.find(f"{SVG}title").text for element in marked(picture(folder, f"curves-{metric}"), "seed")].count("shaped-s1")  # type: ignore[union-attr]
        for metric in ("kl", "reward")
    }
    assert pieces == {"kl": 2, "reward": 1}
    assert len([row for row in table(folder, "curves-kl") if row["run"] == "shaped-s1"]) == 15


def test_a_metric_that_nobody_logged_is_an_empty_panel(folder: ExperimentFolder) -> None:
    write_cards(folder, runs(), curves=("kl",))
    drawn(folder)
    assert "not logged" in texts(picture(folder, "curves-kl"))
    assert not list(folder.figures.glob("curves-reward.*"))


def test_non_finite_steps_are_hatched_and_not_drawn(folder: ExperimentFolder) -> None:
    bad = replace(runs()[0], nonfinite=(4, 5, 9))
    write_run(folder.run(bad.name), bad)
    write_cards(folder, runs(), curves=("reward",))
    drawn(folder)
    found = [element.find(f"{SVG}title").text for element in marked(picture(folder, "curves-reward"), "hatch")]  # type: ignore[union-attr]
    assert found == ["shaped-s1: gradient not finite, steps 4-5", "shaped-s1: gradient not finite, step 9"]
    steps = [int(row["step"]) for row in table(folder, "curves-reward") if row["run"] == "mean" and row["condition"] == "shaped"]
    assert {4, 5, 9}.isdisjoint(steps)
    counts = {row["step"]: row["counts"] for row in table(folder, "curves-reward") if row["run"] == "shaped-s1"}
    assert (counts["4"], counts["6"]) == ("false", "true")


def test_one_huge_value_does_not_flatten_the_rest(folder: ExperimentFolder) -> None:
    wild = replace(runs()[0], cells={"grad_norm": {step: 5e7 if step == 12 else 1.0 + step % 3 / 10 for step in range(1, 21)}})
    write_run(folder.run(wild.name), wild)
    write_cards(folder, runs(), curves=("grad_norm",))
    drawn(folder)
    assert "cut at the edge: see the table" in texts(picture(folder, "curves-grad_norm"))
    assert max(float(row["value"]) for row in table(folder, "curves-grad_norm")) == 5e7


def test_evaluation_shows_seeds_means_intervals_and_the_untrained_model(folder: ExperimentFolder) -> None:
    drawn(folder)
    root = picture(folder, "evaluation-tests")
    assert len(marked(root, "dot")) == 10
    (ring,) = marked(root, "ring")
    assert ring.find(f"{SVG}title").text == "inverted-s2: 0.05 (left out)"  # type: ignore[union-attr]
    (reference,) = marked(root, "mark")
    dots = {element.find(f"{SVG}title").text: float(element.get("cx", "")) for element in marked(root, "dot")}  # type: ignore[union-attr]
    assert float(reference.get("x1", "")) == dots["zero-s1: 0.5"]  # both are 0.5
    zero_to_one = (dots["shaped-s1: 0.9"] - dots["inverted-s1: 0"]) / 0.9
    assert dots["shaped-s3: 0.8"] == pytest.approx(dots["inverted-s1: 0"] + 0.8 * zero_to_one, abs=0.11)
    rows = {(row["condition"], row["run"]): row for row in table(folder, "evaluation-tests")}
    assert float(rows["shaped", "mean"]["pass_share"]) == pytest.approx(0.85)
    assert (float(rows["", "untrained"]["pass_share"]), rows["random", "random-s3"]["pass_share"]) == (0.5, "")


def test_claims_show_intervals_against_margins(folder: ExperimentFolder) -> None:
    drawn(folder)
    root = picture(folder, "claims")
    assert len(marked(root, "verdict", "supported")) == 1
    assert len(marked(root, "verdict", "refuted")) == 1
    assert "\u2713 supported" in texts(root)
    assert "no interval to draw" in texts(root)  # the refused ranking by reward
    supported = marked(root, "verdict", "supported")[0]
    margins = sorted(float(element.get("x1", "")) for element in marked(root, "mark"))
    assert margins[0] < float(supported.get("x1", "")) < float(supported.get("x2", ""))
    rows = {row["claim"]: row for row in table(folder, "claims")}
    assert (rows["shaped-teaches"]["margin"], float(rows["shaped-teaches"]["low"])) == ("0.05", pytest.approx(0.236652, abs=1e-5))
    assert (rows["shaped-earns-more"]["verdict"], rows["shaped-earns-more"]["value"]) == ("void", "")


def test_funnel_puts_preflight_beside_the_end_of_training(folder: ExperimentFolder) -> None:
    drawn(folder)
    rows = {(row["gate"], row["stage"], row["outcome"]): row for row in table(folder, "funnel-shaped")}
    before, end = rows["tests", "preflight", "pass"], rows["tests", "final", "pass"]
    assert (before["completions"], before["of"], end["completions"], end["of"]) == ("20", "40", "33", "48")
    bars = {
        element.find(f"{SVG}title").text: float(element.get("width", ""))  # type: ignore[union-attr]
        for element in marked(picture(folder, "funnel-shaped"), "pass")
        if len(element)
    }
    whole = [float(element.get("width", "")) for element in marked(picture(folder, "funnel-shaped"), "outline") if len(element)]
    assert bars["pass: 20 of 40"] == pytest.approx(whole[0] / 2, abs=0.1)
    hatched = [len(marked(picture(folder, f"funnel-{name}"), "hatch")) for name in ("shaped", "inverted", "random", "zero")]
    assert sum(hatched) == 2 + 4  # two gates with one unknown answer, and four legends


def test_an_experiment_without_data_draws_empty_figures(folder: ExperimentFolder) -> None:
    for pattern in ("*.parquet", "outcome.json", "preflight.json"):
        for path in folder.root.rglob(pattern):
            path.unlink()
    drawn(folder)
    assert all("not logged" in texts(picture(folder, f"curves-{metric}")) for metric in METRICS)
    assert texts(picture(folder, "evaluation-tests")).count("none") == 4
    gates = {"shaped": 2, "inverted": 2, "random": 1, "zero": 1}
    counted = {name: texts(picture(folder, f"funnel-{name}")).count("no completions counted") for name in gates}
    assert counted == {name: 2 * count for name, count in gates.items()}


def test_the_same_input_gives_the_same_bytes_and_old_files_go(folder: ExperimentFolder) -> None:
    drawn(folder)
    first = {path.name: path.read_bytes() for path in folder.figures.iterdir()}
    (folder.figures / "old.svg").write_text("<svg/>")
    draw(folder.root)
    assert first == {path.name: path.read_bytes() for path in folder.figures.iterdir()}


def test_text_is_escaped_everywhere() -> None:
    nasty = '</text><script>alert("1")</script> & {{ 7*7 }}'
    drawing = svg.Picture("x", nasty)
    drawing.text(0, 10, nasty)
    drawing.dot(1, 1, 1, "dot", 0, nasty)
    drawing.height = 20
    root = ElementTree.fromstring(drawing.render())
    assert root.get("aria-label") == nasty
    assert texts(root) == [nasty]
    assert [element.text for element in root.iter(f"{SVG}title")] == [nasty]
    assert not list(root.iter(f"{SVG}script"))


@pytest.mark.parametrize(
    ("low", "high", "most", "found"),
    [(0, 1, 5, [0, 0.25, 0.5, 0.75, 1]), (1, 60, 6, [20, 40, 60]), (-0.62, 0.46, 6, [-0.5, -0.25, 0, 0.25]), (3, 3, 5, [3])],
)
def test_ticks_are_round_numbers(low: float, high: float, most: int, found: list[float]) -> None:
    assert svg.ticks(low, high, most) == pytest.approx(found)


def test_labels_use_a_real_minus_sign_and_no_float_dust() -> None:
    assert [svg.shown(value) for value in (0.1 + 0.2, -0.5, 0.0, 54_648_652.0, 0.0001)] == [
        "0.3",
        "\u22120.5",
        "0",
        "5.5e+07",
        "1.0e\u221204",
    ]
    assert [svg.number(value) for value in (1.0, -0.04, 2.36, -3.0)] == ["1", "0", "2.4", "-3"]


def test_a_share_in_a_label_has_two_decimals_and_is_never_a_false_zero() -> None:
    assert [svg.share(value) for value in (0.0, 0.00586, 0.0039, 0.5, 0.9583, 1.0)] == ["0.00", "0.01", "<0.01", "0.50", "0.96", "1.00"]


def test_a_line_goes_through_its_points() -> None:
    drawing = svg.Picture("x", "")
    drawing.curve([(0, 10), (4.97, 10.04), (9.94, -3), (14.91, -3.1)], "seed", 0)
    (line,) = ElementTree.fromstring(drawing.render()).iter(f"{SVG}path")
    start, steps = re.fullmatch(r"M(.*?)l(.*)", line.get("d", "")).groups()  # type: ignore[union-attr]
    x, y = map(float, start.split())
    places = [(x, y)]
    numbers = [float(found) for found in re.findall(r"-?[0-9.]+", steps)]
    for dx, dy in zip(numbers[::2], numbers[1::2], strict=True):
        x, y = x + dx, y + dy
        places.append((x, y))
    assert places == [pytest.approx(place) for place in ((0, 10), (5, 10), (9.9, -3), (14.9, -3.1))]


def test_names_stand_at_the_ends_of_their_lines(folder: ExperimentFolder) -> None:
    """zero ends at 0, random at 0.5, shaped near 0.77, inverted near 0.85."""
    drawn(folder)
    root = picture(folder, "curves-reward")
    places = {t.text: float(t.get("y", "")) for t in root.iter(f"{SVG}text") if t.text in ("shaped", "inverted", "random", "zero")}
    assert sorted(places, key=lambda name: places[name]) == ["inverted", "shaped", "random", "zero"]


def test_names_of_lines_that_end_together_do_not_overlap_nor_leave_the_picture(folder: ExperimentFolder) -> None:
    """All lines begin at 0 and end at 10, or the other way round: all names share an edge."""
    for run in runs():
        ends = {"kl": {1: 0.0, **dict.fromkeys(range(2, 21), 10.0)}, "entropy": {1: 10.0, **dict.fromkeys(range(2, 21), 0.0)}}
        write_run(folder.run(run.name), replace(run, cells=ends))
    write_cards(folder, runs(), curves=("kl", "entropy"))
    drawn(folder)
    for metric in ("kl", "entropy"):
        apart(picture(folder, f"curves-{metric}"))


def apart(root: ElementTree.Element) -> None:
    height = float(root.get("viewBox", "").split()[3])
    places = [float(t.get("y", "")) for t in root.iter(f"{SVG}text") if t.text in ("shaped", "inverted", "random", "zero")]
    assert len(places) == 4
    assert all(after - before >= 15 - 0.1 for before, after in pairwise(sorted(places)))
    assert min(places) > 0 and max(places) < height


def test_a_title_is_words_with_the_key_beside(folder: ExperimentFolder) -> None:
    drawn(folder)
    assert texts(picture(folder, "curves-zero_signal_share"))[:2] == ["Zero-signal share", "zero_signal_share"]
    assert read(Figure, folder.figures / "curves-zero_signal_share.json").title == "Zero-signal share"


def test_long_labels_and_titles_stay_inside_the_picture(folder: ExperimentFolder) -> None:
    """A coefficient that moves in its fourth digit, and a title with a long key and a unit beside it."""
    write_cards(folder, runs(), curves=("kl_coef", "value.explained_variance"))
    for run in runs():
        run.cells = {name: {step: 0.05 - step * 5e-5 for step in range(1, 21)} for name in ("kl_coef", "value.explained_variance")}
        write_run(folder.run(run.name), run)
    drawn(folder)
    for name in ("kl_coef", "value.explained_variance"):
        for element in picture(folder, f"curves-{name}").iter(f"{SVG}text"):
            size = float(re.sub(r"\D", "", element.get("style") or "13"))
            wide, x, kind = svg.text_width(element.text or "", size), float(element.get("x") or 0), element.get("class") or ""
            left = x - wide if "end" in kind else x - wide / 2 if "mid" in kind else x
            assert left >= 0 and left + wide <= svg.WIDTH + 1, element.text
    assert "value.explained_variance" in texts(picture(folder, "curves-value.explained_variance"))


def _colours() -> Iterator[str]:
    yield from (f"c{index}" for index in range(1, 9))


def test_conditions_beyond_the_palette_begin_again() -> None:
    drawing = svg.Picture("x", "")
    for index in range(9):
        drawing.dot(0, 0, 1, "dot", index)
    assert [element.get("class") for element in ElementTree.fromstring(drawing.render()).iter(f"{SVG}circle")] == [
        *(f"dot {colour}" for colour in _colours()),
        "dot c1",
    ]
