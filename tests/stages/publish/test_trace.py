import re
from pathlib import Path

import pytest
from example_experiment import FAILED, build

from compiler.__main__ import main
from stages.publish.experiment import load
from stages.publish.page import page
from stages.publish.passports import read_passports
from stages.publish.trace import trace

ID = "random-vs-zero/evaluation.tests.pass_share/difference"


def test_the_way_back_of_a_number(project: Path) -> None:
    folder = build(project)
    text = trace(folder, ID)
    assert text.splitlines()[:2] == [ID, "  −0.28 [−0.37, −0.19]   share"] and "; 95% interval; " in text
    assert "  random-s2   –   left out: failed at step 31\n" in text
    ended = "failed at step 31 after 17 s (verifier), from the start, began 2026-11-27T11:52:00Z, commit 1f2e3d4c5b6a79880123"
    assert f"  attempt random-s2-1   {ended}\n" in text
    assert "  with excluded runs   −0.25\n" in text
    assert "  specs/quickstart.yaml:11:5 claim random-harmless\n" in text
    assert re.search(r"  same +runs/quickstart/zero-s1/history.parquet   sha256 ", text)
    assert "  dvc repro --force --single-item runs/quickstart/dvc.yaml:conclude" in text


def test_files_are_held_against_the_disk(project: Path) -> None:
    folder = build(project)
    (folder / "zero-s1" / "history.parquet").write_bytes(b"other")
    (folder / "zero-s2" / "history.parquet").unlink()
    text = trace(folder, ID)
    assert re.search(r"  CHANGED +runs/quickstart/zero-s1/history.parquet   sha256 d9298a10d1b07358", text)
    assert re.search(r"  missing +runs/quickstart/zero-s2/history.parquet   sha256 ", text)


def test_a_run_shows_its_settings_with_their_place_in_the_spec(project: Path) -> None:
    text = trace(build(project), FAILED)
    assert text.startswith(f"{FAILED}   condition random, seed 2\n  failed, 31 of 60 steps\n  verifier: the sandbox died <script>")
    assert "learning_rate                     0.001      specs/quickstart.yaml:22:18\n" in text
    assert "\x00" not in text and "\u202e" not in text


def test_a_claim_leads_to_the_number_that_decides_it(project: Path) -> None:
    text = trace(build(project), "random-harmless")
    assert text.startswith("verdict/random-harmless\n  Refuted\n") and f"\n{ID}\n" in text


def test_the_page_names_what_changed_since_it_was_built(project: Path) -> None:
    folder = build(project)
    assert "the page has not been built" in trace(folder, "page")
    page(folder)
    assert "files are the same" in trace(folder, "page")
    (folder / "shaped-s1" / "health.json").write_text((folder / "shaped-s1" / "health.json").read_text() + "\n")
    assert "  CHANGED   runs/quickstart/shaped-s1/health.json" in trace(folder, "page")


def test_a_run_can_be_traced_before_anything_was_analysed(project: Path) -> None:
    folder = build(project)
    (folder / "analysis" / "findings.json").unlink()
    assert trace(folder, "zero-s1").startswith("zero-s1   condition zero, seed 1\n  finished, 60 of 60 steps\n")


def test_an_unknown_name_is_met_with_a_suggestion(project: Path) -> None:
    with pytest.raises(KeyError, match="unknown id 'shaped/reward/finl'; did you mean 'shaped/reward/final'"):
        trace(build(project), "shaped/reward/finl")


def test_a_figure_leads_to_its_numbers_files_and_runs(project: Path) -> None:
    folder = build(project)
    text = trace(folder, "reward")
    assert text.startswith("figure/reward\n")
    assert "  same   runs/quickstart/analysis/figures/reward.csv   sha256 " in text
    assert "  dvc repro --force --single-item runs/quickstart/dvc.yaml:draw" in text


def test_trace_and_passport_say_the_same(project: Path) -> None:
    """Value, rows, seeds, places in the spec and command of the passport stand in the terminal too, with every row and file of its runs."""
    folder = build(project)
    page(folder)
    content, output = read_passports(folder / "page/passports.js"), trace(folder, ID)
    passport = content["passports"][ID]
    assert all(words in output for words in (passport["printed"], passport["says"], content["recompute"], content["analysis_card"]))
    assert all(text in output for _, text in passport["rows"]) and all(place.split(" ", 1)[0] in output for place in passport["spec"])
    assert {"zero-s1", "random-s2"} <= {seed["run"] for seed in passport["seeds"]}
    for run in {seed["run"] for seed in passport["seeds"]}:
        assert all(text in output for _, text in content["records"][run]["rows"])
    for source in load(folder).findings[ID].sources:
        assert f"{source.path}   sha256 {source.sha256[:16]}" in output


@pytest.mark.parametrize("words", [["quickstart"], ["runs/quickstart/"], ["quickstart", "page"]])
def test_an_experiment_alone_is_its_page(project: Path, capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    page(build(project))
    assert main(["trace", *words]) == 0
    assert capsys.readouterr().out.startswith("runs/quickstart/page/index.md   Does a verifiable reward")


def test_a_run_by_its_path(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    build(project)
    assert main(["trace", "runs/quickstart/zero-s1"]) == 0
    assert capsys.readouterr().out.startswith("zero-s1   condition zero, seed 1\n")


def test_a_verdict_and_a_figure_are_found_under_the_names_of_their_passports(project: Path) -> None:
    folder = build(project)
    assert trace(folder, "verdict/shaped-teaches") == trace(folder, "shaped-teaches")
    assert trace(folder, "figure/reward") == trace(folder, "reward")
