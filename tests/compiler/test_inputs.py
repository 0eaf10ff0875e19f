"""What lies beside a spec: data files, base models, pinned versions."""

import json

import pytest

from compiler.build.inputs import Inputs
from compiler.problems import Fault, Rejected


def rows(*entries: object) -> str:
    return "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in entries)


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (rows({"id": "a", "prompt": "x"}, {"id": "a", "prompt": "y"}), "line 2 of `data/x.jsonl` repeats the id `a`"),
        (rows({"id": "a"}, "", {"prompt": "x"}), "line 3 of `data/x.jsonl` has no text `id`"),
        (rows({"id": 7}), "line 1 of `data/x.jsonl` has no text `id`"),
        (rows("[1]"), "line 1 of `data/x.jsonl` is not a JSON object"),
        (rows('{"id": "a", "n": NaN}'), "line 1 of `data/x.jsonl` is not a JSON object"),
        (rows('{"id": "a", "prompt": "\\ud800"}'), "line 1 of `data/x.jsonl` is not a JSON object"),
        ("\xff", "line 1 of `data/x.jsonl` is not a JSON object"),
        ("[" * 100_000, "line 1 of `data/x.jsonl` is not a JSON object"),
        ("\n\n", "`data/x.jsonl` holds no rows"),
    ],
)
def test_broken_data(work, content, what):
    (work / "data/x.jsonl").write_bytes(content.encode("latin1"))
    with pytest.raises(Fault) as caught:
        Inputs().data("data/x.jsonl")
    assert caught.value.problem.what == what


@pytest.mark.parametrize("path", ["data/none.jsonl", "data", "constraints.txt/x"])
def test_data_that_cannot_be_read(work, path):
    with pytest.raises(Fault, match="cannot read"):
        Inputs().data(path)


def test_a_model_folder_is_pinned_by_its_content(work, compiled, spec):
    folder = work / "models/small"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text('{"max_position_embeddings": 48}')
    (folder / "model.safetensors").write_bytes(b"weights")
    text = spec.replace("base: octavo/tiny", "base: models/small")
    first = compiled(text).cards.train["shaped"].model
    assert (first.base, first.path) == ("models/small", "models/small") and len(first.revision) == 16
    (folder / "model.safetensors").write_bytes(b"other weights")
    assert compiled(text).cards.train["shaped"].model.revision != first.revision
    with pytest.raises(Rejected) as caught:
        compiled(text.replace("max_completion_length: 16", "max_completion_length: 48"))
    assert [problem.code for problem in caught.value.diagnostics] == ["E309"]


@pytest.mark.parametrize("content", ["", "[", '{"id": 1}'])
def test_a_folder_that_is_no_model(work, content):
    (work / "models/broken").mkdir(parents=True)
    if content:
        (work / "models/broken/config.json").write_text(content)
    if content.startswith("{"):
        assert Inputs().model("models/broken").max_positions is None
        return
    with pytest.raises(Fault, match="no model that transformers can load"):
        Inputs().model("models/broken")


@pytest.mark.parametrize("base", ["../models", "/etc", "octavo/../tiny", "octavo/", "no such"])
def test_models_outside_the_project(work, base):
    with pytest.raises(Fault, match="no base model"):
        Inputs().model(base)


def test_a_broken_model_spec_is_shown_at_its_place(work):
    (work / "specs/_models/tiny.yaml").write_text("corpus: {kind: expressions, rows: 0, faulty: 0.5, seed: 1}\npretrain: {max_step: 2}\n")
    with pytest.raises(Rejected) as caught:
        Inputs().model("octavo/tiny")
    assert [(problem.code, problem.place.file, problem.place.line) for problem in caught.value.diagnostics] == [
        ("E205", "specs/_models/tiny.yaml", 1),
        ("E201", "specs/_models/tiny.yaml", 2),
    ]


def test_every_setting_that_names_a_column_is_looked_for():
    """Descriptions say `Column`; the module says COLUMNS, and so the compiler looks whether the data have it."""
    from compiler.language.rewards import settings_of
    from stages.contracts.plugin import GATES, declared, kinds

    for kind in kinds(GATES):
        fields = settings_of(kind).model_fields
        described = {name for name, field in fields.items() if (field.description or "").startswith("Column")}
        assert described == set(declared(kind, "COLUMNS")), kind
