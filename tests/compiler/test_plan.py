"""What a plan says: reasons with places and functions, cost, claims, other revisions, and its three forms."""

from __future__ import annotations

import html
import json
import os
import re
import shutil
from pathlib import Path

import pytest
from plan_project import commit, compiles, edit, git, judge_code, ledger, planned, repro, states

from compiler.__main__ import main
from compiler.commands.plan_report import LIMIT, MARKER, Cost, ExperimentPlan, Plan, Reason, StagePlan, markdown, text
from compiler.problems import Rejected
from stages.contracts.artifact import canonical_json, read
from stages.contracts.files import write_text
from stages.contracts.preflight_card import Permission

SPEC = "specs/example.yaml"
LR = ("role: null_control}", "role: null_control, train: {learning_rate: 2e-3}}")


@pytest.fixture
def work(at_work: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    return at_work


def reasons(plan: Plan, stage: str) -> list[tuple[str, str]]:
    """(kind, words with their place) of a stage's own reasons."""
    (stage_plan,) = [stage_plan for stage_plan in plan.stages if stage_plan.stage == stage]
    return [(reason.kind, f"{reason.says} {reason.place or ''}".strip()) for reason in stage_plan.reasons if reason.kind != "upstream"]


def test_the_key_its_values_and_its_place(work):
    edit(SPEC, *LR)
    plan = planned()
    expected = [("card", "train.learning_rate 0.001 -> 0.002 specs/example.yaml:37:78")]
    assert reasons(plan, "train-zero-s1") == expected
    assert reasons(plan, "train-shaped-s1") == []
    compiles()  # the new card lies on disk now, the old one in git
    assert reasons(planned(), "train-zero-s1") == expected
    shutil.rmtree(".git")
    ((kind, says),) = reasons(planned(), "train-zero-s1")
    assert kind == "card" and "neither on disk nor in git" in says


def test_the_code_that_changed(work):
    path = Path("stages/train/rewards/format.py")
    path.write_text("# words\n" + path.read_text().replace("-> list[Judgement]:\n", "-> list[Judgement]:\n    later = 1  # words\n", 1))
    judge_code("a cut answer passes")
    plan = planned()
    for run in ("shaped-s1", "shaped-s3"):
        assert reasons(plan, f"train-{run}") == [("code", "code of train.rewards.format: version 1 -> 2: a cut answer passes")]
    assert reasons(plan, "train-zero-s1") == []


def test_files_are_named_data_folders_and_a_retry(work):
    (Path("site/docs") / "more.md").write_text("# More\n")
    edit("data/heldout.jsonl", "row-22", "row-b")
    edit("runs/example/shaped-s1/retry.json", "null", '"shaped-s1-a1"')
    assert reasons(planned(base="main"), "site") == [("file", "site changed: docs/more.md")]
    plan = planned()
    assert reasons(plan, "site") == [("file", "site changed")], "DVC keeps no list of a folder that no stage writes"
    assert reasons(plan, "evaluate-zero-s2") == [("data", "data/heldout.jsonl changed")]
    assert reasons(plan, "train-shaped-s1") == [("retry", "a retry is due after attempt shaped-s1-a1")]


def test_what_was_made_before_is_put_back_and_costs_nothing(work):
    edit(SPEC, *LR)
    compiles()
    repro(work)
    edit(SPEC, *reversed(LR))
    plan = planned()
    trains = {stage.run: stage.state for stage in plan.stages if stage.run}
    assert {run for run, state in trains.items() if state == "restored"} == {"zero-s1", "zero-s2", "zero-s3"}
    assert plan.training == () and plan.experiments[0].cost.runs == 0
    (claim,) = plan.experiments[0].claims
    assert "zero-s1, zero-s2, zero-s3 are put back as they were earlier" in claim.why
    compiles()
    assert not {stage for stage in repro(work) if "train-" in stage}


def test_claims_of_a_spec_that_is_in_no_commit_are_warned_of_before_their_data(work):
    assert planned().notes == ()
    fresh = Path("specs/fresh.yaml")
    fresh.write_text(Path(SPEC).read_text())
    note = "specs/fresh.yaml is in no commit: commit it before dvc repro, or its claims are younger than their data, and decide nothing"
    assert planned("fresh").notes == (note,) and f"note: {note}" in text(planned("fresh"))
    git(Path(), "add", "specs/fresh.yaml")
    assert planned("fresh").notes == (note,)
    commit(Path(), "rules first")
    assert planned("fresh").notes == ()
    edit(SPEC, *LR)  # the claims of a committed spec keep their date when something else is edited
    assert planned().notes == ()


def test_a_rule_that_is_edited_and_not_committed_is_warned_of_before_its_data(work):
    """Commit of the spec, commit of the cards: either holds the rule. What compares runs that get no data now is not spoken of."""
    edit(SPEC, "above: 0.05", "above: 0.5")
    assert planned().notes == (), "nothing is about to get data"
    edit(SPEC, *LR)
    says = f"{SPEC} is edited, and no committed card holds the rule of `shaped-teaches`: compile and commit both before dvc repro"
    assert planned().notes == (f"{says}, or the rule may be younger than its data, and decide nothing",)
    git(Path(), "add", SPEC)
    assert len(planned().notes) == 1, "the index is no commit"
    commit(Path(), "the rule")
    assert planned().notes == ()
    compiles()
    commit(Path(), "its card")
    edit(SPEC, "The shaped reward raises", "Shaping raises")
    assert planned().notes == (), "words make no rule younger while the committed card holds it"
    edit(SPEC, "  - id: shaped-teaches", "  - id: shaped-is-right")
    assert [note.split("`")[1] for note in planned().notes] == ["shaped-is-right"]


def test_new_and_removed_runs(work):
    edit(SPEC, "seeds: [1, 2, 3]", "seeds: [1, 2, 4]")
    (experiment,) = planned().experiments
    assert experiment.new_runs == ("shaped-s4", "zero-s4")
    assert experiment.removed_runs == ("shaped-s3", "zero-s3")
    (claim,) = experiment.claims
    assert (claim.claim, claim.verdict) == ("shaped-teaches", "supported")
    assert claim.why[:2] == ("shaped-s4, zero-s4 are new", "shaped-s3, zero-s3 are no longer runs")
    assert reasons(planned(), "evaluate-zero-s2") == [], "it asks nothing of other runs"
    assert reasons(planned(), "evaluate-zero-s4") == [("new", "new: no earlier run to compare with")]


def test_a_claim_is_at_risk_through_its_own_conditions_and_rule_only(work):
    edit(SPEC, "  zero: {", "  half: {reward: {constant: 0.5}, role: control, train: {learning_rate: 1e-4}}\n  zero: {")
    compiles()
    repro(work)
    edit(SPEC, "learning_rate: 1e-4", "learning_rate: 2e-4")
    assert [claim.claim for claim in planned().experiments[0].claims] == []
    edit(SPEC, "above: 0.05", "above: 0.5")
    (why,) = planned().experiments[0].claims[0].why
    assert re.fullmatch(r"its rule changes, and it has data since \d{4}-\d\d-\d\d: it becomes void", why)
    edit(SPEC, "above: 0.5", "above: 0.05")
    edit(SPEC, "nonfinite: not persistent", "nonfinite: not persistent, entropy: {above: 0.01}")
    (why, decided) = planned().experiments[0].claims[0].why
    assert why.startswith("its health gates change, and it has data since ") and decided == "which runs count is decided again"
    edit(SPEC, ", entropy: {above: 0.01}", "")
    edit(SPEC, "claims:\n", "claims:\n  - {id: late, says: A., metric: reward, condition: half, above: 0.1}\n")
    claim = {claim.claim: claim for claim in planned().experiments[0].claims}["late"]
    assert claim.verdict is None and claim.why[-1].startswith("it is new, and it has data since ")


def test_a_title_puts_no_claim_at_risk_and_changes_the_page(work):
    edit(SPEC, "teach right", "teach only right")
    (experiment,) = planned().experiments
    assert experiment.claims == () and experiment.page == "changes"
    assert reasons(planned(), "page")[0][1].endswith("specs/example.yaml:1:8")


def test_cost_comes_from_this_experiments_finished_attempts_else_from_the_spec(work):
    ledger(Path("runs/example/shaped-s1/attempts.jsonl"), seconds=9999.0, outcome="failed")
    ledger(Path("runs/example/shaped-s1/attempts.jsonl"), seconds=9999.0, devices=("NVIDIA H100",))
    edit(SPEC, *LR)
    # three runs of 12 steps; finished attempts took 2, 1 and 1 seconds a step in either condition
    hours = 36 / 3600
    assert planned().experiments[0].cost == Cost(
        unit="CPU-hours", runs=3, basis="attempts", attempts=6, median=round(hours, 6), low=round(hours, 6), high=round(2 * hours, 6)
    )
    for path in Path("runs").glob("*/*/attempts.jsonl"):
        path.unlink()
    assert planned().experiments[0].cost == Cost(unit="CPU-hours", runs=3, basis="no history")
    edit(SPEC, "preflight:", "resources: {gpus: 1, hours: 5.5}\n\npreflight:")
    assert planned().experiments[0].cost == Cost(unit="GPU-hours", runs=6, basis="resources", median=33.0)


def test_a_machine_tells_when_it_would_be_done(work, capsys):
    write_text(Path("specs/machines.yaml"), "box: {slots: 2}\n")
    edit(SPEC, *LR)
    assert main(["plan", "--on", "box", "--json"]) == 0
    forecast = json.loads(capsys.readouterr().out)["forecast"]
    # three runs of 12 steps at 1 second a step: two at once, then one
    assert forecast == {
        "machine": "box",
        "runs": 3,
        "at_once": 2,
        "gpus": 0,
        "device_hours": pytest.approx(0.01),
        "hours": pytest.approx(24 / 3600),
    }
    assert main(["plan", "--on", "box"]) == 0
    assert "\non box: 3 runs, 2 at once, in about 0.0067 h; 0.01 CPU-hours\n" in capsys.readouterr().out
    for path in Path("runs").glob("*/*/attempts.jsonl"):
        path.unlink()
    assert main(["plan", "--on", "local", "--markdown"]) == 0
    assert "how long a run takes is unknown" in html.unescape(capsys.readouterr().out)


def test_runs_that_preflight_refused_are_named_where_nothing_trains(work, monkeypatch):
    permissions = {name: Permission(condition=name, train=name != "zero") for name in ("shaped", "zero")}
    monkeypatch.setattr("compiler.commands.plan.read", lambda kind, path: permissions[path.name.partition(".")[0]])
    says = "example: zero-s1, zero-s2, zero-s3 stay refused by preflight; runs/example/preflight/preflight.json says why"
    assert says in planned().notes
    edit(SPEC, *LR)
    assert says not in planned().notes, "they train again"


def test_another_revision_needs_no_outputs(work):
    """As in CI, where nothing that DVC keeps is there."""
    edit(SPEC, *LR)
    edit("stages/train/rewards/format.py", "def judge(", "LATER = 1\n\n\ndef judge(")
    judge_code()
    commit(Path(), "edited")
    for path in ("runs", ".dvc/cache"):
        shutil.rmtree(path)
    plan = planned(base="HEAD~1")
    assert plan.base == git(Path(), "rev-parse", "HEAD~1").strip() and plan.base_name == "HEAD~1"
    assert {stage.run for stage in plan.training} == {f"{name}-s{seed}" for name in ("shaped", "zero") for seed in (1, 2, 3)}
    assert reasons(plan, "train-zero-s1") == [("card", "train.learning_rate 0.001 -> 0.002 specs/example.yaml:37:78")]
    assert reasons(plan, "train-shaped-s1") == [("code", "code of train.rewards.format: version 1 -> 2: edited")]
    assert plan.experiments[0].new_runs == () and plan.experiments[0].cost.basis == "no history"
    assert states(plan)["runs/example/dvc.yaml:evaluate-zero-s1"] == "may_run"
    assert plan.experiments[0].claims[0].verdict is None
    assert set(states(planned(base="HEAD")).values()) == {"stays"}
    assert not Path("runs").exists(), "a plan writes nothing"


def test_another_revision_without_the_spec(work):
    shutil.copy(SPEC, "specs/second.yaml")
    Path("specs/pipeline.yaml").write_text("- second\n")
    plan = planned(base="main")
    assert [experiment.name for experiment in plan.experiments] == ["second"] and len(plan.experiments[0].new_runs) == 6
    assert plan.removed_experiments == ("example",)
    assert {stage.state for stage in plan.experiments[0].stages} == {"runs"} and plan.experiments[0].page == "new"
    assert [experiment.name for experiment in planned("second", base="main").experiments] == ["second"]


def test_a_spec_that_differs_and_is_not_live_is_no_silence(work):
    shutil.copy(SPEC, "specs/second.yaml")
    commit(Path(), "another, not live")
    edit("specs/second.yaml", "max_steps: 12", "max_steps: 24")
    (note,) = planned(base="HEAD").notes
    assert note == "specs/second.yaml differs and is not live, so nothing of it is here: octavo plan second --base HEAD"
    assert planned("second", base="HEAD").notes == ()
    edit(SPEC, "max_steps: 12", "max_steps: 24")
    assert len(planned(base="HEAD").notes) == 1, "what is live is in the plan"


def test_another_revision_that_does_not_compile_is_noted(work):
    edit(SPEC, "max_steps: 12", "max_stepz: 12")
    commit(Path(), "broken")
    edit(SPEC, "max_stepz: 12", "max_steps: 12")
    plan = planned(base="HEAD")
    (note,) = plan.notes
    assert note.startswith("example of that revision does not compile, so all of it counts as new: specs/example.yaml:15: E20")
    assert {stage.state for stage in plan.experiments[0].stages} == {"runs"} and len(plan.experiments[0].new_runs) == 6
    assert note in text(plan) and "Note: example of that revision" in markdown(plan)
    Path("specs/pipeline.yaml").write_text("example\n")
    commit(Path(), "broken list")
    Path("specs/pipeline.yaml").write_text("- example\n")
    assert planned(base="HEAD").notes[0].startswith("specs/pipeline.yaml of that revision does not compile")


@pytest.mark.parametrize("name", ["nonsense", "--output=x", "main:specs", "", "HEAD^{tree}"])
def test_an_unknown_revision(work, name):
    with pytest.raises(Rejected, match="E391"):
        planned(base=name)
    assert not Path("x").exists()


def test_where_git_does_not_answer_the_plan_says_why(work, monkeypatch):
    for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"):
        monkeypatch.setenv(name, os.devnull)
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    with pytest.raises(Rejected, match="the repository belongs to another user"):
        planned(base="HEAD")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(Rejected, match="git is not installed"):
        planned(base="HEAD")


def test_exit_codes_and_json(work, capsys):
    assert main(["plan", "--exit-code"]) == 0
    assert "Nothing certainly runs" in capsys.readouterr().out
    edit(SPEC, "teach right", "teach only right")
    assert main(["plan", "--exit-code"]) == 0
    edit(SPEC, *LR)
    capsys.readouterr()
    assert (main(["plan", "--json"]), main(["plan", "--exit-code"])) == (0, 4)
    output = capsys.readouterr().out.partition("4 stages run")[0]
    assert output == canonical_json(json.loads(output))
    write_text(Path("plan.json"), output)
    assert read(Plan, Path("plan.json")) == planned()
    edit(SPEC, "max_steps: 12", "max_stepz: 12")
    assert main(["plan"]) == 1
    printed = capsys.readouterr()
    assert "did you mean `max_steps`" in printed.err and printed.out == ""


def test_text_puts_equal_reasons_together(work):
    edit(SPEC, *LR)
    lines = [line.strip() for line in text(planned()).splitlines()]
    assert lines[0] == "4 stages run, 3 of them train, compared with what is on disk."
    assert "3 of 6 runs train again, 3 stay" in lines
    assert "cost: 0.01 CPU-hours (range 0.01 to 0.02; from 6 finished attempts of this experiment)" in lines
    where = lines.index("train-zero-s1, train-zero-s2, train-zero-s3")
    assert lines[where + 1].split("   ") == ["train.learning_rate 0.001 -> 0.002", "specs/example.yaml:37:78"]
    assert "shaped-teaches (supported): zero-s1, zero-s2, zero-s3 train again" in lines
    comment = markdown(planned())
    assert "| <code>example</code> | 3 | 0 | 0 | 0 | 3 | 0 |" in comment
    assert "more lines" not in comment and "learning&#95;rate 0&#46;001 -&#62; 0&#46;002" in comment


def test_text_tells_base_models_apart_and_counts_imports():
    def stage(pipeline, name, state="runs"):
        return StagePlan(pipeline=f"runs/{pipeline}/dvc.yaml", stage=name, trains=name == "pretrain", state=state)

    imports = [stage("logs", f"import-a-s{seed}", state) for seed, state in ((1, "runs"), (2, "stays"), (3, "runs"))]
    cost = Cost(unit="CPU-hours", runs=0, basis="no history")
    logs = ExperimentPlan(name="logs", spec="specs/logs.yaml", stages=(*imports, stage("logs", "page")), page="new", cost=cost)
    models = (stage("_models/tiny", "pretrain"), stage("_models/ocaml", "pretrain"), stage("", "site"))
    plan = Plan(base=None, experiments=(logs,), shared=models)
    lines = [line.strip() for line in text(plan).splitlines()]
    assert "2 of 3 runs are imported, 1 stays" in lines and not any("train again" in line for line in lines)
    row = next(line for line in markdown(plan).splitlines() if line.startswith("| <code>logs</code>"))
    assert [cell.strip() for cell in row.split("|")[2:8]] == ["2", "0", "0", "0", "1", "0"]
    gone = plan.model_copy(update={"experiments": (logs.model_copy(update={"new_runs": ("a-s3",), "removed_runs": ("a-s9",)}),)})
    text_of_gone = text(gone)
    assert "2 of 3 runs are imported (1 new), 1 stays" in text_of_gone and "no longer in the spec: a-s9 (nothing runs it" in text_of_gone
    assert "pretrain octavo/tiny, pretrain octavo/ocaml, site" in lines
    assert "    pretrain octavo/tiny, pretrain octavo/ocaml, site" in markdown(plan)


NASTY = "](http://x.test) <script>alert(1)</script> @admin #12 `code` ![i](x) | </details> <!-- --> &amp; **b** \x1b[31m www.x.test"


def of_reasons(*texts: str, count: int = 1) -> Plan:
    stages = tuple(
        StagePlan(pipeline="p", stage=f"train-r-s{number}", run=f"r-s{number}", trains=True, state="runs", reasons=tuple(
            Reason(kind="card", says=f"{number} {words}") for words in texts
        ))
        for number in range(count)
    )  # fmt: skip
    experiment = ExperimentPlan(
        name="e", spec=NASTY, stages=stages, removed_runs=(NASTY,), page="changes", cost=Cost(unit="CPU-hours", runs=1, basis="no history")
    )
    return Plan(base=None, experiments=(experiment,), shared=())


def test_markdown_acts_on_nothing_that_others_wrote():
    comment = markdown(of_reasons(NASTY))
    assert comment.startswith(MARKER + "\n") and comment.count("<!--") == 1
    tags = {"<details>", "<summary>", "</summary>", "</details>", "<code>", "</code>", "<pre>", "</pre>"}
    assert set(re.findall(r"<[^>]*>", comment.removeprefix(MARKER))) == tags
    for forbidden in ("](", "@admin", "`", "![", "\x1b", "www.", "http:"):
        assert forbidden not in comment
    assert not re.search(r"(?<!&)#12", comment)
    assert all(line.count("|") in (0, 11) for line in comment.splitlines())


def test_markdown_is_cut_and_says_so():
    comment = markdown(of_reasons(*["word " * 20] * 5, count=2000))
    assert 50_000 < len(comment) <= LIMIT
    assert comment.count("<details>") == comment.count("</details>") == 1
    shown = comment.count("    train-r-s")
    hidden = re.search(r"(\d+) more lines do not fit", comment)
    assert hidden and shown * 6 + int(hidden[1]) >= 2000 * 6
