"""What an answer could do that has taken Lean over, its memory lost: a stand-in for Lean runs it as Python in the real box."""

import base64
import os
import resource
import time
from dataclasses import replace

import pytest

from stages.train.verifiers import isolation, lean, lean_boxes, lean_setup, lean_text, sandbox
from stages.train.verifiers.box import OUTPUT_BYTES, Box, Order
from stages.train.verifiers.lean_read import Message, confirmed
from stages.train.verifiers.lean_text import Job, body

if sandbox.tier() != "bubblewrap" and os.environ.get("CI") != "true":
    pytest.skip("Lean is checked in bubblewrap only, which does not hold here", allow_module_level=True)

HEADER = "prelude\ninductive T : Prop where\n  | intro : T\n"
STAND_IN = r"""
import base64, json, os, re, sys
text = sys.stdin.read()
def write(data, severity="information", line=4):
    print(json.dumps({"severity": severity, "pos": {"line": line, "column": 0}, "data": data}), flush=True)
def claim():
    line = next(n for n, each in enumerate(text.split("\n"), 1) if each.startswith("#print axioms"))
    write("'octavo_checked_n' does not depend on any axioms", line=line)
def compile_it():
    open("/out/Answer.olean", "wb").write(base64.b64decode("COMPILED"))
if found := re.search("-- run ([A-Za-z0-9+/=]+)", text):
    exec(base64.b64decode(found[1]))
else:
    os.lseek(0, 0, os.SEEK_SET)
    os.environ["LD_LIBRARY_PATH"] = os.path.dirname(os.path.dirname(sys.argv[1])) + "/lib"  # /proc/self/exe is the stand-in
    os.execv(sys.argv[1], sys.argv[1:])
"""
"""Runs an answer as Python; what holds no answer, the real Lean compiles."""


@pytest.fixture(scope="module")
def proofs(lean_program):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(lean_setup.PROGRAM, lean_program)
        patch.setattr(lean_text, "nonce", lambda job: "n")
        patch.setattr(lean_boxes, "program", lean_boxes.untried)
        true = lean_setup.installation()
        box = Box(lean_boxes.untried(true, "bubblewrap"), "bubblewrap")
        text = f"{HEADER}axiom octavo_goal_n : T\ntheorem octavo_checked_n : T := T.intro"
        (ended,) = box.ask([Order(text.encode(), 20.0, 2**33)])
        box.close()
        source = STAND_IN.replace("COMPILED", base64.b64encode(ended.left).decode())
        verifier = lean.Proofs(
            replace(true, command=(*isolation.python_command(source), *true.command), needs=(*true.needs, true.command[0])), workers=1
        )
        yield verifier
        verifier.close()


def check(proofs, program, memory=2**30, cpu=2.0):
    answer = f"h -- run {base64.b64encode(program.encode()).decode()}"
    (verdict,) = proofs.run([Job(HEADER, "theorem t : T", answer, "proof", (), cpu, memory)])
    return verdict


def test_the_stand_in_can_prove(proofs):
    """Else the attacks below would prove nothing."""
    assert check(proofs, "compile_it(); claim()").outcome == "proved"
    assert check(proofs, "compile_it(); write('type mismatch', 'error', 8)").outcome == "type"


@pytest.mark.parametrize(
    ("program", "outcome", "reason"),
    [
        ("claim()", "forbidden", "what was compiled is no file"),
        ("compile_it(); claim(); open('/out/Init.olean', 'w').write('mine')", "proved", ""),
        ("compile_it(); claim(); os.mkdir('/out/Goal.olean')", "proved", ""),
        ("open('/out/mine', 'w').write('compiled'); claim(); os.symlink('/out/mine', '/out/Answer.olean')", "forbidden", ""),
        ("claim(); os.symlink('/dev/urandom', '/out/Answer.olean')", "forbidden", "what was compiled is no file"),
        ("compile_it(); claim(); os.lseek(1, 0, 0)", "proved", ""),
        ("os.makedirs('/out/Answer.olean'); claim()", "forbidden", "what was compiled is no file"),
        ("os.mkfifo('/out/Answer.olean'); claim()", "forbidden", "what was compiled is no file"),
        ("claim(); open('/out/Answer.olean', 'w').truncate((1 << 26) - 1)", "forbidden", "what was compiled is no file"),
        ("claim(); open('/out/Answer.olean', 'w').truncate(1 << 25)", "forbidden", "what was compiled is no file"),
        ("claim(); open('/out/Answer.olean', 'w').truncate(1 << 40)", "forbidden", "what was compiled is no file"),
        ("os.write(1, b'not JSON')", "other", "Lean did not write its messages as JSON"),
        ("os.write(1, b'[' * 100_000)", "other", "Lean did not write its messages as JSON"),
        ("sys.exit(1)", "other", "Lean's list of axioms is missing"),
        ("write('unknown identifier', 'error', 6)", "other", "the statement is refused"),
        ("write('unknown package', 'error', 1)", "other", "Lean refuses the header"),
        ("import ctypes; ctypes.string_at(0)", "other", "Lean ran out of stack"),
        ("os.abort()", "other", "Lean ran out of stack"),
        ("while True: pass", "timeout", "used more than 2 s of CPU time"),
        ("import time; time.sleep(1000)", "other", "waits and does not answer"),
        ("import time\nfor _ in range(5): time.process_time()\nwhile True: time.sleep(0.5)", "other", "waits and does not answer"),
        ("held = b'x' * (1500 << 20)\nimport time\nwhile True: time.sleep(0.01)", "other", "used more than 1024 MiB of memory"),
        ("while True: os.write(1, b'x' * 2**20)", "other", "Lean did not write its messages as JSON"),
        ("write('\\ud800 <b>\\n\\x1b[31m', 'error', 8)", "other", "line 1, column 1: "),
        ("write('x' * 2**21, 'error', 6)", "other", "Lean did not write its messages as JSON"),
    ],
)  # fmt: skip
def test_it_can_only_end_or_fail_its_own_proof(proofs, program, outcome, reason, monkeypatch):
    """`proved` stands where the compiled file is right all the same: what else was left there, no other process sees."""
    monkeypatch.setattr(lean.Order, "wall", 20.0)
    began = time.monotonic()
    verdict = check(proofs, program)
    assert verdict.outcome == outcome, verdict
    assert verdict.reason.startswith(reason) and "\ud800" not in verdict.reason and "\x1b" not in verdict.reason
    assert time.monotonic() - began < 120


@pytest.mark.parametrize(
    "attempt",
    [
        "os.fork()", "os.kill(os.getppid(), 9)", "os.kill(-1, 9)", "__import__('socket').socket(1)", "open('/etc/passwd')",
        "open('/usr/mine', 'w')", "os.execv('/bin/sh', ['sh'])", "open(f'/proc/{os.getppid()}/mem', 'rb')", "os.setuid(0)",
        "os.pidfd_open(os.getppid())", "os.listdir('/proc/1/fd')",
        "[__import__('threading').Thread(target=__import__('time').sleep, args=(5,)).start() for _ in range(2000)]",
    ],
)  # fmt: skip
def test_it_reaches_nothing(proofs, attempt):
    """It proves its goal exactly when the attempt is refused."""
    assert (
        check(proofs, f"try:\n    {attempt}\nexcept (OSError, RuntimeError):\n    compile_it(); claim(); os._exit(0)").outcome == "proved"
    )


def test_what_it_writes_costs_the_host_little(proofs):
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    for program in ("while True: os.write(1, b'x' * 2**20)", "[write('[]' * 100, 'error', 2) for _ in range(10_000)]"):
        check(proofs, program)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 * 1024 and time.process_time() - began < 60


def test_a_list_of_axioms_of_any_size_is_read_once():
    job = Job("", "theorem t (h : P) : P", "h", "proof", ("choice",), 1.0, 2**30)
    name, began = body(job).final, time.process_time()
    words = "depends on axioms: [" * (OUTPUT_BYTES // 20)
    for text in (f"'{name}' {words}", f"'{name}' {words}]", f"'{name}' depends on axioms: [{' ' * OUTPUT_BYTES}"):
        assert confirmed(job, body(job), [Message(2, 0, "info", text)]).outcome in ("unknown", "forbidden")
    assert confirmed(job, body(job), [Message(2, 0, "info", f"'{name}' depends on axioms: [choice]")]).outcome == "proved"
    assert time.process_time() - began < 60
