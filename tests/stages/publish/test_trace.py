import json
from pathlib import Path

import pytest
from example_experiment import FAILED, build

from compiler.__main__ import main
from stages.publish.page import page
from stages.publish.trace import trace

ID = "random-vs-zero/evaluation.tests.pass_share/difference"


def test_the_way_back_of_a_number(project: Path) -> None:
    folder = build(project)
    said = trace(folder, ID)
    assert said.splitlines()[:2] == [ID, "  −0.28 [−0.37, −0.19]   share   95% interval"]
    assert "  random-s2   –   left out: failed at step 31\n" in said
    assert (
        "    random-s2-1   failed at step 31 after 17 s (verifier)   from the start   2026-11-27T11:52:00Z   commit 1f2e3d4c5b6a79880123\n"
        in said
    )
    assert "  with excluded runs   −0.25\n" in said
    assert "  specs/quickstart.yaml:11:5   claim random-harmless\n" in said
    assert "  same   runs/quickstart/zero-s1/history.parquet   sha256 " in said
    assert "  dvc repro --force --single-item runs/quickstart/dvc.yaml:conclude" in said


def test_files_are_held_against_the_disk(project: Path) -> None:
    folder = build(project)
    (folder / "zero-s1" / "history.parquet").write_bytes(b"other")
    (folder / "zero-s2" / "history.parquet").unlink()
    said = trace(folder, ID)
    assert "  CHANGED   runs/quickstart/zero-s1/history.parquet   sha256 d9298a10d1b07358" in said
    assert "  missing   runs/quickstart/zero-s2/history.parquet   sha256 " in said


def test_a_run_shows_its_settings_with_their_place_in_the_spec(project: Path) -> None:
    said = trace(build(project), FAILED)
    assert said.startswith(f"{FAILED}   condition random, seed 2\n  failed, 31 of 60 steps\n  verifier: the sandbox died <script>")
    assert "learning_rate                     0.001      specs/quickstart.yaml:22:18\n" in said
    assert "\x00" not in said and "\u202e" not in said


def test_a_claim_leads_to_the_number_that_decides_it(project: Path) -> None:
    said = trace(build(project), "random-harmless")
    assert said.startswith("claim random-harmless: refuted\n") and f"\n{ID}\n" in said


def test_the_page_names_what_changed_since_it_was_built(project: Path) -> None:
    folder = build(project)
    assert "the page has not been built" in trace(folder, "page")
    page(folder)
    assert "files are the same" in trace(folder, "page")
    (folder / "shaped-s1" / "health.json").write_text("{}\n" if False else (folder / "shaped-s1" / "health.json").read_text() + "\n")
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
    said = trace(folder, "reward")
    assert said.startswith("figure reward   ")
    assert "  same   runs/quickstart/analysis/figures/reward.csv   sha256 " in said
    assert "  dvc repro --force --single-item runs/quickstart/dvc.yaml:draw" in said


def test_trace_and_passport_say_the_same(project: Path) -> None:
    """Value, files with hashes, attempts, cards, code, places in the spec and command of the JSON twin stand in the terminal too."""
    folder = build(project)
    page(folder)
    twin, said = json.loads((folder / "page/passports.json").read_text())[ID], trace(folder, ID)
    assert twin["printed"] in said and twin["finding"]["says"] in said and twin["command"] in said and twin["analysis_card"] in said
    for source in twin["finding"]["sources"]:
        assert f"{source['path']}   sha256 {source['sha256'][:16]}" in said
    for run in twin["runs"].values():
        assert run["card_id"] in said and all(f"{unit} {version}" in said for unit, version in run["code"].items())
        assert all(attempt["attempt"] in said for attempt in run["attempts"])
    for place in twin["spec"]:
        assert place.split(" ", 1)[0] in said


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
