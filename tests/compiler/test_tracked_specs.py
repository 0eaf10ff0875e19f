"""`tracking` of a spec and of specs/pipeline.yaml: a file that train reads, a stage after the page, and nothing that retrains."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from compiler.problems import Rejected

FILE = "runs/example/tracking.json"
OWN = "tracking: {wandb: {project: provers, tags: [mine, example]}}\n"
SHARED = "- tracking: {wandb: {entity: team, project: all}}\n- example\n"


def test_it_changes_no_card_and_a_stage_sends_verdicts(files, spec, work):
    plain, made = files(spec).files, files(f"{spec}{OWN}").files
    assert FILE not in plain and "wandb_results" not in plain["runs/example/dvc.yaml"]
    assert {path for path, text in made.items() if plain.get(path) != text} == {FILE, "runs/example/dvc.yaml", "dvc.yaml"}
    wandb = json.loads(made[FILE])["wandb"]
    assert (wandb["project"], wandb["tags"]) == ("provers", ["example", "mine"]), "the spec's tags first, each once"
    assert wandb["notes"] == "Does the shaped reward raise the share of right expressions?"
    stages = made["runs/example/dvc.yaml"].split("\n  ")
    assert "  cmd: python -m stages.train.wandb_results runs/example" in stages
    assert "    - runs/example/wandb_results.json" in made["dvc.yaml"], "dvc repro of the whole project sends them too"
    Path(FILE).parent.mkdir(parents=True)
    Path(FILE).write_text(made[FILE])
    assert json.loads(files(spec).files[FILE]) == {"schema": "octavo.tracking/1"}, "what is taken out does not go on"


def test_pipeline_says_it_for_all_and_a_spec_for_itself(files, spec, work):
    Path("specs/pipeline.yaml").write_text(SHARED)
    wandb = json.loads(files(spec).files[FILE])["wandb"]
    assert (wandb["entity"], wandb["project"]) == ("team", "all")
    wandb = json.loads(files(f"{spec}{OWN}").files[FILE])["wandb"]
    assert (wandb["entity"], wandb["project"]) == ("team", "provers")


@pytest.mark.parametrize(
    ("spec_text", "pipeline", "code"),
    [
        ("tracking: {wandb: {project: a/b}}\n", "- example\n", "E205"),
        ("tracking: {wandb: {api_key: x}}\n", "- example\n", "E201"),
        ("", "- tracking: {wandb: {porject: x}}\n- example\n", "E201"),
        ("", f"- tracking: {{wandb: {{notes: hf_{'a' * 34}}}}}\n- example\n", "E318"),
        (f"tracking: {{wandb: {{notes: hf_{'a' * 34}}}}}\n", "- example\n", "E318"),
    ],
)
def test_what_is_refused(files, spec, work, spec_text, pipeline, code):
    Path("specs/pipeline.yaml").write_text(pipeline)
    with pytest.raises(Rejected) as caught:
        files(f"{spec}{spec_text}")
    assert code in [problem.code for problem in caught.value.diagnostics]
    assert all("a" * 34 not in problem.what for problem in caught.value.diagnostics)
