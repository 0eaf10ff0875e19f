"""dvc.lock and files as DVC itself reads and writes them; what is no lock is refused with its line."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from compiler.lock.files import Files
from stages.contracts.dvc_lock import HEAD, Entry, parse_lock, place, read_lock

MD5 = "0123456789abcdef" * 2


@pytest.fixture
def work(at_work: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    return at_work


def dvc_writes(command: str, path: str) -> str:
    from dvc.utils.serialize import _yaml

    entry = {"path": path, "hash": "md5", "md5": MD5, "size": 3}
    stream = io.StringIO()
    _yaml._dump({"schema": "2.0", "stages": {"a": {"cmd": command, "deps": [entry], "outs": [dict(entry)]}}}, stream)
    return stream.getvalue()


def test_every_lock_of_a_project_is_read_as_yaml_reads_it(work):
    from ruamel.yaml import YAML

    for path in sorted(Path().rglob("dvc.lock")):
        stages, text = YAML(typ="safe").load(path.read_text())["stages"], path.read_text()
        lock = read_lock(path)
        assert list(lock) == list(stages)
        assert HEAD + "".join(record.text for record in lock.values()) == text
        for name, record in stages.items():
            assert lock[name].cmd == record["cmd"]
            for side in ("deps", "outs"):
                entries = {entry["path"]: Entry(entry["md5"], entry["size"], entry.get("nfiles")) for entry in record.get(side, ())}
                assert getattr(lock[name], side) == entries


@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("python -m stages.train.trl runs/a/b", "data/a b.jsonl"),
        ("python -m stages.train.trl " + "runs/a-long-name/another-long-name " * 4 + "end", "data/\u00e9.jsonl"),
        ("python -m x", "it's here: #1"),
        ("python -m x", "'quoted'"),
    ],
)
def test_whatever_dvc_folds_or_quotes(command, path):
    lock = parse_lock(dvc_writes(command, path))
    assert (lock["a"].cmd, lock["a"].deps, lock["a"].outs) == (command, {path: Entry(MD5, 3)}, {path: Entry(MD5, 3)})


def test_places():
    text = dvc_writes("python -m x", "b.txt")
    lines = text.splitlines()
    for way, expected in {
        ("a",): "a:",
        ("a", "", "", "cmd"): "python -m x",
        ("a", "outs"): "outs:",
        ("a", "outs", "b.txt"): "- path: b.txt",
        ("a", "outs", "b.txt", "size"): "3",
        ("a", "outs", "gone"): "outs:",
    }.items():
        line, column = place(text, *way)
        assert lines[line - 1][column - 1 :] == expected and (line > 9) == ("outs" in way)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", 1),
        ("stages: [\n", 1),
        (f"{HEAD[:-1]} {{}}\n", 1),
        (HEAD.replace("2.0", "3.0"), 1),
        (f"{HEAD}  a: 1\n", 3),
        (f"{HEAD}# mine\n", 3),
        (f"{HEAD}  a:\n    cmd: x\n  a:\n    cmd: x\n", 5),
        (f"{HEAD}  a:\n    cmd: x\n    deps:\n    - path: b\n      md5: {MD5}\n", 6),
        (f"{HEAD}  a:\n    cmd: x", 3),
        (f"{HEAD}x: {'[' * 100_000}", 3),
    ],
)
def test_what_is_no_lock_is_refused_with_its_line(text, line):
    with pytest.raises(ValueError, match=f"it is no dvc.lock as DVC writes it, from line {line}$"):
        parse_lock(text)


def test_folders_are_hashed_as_dvc_does(work):
    (Path("site/docs") / "z \u00e9.md").write_text("z\n")
    (Path("site/docs") / "empty").mkdir()
    Path("site/.dvcignore-not").write_text("x\n")
    from dvc.repo import Repo

    with Repo(".") as repo:
        (stage,) = [stage for stage in repo.index.stages if stage.addressing == "site"]
        (dep,) = [dep for dep in stage.deps if dep.def_path == "site"]
        expected = dep.get_hash().value
    assert Files(Path(), {}).md5("site") == expected


def test_ignored_files_do_not_count(work):
    Path(".dvcignore").write_text("# words\n*.tmp\nsite/drafts/\n")
    before = Files(Path(), {}).md5("site")
    Path("site/x.tmp").write_text("x")
    Path("site/drafts").mkdir()
    Path("site/drafts/a.md").write_text("a")
    assert Files(Path(), {}).md5("site") == before
    Path("site/x.txt").write_text("x")
    assert Files(Path(), {}).md5("site") != before
