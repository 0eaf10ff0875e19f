"""A lock against the disk: every line of it."""

import hashlib
from pathlib import Path

import pytest

from compiler.build.graph import Pipeline, Stage
from compiler.commands.verify_lock import against_locks, due
from compiler.lock.files import Cache, Files, folder_md5

CARD, RETRY, HISTORY, ADAPTER = (f"runs/a/x/{name}" for name in ("card.json", "retry.json", "h.parquet", "ad"))
PIPELINE = Pipeline(
    Path("runs/a/dvc.yaml"),
    "specs/a.yaml",
    (
        Stage("train-x", "stages.t", ("runs/a/x",), (CARD, RETRY), (HISTORY, ADAPTER), ""),
        Stage("page", "stages.p", ("runs/a",), (HISTORY,), ("runs/a/page.md",), ""),
        Stage("complete", "stages.c", ("runs/a",), ("runs/a/page.md",), (), ""),  # `dvc repro` of the whole project never runs it
    ),
)


def md5(text):
    return hashlib.md5(text.encode()).hexdigest()


FOLDER = folder_md5({"one.bin": md5("one"), "sub/two.bin": md5("two")})


def entry(path, text):
    digest, size, files = (FOLDER, 6, "\n      nfiles: 2") if path == ADAPTER else (md5(text), len(text), "")
    return f"    - path: {path}\n      hash: md5\n      md5: {digest}\n      size: {size}{files}\n"


LOCK = f"""\
schema: '2.0'
stages:
  train-x:
    cmd: python -m stages.t runs/a/x
    deps:
{entry(CARD, "card")}{entry(RETRY, "first")}    outs:
{entry(ADAPTER, "")}{entry(HISTORY, "history")}  page:
    cmd: python -m stages.p runs/a
    deps:
{entry(HISTORY, "history")}    outs:
{entry("runs/a/page.md", "page")}"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files = {"x/card.json": "card", "x/retry.json": "first", "x/ad/one.bin": "one", "x/ad/sub/two.bin": "two", "x/h.parquet": "history"}
    for name, text in {**files, "page.md": "page", "dvc.lock": LOCK}.items():
        path = tmp_path / "runs/a" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "runs/a"


def verified():
    """(line, what, expected, there) of each difference, and notes."""
    report = against_locks([PIPELINE], Files(Path(), {}), Cache(Path()))
    return [(row.line, row.what, row.expected, row.found) for row in report.differences], report.notes


def whats():
    return [what for _, what, *_ in verified()[0]]


def test_a_project_as_its_lock_says(project):
    assert verified() == ([], [])


def test_any_changed_or_missing_line_of_the_lock_is_reported(project):
    lines = LOCK.splitlines()
    for number, line in enumerate(lines):
        last = line.rstrip("'")[-1]
        at = line.rindex(last)
        changed = f"{line[:at]}{'7' if last != '7' else '8'}{line[at + 1 :]}" if last != ":" else f"{line[:at]}x:"
        for other in ([changed], []):
            (project / "dvc.lock").write_text("\n".join([*lines[:number], *other, *lines[number + 1 :]]) + "\n")
            differences, notes = verified()
            assert differences or notes == ["runs/a/x/retry.json: the run failed and is due again"], (line, other)
            assert all(place is None or 1 <= place <= len(lines) for place, *_ in differences)


def test_a_wrong_hash_in_the_lock_is_known_by_the_other_records(project):
    (project / "dvc.lock").write_text(LOCK.replace(md5("history"), "a" * 32, 1))
    what = "runs/a/x/h.parquet is not the file that train-x recorded"
    assert verified()[0] == [(22, what, f"md5 {'a' * 32}", f"md5 {md5('history')}")]
    difference = against_locks([PIPELINE], Files(Path(), {}), Cache(Path())).differences[0]
    assert difference.fix == "1 other records name the file that is here: git checkout runs/a/dvc.lock" and difference.column == 12


def test_a_wrong_size_and_number_of_files(project):
    (project / "dvc.lock").write_text(LOCK.replace("size: 6", "size: 60").replace("nfiles: 2", "nfiles: 3"))
    assert verified()[0] == [(18, "size of runs/a/x/ad", "6", "60"), (19, "nfiles of runs/a/x/ad", "2", "3")]


def test_a_changed_file_is_named_once_with_the_stages_that_recorded_it(project):
    (project / "x/h.parquet").write_text("histori")
    what = "runs/a/x/h.parquet is not the file that train-x, page recorded"
    assert verified()[0] == [(22, what, f"md5 {md5('history')}", f"md5 {md5('histori')}")]


def test_a_byte_in_a_folder_is_named_by_the_file_when_the_cache_knows_the_folder(project):
    (project / "x/ad/sub/two.bin").write_text("twO")
    assert whats() == ["runs/a/x/ad is not the file that train-x recorded"]
    record = Path(f".dvc/cache/files/md5/{FOLDER[:2]}/{FOLDER[2:]}")
    record.parent.mkdir(parents=True)
    record.write_text(f'[{{"md5": "{md5("one")}", "relpath": "one.bin"}}, {{"md5": "{md5("two")}", "relpath": "sub/two.bin"}}]')
    what = "runs/a/x/ad/sub/two.bin is not the file that train-x recorded"
    assert verified()[0] == [(17, what, f"md5 {md5('two')}", f"md5 {md5('twO')}")]


def test_missing_files_and_a_missing_lock(project):
    (project / "page.md").unlink()
    assert [(line, what) for line, what, *_ in verified()[0]] == [(32, "runs/a/page.md is missing")]
    (project / "dvc.lock").unlink()
    assert whats() == ["runs/a/dvc.yaml has never run: there is no lock"]
    (project / "dvc.lock").write_text("[")
    assert whats() == ["it is no dvc.lock as DVC writes it, from line 1"]


def test_notes(project):
    """A run that is due again, as long as it has not finished; a stage that the spec no longer has."""
    (project / "dvc.lock").write_text(LOCK + "  train-y:\n    cmd: python -m stages.t runs/a/y\n")
    assert verified() == ([], ["runs/a/dvc.lock:36: train-y is a stage that the spec no longer has"])
    (project / "dvc.lock").write_text(LOCK)
    (project / "x/retry.json").write_text("again")
    assert verified() == ([], ["runs/a/x/retry.json: the run failed and is due again"])
    (project / "x/outcome.json").write_text('{\n  "finished": true\n}\n')
    assert whats() == ["runs/a/x/retry.json is not the file that train-x recorded"]


def waiting(generated):
    """(code, stage, what, fix) of stages that are due, names of what follows, and what else the lock says."""
    files = Files(Path(), {})
    waits = due([PIPELINE], generated, files)
    rest = against_locks([PIPELINE], files, Cache(Path()), waits)
    stages = [(row.code, row.cell, row.what, row.fix) for row in waits.stages.values()]
    return stages, sorted(waits.following), [row.what for row in rest.differences]


def test_a_card_that_was_compiled_anew_makes_its_stage_due_and_nothing_else_is_said_of_it(project):
    (project / "x/card.json").write_text("another")
    what = "train-x is due: runs/a/x/card.json was compiled anew since it ran"
    assert waiting({"runs/a/x/card.json": "another"}) == (
        [("E410", "train-x", what, "dvc repro runs/a/dvc.yaml")],
        ["page", "train-x"],
        [],
    )


def test_a_card_that_was_changed_by_hand_makes_nothing_due(project):
    (project / "x/card.json").write_text("by hand")
    assert waiting({"runs/a/x/card.json": "card"}) == ([], [], ["runs/a/x/card.json is not the file that train-x recorded"])


def test_other_files_of_a_due_stage_are_held_against_the_lock_as_ever(project):
    (project / "x/card.json").write_text("another")
    (project / "x/h.parquet").write_text("histori")
    (project / "x/ad/one.bin").unlink()
    assert waiting({"runs/a/x/card.json": "another"})[2] == [
        "runs/a/x/h.parquet is not the file that train-x, page recorded",
        "runs/a/x/ad is not the file that train-x recorded",
    ]


def test_a_stage_that_never_ran_is_due_where_others_have_run(project):
    lock = LOCK[: LOCK.index("  page:")]
    (project / "dvc.lock").write_text(lock)
    assert waiting({}) == ([("E410", "page", "page is due: it has never run", "dvc repro runs/a/dvc.yaml")], ["page"], [])
    (project / "dvc.lock").unlink()
    assert waiting({}) == ([], [], ["runs/a/dvc.yaml has never run: there is no lock"])


def test_a_lock_of_many_stages_that_the_spec_no_longer_has(project):
    (project / "dvc.lock").write_text(LOCK + "".join(f"  y-{number}:\n    cmd: x\n" for number in range(1_012)))
    assert verified()[1][11:] == [
        "runs/a/dvc.lock:58: y-11 is a stage that the spec no longer has",
        "runs/a/dvc.lock: 1,000 more are stages that the spec no longer has",
    ]
