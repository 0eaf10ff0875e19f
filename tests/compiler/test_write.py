"""All or nothing: what a refused, interrupted or impossible write leaves on disk."""

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from compiler.build.write import SUFFIX, compare, write
from compiler.problems import Rejected

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def snapshot() -> dict[str, bytes | None]:
    return {path.as_posix(): path.read_bytes() if path.is_file() else None for path in Path().rglob("*")}


def test_only_what_differs_is_written():
    write({"a/one": "1\n", "a/two": "2\n"}, {})
    stamps = {name: os.stat(name).st_mtime_ns for name in ("a/one", "a/two")}
    found = write({"a/one": "1\n", "a/two": "changed\n", "b/three": "3\n"}, {})
    assert (found.created, found.changed, found.unchanged) == (("b/three",), ("a/two",), 1)
    assert os.stat("a/one").st_mtime_ns == stamps["a/one"]
    assert Path("a/two").read_text() == "changed\n" and Path("b/three").read_text() == "3\n"


def test_files_of_stages_are_written_once():
    write({}, {"run/retry.json": "first\n"})
    Path("run/retry.json").write_text("a stage was here\n")
    assert compare({}, {"run/retry.json": "first\n"}).differing == ()
    write({}, {"run/retry.json": "first\n"})
    assert Path("run/retry.json").read_text() == "a stage was here\n"


def test_a_link_to_itself_is_replaced():
    Path("a").mkdir()
    Path("a/one").symlink_to("one")
    assert compare({"a/one": "1\n"}, {}).differing == ("a/one",)
    write({"a/one": "1\n"}, {})
    assert Path("a/one").read_text() == "1\n" and not Path("a/one").is_symlink()


def test_what_cannot_be_read_is_not_replaced():
    """A link to what fails to be read by anybody, root included, stands for a file without the right to read it, or a failing disk."""
    write({"a/one": "1\n"}, {})
    Path("b").mkdir()
    Path("b/two").symlink_to("/proc/self/mem")
    assert compare({"b/two": "2\n"}, {}).changed == ("b/two",)
    with pytest.raises(Rejected) as caught:
        write({"a/one": "changed\n", "b/two": "2\n"}, {})
    (said,) = caught.value.diagnostics
    assert said.code == "E401" and said.what.startswith("cannot write b/two: what lies there cannot be read, so it is not replaced")
    assert Path("a/one").read_text() == "1\n" and Path("b/two").is_symlink() and not list(Path().rglob(f"*{SUFFIX}"))


def test_compare_writes_nothing():
    assert compare({"a/one": "1\n"}, {"b": "2\n"}).differing == ("a/one", "b")
    assert snapshot() == {}


@pytest.mark.parametrize("obstacle", ["file for a folder", "folder for a file"])
def test_an_obstacle_leaves_everything_as_it_was(obstacle):
    write({"a/one": "1\n"}, {})
    if obstacle == "file for a folder":
        Path("z").write_text("here\n")
    else:
        Path("z/last").mkdir(parents=True)
    before = snapshot()
    with pytest.raises(Rejected) as caught:
        write({"a/one": "changed\n", "b/c/new": "new\n", "z/last": "x\n"}, {})
    assert [found.code for found in caught.value.diagnostics] == ["E401"]
    assert "z" in caught.value.diagnostics[0].what
    assert snapshot() == before


def test_a_full_disk_leaves_everything_as_it_was():
    """A limit on file size stands for the full disk: the third file does not fit."""
    write({"a/one": "old\n"}, {})
    before = snapshot()
    code = (
        "from compiler.build.write import write\nfrom compiler.problems import Rejected\n"
        "try:\n    write({'a/one': 'new\\n', 'b/two': '2\\n', 'c/big': 'x' * 100_000}, {})\n"
        "except Rejected as error:\n    print(error.diagnostics[0].code, error.diagnostics[0].what)\n"
    )

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))

    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    said = subprocess.run([sys.executable, "-B", "-c", code], preexec_fn=limit, env=environment, capture_output=True, text=True, check=True)
    assert said.stdout.startswith("E401 cannot write")
    assert snapshot() == before


@pytest.mark.skipif(os.geteuid() == 0 and not Path("/proc/1").exists(), reason="needs a place nobody can write to")
def test_a_folder_that_cannot_be_written():
    with pytest.raises(Rejected) as caught:
        write({"/proc/octavo/file": "x"}, {})
    assert caught.value.diagnostics[0].code == "E401"


def test_no_temporary_file_stays():
    write({"a/one": "1\n", "a/two": "2\n"}, {"a/three": "3\n"})
    assert not list(Path().rglob(f"*{SUFFIX}"))
    assert oct(os.stat("a/one").st_mode & 0o777) == oct(0o666 & ~umask())


def test_a_new_folder_takes_nothing_from_a_compile_that_was_killed():
    """It was killed while it wrote beside its targets: nothing of it is in place, and nothing of it gets there later."""
    Path(f"a{SUFFIX}/deep").mkdir(parents=True)
    Path(f"a{SUFFIX}/deep/half").write_text("ha")
    Path("b").mkdir()
    Path(f"b/one{SUFFIX}").write_text("much longer than what follows\n")
    write({"a/deep/whole": "1\n", "b/one": "2\n"}, {})
    assert snapshot() == {"a": None, "a/deep": None, "a/deep/whole": b"1\n", "b": None, "b/one": b"2\n"}


def test_new_folders_are_put_in_place_whole(monkeypatch):
    """Whoever looks in between finds a folder with all its files, or none of them."""
    seen = []
    rename = os.replace

    def looked(source, target):
        seen.append(sorted(path.as_posix() for path in Path().rglob("*") if path.is_file() and SUFFIX not in path.as_posix()))
        rename(source, target)

    monkeypatch.setattr(os, "replace", looked)
    write({"x/a/one": "1\n", "x/a/two": "2\n", "x/b/one": "1\n"}, {"x/b/two": "2\n"})
    assert seen == [[]], "one rename, before which nothing is there"
    write({"x/c/one": "1\n", "x/c/two": "2\n", "x/a/one": "1\n", "x/three": "3\n"}, {})
    assert len(seen) == 3 and all({path.rpartition("/")[0] for path in files} <= {"x", "x/a", "x/b", "x/c"} for files in seen)
    assert not any(("x/c/one" in files) != ("x/c/two" in files) for files in seen)


def umask() -> int:
    found = os.umask(0)
    os.umask(found)
    return found
