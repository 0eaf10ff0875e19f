"""Whoever may choose which runs count, or which column is the reward, once there are data, has chosen the result."""

from pathlib import Path

import pytest
from example_experiment import SPEC, build
from test_committed import committed_experiment, git

from stages.contracts.analysis_card import Bound, ConcludeCard, HealthRule, ScreenCard, Windows
from stages.contracts.artifact import canonical_json, read, write
from stages.contracts.attempt import Attempt, first_data
from stages.contracts.claim import Needs
from stages.contracts.import_card import ColumnCard, ImportCard, ReadCard, SourceCard
from stages.contracts.layout import ExperimentFolder
from stages.contracts.lineage import Changed, Origin
from stages.contracts.stops import Expectation
from stages.publish.experiment import RECORDED, load
from stages.publish.header import banners
from stages.publish.rule_history import changed_since, stood_before, whole_history
from stages.publish.verify import against_git

BEFORE, AFTER = "2026-01-01T10:00:00Z", "2026-12-24T10:00:00Z"
"""The example's first data are of 2026-11-27."""
CUT: dict[str, HealthRule] = {"truncated": Bound(below=0.5)}
LONG: dict[str, HealthRule] = {"completion_tokens": Bound(above=210.0)}


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


def commit(path: Path, at: str) -> None:
    git("add", "-f", path.as_posix())
    git("commit", "-qm", "more", at=at)


def results(at: str = "2026-11-28T10:00:00Z") -> None:
    """The commit of what the runs gave."""
    git("commit", "-q", "--allow-empty", "-m", "results", at=at)


@pytest.mark.parametrize("at", [BEFORE, "2026-11-28T10:00:00Z"])
def test_gates_that_were_edited_once_there_were_data_decide_nothing(project: Path, at: str) -> None:
    """Against the first commit since the data, whether it is that of the card or of something else."""
    root = committed_experiment(project, BEFORE)
    commit(screened(root, CUT), at)
    results()
    assert not any(rule.late for rule in load(root).changed.rules.values())
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
    assert not any(rule.late for rule in load(root).changed.rules.values()), "taken back, it is the rule of before"


def test_a_claim_about_all_runs_does_not_rest_on_gates(project: Path) -> None:
    root = committed_experiment(project, BEFORE)
    card = load(root).folder.conclude_card
    concluded = read(ConcludeCard, card)
    write(
        card, concluded.model_copy(update={"claims": tuple(c.model_copy(update={"needs": Needs(health="any")}) for c in concluded.claims)})
    )
    commit(screened(root, CUT), BEFORE)
    results()
    screened(root, LONG)
    assert not any(rule.late for rule in load(root).changed.rules.values())


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


def test_a_block_of_gates_that_stood_before_the_data_is_older_than_them(project: Path) -> None:
    root = committed_experiment(project, BEFORE)
    lines = Path(SPEC).read_text().splitlines()
    lines[187:191] = ["health:", "  gates:", "    truncated: {below: 0.5}", "  # the end"]
    Path(SPEC).write_text("\n".join(lines))
    commit(Path(SPEC), BEFORE)
    place = Origin(file=SPEC, line=190, column=5, layer="experiment")
    write(
        load(root).folder.origins,
        load(root).origins.model_copy(update={"cards": {"analysis/screen.card.json": {"/gates/truncated": place}}}),
    )
    commit(screened(root, LONG), "2026-11-28T10:00:00Z")  # a card of something else
    screened(root, CUT)
    assert not any(rule.late for rule in load(root).changed.rules.values())
    lines[189] = "    truncated: {below: 0.6}"
    Path(SPEC).write_text("\n".join(lines))
    assert all(rule.late for rule in load(root).changed.rules.values())


def test_gates_are_dated_by_their_lines_where_no_older_card_differs(project: Path) -> None:
    root = committed_experiment(project, BEFORE)
    commit(screened(root, CUT), "2026-11-28T10:00:00Z")
    place = Origin(file=SPEC, line=190, column=3, layer="experiment")
    origins = load(root).origins
    write(load(root).folder.origins, origins.model_copy(update={"cards": {"analysis/screen.card.json": {"/gates/truncated": place}}}))
    assert not any(rule.late for rule in load(root).changed.rules.values())
    lines = Path(SPEC).read_text().splitlines()
    lines[189] = "    truncated: {below: 0.5}"
    Path(SPEC).write_text("\n".join(lines))
    commit(Path(SPEC), AFTER)
    assert all("gates edited after them: truncated" in rule.written for rule in load(root).changed.rules.values())
    lines[189] = "# line 190"
    Path(SPEC).write_text("\n".join(lines))
    commit(Path(SPEC), "2026-11-01T10:00:00Z")  # before the data no such line stood there
    lines[189] = "    truncated: {below: 0.5}"
    Path(SPEC).write_text("\n".join(lines))
    commit(Path(SPEC), AFTER)
    assert all(rule.late for rule in load(root).changed.rules.values())


def test_an_edit_that_was_taken_back_is_none(project: Path) -> None:
    """Without cards in git: the lines are younger than the data, and stood there word for word before them."""
    root = committed_experiment(project, BEFORE)
    git("rm", "-q", "--cached", load(root).folder.conclude_card.as_posix())
    git("commit", "-qm", "no cards", at=BEFORE)
    git("commit", "-q", "--amend", "-m", "no cards", at=BEFORE)
    was = Path(SPEC).read_text()
    Path(SPEC).write_text(was.replace("- id: a-claim", "- id: a-claim, above: 0.1"))
    commit(Path(SPEC), "2026-11-28T10:00:00Z")
    Path(SPEC).write_text(was)
    commit(Path(SPEC), AFTER)
    git("rm", "-q", "--cached", SPEC)
    git("commit", "-qm", "moved", at=AFTER)
    commit(Path(SPEC), AFTER)
    rules = load(root).changed.rules.values()
    assert all(rule.written.startswith("2026-12-24") and rule.written.endswith("as it was committed before them") for rule in rules)
    assert not any(rule.late for rule in rules)


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
    titles = {banner.title: banner for banner in banners(load(root))}
    assert titles["Runs taken out after the data: 1"].text == f"{then.runs[0].name}: no longer declared, so no number here rests on them."
    assert titles["Runs added after the first data: 1"].tone == "excluded"
    assert titles["Withdrawn after the data: 1"].text == f"No longer declared: claim {then.claims[0].id}."
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
    assert "Expectations changed after the data: 1" in [banner.title for banner in banners(load(root))]
    commit(card, "2026-11-01T10:00:00Z")  # as old as the data allow, and the same
    assert load(root).changed.expectations["learns"].late == ""


def test_the_sentence_of_a_claim_is_no_part_of_its_rule_where_no_card_was_committed(project: Path) -> None:
    rule = ["  - id: one", "    says: >", "      It rises.", "    metric: reward", "    above: 0.1", ""]
    spec = Path("specs/a.yaml")
    spec.parent.mkdir()
    spec.write_text("\n".join(["claims:", *rule]))
    git("init", "-q", "-b", "main")
    commit(spec, BEFORE)
    spec.write_text("\n".join(["claims:", *rule]).replace("It rises.", "It rises\n      in the end."))
    commit(spec, AFTER)
    assert stood_before(spec, 2, "2026-11-27T00:00:00Z")
    spec.write_text(spec.read_text().replace("above: 0.1", "above: 0.2"))
    assert not stood_before(spec, 2, "2026-11-27T00:00:00Z")
    assert not stood_before(spec, 2, "2025-01-01T00:00:00Z"), "nothing was committed then"


def test_verify_takes_the_dates_of_the_page_where_git_has_no_history(
    project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = committed_experiment(project, AFTER)
    assert whole_history() and all(rule.late for rule in load(root).changed.rules.values())
    kept = project / "rules.json"
    write(kept, load(root).changed)
    git("rm", "-rq", "--cached", ".")
    git("commit", "-qm", "gone", at=AFTER)
    assert not any(rule.late for rule in load(root).changed.rules.values())
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
    late = {claim for claim, rule in changed(root).rules.items() if rule.late}
    assert late == {"inverted-lengthens"}, "the others are about other metrics"
    assert all("how its logs are read was edited after that" in changed(root).rules[claim].written for claim in late)


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
    for now, late in ((then, set()), (other, rests["format"]), ({**then, "temperature": 0.0}, every), ({**then, "scores": []}, every)):
        card.write_text(canonical_json(now))
        assert {claim for claim, rule in changed(root).rules.items() if rule.late} == late
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
    return ImportCard(
        experiment="quickstart",
        condition=condition,
        seed=seed,
        null_control=False,
        source=SourceCard(path="logs/a.csv", sha256="0" * 64),
        read=ReadCard(format="csv", columns=(ColumnCard(metric="completion_tokens", column=column, unit="tokens"),)),
        target_steps=60,
        code={"some.stage": "0" * 16},
    )


def changed(root: Path) -> Changed:
    experiment = load(root)
    began = {run.ref.name: min((attempt.started.at for attempt in run.attempts), default=None) for run in experiment.runs}
    claims = [claim.id for claim in experiment.card.claims]
    return changed_since(experiment.folder, Path(SPEC), experiment.conclude, experiment.origins, began, claims=claims, imported=True)
