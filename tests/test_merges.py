"""Branches that touch different runs, in real git repositories with locks and ledgers that DVC and the contracts wrote."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from compiler.__main__ import main
from stages.contracts.attempt import Ended, Started, read_attempts

ROOT = Path(__file__).parents[1]
JOIN = """\
import sys
open("ran.log", "a").write(sys.argv[1] + " ")
open(sys.argv[1], "w").write("".join(open(name).read() for name in sys.argv[2:]))
"""
PEOPLE = {f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in (("NAME", "a"), ("EMAIL", "a@b"))}


def stage(folder, name, *reads):
    """A stage that joins files, as cheap as a stage can be; it writes its name to a log that nothing depends on."""
    deps = "".join(f"    - {path}\n" for path in reads)
    out = f"{folder}/{name}.out".removeprefix("./")
    return f"  {name}:\n    cmd: python joined.py {out} {' '.join(reads)}\n    deps:\n{deps}    outs:\n    - {out}\n"


@pytest.fixture(scope="module")
def environment():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
        patch.setenv("PYTHONPATH", str(ROOT))
        for name, value in {**PEOPLE, "DVC_NO_ANALYTICS": "1"}.items():
            patch.setenv(name, value)
        yield patch


@pytest.fixture(scope="module")
def base(tmp_path_factory, environment):
    """Two experiments as octavo lays them out: training runs, a page that reads them, a site that reads the pages."""
    tmp_path = tmp_path_factory.mktemp("base")
    environment.chdir(tmp_path)
    (tmp_path / "joined.py").write_text(JOIN)
    for experiment in ("one", "two"):
        folder = f"runs/{experiment}"
        (tmp_path / folder).mkdir(parents=True)
        for letter in ("a", "b"):
            (tmp_path / folder / f"{letter}.card").write_text(f"{experiment} {letter}\n")
        stages = [stage(folder, f"train-{letter}", f"{folder}/{letter}.card") for letter in ("a", "b")]
        page = stage(folder, "page", f"{folder}/train-a.out", f"{folder}/train-b.out")
        text = "stages:\n" + "".join([*stages, page])
        (tmp_path / folder / "dvc.yaml").write_text(text.replace("    cmd:", "    wdir: ../..\n    cmd:"))
    (tmp_path / "dvc.yaml").write_text("stages:\n" + stage(".", "site", "runs/one/page.out", "runs/two/page.out"))
    shutil.copyfile(ROOT / ".gitattributes", tmp_path / ".gitattributes")
    (tmp_path / ".gitignore").write_text("ran.log\n*.out\n")
    git("init", "-q", "-b", "main")
    run("dvc", "init", "-q")
    git("config", "merge.octavo-lock.driver", f"{sys.executable} -m compiler merge-lock %O %A %B %P")
    repro()
    commit("base")
    return tmp_path


@pytest.fixture
def repository(base, tmp_path, monkeypatch, environment):
    shutil.copytree(base, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*command, code=0):
    ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert ran.returncode == code, f"{command}: {ran.stdout}"
    return ran.stdout


def git(*arguments, code=0):
    return run("git", *arguments, code=code)


def commit(message):
    git("add", "-A")
    git("commit", "-q", "-m", message)


def repro():
    """Names of the stages that ran."""
    Path("ran.log").write_text("")
    run("dvc", "repro")
    return [Path(name).stem for name in Path("ran.log").read_text().split()]


def branch(name, card):
    """A branch from the base on which one run was trained again with another card."""
    git("checkout", "-q", "-b", name, "main")
    run("dvc", "checkout", "-q")
    Path(card).write_text(f"{Path(card).read_text()}changed on {name}\n")
    ran = repro()
    commit(name)
    return ran


def lock_entry(path, name):
    return Path(path).read_text().split(f"  {name}:\n")[1].split("\n  ")[0]


@pytest.mark.parametrize("other", ["runs/one/b.card", "runs/two/a.card"])
def test_two_branches_that_trained_different_runs_merge_and_only_what_reads_both_runs_again(repository, other):
    """Two runs of one experiment, and runs of two experiments."""
    experiment, trained = Path(other).parent.name, f"train-{Path(other).stem}"
    assert branch("mine", "runs/one/a.card") == ["train-a", "page", "site"]
    assert branch("theirs", other) == [trained, "page", "site"]
    theirs = lock_entry(f"runs/{experiment}/dvc.lock", trained)
    git("checkout", "-q", "mine")
    mine = lock_entry("runs/one/dvc.lock", "train-a")

    output = git("merge", "--no-edit", "theirs")

    assert "due with the next dvc repro: site" in output
    assert git("status", "--porcelain") == ""
    assert lock_entry("runs/one/dvc.lock", "train-a") == mine
    assert lock_entry(f"runs/{experiment}/dvc.lock", trained) == theirs
    run("dvc", "checkout", "-q", "--allow-missing")
    # of the site DVC knows only what it was built from: while the page waits, it is as it was
    assert list(json.loads(run("dvc", "status", "--json"))) == (["runs/one/dvc.yaml:page"] if experiment == "one" else ["site"])
    assert repro() == (["page", "site"] if experiment == "one" else ["site"])
    assert Path("site.out").read_text().count("changed on") == 2
    assert "up to date" in run("dvc", "status")


def test_generated_files_are_never_resolved_by_hand(tmp_path, monkeypatch, environment):
    """Both sides changed one setting: the spec is resolved, `octavo compile` does the rest."""
    shutil.copytree(ROOT / "tests/compiler/project", tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    spec = Path("specs/example.yaml")
    text = spec.read_text()
    git("init", "-q", "-b", "main")
    assert main(["compile"]) == 0
    commit("base")
    for name, steps in (("mine", 24), ("theirs", 36)):
        git("checkout", "-q", "-b", name, "main")
        spec.write_text(text.replace("max_steps: 12", f"max_steps: {steps}"))
        assert main(["compile"]) == 0
        commit(name)
    git("checkout", "-q", "mine")
    output = git("merge", "--no-edit", "theirs", code=1)
    assert "conflict in specs/example.yaml" in output and "conflict in runs/example/zero-s1/train.card.json" in output
    git("checkout", "-q", "--theirs", "specs/example.yaml")
    assert main(["compile"]) == 0
    assert json.loads(Path("runs/example/zero-s1/train.card.json").read_text())["train"]["max_steps"] == 36
    git("add", "-A")
    assert git("diff", "--cached", "--stat", "theirs") == ""


def test_ledgers_keep_the_attempts_of_both_sides(repository):
    ledger = Path("runs/one/train-a/attempts.jsonl")
    ledger.parent.mkdir()

    def attempt(name, number):
        both = {"attempt": name, "at": "2026-01-01T00:00:00Z"}
        machine = {"host": "linux-x86_64-2cpu", "devices": ("cpu",), "versions": {}, "sandbox": "none"}
        started = Started(**both, **machine, number=number, card_id="c", commit=None, resumed_from=None)
        with ledger.open("a") as file:
            for line in (started, Ended(**both, outcome="finished", last_step=1, seconds=1.0)):
                file.write(line.model_dump_json() + "\n")

    attempt("base", 1)
    commit("ledger")
    for name in ("mine", "theirs"):
        git("checkout", "-q", "-b", name, "main")
        attempt(name, 2)
        commit(name)
    git("checkout", "-q", "mine")
    git("merge", "--no-edit", "theirs")
    attempts = read_attempts(ledger)
    assert sorted((attempt.started.attempt, attempt.state) for attempt in attempts) == [(n, "finished") for n in ("base", "mine", "theirs")]


def test_one_run_trained_on_both_sides_stays_a_conflict_of_its_card(repository):
    branch("mine", "runs/one/a.card")
    branch("theirs", "runs/one/a.card")
    git("checkout", "-q", "mine")
    assert "CONFLICT (content): Merge conflict in runs/one/a.card" in git("merge", "--no-edit", "theirs", code=1)
    git("checkout", "-q", "--theirs", "runs/one/a.card")  # a person decides; what was trained with that card is in DVC's run cache
    assert repro() == []
    assert Path("site.out").read_text().count("changed on theirs") == 1
    assert "up to date" in run("dvc", "status")


def test_without_the_driver_git_merges_lines(repository):
    """A clone without `git config`: no error, and never a wrong entry; at worst a conflict to resolve."""
    git("config", "--unset", "merge.octavo-lock.driver")
    branch("mine", "runs/one/a.card")
    branch("theirs", "runs/two/a.card")
    git("checkout", "-q", "mine")
    output = git("merge", "--no-edit", "theirs", code=1)
    assert "CONFLICT (content): Merge conflict in dvc.lock" in output and "runs/one/dvc.lock" not in output
