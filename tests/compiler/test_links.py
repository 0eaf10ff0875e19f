"""Links that a stranger commits lead no command out of the project, in either direction; two commands at once leave whole files."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from compiler.__main__ import main
from compiler.build.inputs import Inputs
from compiler.lock.files import Files
from stages.train.environment import commit

ROOT = Path(__file__).parents[2]
SECRET = "AKIA_SECRET: s3cr3t-value\n"


@pytest.fixture
def outside(work, tmp_path_factory):
    """A folder of the user's, with a secret."""
    folder = tmp_path_factory.mktemp("outside")
    (folder / "secret").write_text(SECRET)
    return folder


def refused(capsys, *command: str, link: str) -> str:
    assert main(list(command)) == 1
    printed = "".join(capsys.readouterr())
    assert f"E113 {link} is not read or written: it is a symbolic link" in printed and f"\n  fix: rm {link}" in printed
    assert "s3cr3t" not in printed
    return printed


@pytest.mark.parametrize("link", ["specs/example.yaml", "specs/example.md", "specs/leak.yaml", "specs/_shared", "runs", "runs/example"])
@pytest.mark.parametrize("command", ["check", "compile", "plan"])
def test_specs_and_results_are_no_links(work, outside, capsys, link, command):
    place = work / link
    shutil.rmtree(place) if place.is_dir() else place.unlink(missing_ok=True)
    place.parent.mkdir(exist_ok=True)
    place.symlink_to(outside / "secret" if place.suffix else outside)
    refused(capsys, command, "example", link=link)
    assert os.listdir(outside) == ["secret"]


@pytest.mark.parametrize("link", ["data", "data/train.jsonl", "runs"])
def test_a_link_is_followed_only_where_the_user_made_it_and_git_does_not_hold_it(work, outside, capsys, link):
    """As for data on another disk. The same link in git, as a clone or a pull request brings it, is refused."""
    place = work / link
    place.parent.mkdir(exist_ok=True)
    moved = outside / place.name
    shutil.move(place, moved) if place.exists() else moved.mkdir()
    place.symlink_to(moved)
    subprocess.run(["git", "init", "-q", "."], check=True)
    assert main(["compile", "example"]) == 0, capsys.readouterr().err
    assert (work / "runs/example/dvc.yaml").is_file() and (moved / "example/dvc.yaml").is_file() == (link == "runs")
    subprocess.run(["git", "add", "-f", link], check=True)
    refused(capsys, "compile", "example", link=link)


def a_repository(folder: Path, *files: str) -> None:
    """A folder that looks like a bare repository, which holds nothing and whose configuration names a command."""
    for name in ("objects/a", "refs/a", *files):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    (folder / "HEAD").write_text("ref: refs/heads/main\n")
    (folder / "config").write_text("[core]\nbare = false\nworktree = .\nrepositoryformatversion = 0\nfsmonitor = touch ran; false\n")


def test_a_folder_that_looks_like_a_repository_says_nothing_of_a_link(work, outside, capsys):
    subprocess.run(["git", "init", "-q", "."], check=True)
    (work / "data/train.jsonl").unlink()
    (work / "data/train.jsonl").symlink_to(outside / "secret")
    a_repository(work / "data")
    subprocess.run(["git", "add", "-f", "."], check=True)
    refused(capsys, "check", "example", link="data/train.jsonl")
    assert not list(work.rglob("ran"))


@pytest.fixture
def inner(work, monkeypatch):
    """The project in a folder of another repository, which does not hold it."""
    shutil.copytree(work, work / "inner", ignore=lambda *_: ["inner"])
    subprocess.run(["git", "init", "-q", "."], check=True)
    monkeypatch.chdir(work / "inner")
    return work / "inner"


def test_a_project_that_looks_like_a_repository_names_no_command(inner):
    """Below the top of a repository git would take it for one."""
    a_repository(inner)
    for command in (["check", "example"], ["compile", "example"], ["plan", "example"], ["doctor"]):
        main(command)
    commit()
    assert not list(inner.parent.rglob("ran"))


@pytest.mark.parametrize("case", ["a submodule", "other letters", "another git"])
def test_a_link_that_came_from_elsewhere_is_refused(work, outside, capsys, monkeypatch, case):
    place = work / "data/train.jsonl"
    place.unlink()
    place.symlink_to(outside / "secret")
    if case == "a submodule":
        subprocess.run(["git", "init", "-q", "data"], check=True)
        subprocess.run(["git", "-C", "data", "add", "."], check=True)
    subprocess.run(["git", "init", "-q", "."], check=True)
    if case == "other letters":  # as a file system that does not tell them apart opens it
        (work / "DATA").mkdir()
        (work / "DATA/Train.jsonl").symlink_to(outside / "secret")
        subprocess.run(["git", "add", "DATA"], check=True)
    elif case == "another git":
        subprocess.run(["git", "add", "."], check=True)
        subprocess.run(["git", "init", "-q", outside], check=True)
        monkeypatch.setenv("GIT_DIR", f"{outside}/.git")
        monkeypatch.setenv("GIT_WORK_TREE", str(work))
    refused(capsys, "check", "example", link="data/train.jsonl")


def test_a_link_of_an_archive_that_was_unpacked_in_a_repository_is_refused(inner, outside, capsys):
    (inner / "data/train.jsonl").unlink()
    (inner / "data/train.jsonl").symlink_to(outside / "secret")
    refused(capsys, "check", "example", link="data/train.jsonl")
    subprocess.run(["git", "add", "specs"], check=True)  # the repository's own project
    assert main(["check", "example"]) == 1 and "E113" not in capsys.readouterr().err


def test_data_are_no_link(work, outside, capsys):
    (work / "data/train.jsonl").unlink()
    (work / "data/train.jsonl").symlink_to(outside / "secret")
    assert main(["check", "example"]) == 1
    printed = capsys.readouterr().err
    assert "E113 data/train.jsonl is not read or written: it is a symbolic link" in printed and "s3cr3t" not in printed


@pytest.mark.parametrize("name", ["dvc.yaml.octavo-new", ".octavo-0000000000000000", "page.card.json"])
def test_no_link_among_generated_files_is_written_through(work, outside, capsys, name):
    (work / "runs/example").mkdir(parents=True)
    (work / f"runs/example/{name}").symlink_to(outside / "secret")
    if name.startswith(".octavo-"):  # as what a killed writer left: it is removed
        assert main(["compile", "example"]) == 0 and not (work / f"runs/example/{name}").is_symlink()
    else:
        refused(capsys, "compile", "example", link=f"runs/example/{name}")
    assert (outside / "secret").read_text() == SECRET


def test_a_report_of_a_fault_follows_no_link(work, outside, capsys, monkeypatch):
    (work / ".cache").mkdir()
    (work / ".cache/octavo-reports").symlink_to(outside)

    def fault(*_):
        raise ZeroDivisionError

    monkeypatch.setattr(Inputs, "document", fault)
    assert main(["check", "example"]) == 3
    assert "No report could be saved (it is a symbolic link)" in capsys.readouterr().err and os.listdir(outside) == ["secret"]


def test_two_compiles_at_once_disturb_each_other_in_nothing(work):
    """Each in its own process, over files that both must write; nothing is left beside them, and what is there is whole."""
    command = [sys.executable, "-P", "-m", "compiler", "compile", "example"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    expected = None
    for _ in range(int(os.environ.get("OCTAVO_ROUNDS", "3"))):
        shutil.rmtree(work / "runs", ignore_errors=True)
        both = [subprocess.Popen(command, cwd=work, env=environment, stderr=subprocess.PIPE, text=True) for _ in range(2)]
        errors = [process.communicate()[1] for process in both]
        assert [process.returncode for process in both] == [0, 0], errors
        written = {path.relative_to(work): path.read_bytes() for path in (work / "runs").rglob("*") if path.is_file()}
        expected = expected or written
        assert written == expected and len(written) > 10


def test_data_that_dvc_links_from_its_cache_are_read(work, capsys):
    """With DVC's own cache type `symlink`, as on a shared machine."""
    dvc = [sys.executable, "-m", "dvc"]
    for command in (["init", "--no-scm", "-q"], ["config", "cache.type", "symlink"], ["add", "-q", "data/train.jsonl"]):
        subprocess.run([*dvc, *command], cwd=work, check=True, capture_output=True)
    assert (work / "data/train.jsonl").is_symlink()
    assert main(["check", "example"]) == 0, capsys.readouterr().err
    assert main(["compile", "example"]) == 0


def test_a_link_in_a_folder_that_dvc_keeps_is_another_content(work, outside):
    (work / "kept").mkdir()
    (work / "kept/a").write_text("a")
    before = Files(Path(), {}).md5("kept")
    (work / "kept/b").symlink_to(outside / "secret")
    assert Files(Path(), {}).listing("kept")["b"] == "" and Files(Path(), {}).md5("kept") != before


@pytest.mark.parametrize("folder", ["a/" * 5_000, "x" * 300, "a\0b", "a\n[cache]\ndir = b", "\udcff"])
def test_a_cache_that_a_configuration_cannot_mean_holds_nothing(work, capsys, folder):
    assert main(["compile", "example"]) == 0
    (work / ".dvc").mkdir(exist_ok=True)
    (work / ".dvc/config").write_text(f"[cache]\ndir = {folder}\n", errors="surrogateescape")
    assert main(["plan", "example"]) == 0, capsys.readouterr().err
