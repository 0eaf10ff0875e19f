import os
import subprocess
from pathlib import Path

import pytest

from stages.publish.committed import RuleDate, against_data, rule_dates

SPEC = """title: A spec
claims:
  - id: one
    says: First.
    above: 0.05

  # a word on the second
  - id: two
    says: Second.
    above: 0.1
resources: {gpus: 0}
"""
STARTS = {"one": 3, "two": 8}


def git(*arguments: str, at: str = "2026-11-01T10:00:00Z", root: Path | None = None) -> None:
    """git with a fixed identity and date, whatever the machine's own settings are."""
    settings = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    for role in ("AUTHOR", "COMMITTER"):
        settings |= {f"GIT_{role}_NAME": "a", f"GIT_{role}_EMAIL": "a@example.org", f"GIT_{role}_DATE": at}
    subprocess.run(["git", *arguments], check=True, capture_output=True, cwd=root, env=settings)


@pytest.fixture
def spec(project: Path) -> Path:
    path = Path("specs/a.yaml")
    path.parent.mkdir()
    path.write_text(SPEC)
    git("init", "-q", "-b", "main")
    git("add", "-A")
    git("commit", "-q", "-m", "first")
    return path


def test_a_rule_is_as_old_as_the_newest_of_its_own_lines(spec: Path) -> None:
    assert {claim: date.at for claim, date in rule_dates(spec, STARTS).items()} == dict.fromkeys(STARTS, "2026-11-01T10:00:00Z")
    spec.write_text(SPEC.replace("title: A spec", "title: Another").replace("gpus: 0", "gpus: 1"))
    git("commit", "-aqm", "title and resources", at="2026-11-02T10:00:00Z")
    spec.write_text(spec.read_text().replace("above: 0.05", "above: 0.04"))
    git("commit", "-aqm", "margin", at="2026-11-03T10:00:00Z")
    dates = rule_dates(spec, STARTS)
    assert (dates["one"].at, dates["two"].at) == ("2026-11-03T10:00:00Z", "2026-11-01T10:00:00Z")
    assert len(dates["one"].commit) == 10 and dates["one"].commit != dates["two"].commit


def test_a_rule_that_is_not_committed_has_no_date(spec: Path) -> None:
    spec.write_text(SPEC.replace("above: 0.1", "above: 0.2"))
    dates = rule_dates(spec, STARTS)
    assert (dates["one"].at, dates["two"]) == ("2026-11-01T10:00:00Z", RuleDate(None, why="not committed yet"))
    new = Path("specs/b.yaml")
    new.write_text(SPEC)
    assert rule_dates(new, STARTS)["one"] == RuleDate(None, why="not committed yet")


def test_outside_git_and_in_a_shallow_clone_the_date_is_unknown(
    spec: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    spec.write_text(SPEC + "# more\n")
    git("commit", "-aqm", "second", at="2026-11-05T10:00:00Z")
    clone = tmp_path_factory.mktemp("clones") / "shallow"
    git("clone", "-q", "--depth", "1", Path.cwd().as_uri(), str(clone))
    monkeypatch.chdir(clone)
    assert rule_dates(spec, STARTS)["one"] == RuleDate(None, why="unknown: the clone is shallow")
    outside = tmp_path_factory.mktemp("outside")
    monkeypatch.chdir(outside)
    Path("a.yaml").write_text(SPEC)
    assert rule_dates(Path("a.yaml"), STARTS)["one"] == RuleDate(None, why="unknown: not in a git repository")
    assert rule_dates(Path("none.yaml"), STARTS)["one"] == RuleDate(None, why="unknown: the spec is not here")


def test_settings_of_the_repository_cannot_hide_a_change(spec: Path) -> None:
    spec.write_text(SPEC.replace("above: 0.05", "above: 0.04"))
    git("commit", "-aqm", "margin", at="2026-11-03T10:00:00Z")
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout
    Path("ignored").write_text(commit)
    git("config", "blame.ignoreRevsFile", "ignored")
    assert rule_dates(spec, STARTS)["one"].at == "2026-11-03T10:00:00Z"


def test_a_rule_is_compared_with_the_first_data() -> None:
    rule = RuleDate("2026-11-27T22:10:31Z", "1f2e3d4c5b")
    assert against_data(rule, "2026-11-28T00:03:13Z") == (
        "2026-11-27 22:10 UTC, commit 1f2e3d4c5b, before the first data of 2026-11-28 00:03",
        False,
    )
    assert against_data(rule, "2026-11-27T21:00:00Z") == (
        "2026-11-27 22:10 UTC, commit 1f2e3d4c5b, after the first data of 2026-11-27 21:00",
        True,
    )
    assert against_data(rule, None) == ("2026-11-27 22:10 UTC, commit 1f2e3d4c5b; there are no data yet", False)
    assert against_data(RuleDate(None, why="not committed yet"), None) == ("not committed yet", False)
