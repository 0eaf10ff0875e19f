import pytest

from stages.contracts.diagnostic import StageError
from stages.contracts.files import file_digest
from stages.contracts.model import DatasetRef
from stages.train.data import read_rows


def card(path, text, **fields):
    path.write_text(text)
    return DatasetRef(path=str(path), sha256=file_digest(path), **fields)


def test_rows_are_read_in_order_up_to_the_limit(tmp_path):
    text = '{"id": "a", "prompt": "1"}\n\n{"id": "b", "prompt": "2"}\n{"id": "c", "prompt": "3"}\n'
    assert [row["id"] for row in read_rows(card(tmp_path / "d.jsonl", text, rows=2))] == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "code", "part"),
    [
        ('{"id": "a", "prompt": "1"}\n{"id": ', "S202", "d.jsonl:2: not JSON"),
        ('{"id": "a"}\n', "S202", "d.jsonl:1: the row has no text `prompt`"),
        ('{"id": 1, "prompt": "1"}\n', "S202", "d.jsonl:1: no text"),
        ('{"id": "a", "prompt": "1"}\n{"id": "a", "prompt": "2"}\n', "S202", "d.jsonl:2: second row with id 'a'"),
    ],
)
def test_a_broken_row_is_named(tmp_path, text, code, part):
    with pytest.raises(StageError) as caught:
        read_rows(card(tmp_path / "d.jsonl", text))
    assert caught.value.code == code and part in caught.value.what


def test_data_that_changed_after_compiling_is_refused(tmp_path):
    data = card(tmp_path / "d.jsonl", '{"id": "a", "prompt": "1"}\n')
    (tmp_path / "d.jsonl").write_text('{"id": "a", "prompt": "2"}\n')
    with pytest.raises(StageError, match="has changed since the card was compiled"):
        read_rows(data)
    (tmp_path / "d.jsonl").unlink()
    with pytest.raises(StageError, match="is missing"):
        read_rows(data)
