"""The stage graph: who reads and writes what, one producer a file, no circle; and DVC itself reads it."""

import json
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from compiler.build.graph import COMPARE_CODE, SITE_CODE
from compiler.build.inputs import Inputs
from compiler.build.pipeline import named
from compiler.commands.plan_claims import held_against
from compiler.compile import compile_all, project
from stages.contracts.code_tree import CodeTree


@pytest.fixture
def stages(files):
    """A function from a spec's text to the stages of a dvc.yaml."""
    return lambda text, path="runs/example/dvc.yaml": YAML(typ="safe").load(files(text).files[path])["stages"]


@pytest.mark.parametrize("name", ["example", "example@smoke"])
def test_each_file_has_one_producer_and_no_stage_waits_for_itself(files, spec, name):
    graph = [stage for pipeline in files(spec, name).pipelines for stage in pipeline.stages]
    outs = [out for stage in graph for out in stage.outs]
    assert len(outs) == len(set(outs))
    assert not [out for out in outs for parent in Path(out).parents if parent.as_posix() in outs]
    producer = {out: number for number, stage in enumerate(graph) for out in stage.outs}
    waits = {number: {producer[dep] for dep in stage.deps if dep in producer} for number, stage in enumerate(graph)}
    TopologicalSorter(waits).prepare()  # raises CycleError


def test_the_stages_of_an_experiment(stages, spec, work):
    """Goldens show each line; here is what must hold of them."""
    (work / "specs/example.md").write_text("words\n")
    listed = stages(spec)
    trained = [f"train-{condition}-s{seed}" for condition in ("shaped", "zero") for seed in (1, 2, 3)]
    evaluated = [name.replace("train-", "evaluate-") for name in trained]
    assert list(listed) == ["preflight", *trained, "evaluate-untrained", *evaluated, "screen", "conclude", "draw", "page", "complete"]
    for name in evaluated:  # another run changes nothing of it
        own = {f"runs/example/{name.removeprefix('evaluate-')}/{file}" for file in ("adapter", "outcome.json")}
        assert set(listed[name]["deps"]) - set(listed["evaluate-untrained"]["deps"]) == own
    paths = [path for stage in listed.values() for path in stage["deps"]]
    assert not [path for path in paths if path.endswith(("attempts.jsonl", "origins.json"))]
    for name in trained:  # nothing of analysis, publishing or words trains again
        assert not [path for path in listed[name]["deps"] if "analysis" in path or "page" in path]
    assert "specs/example.md" in listed["page"]["deps"], "prose is a dependency of the page when it exists"
    top = stages(spec, "dvc.yaml")
    assert list(top) == ["site", "complete"]
    assert {"site", "stages/publish/templates", "runs/example/page"} <= set(top["site"]["deps"])
    assert top["site"]["outs"] == [{"build/site": {"cache": False}}]
    assert top["complete"]["deps"][0] == "build/site" and len(top["complete"]["deps"]) == 7


def test_a_claim_against_another_experiment_waits_for_its_runs(spec, work):
    """The profile of a child is held against the parent's profile of the same name."""
    Path("specs/child.yaml").write_text(
        "title: t\nparent: example\nchanges: {train.learning_rate: 1.0e-4}\nhypothesis: h\nclaims:\n"
        "  - {id: better, says: s, metric: evaluation.tests.pass_share, above: 0.0,\n"
        "     contrast: {condition: shaped, against: {experiment: example, condition: shaped}}}\n"
    )
    compiled = compile_all([named("child"), named("child@smoke")], Inputs())
    stages = [pipeline.stages for pipeline in project(compiled, with_site=False).pipelines if "child" in pipeline.path.as_posix()]
    waits = [next(stage for stage in each if stage.name == "conclude").deps for each in stages]
    assert {f"runs/example/shaped-s{seed}/{file}" for seed in (1, 2, 3) for file in ("evaluation.parquet", "health.json")} < set(waits[0])
    assert "runs/example@smoke/shaped-s1/history.parquet" in waits[1] and "runs/example/" not in str(waits[1])
    assert list(held_against(compiled[:1], ["child"])) == [
        "child is concluded from 3 runs of example too (condition shaped; claims: better); dvc repro makes those that are missing"
    ]
    assert not list(held_against(compiled[:1], ["child", "example"]))
    card = compiled[0].cards.conclude
    assert card.elsewhere[0].evaluation == ("tests",) and card.elsewhere[0].condition.reward == "shaped"


def test_a_profile_has_an_interpretation_of_its_own(files, spec, work):
    (work / "specs/example.md").write_text("words\n")
    pipeline = "runs/example@smoke/dvc.yaml"
    assert "specs/example.md" not in files(spec, "example@smoke").files[pipeline]
    (work / "specs/example.smoke.md").write_text("words about small numbers\n")
    assert "- specs/example.smoke.md\n" in files(spec, "example@smoke").files[pipeline]


def test_parents_and_children_are_compared_and_what_compare_names(spec, work):
    """The card of the page holds the whole difference to each; without a pair there is no such stage (see above)."""
    for name, more in (("child", "parent: example\nchanges: {seeds: [1, 2, 3, 4]}\nhypothesis: h\n"), ("other", "compare: [example]\n")):
        text = f"title: t\n{more}" if name == "child" else f"{more}{spec}"
        Path(f"specs/{name}.yaml").write_text(text)
    compiled = compile_all([named(name) for name in ("example", "child", "other", "other@smoke")], Inputs())
    stages = {stage.name: stage for stage in project(compiled, with_site=True).pipelines[-1].stages}
    assert stages["compare"].outs == ("build/comparisons",) and "build/comparisons" in stages["site"].deps
    assert {f"runs/{name}/analysis/findings.json" for name in ("example", "child", "other")} < set(stages["compare"].deps)
    assert "runs/other@smoke/analysis/findings.json" not in stages["compare"].deps, "the other profile is not live"
    assert [change.key for change in compiled[1].cards.page.changes] == ["seeds"]
    assert compiled[2].cards.page.compared[0].changes == ()
    assert {path.as_posix() for path in COMPARE_CODE} < set(stages["compare"].deps)


def test_dvc_watches_all_code_of_the_site_that_no_page_card_covers():
    """The site stage has no card, so a module that is missing here leaves an old site in place."""
    code = CodeTree(Path(__file__).parents[2])
    of_site, of_page = (code.files(f"stages.publish.{name}") for name in ("site", "page"))
    assert "stages/publish/home.py" in of_site - of_page
    assert of_site - of_page == {path.as_posix() for path in SITE_CODE if path.suffix == ".py"}


def test_retries_are_a_file_that_stages_read_and_nothing_depends_on(files, spec, work):
    policy = Path("runs/example/retries.json")
    ends = "nonfinite: {resume: last_finite_checkpoint}, preempted: {resume: last_checkpoint}"
    written = f"{{attempts: 6, out_of_memory: {{microbatch: halve}}, {ends}}}"
    without, with_it = dict(files(spec).files), dict(files(f"{spec}retries: {written}\n").files)
    assert {path for path, text in with_it.items() if without.get(path) != text} == {policy.as_posix()}
    assert json.loads(with_it[policy.as_posix()]) == {
        "schema": "octavo.retries/1",
        "attempts": 6,
        "out_of_memory": {"microbatch": "halve"},
        "nonfinite": {"resume": "last_finite_checkpoint"},
        "preempted": {"resume": "last_checkpoint"},
    }
    policy.parent.mkdir(parents=True)
    policy.write_text(with_it[policy.as_posix()])
    assert json.loads(files(spec).files[policy.as_posix()])["attempts"] == 1, "a policy that is taken out does not go on"
