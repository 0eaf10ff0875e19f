"""`octavo doctor` about Coq and Lean: found, not found, and a server that answers or does not."""

import os
import socket

import pytest

from compiler.commands.doctor import Needs
from compiler.commands.doctor_proofs import checks
from stages.train.verifiers import coq_pool, lean_setup


@pytest.fixture(autouse=True)
def alone(monkeypatch, tmp_path):
    """Neither Coq nor Lean is on PATH."""
    for name in (lean_setup.SERVER, lean_setup.REPL, lean_setup.PROGRAM):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    for kept in (coq_pool.coqtop, lean_setup._installation):
        kept.cache_clear()
    yield tmp_path
    coq_pool.coqtop.cache_clear()
    lean_setup._installation.cache_clear()


def looked_for(*kinds):
    return {line.name: line for line in checks(Needs((), (), kinds))}


def test_nothing_is_installed():
    lines = looked_for()
    assert {name: line.status for name, line in lines.items()} == {"coq": "optional", "lean": "optional"}
    assert lines["coq"].install == "apt-get install coq libcoq-stdlib gcc"
    assert lean_setup.REPL in lines["lean"].install and lean_setup.SERVER in lines["lean"].install
    assert [line.status for line in looked_for("coq", "lean").values()] == ["missing", "missing"]


def test_programs_that_are_there(alone):
    for name, script in (
        ("coqtop", 'case "$1" in --print-version) echo 8.16.1 4.13.1;; -where) echo /usr/lib;; esac'),
        ("lean", f'case "$1" in --print-prefix) echo {alone};; --version) echo "Lean (version 4.20.0, x86_64)";; esac'),
    ):
        (alone / name).write_text(f"#!/bin/sh\n{script}\n")
        (alone / name).chmod(0o755)
    (alone / "bin").mkdir()
    os.symlink(alone / "lean", alone / "bin/lean")
    lines = looked_for("coq")
    assert (lines["coq"].status, lines["coq"].found) == ("ok", "Coq 8.16.1")
    assert lines["lean"].status == "ok" and lines["lean"].found.startswith("Lean 4.20.0, a plain program")
    assert str(alone) not in lines["lean"].found


def test_a_server_is_asked_whether_it_is_there(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as listening:
        monkeypatch.setenv(lean_setup.SERVER, f"http://127.0.0.1:{listening.getsockname()[1]}")
        assert looked_for()["lean"].found == "a kimina-lean-server (OCTAVO_LEAN_SERVER) answers"
    line = looked_for("lean")["lean"]
    assert (line.status, line.found) == ("missing", "nobody answers at the address in OCTAVO_LEAN_SERVER")
    monkeypatch.setenv(lean_setup.SERVER, "localhost:8000")
    assert "is no address" in looked_for()["lean"].found
