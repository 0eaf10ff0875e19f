"""The verifier of a kimina-lean-server, with a stand-in that speaks its protocol over a real Lean (see conftest.py)."""

import json
import subprocess
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from stages.contracts.plugin import Answer
from stages.train.rewards import lean
from stages.train.verifiers import lean_server, lean_setup
from stages.train.verifiers.lean_text import Job
from stages.train.verifiers.verdict import VerifierUnavailable

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
    monkeypatch.setattr(lean_server, "PAUSE_SECONDS", 0.0)
    with ThreadingHTTPServer(("127.0.0.1", 0), Kimina) as server:
        server.lean, server.keys, server.statuses = lean_program, [], []
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def outcomes(kimina):
    remote = lean_server.Server(f"http://127.0.0.1:{kimina.server_port}")

    def ask(*answers, **changes):
        return [result.outcome for result in remote.run([replace(GOOD, answer=text, **changes) for text in answers])]

    return ask


def test_verdicts(outcomes, kimina):
    answers = ["⟨h.2, h.1⟩", "⟨h.1, h.1⟩", "(h", "by {}", "sorry", "𝓝 h", "h \ud800"]
    assert outcomes(*answers) == ["proved", "type", "syntax", "tactic", "forbidden", "type", "syntax"]
    assert len(kimina.keys) == 6, "what is forbidden is not sent"
    assert outcomes(*answers[:2]) == ["proved", "type"] and len(kimina.keys) == 6, "equal jobs are checked once"
    assert outcomes("⟨h.2, h.1⟩", "h", header="import Mathlib\nimport Aesop\n\n" + CORE) == ["proved", "type"]


def test_what_the_server_refuses_is_asked_again_and_then_unknown(outcomes, kimina):
    kimina.statuses = [500, 429, 200]
    assert outcomes("⟨h.2, h.1⟩") == ["proved"]
    kimina.statuses = [500] * lean_server.ATTEMPTS
    assert outcomes("h") == ["unknown"]
    assert outcomes("h") == ["type"], "unknown is not remembered"
    assert outcomes("standin_header", "standin_broken", "standin_odd") == ["unknown"] * 3
    (result,) = lean_server.Server("http://127.0.0.1:9").run([GOOD])
    assert (result.outcome, result.reason) == ("unknown", "the Lean server cannot be reached: OSError")


def test_time_outs_count_when_they_come_again(outcomes, kimina):
    assert outcomes("standin_slow", "h") == ["timeout", "type"]
    assert len(kimina.keys) == 3


def test_the_gate_uses_the_server_and_its_key(kimina, monkeypatch):
    monkeypatch.setenv(lean_setup.SERVER, f"http://127.0.0.1:{kimina.server_port}/")
    monkeypatch.setenv(lean_setup.SERVER_KEY, "word")
    settings = lean.Settings(header=CORE, axioms=(), timeout=5.0)
    assert [judgement.status for judgement in lean.judge(settings, [Answer("⟨h.2, h.1⟩", {"statement": SWAP})])] == ["pass"]
    assert kimina.keys == ["Bearer word"] and lean.tier().startswith("a Lean server")
    for address in ("localhost:8000", "ftp://x", "http://user:word@host", "http://"):
        monkeypatch.setenv(lean_setup.SERVER, address)
        with pytest.raises(VerifierUnavailable, match="no address"):
            lean.tier()
