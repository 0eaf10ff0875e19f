"""`octavo waive` with DVC: a code change that is judged to change no result runs nothing but the page, until something else changes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from plan_project import commit, compiles, edit, git, inside, lay_out, planned, repro, states

from compiler.__main__ import main
from compiler.commands.plan_markdown import markdown
from compiler.commands.plan_text import text
from stages.contracts.artifact import read
from stages.contracts.page_card import PageCard
from stages.contracts.waiver import coded, read_waivers

SPEC = "specs/example.yaml"
GATE = "stages/train/rewards/format.py"
SFT = "stages/train/pretrain.py"
SHARED = "stages/train/environment.py"
PAGE = Path("runs/example/page.card.json")
SHAPED = ["shaped-s1", "shaped-s2", "shaped-s3"]
RUNS = [*SHAPED, "zero-s1", "zero-s2", "zero-s3"]
ONLY_THE_PAGE = {"runs/example/dvc.yaml:page", "site", "complete"}
WHY = "only a constant that nothing reads"


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project in which everything is up to date and committed."""
    root = tmp_path_factory.mktemp("waive") / "project"
    lay_out(root)
    with inside(root) as patch:
        git(root, "config", "user.name", "Ada <i>")
        git(root, "config", "user.email", "ada@example.invalid")
        compiles()
        repro(patch)
        commit(root, "ran")
    return root


@pytest.fixture
def work(ran: Path, tmp_path: Path) -> Iterator[pytest.MonkeyPatch]:
    """A copy of it as the working directory."""
    shutil.copytree(ran, tmp_path / "project", symlinks=True)
    with inside(tmp_path / "project") as patch:
        yield patch


def later(path: str, name: str = "LATER") -> None:
    """Change what a module means, and nothing that it does."""
    edit(path, "from __future__ import annotations\n", f"from __future__ import annotations\n\n{name} = 1\n")


def gate(name: str = "LATER") -> None:
    edit(GATE, "def judge(", f"{name} = 1\n\n\ndef judge(")


def waive(what: str, why: str = WHY) -> int:
    return main(["waive", what, "--why", why])


def card(run: str) -> str:
    return Path(f"runs/example/{run}/train.card.json").read_text()


def of_page() -> list[tuple[str, str | None]]:
    return [(words.stage, words.run) for words in read(PageCard, PAGE).waivers]


def test_a_waived_change_runs_nothing_but_the_page(work, capsys):
    before = {run: card(run) for run in RUNS}
    gate()
    assert {stage.run for stage in planned().training} == set(SHAPED)
    assert waive("example") == 0
    said = capsys.readouterr()
    assert "runs/example/shaped-s1/train.card.json: code" in said.out
    assert "not waived: zero-s1: its code is the one that it ran with" in said.out
    assert "octavo compile && dvc repro" in said.err
    of = states(planned())
    assert of["runs/example/dvc.yaml:page"] == "runs" and planned().training == ()
    assert {of[f"runs/example/dvc.yaml:{stage}"] for stage in ("preflight", "evaluate", *(f"train-{run}" for run in RUNS))} == {"stays"}
    compiles()
    assert {run: card(run) for run in RUNS} == before
    assert of_page() == [("preflight", None), *(("train", run) for run in SHAPED)]
    assert repro(work) == ONLY_THE_PAGE
    assert set(states(planned()).values()) == {"stays"} and repro(work) == set()


def test_the_line_says_who_why_when_and_which_code(work):
    before = coded(card("shaped-s1"))
    gate()
    waive("shaped-s1", "  a constant\n  only ")
    (found,) = read_waivers(Path("runs/example/waivers.jsonl"))
    assert (found.card, found.code_from, found.who) == ("shaped-s1/train.card.json", before, "Ada <i> <ada@example.invalid>")
    assert found.why == "a constant only" and len(found.code_to) == 16 != found.code_from
    assert found.at.startswith("20") and found.at.endswith("Z") and len(found.at) == 20
    assert {stage.run for stage in planned().training} == {"shaped-s2", "shaped-s3"}


def test_a_card_that_is_gone_says_how_to_get_it_back(work, capsys):
    gate()
    compiles()
    shutil.rmtree(".git")
    git(Path(), "init", "--quiet")
    git(Path(), "config", "user.name", "Ada")
    assert waive("shaped-s1") == 1
    assert (
        "neither on disk nor in git; undo the change, octavo compile, make it again, and waive before compiling" in capsys.readouterr().err
    )
    edit(GATE, "LATER = 1\n\n\ndef judge(", "def judge(")
    compiles()
    gate()
    assert waive("shaped-s1") == 0


def test_explain_shows_the_hash_that_the_card_keeps(work, capsys):
    kept = coded(card("shaped-s1"))
    gate()
    waive("shaped-s1")
    capsys.readouterr()
    assert main(["explain", "shaped-s1", "code_hash"]) == 0
    assert kept in capsys.readouterr().out
    assert main(["explain", "shaped-s2", "code_hash"]) == 0
    assert kept not in capsys.readouterr().out


def test_a_card_compiled_over_comes_back(work):
    before = card("shaped-s1")
    gate()
    compiles()
    assert card("shaped-s1") != before
    assert waive("example/shaped-s1") == 0
    compiles()
    assert card("shaped-s1") == before


def test_waivers_of_one_change_after_another_are_one_chain(work):
    before = card("shaped-s1")
    gate()
    waive("example")
    compiles()
    gate("LATER_STILL")
    assert {stage.run for stage in planned().training} == set(SHAPED)
    assert waive("example", "again") == 0
    compiles()
    assert card("shaped-s1") == before
    assert repro(work) == ONLY_THE_PAGE
    mine = [one for one in read_waivers(Path("runs/example/waivers.jsonl")) if one.card == "shaped-s1/train.card.json"]
    assert [one.why for one in mine] == [WHY, "again"] and {one.code_from for one in mine} == {coded(before)}


def test_two_links_of_a_chain_are_both_on_the_page(work):
    before = card("shaped-s1")
    gate()
    waive("shaped-s1")
    path = Path("runs/example/waivers.jsonl")
    (first,) = read_waivers(path)
    gate("LATER_STILL")
    path.unlink()
    waive("shaped-s1", "again")
    (second,) = read_waivers(path)
    second = second.model_copy(update={"code_from": first.code_to})  # as another branch would have judged it
    path.write_text("".join(json.dumps(one.model_dump()) + "\n" for one in (second, first)))
    compiles()
    assert card("shaped-s1") == before
    assert [(words.code_from, words.code_to, words.why) for words in read(PageCard, PAGE).waivers] == [
        (first.code_from, first.code_to, WHY),
        (first.code_to, second.code_to, "again"),
    ]


def test_a_base_model_is_waived_with_what_rests_on_it(work):
    later(SHARED)
    assert {stage.stage for stage in planned().training} == {"pretrain", *(f"train-{run}" for run in RUNS)}
    assert waive("example") == 0
    assert planned().training == ()
    compiles()
    assert ("pretrain", None) in of_page() and repro(work) == ONLY_THE_PAGE


def test_a_base_model_alone(work):
    later(SFT)
    assert waive("octavo/tiny") == 0
    assert not Path("runs/example/waivers.jsonl").exists()
    assert planned().training == ()
    compiles()
    assert repro(work) == ONLY_THE_PAGE


def test_a_waiver_expires_when_the_card_changes_otherwise(work, capsys):
    gate()
    waive("example")
    compiles()
    edit(SPEC, "learning_rate: 1e-3", "learning_rate: 2e-3")
    expired = f"the waiver of {read_waivers(Path('runs/example/waivers.jsonl'))[0].at[:10]} by Ada <i> <ada@example.invalid> has expired"
    why = "its card changes otherwise: train.learning_rate 0.001 -> 0.002"

    def reasons() -> list[str]:
        (mine,) = [stage.reasons for stage in planned().stages if stage.run == "shaped-s1"]
        return [reason.says for reason in mine if reason.kind == "waiver"]

    assert reasons() == [f"{expired}: {why}"]
    capsys.readouterr()
    compiles()
    said = capsys.readouterr().err
    assert f"runs/example/shaped-s1/train.card.json: {expired}: {why}" in said and "zero-s1/train.card.json" not in said
    assert reasons() == [f"{expired}: {why}"], "also once it is compiled over"
    found = {run: json.loads(card(run)) for run in RUNS}
    assert len({one["code_hash"] for run, one in found.items() if run in SHAPED}) == 1 and of_page() == [("preflight", None)]
    assert found["shaped-s1"]["code_hash"] == read_waivers(Path("runs/example/waivers.jsonl"))[-1].code_to
    assert {f"runs/example/dvc.yaml:train-{run}" for run in RUNS} <= repro(work)
    capsys.readouterr()
    compiles()
    assert "expired" not in capsys.readouterr().err and reasons() == []


def test_a_waiver_covers_one_state_of_the_code(work, capsys):
    gate()
    waive("example")
    compiles()
    gate("LATER_STILL")
    capsys.readouterr()
    compiles()
    assert "has expired: the code changed again, to " in capsys.readouterr().err
    assert {stage.run for stage in planned().training} == set(SHAPED)


def test_undoing_the_change_keeps_everything(work):
    before = card("shaped-s1")
    gate()
    waive("example")
    compiles()
    edit(GATE, "LATER = 1\n\n\ndef judge(", "def judge(")
    compiles()
    assert card("shaped-s1") == before and of_page() == [] and planned().training == ()


def test_the_plan_names_the_waiver_of_what_stays(work):
    gate()
    waive("example")
    found = planned()
    (stage,) = [stage for stage in found.stages if stage.run == "shaped-s2"]
    assert stage.state == "stays" and stage.waiver is not None
    assert stage.waiver.startswith("waived 20") and f"by Ada <i> <ada@example.invalid>: {WHY} (code " in stage.waiver
    assert [stage.waiver for stage in found.stages if stage.run == "zero-s1"] == [None]
    lines = [line.strip() for line in text(found).splitlines()]
    assert lines[lines.index("train-shaped-s1, train-shaped-s2, train-shaped-s3") + 1] == stage.waiver
    assert "Ada &#60;i&#62;" in markdown(found) and "<i>" not in markdown(found)


def test_another_revision_with_and_without_the_waiver(work):
    gate()
    commit(Path(), "edited")
    assert {stage.run for stage in planned(base="HEAD~1").training} == set(SHAPED)
    waive("example")
    assert planned(base="HEAD~1").training == ()
    commit(Path(), "waived")
    assert planned(base="HEAD").training == ()
    edit(SPEC, "teach right", "teach only right")
    assert planned(base="HEAD").training == (), "the older side reads its own waivers"


def test_what_has_changed_otherwise_is_refused(work, capsys):
    gate()
    edit(SPEC, "role: treatment}", "role: treatment, train: {learning_rate: 2e-3}}")
    assert waive("example") == 1
    said = capsys.readouterr().err
    assert "E474 the card of `shaped-s1` changes in more than its code, and 2 more: train.learning_rate 0.001 -> 0.002" in said
    assert waive("shaped-s2") == 1 and not Path("runs/example/waivers.jsonl").exists()


def test_what_never_finished_is_refused(work, capsys):
    gate()
    path = Path("runs/example/shaped-s1/attempts.jsonl")
    path.write_text(path.read_text().replace('"finished"', '"failed"'))
    assert waive("shaped-s1") == 1
    assert "E472 nothing to waive in `shaped-s1`: shaped-s1: it has never finished with that card" in capsys.readouterr().err
    assert waive("example") == 0
    assert "not waived: shaped-s1: it has never finished" in capsys.readouterr().out
    assert {stage.run for stage in planned().training} == {"shaped-s1"}


def test_a_new_run_is_left_out(work, capsys):
    gate()
    edit(SPEC, "seeds: [1, 2, 3]", "seeds: [1, 2, 3, 4]")
    assert waive("shaped-s4") == 1
    assert "shaped-s4: it has never run" in capsys.readouterr().err
    assert waive("shaped-s1") == 0


@pytest.mark.parametrize("what", ["example", "shaped-s1", "octavo/tiny"])
def test_nothing_changed_is_refused(work, capsys, what):
    assert waive(what) == 1
    assert "its code is the one that it ran with" in capsys.readouterr().err


def test_twice_is_refused(work, capsys):
    gate()
    assert waive("shaped-s1") == 0
    assert waive("shaped-s1") == 1
    assert "waived already, on 20" in capsys.readouterr().err
    assert len(read_waivers(Path("runs/example/waivers.jsonl"))) == 1


def test_nobody_to_sign(work, capsys):
    gate()
    git(Path(), "config", "--unset", "user.name")
    assert waive("shaped-s1") == 1
    assert "E271" in capsys.readouterr().err and not Path("runs/example/waivers.jsonl").exists()


def test_without_git_nobody_can_sign_and_it_says_what_is_missing(work, capsys, monkeypatch):
    gate()
    monkeypatch.setenv("PATH", str(work))
    assert waive("shaped-s1") == 1
    said = capsys.readouterr().err
    assert "E271 git is not installed" in said and "fix: apt-get install git" in said


@pytest.mark.parametrize("why", ["", " \n", "x" * 2001, "hf_" + "A" * 30])
def test_a_reason_is_needed_and_holds_no_secret(work, capsys, why):
    gate()
    assert waive("shaped-s1", why) == 1
    said = capsys.readouterr().err
    assert "E471" in said and "hf_A" not in said and not Path("runs/example/waivers.jsonl").exists()


def test_branches_that_waive_different_runs_merge(work):
    shutil.copy(Path(__file__).parents[2] / ".gitattributes", ".gitattributes")
    gate()
    commit(Path(), "edited")
    git(Path(), "switch", "--quiet", "--create", "one")
    waive("shaped-s1")
    commit(Path(), "one")
    git(Path(), "switch", "--quiet", "main")
    waive("shaped-s2")
    commit(Path(), "two")
    git(Path(), "-c", "user.name=t", "-c", "user.email=t@example.invalid", "merge", "--quiet", "--no-edit", "one")
    found = read_waivers(Path("runs/example/waivers.jsonl"))
    assert sorted(one.card for one in found) == ["shaped-s1/train.card.json", "shaped-s2/train.card.json"]
    assert {stage.run for stage in planned().training} == {"shaped-s3"}
