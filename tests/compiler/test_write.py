"""Files of a compile: only what differs is written, each file whole, and a place that cannot be written is said."""

import os
from pathlib import Path

import pytest

from compiler.build.files import write
from compiler.problems import Rejected


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_only_what_differs_is_written():
    write({"a/one": "1\n", "a/two": "2\n"}, {})
    stamps = {name: os.stat(name).st_mtime_ns for name in ("a/one", "a/two")}
    written = write({"a/one": "1\n", "a/two": "changed\n", "b/three": "3\n"}, {})
    assert (written.created, written.changed, written.unchanged) == (("b/three",), ("a/two",), 1)
    assert os.stat("a/one").st_mtime_ns == stamps["a/one"] and Path("a/two").read_text() == "changed\n"
    assert sorted(path.name for path in Path().rglob("*") if path.is_file()) == ["one", "three", "two"]


def test_files_of_stages_are_written_once():
    assert write({}, {"retry": "first\n"}).created == ("retry",)
    Path("retry").write_text("of a stage\n")
    assert write({}, {"retry": "first\n"}).differing == () and Path("retry").read_text() == "of a stage\n"


@pytest.mark.parametrize("path", ["folder", "file/below", "/proc/octavo/file"])
def test_a_place_that_cannot_be_written(path):
    Path("folder/inside").mkdir(parents=True)
    Path("file").write_text("x")
    with pytest.raises(Rejected) as caught:
        write({path: "x"}, {})
    (problem,) = caught.value.diagnostics
    assert problem.code == "E401" and problem.what.startswith("cannot write ") and path.strip("/").partition("/")[0] in problem.what
    assert Path("file").read_text() == "x" and not list(Path().rglob("*.octavo-new"))
