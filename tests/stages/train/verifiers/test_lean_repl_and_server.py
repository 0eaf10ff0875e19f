"""The Lean REPL and kimina-lean-server, each with a stand-in that speaks its protocol over a real Lean (see conftest.py)."""

import json
import os
import stat
import subprocess
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from stages.contracts.plugin import Answer
from stages.train.rewards import lean
from stages.train.verifiers import isolation, lean_repl, lean_server, lean_setup, sandbox
from stages.train.verifiers.faults import VerifierUnavailable
from stages.train.verifiers.lean_text import Job

HERE = Path(__file__).parents[1]
CORE = (HERE / "lean_core.lean").read_text(encoding="utf-8").rstrip()
SWAP = "theorem swap (a b : Prop) (h : And a b) : And b a := by sorry"
GOOD = Job(CORE, SWAP, "⟨h.2, h.1⟩", "proof", (), 5.0, 2**32)


def job(answer, **changes):
    return replace(GOOD, answer=answer, **changes)


def outcomes(verifier, answers, **changes):
    return [verdict.outcome for verdict in verifier.run([job(answer, **changes) for answer in answers])]


# ---- the REPL of a Lake project


@pytest.fixture
def project(lean_program, lean_standing_in, tmp_path, monkeypatch):
    """A Lake project with a built REPL, and a `lake` that knows its environment."""
    if sandbox.tier() != "bubblewrap" and os.environ.get("CI") != "true":
        pytest.skip("Lean is checked in bubblewrap only, which does not hold here")
    repl = tmp_path / "project/.lake/packages/repl/.lake/build/bin/repl"
    repl.parent.mkdir(parents=True)
    (tmp_path / "project/lakefile.toml").write_text('name = "project"\n')
    source = (HERE / "lean_repl_standin.py").read_text().replace("sys.argv[1]", repr(lean_standing_in))
    repl.write_text(f"#!{isolation.python()} -S\n{source}")
    prefix = str(Path(lean_program).parents[1])
    lake = tmp_path / "bin/lake"
    lake.parent.mkdir()
    environment = (f"LEAN_SYSROOT={prefix}", f"LD_LIBRARY_PATH={prefix}/lib", f"LEAN_PATH={tmp_path}/project", "HOME=/root")
    lake.write_text("#!/bin/sh\n" + "".join(f"echo {variable}\n" for variable in environment))
    for program in (repl, lake):
        program.chmod(program.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    monkeypatch.setenv("PATH", f"{lake.parent}:{os.environ['PATH']}")
    monkeypatch.setenv(lean_setup.REPL, str(tmp_path / "project"))
    monkeypatch.delenv(lean_setup.SERVER, raising=False)
    return tmp_path / "project"


@pytest.fixture
def repl(project):
    repls = lean_repl.repls(lean_setup.installation(), CORE, workers=1)
    yield repls
    repls.close()


def test_verdicts_of_the_repl(repl):
    answers = ["⟨h.2, h.1⟩", "⟨h.1, h.1⟩", "(h", "by {}", "sorry", "choice a"]
    assert outcomes(repl, answers) == ["proved", "type", "syntax", "tactic", "forbidden", "type"]
    statement = "theorem em (p : Prop) : Or p (p → False)"
    assert outcomes(repl, ["choice p"], statement=statement) == ["forbidden"]
    assert outcomes(repl, ["choice p"], statement=statement, axioms=("choice",)) == ["proved"]
    assert outcomes(repl, ["h"], statement="theorem t : Nothing") == ["broken"]


def test_jobs_do_not_see_each_other(repl):
    first = "theorem swap (a b : Prop) (h : And a b) : And b a := ⟨h.2, h.1⟩\ntheorem left_behind : True := True.intro"
    assert outcomes(repl, [first], form="file") == ["proved"]
    assert outcomes(repl, ["left_behind"], statement="theorem t : True") == ["type"]


def test_the_repl_is_replaced_by_use_count(repl, monkeypatch):
    monkeypatch.setattr(lean_repl, "USES", 3)
    assert outcomes(repl, ["h"]) == ["type"]
    first = repl.boxes[0]
    assert outcomes(repl, ["⟨h.2, h.1⟩", "h.1", "h.2", "⟨h.2, h.2⟩"]) == ["proved", "type", "type", "type"]
    assert repl.boxes[0] is not first


def test_several_repls_and_equal_jobs(project):
    repls = lean_repl.repls(lean_setup.installation(), CORE, workers=2)
    assert outcomes(repls, ["⟨h.2, h.1⟩", "h", "h.1", "h", "⟨h.2, h.1⟩"]) == ["proved", "type", "type", "type", "proved"]
    assert sum(box.used for box in repls.boxes) == 3
    repls.close()


@pytest.mark.parametrize("word", ["standin_dies", "standin_babbles", "standin_refuses"])
def test_a_crash_or_a_desync_is_unknown_and_the_next_job_is_fine(repl, word):
    assert outcomes(repl, [word, "⟨h.2, h.1⟩"]) == ["unknown", "proved"]


def test_an_answer_that_overflows_the_stack_fails(repl):
    verdicts = repl.run([job("standin_overflows"), job("⟨h.2, h.1⟩")])
    assert [(verdict.outcome, verdict.reason) for verdict in verdicts] == [("other", "Lean ran out of stack"), ("proved", "")]


def test_an_answer_too_many_never_becomes_the_verdict_of_another_job(repl):
    verdicts = repl.run([job("standin_answers_twice"), job("⟨h.1, h.1⟩"), job("⟨h.2, h.1⟩")])
    assert verdicts[0].outcome == "unknown" and [verdict.outcome for verdict in verdicts[1:]] == ["type", "proved"]


def test_time_and_memory_are_the_candidates_own(repl):
    verdicts = repl.run([job("standin_burns", cpu=0.3), job("standin_eats", memory=2**29, cpu=30.0), job("⟨h.2, h.1⟩")])
    assert [verdict.outcome for verdict in verdicts] == ["timeout", "other", "proved"]
    assert "memory" in verdicts[1].reason


def test_the_gate_uses_the_repl(project):
    assert lean.tier() == "bubblewrap with Lean 4.35.0 (repl)"
    (judgement,) = lean.judge(lean.Settings(header=CORE, axioms=(), timeout=5.0), [Answer("⟨h.2, h.1⟩", {"statement": SWAP})])
    assert judgement.status == "pass"


def test_a_refused_header_says_so(project):
    repls = lean_repl.repls(lean_setup.installation(), CORE + "\ntheorem x : False := True.intro", workers=1)
    (verdict,) = repls.run([GOOD])
    assert verdict.outcome == "unknown" and "refuses the header" in verdict.reason


def test_projects_that_will_not_do(project, monkeypatch, tmp_path):
    monkeypatch.setenv(lean_setup.REPL, str(tmp_path))
    with pytest.raises(VerifierUnavailable, match="without a lakefile"):
        lean.tier()
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty/lakefile.lean").write_text("")
    monkeypatch.setenv(lean_setup.REPL, str(tmp_path / "empty"))
    with pytest.raises(VerifierUnavailable, match="has no REPL"):
        lean.tier()


# ---- a kimina-lean-server


class Kimina(ThreadingHTTPServer):
    """Checks snippets with a real Lean, as far as `statuses` (taken one a request) let it; `most`: snippets that it does not refuse."""

    def __init__(self, program):
        super().__init__(("127.0.0.1", 0), Handler)
        self.keys = []
        self.program, self.statuses, self.most, self.sizes, self.late = program, [], 99, [], set()

    def result(self, snippet):
        lines = snippet["code"].split("\n")
        while lines and (not lines[0].strip() or lines[0].startswith("import ")):  # they are checked by themselves
            lines.pop(0)
        code = "\n".join(lines)
        if any(word in code for word in self.late):
            return {"id": snippet["id"], "time": 5.0, "error": "Lean REPL command timed out in 5.0 seconds"}
        if "standin_header" in code:
            return {"id": snippet["id"], "time": 5.0, "error": "Lean REPL header command timed out in 5.0 seconds"}
        if "standin_fails" in code:
            return {"id": snippet["id"], "time": 0.1, "response": {"message": "unknown package"}}
        output = subprocess.run([self.program, "--json", "--stdin"], input=code, capture_output=True, text=True).stdout
        messages = [
            {**message, "severity": message["severity"].replace("information", "info")} for message in map(json.loads, output.splitlines())
        ]
        return {"id": snippet["id"], "time": 0.1, "response": {"env": 1, "messages": messages}}


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert self.path == "/api/check" and asked["timeout"] == 5 and asked["reuse"] is True
        self.server.keys.append(self.headers.get("Authorization"))
        self.server.sizes.append(len(asked["snippets"]))
        status = self.server.statuses.pop(0) if self.server.statuses else 200
        if len(asked["snippets"]) > self.server.most:
            status = 429
        content = json.dumps(
            {"results": [self.server.result(snippet) for snippet in asked["snippets"]]} if status == 200 else {"detail": "no"}
        )
        self.send_response(status)
        self.end_headers()
        self.wfile.write(content.encode())

    def log_message(self, *_):
        pass


@pytest.fixture
def kimina(lean_program, monkeypatch):
    monkeypatch.setattr(lean_server, "PAUSE_SECONDS", 0.0)
    server = Kimina(lean_program)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def remote(kimina):
    return lean_server.Server(f"http://127.0.0.1:{kimina.server_port}")


def test_verdicts_of_the_server(remote, kimina):
    answers = ["⟨h.2, h.1⟩", "⟨h.1, h.1⟩", "(h", "by {}", "sorry"]
    assert outcomes(remote, answers) == ["proved", "type", "syntax", "tactic", "forbidden"]
    assert kimina.sizes == [4], "what is forbidden is not sent"
    assert outcomes(remote, answers) == ["proved", "type", "syntax", "tactic", "forbidden"]
    assert kimina.sizes == [4], "equal jobs are checked once"


def test_lines_are_counted_after_the_imports(remote):
    assert outcomes(remote, ["⟨h.2, h.1⟩", "h"], header="import Mathlib\nimport Aesop\n\n" + CORE) == ["proved", "type"]


def test_a_refused_batch_is_asked_again_in_halves(remote, kimina):
    kimina.most = 2
    answers = ["⟨h.2, h.1⟩", "h", "h.1", "h.2", "⟨h.2, h.2⟩"]
    assert outcomes(remote, answers) == ["proved", "type", "type", "type", "type"]
    assert kimina.sizes == [5, 2, 3, 1, 2]


def test_a_single_proof_that_is_refused_for_ever_is_unknown(remote, kimina):
    kimina.statuses = [500, 429, 200]
    assert outcomes(remote, ["⟨h.2, h.1⟩"]) == ["proved"]
    kimina.statuses = [500] * 3
    verdicts = remote.run([job("h")])
    assert (verdicts[0].outcome, "status 500" in verdicts[0].reason) == ("unknown", True)
    assert outcomes(remote, ["h"]) == ["type"], "unknown is not remembered"


def test_time_outs_count_when_they_come_again_alone(remote, kimina):
    kimina.late = {"slow_one"}
    assert outcomes(remote, ["slow_one", "h"]) == ["timeout", "type"]
    assert kimina.sizes == [2, 1]
    assert outcomes(remote, ["standin_header", "standin_fails"]) == ["unknown", "unknown"]


def test_a_key_is_sent_where_there_is_one(remote, kimina, monkeypatch):
    outcomes(remote, ["h"])
    monkeypatch.setenv(lean_setup.SERVER_KEY, "word")
    outcomes(remote, ["h.1"])
    assert kimina.keys == [None, "Bearer word"]


def test_letters_beyond_the_first_plane_and_half_letters(repl):
    assert outcomes(repl, ["𝓝 h", "⟨h.2, h.1⟩ -- 𝓝", "h \ud800"]) == ["type", "proved", "syntax"]


def test_nobody_there():
    assert outcomes(lean_server.Server("http://127.0.0.1:9"), ["h"])[0] == "unknown"


def test_the_gate_uses_the_server(kimina, monkeypatch):
    monkeypatch.setenv(lean_setup.SERVER, f"http://127.0.0.1:{kimina.server_port}/")
    settings = lean.Settings(header=CORE, axioms=(), timeout=5.0)
    assert [judgement.status for judgement in lean.judge(settings, [Answer("⟨h.2, h.1⟩", {"statement": SWAP})])] == ["pass"]
    assert lean.tier().startswith("a Lean server")
    for address in ("localhost:8000", "ftp://x", "http://user:word@host", "http://"):
        monkeypatch.setenv(lean_setup.SERVER, address)
        with pytest.raises(VerifierUnavailable, match="no address"):
            lean.tier()
