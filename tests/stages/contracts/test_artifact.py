import os

import pytest

from stages.contracts.artifact import ArtifactError, load_json, read, write
from stages.contracts.files import file_digest, write_text
from stages.contracts.finding import Finding, Findings
from stages.contracts.retries import Retry


def test_a_written_artifact_reads_back_and_names_its_schema(tmp_path):
    path = tmp_path / "retry.json"
    write(path, Retry(after="shaped-s1-a2-0f3c"))
    assert path.read_text() == '{\n  "after": "shaped-s1-a2-0f3c",\n  "schema": "octavo.retry/1"\n}\n'
    assert read(Retry, path) == Retry(after="shaped-s1-a2-0f3c")


def test_a_number_that_cannot_be_written_leaves_the_old_file(tmp_path):
    path = tmp_path / "findings.json"
    path.write_text("old")
    bad = Finding.model_construct(id="a", value=float("nan"))
    findings = Findings.model_construct(card_id="c", experiment="e", claims_tested=0, findings=(bad,), verdicts=())
    with pytest.raises(ValueError):
        write(path, findings)
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "not JSON"),
        ("[1]", "schema is None"),
        ('{"schema": "octavo.retry/9"}', "schema is 'octavo.retry/9', expected 'octavo.retry/1'"),
        ('{"schema": "octavo.retry/1", "befor": 1}', "befor: Extra inputs"),
        ('{"schema": "octavo.retry/1", "after": 3}', "after: Input should be a valid string"),
    ],
)
def test_a_broken_artifact_is_refused_with_place_why_and_fix(tmp_path, text, part):
    path = tmp_path / "retry.json"
    path.write_text(text)
    with pytest.raises(ArtifactError) as caught:
        read(Retry, path)
    assert part in str(caught.value)
    assert str(path) in str(caught.value) and "why:" in str(caught.value) and "fix:" in str(caught.value)


def test_json_is_strict(tmp_path):
    path = tmp_path / "card.json"
    for text in ('{"loss": NaN}', '{"loss": -Infinity}', '{"loss": 1e400}', '{"loss": "\\ud800"}', "[" * 100_000):
        path.write_text(text)
        with pytest.raises(ArtifactError, match="not JSON"):
            load_json(path)


def test_a_failed_write_leaves_the_old_file_and_no_rest(tmp_path, monkeypatch):
    path = tmp_path / "card.json"
    write_text(path, "old\n")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_text(path, "new\n")
    assert path.read_text() == "old\n"
    assert [entry.name for entry in tmp_path.iterdir()] == ["card.json"]


def test_the_digest_of_a_folder_depends_on_names_and_content(tmp_path):
    for folder, name, text in (("a", "x", "1"), ("b", "x", "1"), ("c", "y", "1"), ("d", "x", "2")):
        write_text(tmp_path / folder / name, text)
    digests = [file_digest(tmp_path / folder) for folder in "abcd"]
    assert digests[0] == digests[1]
    assert len(set(digests)) == 3
