"""`octavo export crate`: what the public validator says of it, and what it tells of an attempt."""

import json
import zipfile

import pytest
from crate_validator import problems

pytestmark = pytest.mark.e2e
PROFILE = "provenance-run-crate-0.5"
"""It holds those of the Workflow and Process Run Crate, the Workflow RO-Crate and RO-Crate 1.1."""


@pytest.fixture(scope="module")
def crate(built, tmp_path_factory):
    target = tmp_path_factory.mktemp("crate") / "small"
    assert "ro-crate-metadata.json" in built.octavo("export", "crate", "small", "-o", str(target))
    return target


def graph(crate):
    return {entity["@id"]: entity for entity in json.loads((crate / "ro-crate-metadata.json").read_text())["@graph"]}


def test_the_public_validator_finds_nothing_missing(crate, tmp_path):
    assert problems(crate, PROFILE, tmp_path / "cache") == []


def test_the_validator_would_have_found_something(crate, tmp_path):
    """Without the engine's action no step is organized, and a tool that nothing ran is none."""
    path = crate / "ro-crate-metadata.json"
    text = path.read_text()
    content = json.loads(text)
    for entity in content["@graph"]:
        if entity["@type"] in ("OrganizeAction", "CreateAction"):
            entity.pop("instrument")
    try:
        path.write_text(json.dumps(content))
        assert any("instrument" in problem for problem in problems(crate, PROFILE, tmp_path / "cache"))
    finally:
        path.write_text(text)


def test_every_attempt_is_an_action_with_its_times_inputs_and_results(built, crate):
    entities = graph(crate)
    for name in built.runs():
        attempt = built.attempts(name)[-1]
        action = entities[f"#attempt-{attempt.started.attempt}"]
        assert action["startTime"] == attempt.started.at and action["endTime"] == attempt.ended.at
        assert action["actionStatus"] == "http://schema.org/CompletedActionStatus"
        assert {"@id": f"runs/small/{name}/history.parquet"} in action["result"]
        assert {"@id": f"runs/small/{name}/train.card.json"} in action["object"]
        assert {"@id": "data/quickstart/train.jsonl"} in action["object"]
    findings = entities["runs/small/analysis/findings.json"]
    assert len(findings["sha256"]) == 64
    assert (crate / "runs/small/analysis/findings.json").read_bytes() == built.experiment.findings.read_bytes()
    assert {"@id": "runs/small/analysis/findings.json"} in entities["#run"]["result"]


def test_an_archive_and_a_place_that_is_taken(built, crate, tmp_path):
    target = tmp_path / "small.zip"
    built.octavo("export", "crate", "small", "-o", str(target))
    assert "ro-crate-metadata.json" in zipfile.ZipFile(target).namelist()
    output = built.octavo("export", "crate", "small", "-o", str(target), ok=False)
    assert f"E498 {target} exists" in output and "small-again.zip" in output
    assert "E498" in built.octavo("export", "crate", "small", "-o", "runs/small/crate", ok=False)
    assert "E321" in built.octavo("export", "crate", "smal", "-o", str(tmp_path / "other"), ok=False)
