"""A remembered compile answers only when a new one would say and write the same."""

import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from compiler import disk, remembered
from compiler.__main__ import main
from compiler.remembered import MEMORY, Memory
from stages.contracts.digests import digest

ROOT = Path(__file__).parents[2]
CARD = Path("runs/example/shaped-s1/train.card.json")


def known() -> str | None:
    return Memory().recall(colour=False)


def quietly(path: str | Path, content: bytes) -> None:
    """Write without a change of time."""
    before = os.stat(path)
    Path(path).write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def edit(path: str | Path, old: bytes, new: bytes) -> None:
    """Keeps size and time: only the content tells."""
    content = Path(path).read_bytes()
    assert old in content and len(old) == len(new)
    quietly(path, content.replace(old, new, 1))


def add(path: str, text: str) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text)


def test_it_says_what_a_compile_would_say_and_imports_no_models(work, capsys):
    assert main(["compile"]) == 0
    capsys.readouterr()
    fast = subprocess.run(
        [sys.executable, "-c", "import sys; from compiler.__main__ import main; print(main(['compile']), 'pydantic' in sys.modules)"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    MEMORY.unlink()
    assert main(["compile"]) == 0
    slow = capsys.readouterr()
    assert (slow.out, "0 False\n") == ("", fast.stdout)
    assert fast.stderr == slow.err == known()


EDITS = {
    "a value of the spec": lambda: edit("specs/example.yaml", b"max_steps: 12", b"max_steps: 16"),
    "a comment in the spec": lambda: add("specs/example.yaml", Path("specs/example.yaml").read_text() + "# more\n"),
    "what is live": lambda: add("specs/pipeline.yaml", Path("specs/pipeline.yaml").read_text() + "- example@smoke\n"),
    "words for the page": lambda: add("specs/example.md", "# Why\n"),
    "pinned commits": lambda: add("specs/revisions.lock.yaml", "models: {}\ndatasets: {}\n"),
    "pinned libraries": lambda: add("constraints.txt", Path("constraints.txt").read_text() + "x==1\n"),
    "no pinned libraries": lambda: Path("constraints.txt").unlink(),
    "a base model": lambda: add("specs/_models/tiny.yaml", Path("specs/_models/tiny.yaml").read_text() + "# more\n"),
    "another base model": lambda: add("specs/_models/other.yaml", ""),
    "a row of the data": lambda: edit("data/train.jsonl", b"double", b"Double"),
    "no data": lambda: Path("data/train.jsonl").unlink(),
    "a waiver": lambda: add("runs/example/waivers.jsonl", "\n"),
    "a card edited by hand": lambda: edit(CARD, b"0", b"1"),
    "a card deleted": lambda: CARD.unlink(),
    "a folder in a card's place": lambda: (CARD.unlink(), CARD.mkdir()),
    "the pipeline edited by hand": lambda: edit("runs/example/dvc.yaml", b"desc", b"dsec"),
    "the top pipeline deleted": lambda: Path("dvc.yaml").unlink(),
    "a file written once deleted": lambda: Path("runs/example/shaped-s1/retry.json").unlink(),
    "a run that left the spec": lambda: add("runs/example/gone-s1/train.card.json", "{}\n"),
    "everything deleted": lambda: shutil.rmtree("runs"),
}


@pytest.mark.parametrize("what", EDITS)
def test_nothing_is_known_after_a_change(work, capsys, what):
    assert main(["compile"]) == 0
    assert known()
    EDITS[what]()
    assert known() is None
    if CARD.is_dir():
        return
    capsys.readouterr()
    code, said = main(["compile"]), capsys.readouterr().err
    after = {path: path.read_bytes() for path in Path("runs").rglob("*") if path.is_file()}
    MEMORY.unlink(missing_ok=True)
    assert main(["compile"]) == code
    assert {path: path.read_bytes() for path in Path("runs").rglob("*") if path.is_file()} == after
    assert (code == 0) == ("unchanged" in said)


@pytest.mark.parametrize("what", ["a card edited by hand", "a card deleted", "a value of the spec"])
def test_a_check_finds_what_differs(work, what):
    assert main(["compile"]) == main(["compile", "--check"]) == 0
    EDITS[what]()
    assert main(["compile", "--check"]) == 1
    assert main(["compile"]) == main(["compile", "--check"]) == 0


def test_undoing_a_change_makes_it_known_again(work):
    assert main(["compile"]) == 0
    content = CARD.read_bytes()
    edit(CARD, b"0", b"1")
    assert known() is None
    CARD.write_bytes(content)
    assert known()


def test_our_own_code_counts_with_every_byte(work, tmp_path_factory, monkeypatch):
    root = tmp_path_factory.mktemp("code")
    for package in ("compiler", "stages"):
        shutil.copytree(ROOT / package, root / package, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(remembered, "ROOT", root)
    assert main(["compile"]) == 0
    assert known()
    for path, text in {
        "compiler/emit.py": "# a comment\n",
        "stages/train/rewards/new.py": "",
        "stages/train/verifiers/proof/new.txt": "",
    }.items():
        file = root / path
        before = file.read_text() if file.exists() else None
        file.write_text((before or "") + text)
        assert known() is None, path
        file.unlink() if before is None else file.write_text(before)
        assert known(), path


def test_so_do_libraries_and_python(work, tmp_path_factory, monkeypatch):
    libraries = tmp_path_factory.mktemp("libraries")
    (libraries / "pydantic-2.0.dist-info").mkdir()
    monkeypatch.setattr(sys, "path", [*sys.path, str(libraries)])
    assert main(["compile"]) == 0
    assert known()
    (libraries / "pydantic-2.0.dist-info").rename(libraries / "pydantic-2.1.dist-info")
    assert known() is None
    (libraries / "pydantic-2.1.dist-info").rename(libraries / "pydantic-2.0.dist-info")
    assert known()
    monkeypatch.setattr(sys, "version", "4.0")
    assert known() is None


def changed(content: bytes, **keys: object) -> bytes:
    """Another memory, whole by its own digest."""
    text = json.dumps({**json.loads(content.partition(b"\n")[2]), **keys})
    return f"{digest(text)}\n{text}".encode()


@pytest.mark.parametrize(
    "broken",
    [
        lambda content: b"",
        lambda content: content[:-1],
        lambda content: content[: len(content) // 2],
        lambda content: content.replace(b"0 files", b"9 files"),
        lambda content: b"\xff" + content,
        lambda content: content.partition(b"\n")[2],
        lambda content: f"{digest('[]')}\n[]".encode(),
        lambda content: f"{digest('{')}\n{{".encode(),
        lambda content: changed(content, made_by="another octavo"),
        lambda content: changed(content, asked=[["unknown", "x", "y"]]),
        lambda content: changed(content, asked=3),
        lambda content: changed(content, files=None),
        lambda content: changed(content, said={}),
    ],
)
def test_a_broken_or_foreign_memory_counts_for_nothing(work, broken, capsys):
    assert main(["compile"]) == 0
    content = MEMORY.read_bytes()
    MEMORY.write_bytes(broken(content))
    assert known() is None
    capsys.readouterr()
    assert main(["compile"]) == 0
    assert capsys.readouterr().err.startswith("0 files written")
    assert MEMORY.read_bytes() == content


def test_a_place_that_cannot_be_written_costs_time_only(work):
    add(".cache", "a file\n")
    assert main(["compile"]) == main(["compile"]) == 0
    assert known() is None


def test_warnings_and_what_is_left_over_are_said_again(work, capsys):
    edit_spec = Path("specs/example.yaml")
    edit_spec.write_text(edit_spec.read_text().replace("max_completion_length: 16", "max_completion_length: 8"))
    add("runs/example/gone-s1/train.card.json", "{}\n")
    assert main(["compile"]) == 0
    first = capsys.readouterr().err
    assert main(["compile"]) == 0
    second = capsys.readouterr().err
    assert "gone-s1: no longer in the spec" in first
    assert first.splitlines()[:-1] == second.splitlines()[:-1]
    assert second == known()


def test_only_a_compile_of_all_that_is_live_is_remembered(work):
    for words in (["compile", "example"], ["check"], ["plan"], ["compile", "--check"]):
        main(words)
        assert not MEMORY.exists(), words


def test_an_error_is_not_remembered(work):
    edit("specs/example.yaml", b"max_steps: 12", b"max_setps: 12")
    assert main(["compile"]) == 1
    assert not MEMORY.exists()


def test_a_file_that_changes_under_a_compile_is_never_sure(work):
    disk.forget()
    assert disk.is_file(Path("constraints.txt")) and disk.names(Path("data"))
    Path("constraints.txt").unlink()
    assert not disk.is_file(Path("constraints.txt"))
    add("constraints.txt", "x==1\n")
    asked = [(question, path, answer) for (question, path), answer in disk.answers.items()]
    assert [disk.still_so([one]) for one in asked] == [False, True]


LOOKS = {"open", "read_text", "read_bytes", "exists", "is_file", "is_dir", "glob", "rglob", "iterdir", "stat", "lexists", "isfile", "isdir"}
LOOKS |= {"listdir", "scandir", "walk", "getenv", "which", "file_digest", "run", "Popen"}
OWN = {
    "disk": "looks for the others",
    "waivers": "reads a card that is about to be written over",
}


def looks(node: ast.AST) -> str | None:
    """The name of a call that asks the machine something and is no question of `disk`."""
    if isinstance(node, ast.Attribute) and node.attr == "environ":
        return node.attr
    if not isinstance(node, ast.Call):
        return None
    if isinstance(node.func, ast.Name):
        return node.func.id if node.func.id in LOOKS else None
    if isinstance(node.func, ast.Attribute) and not (isinstance(node.func.value, ast.Name) and node.func.value.id == "disk"):
        return node.func.attr if node.func.attr in LOOKS else None
    return None


def test_the_compile_looks_at_the_disk_through_one_module():
    """A look of its own would be forgotten by what is remembered."""
    found: set[str] = set()
    waiting = ["compile", "pipeline", "revisions"]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        tree = ast.parse((ROOT / f"compiler/{name}.py").read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("compiler"):
                names = [alias.name for alias in node.names] if node.module == "compiler" else [str(node.module).removeprefix("compiler.")]
                waiting += names
            if name not in OWN and (look := looks(node)):
                raise AssertionError(f"compiler/{name}.py:{node.lineno} looks at the disk by `{look}`: ask compiler/disk.py")
    assert {"rules_weights", "rules_command", "imports", "inputs", "source"} <= found


WATCHED = """
import json, os, sys
seen, here = set(), os.getcwd() + os.sep
def watch(event, arguments):
    if event in ("open", "os.listdir", "os.scandir") and arguments and isinstance(arguments[0], str | bytes):
        path = os.path.abspath(os.fsdecode(arguments[0]))
        if path.startswith(here) and not path.startswith(sys.prefix):  # the virtual environment may lie in the project
            seen.add(path.removeprefix(here))
sys.addaudithook(watch)
from compiler import disk, revisions
from compiler.compile import compile_all, left_over, project
from compiler.inputs import Inputs
from compiler.pipeline import every_spec, live
inputs = Inputs()
live(inputs)
inputs.only_checks = True
compiled = compile_all(every_spec(), inputs)
project(compiled, with_site=True)
list(revisions.unused(inputs.lock(), inputs.document))
[left_over(one) for one in compiled]
print(json.dumps(sorted(seen - {path for _, path in disk.answers})))
"""


def test_every_file_that_a_compile_opens_is_remembered():
    """Of all specs of this repository; its code counts as a whole."""
    done = subprocess.run([sys.executable, "-c", WATCHED], cwd=ROOT, capture_output=True, text=True, check=True)
    assert [path for path in json.loads(done.stdout) if not path.startswith(("compiler", "stages"))] == []
