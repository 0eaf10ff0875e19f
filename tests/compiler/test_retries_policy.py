"""`retries` becomes a file that stages read and nothing depends on."""

import json
from pathlib import Path

from compiler.build.inputs import Inputs
from compiler.build.pipeline import named
from compiler.compile import compile_all, project

POLICY = "runs/example/retries.json"
ALL = (
    "retries: {attempts: 6, out_of_memory: {microbatch: halve}, nonfinite: {resume: last_finite_checkpoint},"
    " verifier: {restart_verifier: true}, preempted: {resume: last_checkpoint}}\n"
)


def files(work, text):
    (work / "specs/example.yaml").write_text(text)
    return dict(project(compile_all([named("example")], Inputs()), with_site=True).files)


def test_the_policy_changes_no_card_and_no_pipeline(work, spec):
    without, with_it, other = files(work, spec), files(work, spec + ALL), files(work, spec + "retries: {attempts: 2}\n")
    assert set(with_it) - set(without) == {POLICY} and set(other) == set(with_it)
    origins = "runs/example/origins.json"
    assert all(with_it[path] == text for path, text in without.items() if path != origins)
    assert json.loads(with_it[POLICY]) == {
        "schema": "octavo.retries/1",
        "attempts": 6,
        "out_of_memory": {"microbatch": "halve"},
        "nonfinite": {"resume": "last_finite_checkpoint"},
        "verifier": {"restart_verifier": True},
        "preempted": {"resume": "last_checkpoint"},
    }
    assert json.loads(other[POLICY])["attempts"] == 2 and "verifier" not in json.loads(other[POLICY])
    assert "retries.json" not in with_it["runs/example/dvc.yaml"]


def test_a_policy_that_is_taken_out_does_not_go_on(work, spec):
    Path(POLICY).parent.mkdir(parents=True)
    Path(POLICY).write_text(files(work, spec + ALL)[POLICY])
    assert json.loads(files(work, spec)[POLICY])["attempts"] == 1
