import pyarrow.parquet as pq

from stages.contracts.history import HISTORY_COLUMNS
from stages.train.recorder import Journal, cell, write_completions, write_history


def step(journal, number, attempt="a1", **cells):
    journal.step(attempt=attempt, step=number, tokens=10 * number, seconds=1.0, cells=cells)


def test_value_nan_null_and_absent_stay_four_things(tmp_path):
    journal = Journal(tmp_path)
    step(journal, 1, reward=cell(0.5), loss=cell(float("nan")), grad_norm=cell(float("inf")), kl=cell(None))
    write_history(tmp_path / "history.parquet", journal.history_rows(), card_id="c", attempt="a1")
    table = pq.read_table(tmp_path / "history.parquet")
    assert table.column_names == list(HISTORY_COLUMNS)
    states = {row["metric"]: (row["value"], row["state"]) for row in table.to_pylist()}
    assert states == {"reward": (0.5, "value"), "loss": (None, "nonfinite"), "grad_norm": (float("inf"), "nonfinite"), "kl": (None, "null")}
    assert table.schema.metadata[b"octavo.card_id"] == b"c"


def test_a_torn_line_loses_only_itself(tmp_path):
    journal = Journal(tmp_path)
    step(journal, 1, reward=0.1)
    with journal.history.open("a") as stream:
        stream.write('{"attempt": "a1", "step": 2, "cel')
    step(Journal(tmp_path), 2, attempt="a2", reward=0.2)
    assert [(row["step"], row["attempt"], row["value"]) for row in journal.history_rows()] == [(1, "a1", 0.1), (2, "a2", 0.2)]
    step(journal, 2, attempt="a3", reward=0.3)
    assert [row["attempt"] for row in journal.history_rows()] == ["a1", "a2", "a3"], "both attempts of a step are kept"
    assert [journal.last_step(attempt) for attempt in ("a1", "a2", "a3", "a4")] == [1, 2, 2, 0]


def test_hostile_text_survives(tmp_path):
    journal = Journal(tmp_path)
    text = "<script>|{{ 7*7 }}\u202e\x00\ud800\n"
    row = {"prompt_id": "p", "group": 0, "text": text, "reward": None, "tokens": 3, "truncated": False}
    journal.batch(attempt="a1", step=1, rows=[{**row, "gate.tests.status": "unknown", "gate.tests.score": None, "gate.tests.reason": "x"}])
    write_completions(tmp_path / "c.parquet", journal.completion_rows(), ["tests"], card_id="c", attempt="a1")
    stored = pq.read_table(tmp_path / "c.parquet").to_pylist()[0]
    assert stored["text"].startswith("<script>|{{ 7*7 }}\u202e\x00") and stored["text"].endswith("\n")
    assert stored["reward"] is None and stored["gate.tests.status"] == "unknown"


def test_skipped_steps_in_a_row_are_remembered_where_they_count(tmp_path):
    """Attempt a1 skipped steps 2-4 and was killed; a2 goes on from step 3, whose step 4 was well."""
    journal = Journal(tmp_path)
    for number, in_a_row in enumerate((0, 1, 2, 3), start=1):
        journal.step(attempt="a1", step=number, tokens=None, seconds=1.0 * number, cells={"grad_norm": 0.0}, in_a_row=in_a_row)
    assert [journal.in_a_row(until) for until in range(5)] == [0, 0, 1, 2, 3]
    assert not journal.has_gradients()
    journal.step(attempt="a2", step=4, tokens=None, seconds=0.0, cells={"grad_norm": 0.5})
    assert (journal.in_a_row(3), journal.in_a_row(4)) == (2, 0) and journal.has_gradients()
