"""Files that strangers wrote: nothing outside of the project is read or written through them, and nothing fills the memory."""

import ast
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stages.contracts.files import (
    MOST_BYTES,
    FileRefused,
    check_folder,
    file_digest,
    open_append,
    parse_json,
    read_bytes,
    read_lines,
    read_text,
    write_files,
    write_text,
)

ROOT = Path(__file__).parents[3]
LINK = "it is a symbolic link"


@pytest.fixture(autouse=True)
def outside(tmp_path, monkeypatch):
    """A folder beside the project, which is the working directory."""
    for name in ("project", "outside"):
        (tmp_path / name).mkdir()
    (tmp_path / "outside/secret").write_text("precious")
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "outside"


def left_over() -> list[Path]:
    return [path for path in Path().rglob("*") if path.name.startswith(".octavo-")]


@pytest.mark.parametrize("use", [read_bytes, read_text, file_digest, open_append, lambda path: list(read_lines(path))])
@pytest.mark.parametrize("absolute", [False, True])
def test_no_link_is_read(outside, use, absolute):
    root = Path.cwd() if absolute else Path()
    (root / "secret").symlink_to(outside / "secret")
    (root / "folder").symlink_to(outside)
    for path in (root / "secret", root / "folder/secret"):
        with pytest.raises(FileRefused, match=LINK) as caught:
            use(path)
        assert caught.value.why and caught.value.fix.startswith("rm ")
    assert (outside / "secret").read_text() == "precious"


def test_a_write_replaces_a_link_and_goes_through_none(outside):
    Path("card").symlink_to(outside / "secret")
    write_text(Path("card"), "mine")
    assert (outside / "secret").read_text() == "precious" and Path("card").read_text() == "mine" and not Path("card").is_symlink()
    Path("runs").symlink_to(outside)
    for path in (Path("runs/secret"), Path("runs/new/card")):
        with pytest.raises(FileRefused, match=LINK):
            write_text(path, "mine")
    assert sorted(os.listdir(outside)) == ["secret"] and not left_over()


def test_links_of_dvc_into_its_cache_are_read(outside):
    object_ = Path(".dvc/cache/files/md5/ab") / ("0" * 30)
    object_.parent.mkdir(parents=True)
    object_.write_text("cached")
    Path("data").mkdir()
    Path("data/absolute").symlink_to(object_.absolute())
    Path("data/relative").symlink_to(Path("..") / object_)
    assert read_text("data/absolute") == read_text("data/relative") == "cached"
    check_folder(Path("data"))
    Path("data/other").symlink_to(outside / "secret")
    Path("data/inside").symlink_to(Path("../.dvc/config.local"))
    for name in ("other", "inside"):
        with pytest.raises(FileRefused, match=LINK):
            read_text(f"data/{name}")
    with pytest.raises(FileRefused, match=LINK):
        open_append("data/absolute")  # it would change what the cache holds


def test_a_shared_cache_is_followed_where_dvc_is_told_of_it(outside):
    object_ = outside / "files/md5/ab" / ("0" * 30)
    object_.parent.mkdir(parents=True)
    object_.write_text("cached")
    Path("data").symlink_to(object_)
    with pytest.raises(FileRefused, match=LINK):
        read_text("data")
    Path(".dvc").mkdir()
    Path(".dvc/config.local").write_text(f"[cache]\n    dir = {outside}\n")
    assert read_text("data") == "cached"


@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "huge", "line"])
def test_what_has_no_end_is_refused_at_once(kind):
    path, begun = Path("file"), time.monotonic()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind != "device":
        path.touch()
        os.truncate(path, 10**12 if kind == "huge" else MOST_BYTES)
    path = Path("/dev/zero") if kind == "device" else path
    for use in (read_bytes, lambda path: list(read_lines(path))):
        if kind != "line" or use is not read_bytes:
            with pytest.raises(OSError, match=r"regular file|a directory|holds more than"):
                use(path)
    assert time.monotonic() - begun < 60


def test_a_folder_with_a_link_or_a_pipe_is_refused(outside):
    Path("runs/a/b").mkdir(parents=True)
    Path("runs/a/b/card").write_text("{}")
    check_folder(Path("runs"))
    check_folder(Path("no-such"))
    Path("runs/a/link").symlink_to(outside)
    with pytest.raises(FileRefused, match=LINK):
        check_folder(Path("runs"))
    Path("runs/a/link").unlink()
    os.mkfifo("runs/a/pipe")
    with pytest.raises(FileRefused, match="regular file"):
        check_folder(Path("runs"))


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"a":' * 100_000,
        "[" + "0," * 2_000_000 + "0]",
        "[NaN]",
        "[Infinity]",
        "[1e999]",
        "[-1e999]",
        "9" * 400 + "e9",
        '"\\ud800"',
        "9" * 100_000,
        b'"\xed\xa0\x80"',
        b"\xff",
        "",
        "{} {}",
        '"\ud800"',
    ],
)
def test_hostile_json_is_a_value_error(text):
    begun = time.monotonic()
    with pytest.raises(ValueError):
        parse_json(text)
    assert time.monotonic() - begun < 60


def test_numbers_and_texts_are_read_as_they_are():
    text = '\ufeff{"a": [1, -0.5, 5e-324, 12345678901234567890123], "b": "\\ud83d\\ude00", "n": null, "t": true, "1e300": 1e300}'
    assert parse_json(text) == {"a": [1, -0.5, 5e-324, 12345678901234567890123], "b": "\U0001f600", "n": None, "t": True, "1e300": 1e300}
    assert str(parse_json("[NaN, -Infinity]", nonfinite=True)) == "[nan, -inf]"


def test_all_files_are_written_or_none():
    write_files({Path("a"): b"old", Path("b/c"): b"old"})
    Path("d").mkdir()
    with pytest.raises(OSError, match=r"directory.*: 'd'"):
        write_files({Path("b/new"): b"new", Path("d"): b"a folder is there"})
    with pytest.raises(OSError, match=r"'a/below'|'a'"):
        write_files({Path("b/c"): b"new", Path("a/below"): b"a file is there"})
    assert Path("a").read_bytes() == Path("b/c").read_bytes() == b"old"
    assert not Path("b/new").exists() and not left_over()


def test_temporary_names_cannot_be_guessed(monkeypatch):
    names = set()
    replace = os.replace
    monkeypatch.setattr(os, "replace", lambda old, new, **folders: (names.add(old), replace(old, new, **folders)))
    for _ in range(20):
        write_text(Path("card"), "x")
    assert len(names) == 20 and all(len(name) >= 20 for name in names)


def test_what_a_killed_writer_left_is_removed_by_the_next(outside):
    program = (
        "import os, signal; from pathlib import Path; from stages.contracts import files\n"
        "files.os.replace = lambda *a, **k: os.kill(os.getpid(), signal.SIGKILL)\n"
        "files.write_files({Path('runs/a/card'): b'half', Path('runs/b/card'): b'half'})"
    )

    def kill() -> None:
        ran = subprocess.run([sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": str(ROOT)})
        assert ran.returncode == -signal.SIGKILL and len(left_over()) == 2 and not list(Path().rglob("card"))

    kill()
    check_folder(Path("runs"))
    assert not left_over()
    kill()
    write_files({Path("runs/a/card"): b"whole", Path("runs/b/card"): b"whole"})
    assert not left_over() and Path("runs/b/card").read_bytes() == b"whole"


def test_writers_do_not_remove_what_another_one_writes():
    program = (
        "import sys; from pathlib import Path; from stages.contracts.files import write_files\n"
        "for n in range(20): write_files({Path(f'runs/{n % 3}/{name}'): sys.argv[1].encode() * 1000 for name in 'abc'})"
    )
    begun = [subprocess.Popen([sys.executable, "-c", program, word], env={**os.environ, "PYTHONPATH": str(ROOT)}) for word in "xyz"]
    assert [process.wait() for process in begun] == [0, 0, 0]
    assert not left_over() and {path.read_text()[0] * 1000 for path in Path("runs").rglob("?/?")} <= {"x" * 1000, "y" * 1000, "z" * 1000}


RAW = {"loads", "from_json", "YAML", "safe_load", "CParser", "model_validate_json"}


def test_json_and_yaml_are_read_in_one_place():
    """Every other module gets them from stages/contracts/files.py, or a spec's text from compiler/document/read.py. Processes that octavo
    began itself answer in lines of their own."""
    allowed = {"compiler/document/read.py", "stages/contracts/files.py", "stages/contracts/code_cache.py", "stages/publish/site.py"}
    allowed |= {"compiler/__main__.py", "compiler/commands/doctor.py"}  # tables in TOML beside them
    allowed |= {"compiler/commands/fetch.py", "stages/train/imports/wandb_api.py", "compiler/document/validate.py"}  # lines of our own
    allowed |= {"stages/contracts/interpretation.py"}  # front matter without anchors, merges and deep brackets
    users = set()
    for package in ("compiler", "stages"):
        for path in (ROOT / package).rglob("*.py"):
            calls = [node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
            names = {getattr(call, "attr", getattr(call, "id", "")) for call in calls}
            if names & RAW and "verifiers" not in path.parts:
                users.add(path.relative_to(ROOT).as_posix())
    assert users <= allowed
