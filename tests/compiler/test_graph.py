"""The stage graph: who reads and writes what, one producer a file, no circle."""

import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from compiler.build.graph import SITE_CODE
from stages.contracts.code_tree import CodeTree


@pytest.mark.parametrize("name", ["example", "example@smoke"])
def test_each_file_has_one_producer_and_no_stage_waits_for_itself(files, spec, name):
    made = files(spec, name)
    stages = [stage for pipeline in made.pipelines for stage in pipeline.stages]
    outs = [out for stage in stages for out in stage.outs]
    assert len(outs) == len(set(outs))
    assert not [out for out in outs for parent in Path(out).parents if parent.as_posix() in outs]
    producer = {out: number for number, stage in enumerate(stages) for out in stage.outs}
    graph = {number: {producer[dep] for dep in stage.deps if dep in producer} for number, stage in enumerate(stages)}
    TopologicalSorter(graph).prepare()  # raises CycleError


def test_the_stages_of_an_experiment(files, spec):
    made = files(spec).files
    stages = YAML(typ="safe").load(made["runs/example/dvc.yaml"])["stages"]
    trained = [f"train-{condition}-s{seed}" for condition in ("shaped", "zero") for seed in (1, 2, 3)]
    assert list(stages) == ["preflight", *trained, "evaluate", "screen", "conclude", "draw", "page"]
    train = stages["train-zero-s2"]
    assert train == {
        "desc": "condition zero, seed 2",
        "cmd": "python -m stages.train.trl runs/example/zero-s2",
        "wdir": "../..",
        "deps": [
            "runs/example/zero-s2/train.card.json",
            "runs/example/zero-s2/retry.json",
            "runs/example/preflight/zero.permission.json",
            "runs/_models/tiny/model",
            "data/train.jsonl",
        ],
        "outs": [f"runs/example/zero-s2/{name}" for name in ("outcome.json", "history.parquet", "completions.parquet", "adapter")],
    }
    assert (
        "runs/example/zero-s3/adapter" in stages["evaluate"]["deps"]
        and "runs/example/untrained/evaluation.parquet" in stages["evaluate"]["outs"]
    )
    assert stages["screen"]["outs"] == [f"runs/example/{name.removeprefix('train-')}/health.json" for name in trained]
    assert [path for stage in stages.values() for path in stage["deps"] if path.endswith("attempts.jsonl")] == []


def test_nothing_but_its_card_and_inputs_reruns_training(files, spec):
    """No train stage depends on a file of analysis or publishing, on the page's words or on places in the spec."""
    stages = YAML(typ="safe").load(files(spec).files["runs/example/dvc.yaml"])["stages"]
    for name, found in stages.items():
        if name.startswith("train-"):
            assert not [path for path in found["deps"] if "analysis" in path or "page" in path or "origins" in path]


def test_the_top_level_brings_everything_up_to_date(files, spec):
    stages = YAML(typ="safe").load(files(spec).files["dvc.yaml"])["stages"]
    assert list(stages) == ["site", "complete"]
    assert {"site", "stages/publish/templates", "runs/example/page"} <= set(stages["site"]["deps"])
    assert stages["site"]["outs"] == [{"build/site": {"cache": False}}]
    assert stages["complete"]["deps"][0] == "build/site" and len(stages["complete"]["deps"]) == 7


def test_dvc_watches_all_code_of_the_site_that_no_page_card_covers():
    """The site stage has no card, so a module that is missing here leaves an old site in place."""
    code = CodeTree(Path(__file__).parents[2])
    of_site, of_page = (code.files(f"stages.publish.{name}") for name in ("site", "page"))
    assert "stages/publish/home.py" in of_site - of_page
    assert of_site - of_page <= {path.as_posix() for path in SITE_CODE}


def test_prose_is_a_dependency_of_the_page_when_it_exists(files, spec, work):
    (work / "specs/example.md").write_text("words\n")
    stages = YAML(typ="safe").load(files(spec).files["runs/example/dvc.yaml"])["stages"]
    assert "specs/example.md" in stages["page"]["deps"]


def test_no_evaluation_no_stage(files, spec):
    text = spec[: spec.index("evaluation:\n  scores")] + spec[spec.index("profiles:") :]
    stages = YAML(typ="safe").load(files(text).files["runs/example/dvc.yaml"])["stages"]
    assert "evaluate" not in stages and not [path for path in stages["conclude"]["deps"] if "evaluation" in path]


def test_dvc_reads_the_pipelines(files, spec, work):
    """DVC itself loads what was written, and finds every stage."""
    made = files(spec)
    for path, text in {**made.files, **made.once}.items():
        (work / path).parent.mkdir(parents=True, exist_ok=True)
        (work / path).write_text(text)
    (work / "site").mkdir()
    dvc = [sys.executable, "-m", "dvc"]
    subprocess.run(["git", "init", "-q"], cwd=work, check=True)
    subprocess.run([*dvc, "init", "-q"], cwd=work, check=True)
    listing = [*dvc, "stage", "list", "--all", "--name-only"]
    listed = subprocess.run(listing, cwd=work, check=True, capture_output=True, text=True).stdout.split()
    assert len(listed) == 2 + 1 + 12
    assert "runs/example/dvc.yaml:train-shaped-s1" in listed and "site" in listed and "runs/_models/tiny/dvc.yaml:pretrain" in listed
