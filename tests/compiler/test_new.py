"""`octavo new`: what it writes is right at once, and nothing is ever overwritten."""

import html
import shutil
from pathlib import Path

import pytest

from compiler.__main__ import main
from compiler.build.inputs import Inputs
from compiler.build.pipeline import named
from compiler.commands.new import NEXT
from compiler.compile import compile_all
from stages.contracts.interpretation import read_interpretation
from stages.publish.facts import Facts
from stages.publish.prose import Named, render_prose

ROOT = Path(__file__).parents[2]


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A project like this repository: its data, models and pins, no experiment yet."""
    for name in ("specs/_models", "data/quickstart"):
        shutil.copytree(ROOT / name, tmp_path / name)
    shutil.copyfile(ROOT / "constraints.txt", tmp_path / "constraints.txt")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_new_spec_passes_check_with_its_reward_examples_and_profile(home, capsys):
    assert main(["new", "my-first"]) == 0
    printed = capsys.readouterr()
    assert printed.out.splitlines()[:2] == ["specs/my-first.yaml", "specs/my-first.md"]
    assert printed.err == ""
    assert main(["check", "--rewards", "my-first"]) == 0
    assert "my-first, my-first@smoke: 15 runs, no errors" in capsys.readouterr().err  # 3 conditions x 3 seeds, and x 2 seeds


def test_a_new_spec_trains_the_small_model_of_this_repository_and_its_page_builds_without_numbers(home):
    main(["new", "my-first"])
    (compiled,) = compile_all([named("my-first")], Inputs())
    spec = compiled.experiment.spec
    assert (spec.title, spec.model.base, spec.resources.gpus, list(compiled.warnings)) == ("my-first", "octavo/tiny", 0, [])
    assert [run.name for run in compiled.expansion.runs][:2] == ["shaped-s1", "shaped-s2"]
    path = home / "specs/my-first.md"
    assert path.read_text().count("runs/my-first/analysis/findings.json") == 1
    page = html.unescape(render_prose(read_interpretation(path), path, Facts({}), Named()))
    assert "<strong>Expected.</strong>" in page and "{{ shaped/evaluation.tests.pass_share/final | interval }}" in page


@pytest.mark.parametrize("name", ["123", "true", "1e5"])
def test_a_name_that_yaml_could_read_otherwise_stays_text(home, name):
    assert main(["new", name]) == 0
    assert compile_all([named(name)], Inputs())[0].experiment.spec.title == name


@pytest.mark.parametrize("there", ["yaml", "md"])
def test_an_existing_file_is_kept(home, capsys, there):
    (home / f"specs/mine.{there}").write_text("my words\n")
    assert main(["new", "mine"]) == 1
    assert f"E403 specs/mine.{there} is there already" in capsys.readouterr().err
    assert [path.name for path in (home / "specs").glob("mine.*")] == [f"mine.{there}"]
    assert (home / f"specs/mine.{there}").read_text() == "my words\n"


def test_a_link_to_nowhere_is_not_followed(home, tmp_path):
    (home / "specs/mine.yaml").symlink_to(tmp_path / "elsewhere")
    assert main(["new", "mine"]) == 1
    assert not (tmp_path / "elsewhere").exists() and not (home / "specs/mine.md").exists()


@pytest.mark.parametrize(
    ("name", "code"),
    [("My First", "E206"), ("../out", "E206"), ("a;b", "E206"), ("", "E206"), ("con", "E207"), ("pipeline", "E207"), ("a-vs-b", "E207")],
)
def test_a_bad_name_writes_nothing(home, capsys, name, code):
    before = sorted(home.rglob("*"))
    assert main(["new", name]) == 1
    assert f"{code} " in capsys.readouterr().err
    assert sorted(home.rglob("*")) == before


def test_outside_a_project_nothing_is_written(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["new", "mine"]) == 1
    fix = "cd to the folder that holds specs/, or: mkdir specs"
    assert capsys.readouterr().err == f"E113 no specs/ in this folder\n  why: octavo runs in the project's root\n  fix: {fix}\n"
    assert list(tmp_path.iterdir()) == []


def test_the_next_commands_are_octavos_own(home, capsys):
    main(["new", "mine"])
    capsys.readouterr()
    lines = [line.partition("#")[0].strip() for line in NEXT.replace("SLUG", "mine").splitlines()[1:]]
    typed = [part.strip() for line in lines for part in line.split("&&")]
    ours = [command.split()[1:] for command in typed if command.startswith("octavo ")]
    assert ours == [["check", "--rewards", "mine"], ["compile", "mine@smoke"], ["compile"]]
    assert [main(command) for command in ours[:2]] == [0, 0]
    assert (home / "runs/mine@smoke/dvc.yaml").exists()
    assert "dvc repro runs/mine@smoke/dvc.yaml" in typed and "echo '- mine' >> specs/pipeline.yaml" in typed
    (home / "specs/pipeline.yaml").write_text("- mine\n")
    assert main(["compile"]) == 0
    assert (home / "runs/mine/dvc.yaml").exists()
