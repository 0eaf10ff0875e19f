"""What is kept of our own code from one compile to the next never changes a card."""

import importlib.util
import json
import sys

import pytest

from compiler import code_memo
from compiler.__main__ import main
from compiler.code_memo import MOST, keep, load
from compiler.inputs import Inputs
from stages.contracts import code_hash
from stages.contracts.code_hash import Code, Module, known

_PLACE = code_memo.MEMO
STAGES = ["stages.analyse.screen"]


@pytest.fixture(autouse=True)
def memo(tmp_path_factory, monkeypatch):
    """A place of its own. `known` belongs to the process, and other tests of it fill it."""
    place = tmp_path_factory.mktemp("bytecode") / "code.modules.json"
    monkeypatch.setattr(code_memo, "MEMO", place)
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    before = dict(known)
    known.clear()
    yield place
    known.clear()
    known.update(before)


def test_it_lies_beside_the_bytecode_of_the_code_that_it_is_about():
    assert str(_PLACE) == importlib.util.cache_from_source(code_hash.__file__).removesuffix(".pyc") + ".modules.json"


def test_nothing_is_kept_where_python_keeps_no_bytecode(work, memo, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert main(["check"]) == 0
    assert not memo.exists()


def test_every_command_keeps_it(work):
    assert main(["check"]) == 0
    fresh = Inputs().code(STAGES)
    known.clear()
    assert load() > 20
    assert Inputs().code(STAGES) == fresh


def test_an_edited_module_is_walked_again(work, tmp_path_factory):
    root = tmp_path_factory.mktemp("code")
    for name, text in {"stages/__init__.py": "", "stages/one.py": "import stages.two\n", "stages/two.py": "X = 1\n"}.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text)
    before = Code(root).hash(["stages.one"])
    keep(0)
    known.clear()
    load()
    assert Code(root).hash(["stages.one"]) == before
    (root / "stages/two.py").write_text("X = 2\n")
    assert Code(root).hash(["stages.one"]) != before


@pytest.mark.parametrize(
    "broken",
    [
        b"",
        b"{",
        b"\xff",
        b"[]",
        b'{"made_by": "someone else", "modules": {"a": ["b", ["c"]]}}',
        b'{"made_by": "x", "modules": {"a": ["b", "c"]}}',
    ],
)
def test_a_broken_or_foreign_memo_counts_for_nothing(work, memo, broken):
    memo.write_bytes(broken)
    assert load() == 0
    assert main(["compile"]) == 0
    assert json.loads(memo.read_bytes())["modules"]


def test_one_of_another_python_counts_for_nothing(work, memo):
    assert main(["compile"]) == 0
    kept = json.loads(memo.read_bytes())
    known.clear()
    assert load() == len(kept["modules"])
    known.clear()
    memo.write_text(json.dumps({**kept, "made_by": kept["made_by"] + "+"}))
    assert load() == 0


def test_a_place_that_cannot_be_written_costs_time_only(work, memo):
    memo.parent.rmdir()
    memo.parent.write_text("a file\n")
    assert main(["compile"]) == 0
    assert memo.parent.read_text() == "a file\n"


def test_it_does_not_grow_without_end(work):
    known.update({str(number): Module("hash", ()) for number in range(MOST + 5)})
    keep(0)
    known.clear()
    assert load() == MOST
    assert "4" not in known and str(MOST + 4) in known
