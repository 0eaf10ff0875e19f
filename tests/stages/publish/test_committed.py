import os
import subprocess
from pathlib import Path

import pytest
from example_experiment import SPEC as SPEC_OF_EXAMPLE
from example_experiment import build

from stages.publish.claims import claim_views
from stages.publish.experiment import load
from stages.publish.facts import Facts
from stages.publish.rule_history import RuleDate, against_data, rule_dates

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


def committed_experiment(project: Path, at: str) -> Path:
    """The example with its spec and analysis card committed at a time; its first data are of 2026-11-27. Claims are where origins say."""
    folder = build(project)
    origins = load(folder).origins.claims
    lines = [f"# line {n}" for n in range(1, 200)]
    for place in origins.values():
        lines[(place.line or 1) - 1] = "  - id: a-claim"
    Path(SPEC_OF_EXAMPLE).parent.mkdir(exist_ok=True)
    Path(SPEC_OF_EXAMPLE).write_text("\n".join(lines))
    git("init", "-q", "-b", "main")
    git("add", "-f", SPEC_OF_EXAMPLE, load(folder).folder.conclude_card.as_posix())
    git("commit", "-qm", "first", at=at)
    return folder


def test_a_rule_that_was_committed_before_its_data_decides(project: Path) -> None:
    experiment = load(committed_experiment(project, "2026-01-01T10:00:00Z"))
    assert not any(rule.late for rule in experiment.changed.rules.values())
    assert "supported" in {verdict.verdict for verdict in experiment.verdicts.values()}


def test_a_rule_that_is_younger_than_its_data_is_void_for_good(project: Path) -> None:
    experiment = load(committed_experiment(project, "2026-12-24T10:00:00Z"))
    assert all(rule.late for rule in experiment.changed.rules.values())
    assert {verdict.verdict for verdict in experiment.verdicts.values()} == {"void"}
    whys = [verdict.why for verdict in experiment.verdicts.values()]
    assert all(
        why.startswith("Void: the rule was written or edited after its data existed (committed 2026-12-24 10:00 UTC") for why in whys
    )
    assert any(why.endswith("with this rule it would read supported.") for why in whys)
    views = claim_views(experiment, Facts(experiment.findings))
    assert {view.verdict for view in views} == {"void"} and all(view.dated.late for view in views)


def test_words_may_change_after_the_data_and_rules_may_not(project: Path) -> None:
    folder = committed_experiment(project, "2026-01-01T10:00:00Z")
    card = load(folder).folder.conclude_card
    spec = Path(SPEC_OF_EXAMPLE)
    spec.write_text(spec.read_text().replace("- id: a-claim", "- id: a-claim  # in other words"))
    git("commit", "-aqm", "words", at="2026-12-24T10:00:00Z")
    assert all(rule.written.endswith("as it was committed before them") for rule in load(folder).changed.rules.values())
    assert "supported" in {verdict.verdict for verdict in load(folder).verdicts.values()}
    first = next(iter(load(folder).verdicts.values()))
    text = card.read_text()
    margin = f'"above": {next(c.margin for c in load(folder).conclude.claims if c.id == first.claim)}'  # type: ignore[union-attr]
    assert margin in text
    card.write_text(text.replace(margin, '"above": 0.0123', 1))
    git("commit", "-aqm", "margin", at="2026-12-25T10:00:00Z")
    assert load(folder).changed.rules[first.claim].late
    assert load(folder).verdicts[first.claim].verdict == "void"
