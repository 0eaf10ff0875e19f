"""The JSON Schema of specs is valid, accepts every spec of the repository, refuses what people get wrong, and is what editors read."""

import copy
import json
from pathlib import Path

import pytest
import spec_reference
from jsonschema import Draft202012Validator
from ruamel.yaml import YAML

from compiler.commands.schema import EXAMPLES, schema
from stages.contracts.plugin import GATES, kinds

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads(schema())
TRAINED = SCHEMA["else"]["else"]
"""Of a spec whose runs octavo trains."""
Draft202012Validator.check_schema(SCHEMA)
VALIDATOR = Draft202012Validator(SCHEMA)
SPECS = [
    *(path for path in sorted((ROOT / "specs").glob("*.yaml")) if path.name not in ("pipeline.yaml", "revisions.lock.yaml")),
    *sorted((ROOT / "tests/golden").glob("*/spec.yaml")),
    ROOT / "compiler/templates/spec.yaml",
    ROOT / "tests/compiler/project/specs/example.yaml",
    ROOT / "tests/e2e/imported.yaml",
    ROOT / "tests/e2e/summaries.yaml",
    ROOT / "tests/e2e/program/spec.yaml",
]


def load(path):
    return YAML(typ="safe").load(path.read_text(encoding="utf-8"))


def problems(spec):
    return [f"{error.json_path}: {error.message}" for error in VALIDATOR.iter_errors(spec)]


@pytest.fixture
def quickstart():
    return load(ROOT / "specs/quickstart.yaml")


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_specs_of_this_repository_hold_and_name_the_schema(path):
    assert problems(load(path)) == []
    if path.parent == ROOT / "specs":
        first = path.read_text(encoding="utf-8").splitlines()[0]
        assert first == "# yaml-language-server: $schema=../site/docs/reference/spec.schema.json"


def test_the_committed_files_are_current(update_golden):
    if update_golden:
        spec_reference.write()
    fix = "run python tests/compiler/spec_reference.py"
    assert spec_reference.SCHEMA.read_text(encoding="utf-8") == schema(), fix
    assert spec_reference.PAGE.read_text(encoding="utf-8") == spec_reference.generated(), fix


def put(spec, path, value):
    *parents, last = path
    for key in parents:
        spec = spec[key]
    spec[last] = value


MISTAKES = {
    "misspelt key": (["titel"], "x"),
    "misspelt key deep inside": (["model", "adapter", "lora_alfa"], 8),
    "misspelt trainer key": (["train", "learning_rates"], 1e-3),
    "misspelt trainer key of a condition": (["conditions", "zero", "train"], {"learning_rates": 1e-3}),
    "text for a number": (["train", "max_steps"], "sixty"),
    "out of range": (["train", "num_generations"], 1),
    "not a known word": (["conditions", "zero", "role"], "nullcontrol"),
    "a kind that is not there": (["rewards", "shaped", "gates", 0, "format", "kind"], "formats"),
    "a setting of another gate": (["rewards", "shaped", "gates", 0, "format", "column"], "answer"),
    "two gates in one entry": (["rewards", "shaped", "gates", 0, "tests"], {"kind": "exact_match", "column": "answer"}),
    "an example without its reward": (["rewards", "shaped", "examples", 0], {"completion": "x", "row": "example-1"}),
    "a unit that is none": (["rewards", "shaped", "gates", 1, "tests", "timeout"], "1 fortnight"),
    "a share above one": (["preflight", "truncated"], {"below": 30}),
    "both forms of a reward": (["conditions", "zero", "reward"], {"constant": 0.0, "invert": "shaped"}),
    "a claim without its sentence": (["claims", 0], {"id": "a", "metric": "reward", "condition": "zero", "above": 0}),
    "a name with capitals": (["conditions", "Zero"], {"reward": "shaped", "role": "control"}),
    "profiles in a profile": (["profiles", "smoke", "profiles"], {}),
    "a misspelt key of a profile": (["profiles", "smoke", "trian"], {}),
    "data with a split of another type": (["data", "train", "split"], 3),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_refused(quickstart, mistake):
    path, value = MISTAKES[mistake]
    put(quickstart, path, value)
    assert len(problems(quickstart)) >= 1


def test_a_wrong_kind_is_named_at_its_place_with_all_kinds(quickstart):
    quickstart["rewards"]["shaped"]["gates"][0]["format"]["kind"] = "formats"
    deepest = max(VALIDATOR.iter_errors(quickstart), key=lambda error: len(error.absolute_path))
    assert deepest.json_path == "$.rewards.shaped.gates[0].format.kind"
    assert deepest.validator == "enum" and deepest.validator_value == kinds(GATES)


def test_what_a_shared_block_or_a_parent_says_need_not_be_said_again(quickstart):
    for key in ("title", "question", "model", "data", "train", "seeds", "conditions"):
        alone = {name: value for name, value in quickstart.items() if name != key}
        assert any(f"'{key}' is a required property" in problem for problem in problems(alone))
    assert problems({"title": "x", "use": ["base"], "model": {"adapter": {"r": 8}}, "data": {"evaluation": {"rows": 8}}}) == []
    assert problems({"title": "x", "parent": "quickstart", "changes": {"train.beta": 0.1}, "hypothesis": "less drift"}) == []
    assert problems({"parent": "quickstart", "changes": {}, "hypothesis": "y"}) == ["$: 'title' is a required property"]


FINE = {
    "units": (["rewards", "shaped", "gates", 1, "tests", "timeout"], "500ms"),
    "plain seconds": (["rewards", "shaped", "gates", 1, "tests", "timeout"], 2),
    "percent": (["preflight", "truncated"], {"below": "30%"}),
    "sizes": (["resources", "gpu_memory"], "30GB"),
    "a layer takes a key away": (["profiles", "smoke", "train"], {"beta": None, "max_steps": 2}),
    "a profile changes part of a part": (["profiles", "smoke", "data"], {"train": {"rows": 8}}),
    "a profile changes part of a condition": (["profiles", "smoke", "conditions"], {"zero": {"train": {"beta": 0.1}}}),
    "a condition changes part of the adapter": (["conditions", "zero", "model"], {"adapter": {"r": 4}}),
}


@pytest.mark.parametrize("what", FINE)
def test_what_octavo_accepts_is_accepted(quickstart, what):
    path, value = FINE[what]
    put(quickstart, path, value)
    assert problems(quickstart) == []


def test_hover_shows_defaults_and_units():
    definitions = SCHEMA["$defs"]
    assert definitions["TrainGrpo"]["properties"]["epsilon"]["markdownDescription"] == "Clip range of the policy ratio.\n\nDefault: `0.2`"
    memory = definitions["Resources"]["properties"]["gpu_memory"]["markdownDescription"]
    assert memory.endswith("\n\nUnit: bytes, written `512MB` or `30GB`")
    assert definitions["PreflightSettings"]["properties"]["truncated"]["markdownDescription"].endswith("Default: `{below: 0.3}`")
    timeout = next(form for form in definitions["Gate"]["oneOf"] if form["title"] == "python_tests")["properties"]["timeout"]
    assert "Unit: seconds, written `60s`, `500ms` or `2m`" in timeout["markdownDescription"]


def test_every_key_says_what_it_means_and_takes_its_default():
    for owner, definition in [("Spec", TRAINED), *SCHEMA["$defs"].items()]:
        for form in (definition, *definition.get("oneOf", [])):
            for key, value in form.get("properties", {}).items():
                assert value["markdownDescription"].startswith(value["description"]) and len(value["description"]) >= 5, f"{owner}.{key}"
                assert "title" not in value and "unit" not in value, f"{owner}.{key}"
                assert "default" not in value or holds(value, value["default"]), f"{owner}.{key}"


def holds(part, value):
    return not list(Draft202012Validator({**copy.deepcopy(part), "$defs": SCHEMA["$defs"]}).iter_errors(value))


def test_examples_are_of_keys_that_exist_and_hold():
    for owner, examples in load(EXAMPLES).items():
        section = TRAINED if owner == "Spec" else SCHEMA["$defs"][owner.partition(".")[0]]
        if owner.startswith("Gate."):
            section = next(form for form in section["oneOf"] if form["title"] == owner.removeprefix("Gate."))
        for key, values in examples.items():
            value = section["properties"][key]
            assert value["examples"] == values
            assert [example for example in values if not holds(value, example)] == [], f"{owner}.{key}"


def test_definitions_are_all_used_and_all_there():
    def references(part):
        if isinstance(part, dict):
            yield from [part["$ref"]] if isinstance(part.get("$ref"), str) else []
            for inner in part.values():
                yield from references(inner)
        elif isinstance(part, list):
            for inner in part:
                yield from references(inner)

    assert {name.removeprefix("#/$defs/") for name in references(SCHEMA)} == set(SCHEMA["$defs"])
