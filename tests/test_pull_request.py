"""The workflow of pull requests, carried out: every `run:` of every job, in order, as GitHub runs it, on a repository of its own.

The stand-ins: `uses: actions/...` are done by the functions here, `gh` is a script that keeps comments in a file, and packages are not
installed again. Everything else is real: bash, git, octavo, dvc, and a training program of the author's, which needs no GPU and no hub.
"""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from stages.contracts.code import OTHER_VERSIONS
from tests.e2e.project import ROOT, Project, make

PROGRAM = ROOT / "tests/e2e/program"
WORKFLOW = YAML(typ="safe").load((ROOT / ".github/workflows/pull-request.yml").read_text(encoding="utf-8"))
NUMBER, REPOSITORY = 7, "owner/name"
GH = f"""\
#!{sys.executable}
import json, os, pathlib, sys
words = sys.argv[1:]
kept = pathlib.Path(os.environ["STAND_IN"])
comments = json.loads(kept.read_text()) if kept.exists() else []
assert words[0] == "api" and os.environ["GH_TOKEN"] == "a token", words
if words[1] == "--paginate":
    assert words[2] == "repos/{REPOSITORY}/issues/{NUMBER}/comments" and words[3] == "--jq", words
    mine = [one for one in comments if one["login"] == "github-actions[bot]" and one["body"].startswith("<!-- octavo-plan -->")]
    print("".join(str(one["id"]) + chr(10) for one in mine), end="")
    raise SystemExit
assert words[1] == "--method" and words[4] == "--field" and words[5].startswith("body=@") and words[6:] == ["--silent"], words
body = pathlib.Path(words[5].removeprefix("body=@")).read_text()
assert len(body) < 65_536, "GitHub refuses longer comments"
if words[2] == "POST":
    assert words[3] == "repos/{REPOSITORY}/issues/{NUMBER}/comments", words
    comments.append({{"id": 100 + len(comments), "login": "github-actions[bot]", "body": body}})
else:
    (comment,) = [one for one in comments if words[3] == "repos/{REPOSITORY}/issues/comments/" + str(one["id"])]
    comment["body"] = body
kept.write_text(json.dumps(comments))
"""


@dataclass
class Job:
    """What happened in one job. `steps`: name, or first line of the command -> its output, of each `run:` that ran."""

    succeeded: bool = True
    steps: dict[str, str] = field(default_factory=dict)
    summary: str = ""


class GitHub:
    """The side of GitHub: what runners clone, the files that jobs hand on, the comments."""

    def __init__(self, folder: Path, origin: Path) -> None:
        self.folder, self.origin = folder, origin
        self.events = 0
        (folder / "tools").mkdir()
        (folder / "home").mkdir()
        gh = folder / "tools/gh"
        gh.write_text(GH)
        gh.chmod(0o755)

    @property
    def comments(self) -> list[dict[str, Any]]:
        kept = self.folder / "comments.json"
        return json.loads(kept.read_text()) if kept.exists() else []

    def happens(self, event: str, commit: str, only: tuple[str, ...], values: dict[str, str] | None = None) -> dict[str, Job]:
        """The jobs of one event, each on a machine of its own. `values`: of expressions."""
        self.events += 1
        always = {"event_name": event, "ref": "refs/heads/main", "token": "a token", "repository": REPOSITORY}
        values = {f"github.{name}": value for name, value in always.items()} | (values or {})
        done: dict[str, Job] = {}
        for name, job in WORKFLOW["jobs"].items():
            needs = [job["needs"]] if isinstance(job.get("needs"), str) else job.get("needs", [])
            if name not in only or not _holds(job.get("if"), values):
                continue
            if not all(done[need].succeeded for need in needs if need in only):
                continue
            done[name] = self._job(name, job, event, commit, values)
        return done

    def _job(self, name: str, job: dict, event: str, commit: str, values: dict[str, str]) -> Job:
        work, outside = self.folder / f"{self.events}-{name}", self.folder / f"{self.events}-{name}-temp"
        work.mkdir()
        outside.mkdir()
        values = {**values, "runner.temp": str(outside)}
        did, more = Job(), {}
        for index, step in enumerate(job["steps"]):
            if not _holds(step.get("if"), values):
                continue
            if "uses" in step:
                given = {key: _filled(value, values) if isinstance(value, str) else value for key, value in step.get("with", {}).items()}
                self._uses(step["uses"].partition("@")[0], given, work, commit)
                continue
            title = step.get("name") or step["run"].splitlines()[0]
            if step["run"].startswith("python -m pip install"):
                more["PYTHONPATH"] = str(work)  # the code of the checkout, as an editable installation would have it
                continue
            files = {key: self.folder / f"{self.events}-{name}-{index}.{key}" for key in ("STEP_SUMMARY", "ENV", "OUTPUT", "PATH")}
            for file in files.values():
                file.touch()
            script = self.folder / f"{self.events}-{name}-{index}.sh"
            script.write_text(step["run"])
            path = os.pathsep.join([str(self.folder / "tools"), str(Path(sys.executable).parent), os.environ["PATH"]])
            github = {"EVENT_NAME": event, "REPOSITORY": REPOSITORY, "WORKSPACE": str(work), "ACTIONS": "true", **files}
            environment = {
                **{key: os.environ[key] for key in ("LANG", "LC_ALL", "OMP_NUM_THREADS", "TMPDIR", OTHER_VERSIONS) if key in os.environ},
                **{f"GITHUB_{key}": str(value) for key, value in github.items()},
                "RUNNER_TEMP": values["runner.temp"],
                "PATH": path,
                "HOME": str(self.folder / "home"),
                "CI": "true",
                "STAND_IN": str(self.folder / "comments.json"),
                **{key: _filled(str(value), values) for part in (WORKFLOW, job, step) for key, value in part.get("env", {}).items()},
                **more,
            }
            ran = subprocess.run(
                ["bash", "-e", script], cwd=work, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600
            )
            did.steps[title] = ran.stdout
            did.summary += files["STEP_SUMMARY"].read_text()
            assert not files["ENV"].read_text() and not files["PATH"].read_text(), "no step changes the environment of the next"
            if ran.returncode:
                did.succeeded = False
                return did
        return did

    def _uses(self, action: str, given: dict, work: Path, commit: str) -> None:
        artifacts = self.folder / "artifacts"
        if action == "actions/checkout":
            _git(work.parent, "clone", "--quiet", str(self.origin), str(work))
            _git(work, "checkout", "--quiet", "--detach", commit)
            if given.get("fetch-depth") != 0:
                (work / ".git/shallow").write_text(f"{commit}\n")
        elif action in ("actions/upload-artifact", "actions/upload-pages-artifact"):
            source, target = work / given["path"], artifacts / given.get("name", "github-pages")
            assert source.exists(), f"nothing to upload at {given['path']}"
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(source, target) if source.is_dir() else (target.mkdir(parents=True), shutil.copy(source, target))
        elif action == "actions/download-artifact":
            shutil.copytree(artifacts / given["name"], work, dirs_exist_ok=True)
        elif action == "actions/deploy-pages":
            assert (artifacts / "github-pages/index.html").exists()
        else:
            assert action == "actions/setup-python" or action.startswith("docker:"), action


def _holds(condition: str | None, values: dict[str, str]) -> bool:
    if condition is None:
        return True
    left, right = (part.strip() for part in condition.split("=="))
    return values[left] == (right[1:-1] if right.startswith("'") else values[right])


def _filled(text: str, values: dict[str, str]) -> str:
    return re.sub(r"\$\{\{ *(.*?) *\}\}", lambda match: values[match[1]], text)


def _git(folder: Path, *words: str) -> str:
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout.strip()


@dataclass
class Proposed:
    """A repository with a base commit, and a branch that changes the experiment."""

    github: GitHub
    author: Project
    base: str

    def push(self, old: str, new: str) -> str:
        """The author changes the spec, compiles, and pushes; the commit that GitHub makes of the branch and main."""
        spec = self.author.root / "specs/own.yaml"
        text = spec.read_text()
        assert text.count(old) == 1
        spec.write_text(text.replace(old, new))
        self.author.octavo("compile")
        _git(self.author.root, "commit", "--all", "--quiet", "--message", "change")
        _git(self.author.root, "checkout", "--quiet", "--detach", self.base)
        _git(self.author.root, "merge", "--quiet", "--no-ff", "--message", "merge", "branch")
        commit = _git(self.author.root, "rev-parse", "HEAD")
        _git(self.author.root, "push", "--quiet", "--force", str(self.github.origin), f"{commit}:refs/heads/merge")
        _git(self.author.root, "checkout", "--quiet", "branch")
        return commit

    def opened(self, commit: str, *only: str, fork: bool = False) -> dict[str, Job]:
        request = {"base.sha": self.base, "number": str(NUMBER), "head.repo.full_name": "somebody/name" if fork else REPOSITORY}
        return self.github.happens("pull_request", commit, only, {f"github.event.pull_request.{key}": request[key] for key in request})


@pytest.fixture(scope="module")
def repository(tmp_path_factory) -> tuple[Path, Project]:
    folder = tmp_path_factory.mktemp("pull")
    author = make(folder / "author")
    (author.root / "specs/small.yaml").unlink()
    head, rest = (PROGRAM / "spec.yaml").read_text().replace("seeds: [1, 2, 3]", "seeds: [1]").split("claims:\n")
    (author.root / "specs/own.yaml").write_text(head + rest[rest.index("profiles:") :])  # a claim would need three seeds
    (author.root / "specs/pipeline.yaml").write_text("- own\n")
    (author.root / "train.py").write_bytes((PROGRAM / "train.py").read_bytes())
    author.octavo("compile")
    _git(author.root, "add", "--all")
    _git(author.root, "commit", "--quiet", "--message", "base")
    _git(folder, "clone", "--quiet", "--bare", str(author.root), "origin.git")
    return folder, author


@pytest.fixture
def proposed(repository, tmp_path) -> Iterator[Proposed]:
    folder, author = repository
    shutil.copytree(folder / "origin.git", tmp_path / "origin.git")
    mine = author.copy(tmp_path / "author")
    _git(mine.root, "checkout", "--quiet", "-b", "branch")
    (tmp_path / "github").mkdir()
    yield Proposed(GitHub(tmp_path / "github", tmp_path / "origin.git"), mine, _git(mine.root, "rev-parse", "HEAD"))


def test_every_job_is_carried_out_here():
    """A job or an action that is new needs a place in this file."""
    assert set(WORKFLOW["jobs"]) == {"workflows", "check", "plan", "comment", "publish"}


def test_the_plan_is_one_comment_that_is_kept_up_to_date(proposed):
    first = proposed.push("settings: {gain: 0.02}", "settings: {gain: 0.03}")
    did = proposed.opened(first, "plan", "comment")
    assert all(job.succeeded for job in did.values()), did
    assert set(did) == {"plan", "comment"}
    (comment,) = proposed.github.comments
    assert did["plan"].summary == comment["body"]
    assert "gains-s1" in comment["body"] and "gain 0.02 -> 0.03" in html.unescape(comment["body"])
    assert f"compared with {proposed.base[:12]}." in html.unescape(comment["body"]), "the commit is named, and not hidden like a key"
    assert "zero-s1" not in comment["body"], "the other condition stays as it was"
    second = proposed.push("settings: {gain: 0.03}", "settings: {gain: 0.04}")
    assert proposed.opened(second, "plan", "comment")["comment"].succeeded
    (again,) = proposed.github.comments
    assert again["id"] == comment["id"] and "gain 0.02 -> 0.04" in html.unescape(again["body"])


def test_a_fork_gets_its_plan_in_the_summary_and_no_comment(proposed):
    did = proposed.opened(proposed.push("gain: 0.02", "gain: 0.05"), "plan", "comment", fork=True)
    assert set(did) == {"plan"} and did["plan"].succeeded
    assert "gain 0.02 -> 0.05" in html.unescape(did["plan"].summary) and proposed.github.comments == []


@pytest.mark.e2e
def test_a_pull_request_is_checked_and_its_smoke_profile_runs(proposed):
    did = proposed.opened(proposed.push("gain: 0.02", "gain: 0.03"), "check")["check"]
    assert did.succeeded, list(did.steps.items())[-1]
    assert "own, own@smoke: 4 runs, no errors" in did.steps["Specs, and the examples of every reward"]
    smoke = did.steps["Smoke profiles of touched experiments"]
    assert "Running stage 'train-gains-s1'" in smoke.replace("runs/own@smoke/dvc.yaml:", "")
    assert (proposed.github.folder / "artifacts/site/index.html").exists()


def test_what_does_not_compile_fails_the_check_before_anything_runs(proposed):
    commit = proposed.push("gain: 0.02", "gain: 0.03")
    _git(proposed.author.root, "checkout", "--quiet", "--detach", commit)
    spec = proposed.author.root / "specs/own.yaml"
    spec.write_text(spec.read_text().replace("max_steps: 20", "max_steps: 24"))
    _git(proposed.author.root, "commit", "--all", "--quiet", "--message", "not compiled")
    _git(proposed.author.root, "push", "--quiet", "--force", str(proposed.github.origin), "HEAD:refs/heads/merge")
    did = proposed.opened(_git(proposed.author.root, "rev-parse", "HEAD"), "check")["check"]
    assert not did.succeeded
    name, output = list(did.steps.items())[-1]
    assert name == "Cards and pipelines are those of the specs" and "E402" in output


@pytest.mark.workflow
def test_main_is_run_verified_and_published(proposed):
    did = proposed.github.happens("push", proposed.base, ("check", "publish"))
    assert did["check"].succeeded, list(did["check"].steps.items())[-1]
    assert "Smoke profiles of touched experiments" not in did["check"].steps
    assert set(did) == {"check", "publish"} and did["publish"].succeeded
    page = (proposed.github.folder / "artifacts/github-pages/experiments/own/index.html").read_text()
    assert "A program of the author" in page
