"""Whoever may choose which runs count, or which column is the reward, once there are data, has chosen the result."""

import os
import subprocess
from datetime import datetime
from pathlib import Path

import pytest
from example_experiment import SPEC, build, import_card, read_with_care

from stages.contracts.analysis_card import Bound, ConcludeCard, HealthRule, ScreenCard, Windows
from stages.contracts.artifact import canonical_json, read, write
from stages.contracts.attempt import Attempt, first_data
from stages.contracts.claim import Needs
from stages.contracts.import_card import ColumnCard, ImportCard
from stages.contracts.layout import ExperimentFolder
from stages.contracts.lineage import Changed, Origin
from stages.contracts.stops import Expectation
from stages.publish.experiment import RECORDED, load
from stages.publish.rule_history import RuleDate, against_data, blame, changed_since, rule_date, whole_history
from stages.publish.verify import against_git

BEFORE, WITH_RESULTS, AFTER = "2026-01-01T10:00:00Z", "2026-11-28T10:00:00Z", "2026-12-24T10:00:00Z"
"""The example's first data are of 2026-11-27."""
CUT: dict[str, HealthRule] = {"truncated": Bound(below=0.5)}
LONG: dict[str, HealthRule] = {"completion_tokens": Bound(above=210.0)}
TWO_RULES = """title: A spec
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


def commit(path: Path, at: str) -> None:
    git("add", "-f", path.as_posix())
    git("commit", "-qm", "more", at=at)


def results(at: str = WITH_RESULTS) -> None:
    """The commit of what the runs gave."""
    git("commit", "-q", "--allow-empty", "-m", "results", at=at)


@pytest.fixture
def spec(project: Path) -> Path:
    path = Path("specs/a.yaml")
    path.parent.mkdir()
    path.write_text(TWO_RULES)
    git("init", "-q", "-b", "main")
    git("add", "-A")
    git("commit", "-q", "-m", "first")
    return path


def dates(spec: Path) -> dict[str, str]:
    return {rule: rule_date(spec, line, blame(spec)).words for rule, line in STARTS.items()}


def test_a_rule_is_as_old_as_the_newest_of_its_own_lines(spec: Path) -> None:
    assert all(words.startswith("2026-11-01 10:00 UTC, commit ") for words in dates(spec).values())
    spec.write_text(TWO_RULES.replace("title: A spec", "title: Another").replace("gpus: 0", "gpus: 1"))
    git("commit", "-aqm", "title and resources", at="2026-11-02T10:00:00Z")
    spec.write_text(spec.read_text().replace("above: 0.05", "above: 0.04"))
    git("commit", "-aqm", "margin", at="2026-11-03T10:00:00Z")
    head = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout
    Path("ignored").write_text(head)
    git("config", "blame.ignoreRevsFile", "ignored")  # settings of the repository hide no change
    assert dates(spec)["one"] == f"2026-11-03 10:00 UTC, commit {head[:10]}" and dates(spec)["two"].startswith("2026-11-01")
    spec.write_text(spec.read_text().replace("above: 0.1", "above: 0.2"))
    assert dates(spec)["one"].startswith("2026-11-03") and dates(spec)["two"] == "not committed yet"
    spec.write_text(TWO_RULES.replace("Second.", "Second.  # \u2028committer-time 1\u2028"))  # a comment dates nothing
    git("commit", "-aqm", "comment", at="2026-11-04T10:00:00Z")
    assert dates(spec)["two"].startswith("2026-11-04")
    answer = f"# \r{'a' * 40} 9 9 1\rauthor a\rcommitter-time 1\r\t"  # a comment writes no line of git's answer
    spec.write_text(TWO_RULES.replace("Second.", f"Third.  {answer}").replace("A spec", "A spec  # \u2028\r"), newline="")
    git("commit", "-aqm", "more ends of lines", at="2026-11-05T10:00:00Z")
    assert rule_date(spec, STARTS["two"] + 2, blame(spec)).words.startswith("2026-11-05"), "YAML counts two lines more than git"
    spec.write_text(TWO_RULES)
    new = Path("specs/b.yaml")
    new.write_text(TWO_RULES)
    assert dates(new)["one"] == "not committed yet"


def test_outside_git_and_in_a_shallow_clone_the_date_is_unknown(
    spec: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    spec.write_text(TWO_RULES + "# more\n")
    git("commit", "-aqm", "second", at="2026-11-05T10:00:00Z")
    clone = tmp_path_factory.mktemp("clones") / "shallow"
    git("clone", "-q", "--depth", "1", Path.cwd().as_uri(), str(clone))
    monkeypatch.chdir(clone)
    assert dates(spec)["one"] == "unknown: the clone is shallow"
    outside = tmp_path_factory.mktemp("outside")
    monkeypatch.chdir(outside)
    Path("a.yaml").write_text(TWO_RULES)
    assert dates(Path("a.yaml"))["one"] == "unknown: not in a git repository"
    assert dates(Path("none.yaml"))["one"] == "unknown: the spec is not here"
    assert not whole_history()


def test_a_rule_is_compared_with_the_first_data() -> None:
    rule = RuleDate(datetime.fromisoformat("2026-11-27T22:10:31Z"), "2026-11-27 22:10 UTC, commit 1f2e3d4c5b")
    before, after = (datetime.fromisoformat(at) for at in ("2026-11-28T00:03:13Z", "2026-11-27T21:00:00Z"))
    assert against_data(rule, before) == (f"{rule.words}, before the first data of 2026-11-28 00:03", False)
    assert against_data(rule, after) == (f"{rule.words}, after the first data of 2026-11-27 21:00", True)
    assert against_data(rule, None) == (f"{rule.words}; there are no data yet", False)
    unknown = "not committed yet, so it is not known to be older than the first data of 2026-11-28 00:03"
    assert against_data(RuleDate(None, "not committed yet"), before) == (unknown, False)


def committed_experiment(project: Path, at: str) -> Path:
    """The example with its spec and analysis card committed at a time; its first data are of 2026-11-27. Claims are where origins say."""
    folder = build(project)
    origins = load(folder).origins.claims
    lines = [f"# line {n}" for n in range(1, 200)]
    for place in origins.values():
        lines[(place.line or 1) - 1] = "  - id: a-claim"
    Path(SPEC).write_text("\n".join(lines))
    git("init", "-q", "-b", "main")
    git("add", "-f", SPEC, load(folder).folder.conclude_card.as_posix())
    git("commit", "-qm", "first", at=at)
    return folder


def late(root: Path) -> set[str]:
    return {claim for claim, rule in load(root).changed.rules.items() if rule.late}


def screened(root: Path, gates: dict[str, HealthRule]) -> Path:
    """The card of the screen stage with these gates."""
    folder = ExperimentFolder(root)
    card = read(ConcludeCard, folder.conclude_card)
    screen_card = ScreenCard(
        experiment=card.experiment,
        profile="grpo-default",
        conditions=card.conditions,
        runs=card.runs,
        detectors=(),
        gates=gates,
        windows=Windows(),
        code={"some.stage": "0" * 16},
    )
    write(folder.screen_card, screen_card)
    return folder.screen_card


def test_a_rule_that_is_younger_than_its_data_is_void_for_good(project: Path) -> None:
    experiment = load(committed_experiment(project, AFTER))
    assert all(rule.late for rule in experiment.changed.rules.values())
    whys = [verdict.why for verdict in experiment.verdicts.values() if verdict.verdict == "void"]
    assert len(whys) == 4
    assert all(
        why.startswith("Void: the rule was written or edited after its data existed (committed 2026-12-24 10:00 UTC") for why in whys
    )
    assert any(why.endswith("with this rule it would read supported.") for why in whys)


def test_words_may_change_after_the_data_and_rules_may_not(project: Path) -> None:
    folder = committed_experiment(project, "2026-01-01T10:00:00Z")
    card = load(folder).folder.conclude_card
    spec = Path(SPEC)
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


@pytest.mark.parametrize("at", [BEFORE, "2026-11-28T10:00:00Z"])
def test_gates_that_were_edited_once_there_were_data_decide_nothing(project: Path, at: str) -> None:
    """Against the first commit since the data, whether it is that of the card or of something else."""
    root = committed_experiment(project, BEFORE)
    commit(screened(root, CUT), at)
    results()
    assert not late(root)
    was = {claim: verdict.verdict for claim, verdict in load(root).verdicts.items()}
    assert "supported" in was.values()
    for gates, named in ((CUT | LONG, "completion_tokens"), (LONG, "completion_tokens and truncated"), ({}, "truncated")):
        screened(root, gates)
        experiment = load(root)
        assert {rule.written.rpartition("; ")[2] for rule in experiment.changed.rules.values()} == {
            f"health gates edited after them: {named}"
        }
        assert {verdict.verdict for verdict in experiment.verdicts.values()} == {"void"}
        for claim, verdict in experiment.verdicts.items():
            assert verdict.why.startswith("Void: the health gates that decide which runs count were edited after its data existed (")
            assert was[claim] == "void" or verdict.why.endswith(f"with this rule it would read {was[claim]}.")
    screened(root, {"truncated": Bound(below=0.4)})
    assert all(rule.late for rule in load(root).changed.rules.values())
    screened(root, CUT)
    assert not late(root), "taken back, it is the rule of before"


def test_a_claim_about_all_runs_does_not_rest_on_gates(project: Path) -> None:
    root = committed_experiment(project, BEFORE)
    card = load(root).folder.conclude_card
    concluded = read(ConcludeCard, card)
    write(
        card, concluded.model_copy(update={"claims": tuple(c.model_copy(update={"needs": Needs(health="any")}) for c in concluded.claims)})
    )
    commit(card, BEFORE)
    commit(screened(root, CUT), BEFORE)
    results()
    screened(root, LONG)
    assert not late(root)


def test_what_was_edited_before_the_data_and_committed_with_them_is_no_late_rule(project: Path) -> None:
    """The cards in git may be older than those that ran: people commit the spec, compile, run, and commit the rest."""
    root = committed_experiment(project, BEFORE)
    commit(screened(root, LONG), BEFORE)
    card = load(root).folder.conclude_card
    then = read(ConcludeCard, card)
    write(card, then.model_copy(update={"runs": then.runs[:-1]}))
    commit(card, BEFORE)
    screened(root, CUT)
    write(card, then)
    for kept in (load(root).changed, committed_with_results(root)):
        assert not any(rule.late for rule in kept.rules.values())
        assert kept.added == kept.dropped == kept.withdrawn == ()


def committed_with_results(root: Path) -> Changed:
    git("add", "-f", root.as_posix())
    git("commit", "-qm", "cards and results", at="2026-11-28T10:00:00Z")
    return load(root).changed


def test_gates_are_dated_by_their_lines_where_no_older_card_differs(project: Path) -> None:
    root = committed_experiment(project, BEFORE)
    commit(screened(root, CUT), "2026-11-28T10:00:00Z")
    place = Origin(file=SPEC, line=190, column=3, layer="experiment")
    origins = load(root).origins
    write(load(root).folder.origins, origins.model_copy(update={"cards": {"analysis/screen.card.json": {"/gates/truncated": place}}}))
    assert not late(root)
    lines = Path(SPEC).read_text().splitlines()
    lines[189] = "    truncated: {below: 0.5}"
    Path(SPEC).write_text("\n".join(lines))
    commit(Path(SPEC), AFTER)
    assert all("gates edited after them: truncated" in rule.written for rule in load(root).changed.rules.values())


def test_runs_and_claims_that_came_and_went_are_told(project: Path) -> None:
    root = committed_experiment(project, BEFORE)
    card = load(root).folder.conclude_card
    results()
    then = read(ConcludeCard, card)
    new = then.runs[0].model_copy(update={"name": "shaped-s9", "seed": 9})
    write(card, then.model_copy(update={"runs": (*then.runs[1:], new), "claims": then.claims[1:]}))
    changes = load(root).changed
    assert (changes.dropped, changes.added) == ((then.runs[0].name,), ("shaped-s9",))
    assert changes.withdrawn == (f"claim {then.claims[0].id}",)
    shown = " ".join(read_with_care(load(root)))
    assert f"1 run taken out after the data: {then.runs[0].name}. No number rests on them." in shown
    assert "1 run added after the first data: shaped-s9. Intervals are not adjusted for having looked before." in shown
    assert f"No longer declared, with data at hand: claim {then.claims[0].id}." in shown
    write(card, then)
    assert load(root).changed.dropped == load(root).changed.added == load(root).changed.withdrawn == ()


def test_a_ledger_that_no_run_has_tells_of_a_run_without_git(project: Path) -> None:
    root = build(project)
    (root / "shaped-s8").mkdir()
    (root / "shaped-s8/attempts.jsonl").write_text("")
    assert load(root).changed.dropped == (), "nothing was ever known of it"
    (root / "shaped-s8/attempts.jsonl").write_text((root / "shaped-s1/attempts.jsonl").read_text())
    assert load(root).changed.dropped == ("shaped-s8",)


def test_an_expectation_after_the_data_is_no_prediction(project: Path) -> None:
    root = committed_experiment(project, BEFORE)
    card = load(root).folder.conclude_card
    expected = Expectation(id="learns", metric="reward", at="50%", above=0.2, conditions=("shaped",))
    place = Origin(file=SPEC, line=190, column=3, layer="experiment")
    cards = {"analysis/conclude.card.json": {"/expectations/0": place}}
    write(load(root).folder.origins, load(root).origins.model_copy(update={"cards": cards}))
    write(card, read(ConcludeCard, card).model_copy(update={"expectations": (expected,)}))
    assert load(root).changed.expectations["learns"].late == "", "the line is of before"
    lines = Path(SPEC).read_text().splitlines()
    lines[189] = "  - {metric: reward, at: 50%, above: 0.2}"
    Path(SPEC).write_text("\n".join(lines))
    commit(Path(SPEC), AFTER)
    assert load(root).changed.expectations["learns"].late
    assert "1 expectation written or edited after the data: learns. What they say was no prediction." in read_with_care(load(root))
    commit(card, "2026-11-01T10:00:00Z")  # as old as the data allow, and the same
    assert load(root).changed.expectations["learns"].late == ""


def test_verify_takes_the_dates_of_the_page_where_git_has_no_history(
    project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = committed_experiment(project, AFTER)
    assert whole_history() and all(rule.late for rule in load(root).changed.rules.values())
    kept = project / "rules.json"
    write(kept, load(root).changed)
    git("rm", "-rq", "--cached", ".")
    git("commit", "-qm", "gone", at=AFTER)
    assert not late(root)
    monkeypatch.setenv(RECORDED, str(kept))
    assert all(rule.late for rule in load(root).changed.rules.values())
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    assert not whole_history()


def test_one_late_rule_is_one_difference_and_another_date_a_note(project: Path) -> None:
    root = committed_experiment(project, BEFORE)
    experiment = ExperimentFolder(root)
    commit(screened(root, CUT), BEFORE)
    results()
    write(experiment.page / "rules.json", load(root).changed)
    assert against_git(experiment, "again") == ([], [])
    spec = Path(SPEC)
    spec.write_text(spec.read_text().replace("- id: a-claim", "- id: a-claim  # in other words"))
    commit(spec, AFTER)  # the cards are as they were
    differences, notes = against_git(experiment, "again")
    assert differences == [] and len(notes) == len(load(root).changed.rules) and "otherwise than when the page was built" in notes[0]
    screened(root, LONG)
    (root / "shaped-s8").mkdir()
    (root / "shaped-s8/attempts.jsonl").write_text((root / "shaped-s1/attempts.jsonl").read_text())
    differences, notes = against_git(experiment, "again")
    assert {difference.cell for difference in differences} == {*(f"claim {claim}" for claim in load(root).changed.rules), "dropped"}
    assert "health gates edited after them" in str(differences[0].expected) and (differences[-1].expected, differences[-1].found) == (
        "shaped-s8",
        "none",
    )
    (experiment.page / "rules.json").write_text("{}")
    assert [difference.found for difference in against_git(experiment, "again")[0]] == ["a broken one"]


def test_an_attempt_that_failed_before_its_first_step_showed_nothing(project: Path) -> None:
    """A wrong column, a bug at the start: what is repaired then is repaired before there are data."""
    root = committed_experiment(project, BEFORE)
    attempts = next(run.attempts for run in load(root).runs if run.ref.name == "shaped-s1")
    started, ended = attempts[0].started, attempts[0].ended
    assert ended is not None
    early = started.model_copy(update={"at": "2025-06-01T00:00:00Z"})
    failed = ended.model_copy(update={"outcome": "failed", "failure": "data", "last_step": 0})
    assert first_data([Attempt(started=early, ended=failed), attempts[0]]) == started.at
    for end in (failed.model_copy(update={"last_step": 3}), failed.model_copy(update={"failure": None}), None):
        assert first_data([Attempt(started=early, ended=end), attempts[0]]) == early.at
    assert first_data([Attempt(started=early, ended=failed)]) is None


def test_imported_runs_are_older_than_octavos_first_look(project: Path) -> None:
    root = committed_experiment(project, BEFORE)
    experiment = load(root)
    for run in experiment.conclude.runs:  # type: ignore[union-attr]
        write(experiment.folder.run(run.name).import_card, imported(run.condition, run.seed, "completions/mean_length"))
    git("add", "-f", root.as_posix())
    git("commit", "-qm", "cards", at=BEFORE)
    results()
    assert {rule.late for rule in changed(root).rules.values()} == {""}
    assert all(", before octavo first read its logs on 2026-11-27" in rule.written for rule in changed(root).rules.values())
    for run in experiment.conclude.runs:  # type: ignore[union-attr]
        write(experiment.folder.run(run.name).import_card, imported(run.condition, run.seed, "completions/max_length"))
    younger = {claim for claim, rule in changed(root).rules.items() if rule.late}
    assert younger == {"inverted-lengthens"}, "the others are about other metrics"
    assert all("how its logs are read was edited after that" in changed(root).rules[claim].written for claim in younger)


def test_the_shared_evaluation_belongs_to_the_claims_that_rest_on_it(project: Path) -> None:
    root = committed_experiment(project, BEFORE)
    experiment = load(root)
    card = experiment.folder.evaluate_card
    rests: dict[str, set[str]] = {"tests": set(), "format": set(), "": set()}
    for claim in experiment.conclude.claims:  # type: ignore[union-attr]
        rests[claim.metric.split(".")[1] if claim.metric.startswith("evaluation.") else ""].add(claim.id)
    assert all(rests.values())
    every = rests["tests"] | rests["format"]
    then = {"scores": [{"name": "tests", "kind": "python"}, {"name": "format", "kind": "regex"}], "seed": 0}
    then |= {"samples": 2, "temperature": 1.0, "top_p": 1.0, "max_completion_length": 24}
    card.write_text(canonical_json(then))
    commit(card, BEFORE)
    results()
    other = {**then, "seed": 1, "scores": [then["scores"][0], {"name": "format", "kind": "exact_match"}]}  # type: ignore[index]
    for now, younger in ((then, set()), (other, rests["format"]), ({**then, "temperature": 0.0}, every), ({**then, "scores": []}, every)):
        card.write_text(canonical_json(now))
        assert {claim for claim, rule in changed(root).rules.items() if rule.late} == younger
    assert changed(root).rules[min(every)].written.endswith("; the shared evaluation was edited after them")


def test_a_line_that_was_deleted_after_the_data_is_an_edit(project: Path) -> None:
    """Blame sees only the lines that are left."""
    root = committed_experiment(project, BEFORE)
    experiment = load(root)
    claim, place = max(experiment.origins.claims.items(), key=lambda held: held[1].line or 0)
    lines = Path(SPEC).read_text().splitlines()
    lines[(place.line or 1) - 1] = f"  - id: {claim}"
    lines.insert(place.line or 0, "    seeds: 3")
    Path(SPEC).write_text("\n".join(lines))
    commit(Path(SPEC), BEFORE)
    results()
    assert not any(rule.late for rule in changed(root).rules.values())
    Path(SPEC).write_text("\n".join(line for line in lines if line != "    seeds: 3"))
    then = read(ConcludeCard, experiment.folder.conclude_card)
    looser = tuple(rule.model_copy(update={"needs": Needs(seeds=1)}) if rule.id == claim else rule for rule in then.claims)
    write(experiment.folder.conclude_card, then.model_copy(update={"claims": looser}))
    assert {claim: rule.late for claim, rule in changed(root).rules.items() if rule.late} == {claim: "the rule was written or edited"}


def test_a_branch_that_is_merged_later_says_nothing_of_what_ran_here(project: Path) -> None:
    root = committed_experiment(project, BEFORE)
    card = load(root).folder.conclude_card
    then = read(ConcludeCard, card)
    older = then.model_copy(update={"runs": then.runs[:-1], "claims": then.claims[:1]})
    git("checkout", "-qb", "main-line")
    write(card, older)
    commit(card, "2026-01-02T10:00:00Z")
    git("checkout", "-qb", "exp")
    write(card, then)
    commit(card, "2026-11-20T10:00:00Z")
    git("checkout", "-q", "main-line")
    git("commit", "-q", "--allow-empty", "-m", "of a colleague", at="2026-11-27T23:59:00Z")
    git("checkout", "-q", "exp")
    results("2026-11-28T12:00:00Z")
    for _ in range(2):
        kept = changed(root)
        assert (kept.withdrawn, kept.added) == ((), ()) and not any(rule.late for rule in kept.rules.values())
        git("merge", "-q", "--no-ff", "-m", "merge", "main-line", at="2026-11-29T10:00:00Z")


def imported(condition: str, seed: int, column: str) -> ImportCard:
    return import_card(condition, seed, column=ColumnCard(metric="completion_tokens", column=column, unit="tokens"))


def changed(root: Path) -> Changed:
    experiment = load(root)
    began = {run.ref.name: min((attempt.started.at for attempt in run.attempts), default=None) for run in experiment.runs}
    claims = [claim.id for claim in experiment.card.claims]
    return changed_since(experiment.folder, experiment.conclude, experiment.origins, began, claims=claims, imported=True)
