"""Ledger, outcome, tables and lineage of one experiment must agree."""

import pyarrow.parquet as pq
from example_experiment import build

from stages.contracts.artifact import read, write
from stages.contracts.attempt import Outcome
from stages.contracts.layout import ExperimentFolder
from stages.publish.consistency import contradictions
from stages.publish.page import page


def contradicted(folder):
    return [
        (difference.path.removeprefix("runs/quickstart/"), difference.cell) for difference in contradictions(ExperimentFolder(folder))[0]
    ]


def test_an_experiment_without_contradictions(project):
    folder = build(project)
    page(folder)
    differences, looked = contradictions(ExperimentFolder(folder))
    assert differences == [] and looked["runs"] == 12 and looked["files of the lineage"] > 20


def test_an_outcome_of_another_card(project):
    folder = build(project)
    outcome = read(Outcome, folder / "zero-s1/outcome.json")
    write(folder / "zero-s1/outcome.json", outcome.model_copy(update={"card_id": "0" * 16}))
    assert ("zero-s1/train.card.json", "card") in contradicted(folder)


def test_a_ledger_that_says_something_else(project):
    folder = build(project)
    ledger = folder / "zero-s1/attempts.jsonl"
    text = ledger.read_text()
    ledger.write_text(text.replace('"last_step":60', '"last_step":59').replace('"last_step": 60', '"last_step": 59'))
    assert contradicted(folder) == [("zero-s1/attempts.jsonl", "zero-s1-1.last_step")]
    ledger.write_text(text.splitlines()[0] + "\n")
    assert contradicted(folder) == [("zero-s1/attempts.jsonl", "zero-s1-1")]
    ledger.write_text("")
    assert contradicted(folder) == [("zero-s1/attempts.jsonl", "zero-s1-1")]


def test_a_history_of_another_attempt(project):
    folder = build(project)
    history = folder / "zero-s1/history.parquet"
    table = pq.read_table(history)
    metadata = {**(table.schema.metadata or {}), b"octavo.attempt": b"zero-s1-9"}
    pq.write_table(table.replace_schema_metadata(metadata), history)
    assert contradicted(folder) == [("zero-s1/history.parquet", "octavo.attempt")]
    history.write_bytes(b"no table")
    assert contradicted(folder) == [("zero-s1/history.parquet", "")]


def test_files_that_are_not_those_the_page_was_written_from(project):
    folder = build(project)
    page(folder)
    health = folder / "shaped-s1/health.json"
    health.write_text(health.read_text() + "\n")
    assert contradicted(folder) == [("shaped-s1/health.json", "")]


def test_a_broken_file_is_told_and_no_traceback(project):
    folder = build(project)
    (folder / "zero-s1/outcome.json").write_text("{")
    assert contradicted(folder) == [("zero-s1/outcome.json", "")]
