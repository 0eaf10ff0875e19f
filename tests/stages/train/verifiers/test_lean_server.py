"""The verifier of a kimina-lean-server, with a stand-in that speaks its protocol over a real Lean (see conftest.py)."""

import json
import os
import subprocess
import threading
from collections import OrderedDict
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from stages.train.verifiers import lean as checking
from stages.train.verifiers import lean_server, lean_setup, sandbox
from stages.train.verifiers.box import Box
from stages.train.verifiers.lean_text import Job
from stages.train.verifiers.verdict import Checked, VerifierUnavailable

CORE = (Path(__file__).parents[1] / "lean_core.lean").read_text(encoding="utf-8").rstrip()
SWAP = "theorem swap (a b : Prop) (h : And a b) : And b a := by sorry"
GOOD = Job(CORE, SWAP, "⟨h.2, h.1⟩", "proof", (), 5.0, 2**32)
ERRORS = {
    "slow": {"error": "Lean REPL command timed out in 5.0 seconds"},
    "header": {"error": "Lean REPL header command timed out in 5.0 seconds"},
    "broken": {"response": {"message": "unknown package"}},
    "odd": {"response": 3},
}
"""Word in an answer -> what the server says of it."""


@pytest.fixture(autouse=True)
def not_in_ci(monkeypatch):
    """There the addresses would have to be allowed."""
    monkeypatch.delenv("CI", raising=False)


class Kimina(BaseHTTPRequestHandler):
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert self.path == "/api/check" and asked["timeout"] == 5 and asked["reuse"] is True
        (snippet,) = asked["snippets"]
        self.server.keys.append(self.headers.get("Authorization"))
        status = self.server.statuses.pop(0) if self.server.statuses else 200
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps({"results": [self.result(snippet["code"])]} if status == 200 else {"detail": "no"}).encode())

    def result(self, code):
        lines = code.split("\n")
        while lines and (not lines[0].strip() or lines[0].startswith("import ")):  # they are checked by themselves
            lines.pop(0)
        for word, error in ERRORS.items():
            if f"standin_{word}" in code:
                return error
        done = subprocess.run([self.server.lean, "--json", "--stdin"], input="\n".join(lines), capture_output=True, text=True)
        messages = [json.loads(line) for line in done.stdout.replace('"information"', '"info"').splitlines()]
        return {"id": "0", "time": 0.1, "response": {"env": 1, "messages": messages}}

    def log_message(self, *_):
        pass


@pytest.fixture
def kimina(lean_program, monkeypatch):
    if sandbox.tier() != "bubblewrap" and os.environ.get("CI") != "true":
        pytest.skip("Lean is checked in bubblewrap only, which does not hold here")
    with ThreadingHTTPServer(("127.0.0.1", 0), Kimina) as server:
        server.lean, server.keys, server.statuses = lean_program, [], []
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv(lean_setup.PROGRAM, lean_program)
        monkeypatch.setenv(lean_setup.SERVER, f"http://127.0.0.1:{server.server_port}/")
        monkeypatch.setenv(lean_setup.SERVER_KEY, "word")
        yield server
        server.shutdown()


def outcomes(*answers, **changes):
    return [result.outcome for result in checking.verifier().run([replace(GOOD, answer=text, **changes) for text in answers])]


def test_it_takes_out_what_fails_and_the_program_here_decides_the_rest(kimina, monkeypatch):
    monkeypatch.setattr(checking, "_goals", OrderedDict())
    checking.tier()  # which tries the kernel
    sent = []
    real = Box.ask
    monkeypatch.setattr(Box, "ask", lambda box, orders: sent.extend(orders) or real(box, orders))
    answers = ["⟨h.1, h.1⟩", "(h", "by {}", "sorry", "𝓝 h", "h \ud800"]
    assert outcomes(*answers) == ["type", "syntax", "tactic", "forbidden", "type", "syntax"]
    assert kimina.keys == ["Bearer word"] * 5, "what is forbidden is not sent"
    assert sent == [], "and none of these is compiled here"
    assert outcomes("⟨h.2, h.1⟩", answers[0]) == ["proved", "type"] and len(kimina.keys) == 6, "equal jobs are checked once"
    assert len(sent) == 3, "the answer, its goal and the kernel"
    assert outcomes("h", header="\n\n" + CORE) == ["type"], "lines are counted after those that the server takes off"
    assert checking.tier().endswith("(kernel, after a server)")


@pytest.mark.parametrize("word", ["⟨h.1, h.1⟩", *(f"h -- standin_{name}" for name in ERRORS)])
def test_it_can_neither_prove_nor_excuse_a_proof(kimina, monkeypatch, word):
    """A server whose REPL the answer has taken over says what a proof would say, or nothing; it may refuse, and it may be gone."""
    monkeypatch.setattr(lean_server, "read", lambda *_: Checked("proved"))
    assert outcomes(word) == ["type"]
    kimina.statuses = [500]
    assert outcomes(word + " --") == ["type"]
    monkeypatch.setattr(lean_server, "post", lambda *_: (200, b"[" * 100_000))
    assert outcomes(word + " -- -") == ["type"]


def test_addresses_that_are_none(kimina, monkeypatch):
    for address in ("localhost:8000", "ftp://x", "http://user:word@host", "http://"):
        monkeypatch.setenv(lean_setup.SERVER, address)
        with pytest.raises(VerifierUnavailable, match="no address"):
            checking.tier()
