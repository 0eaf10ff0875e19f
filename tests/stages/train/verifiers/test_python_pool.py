"""What comes back for each kind of answer: values, the candidate's fault, or ours. In every tier."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from stages.train.verifiers import python_pool, python_zygote, zygote_pool
from stages.train.verifiers.python_pool import Job, Pool, clean, read
from stages.train.verifiers.python_process import PythonZygote
from stages.train.verifiers.zygote_process import Answered

ROOT = Path(__file__).parents[4]
MEMORY = 512 * 2**20


def function(code, *calls, cpu=1.0, entry="f"):
    return Job(code, "function", (entry,), json.dumps(calls), cpu, MEMORY)


def expression(code, *calls, names=("x",), cpu=1.0):
    return Job(code, "expression", names, json.dumps(calls), cpu, MEMORY)


def ran(pool, job):
    (found,) = pool.run([job])
    return found


def values(pool, job):
    found = ran(pool, job)
    assert found.outcome == "values", found
    return [value.value if value.ok else value.error for value in found.values]


def test_values(pool):
    assert values(pool, function("def f(a, b): return {'s': [a + b, None, True, 1.5, '\\ud800']}", [1, 2])) == [
        {"s": [3, None, True, 1.5, "\ud800"]}
    ]
    assert values(pool, expression(" (x*2)+3\n", [1], [-4])) == [5, -5]
    assert values(pool, expression("a - b  # comment", [5, 3], names=("a", "b"))) == [2]
    assert values(pool, function("import math, collections, heapq\ndef f(n): return math.gcd(n, 12)", [18])) == [6]
    assert values(pool, function("class A:\n  def g(self): return __name__\ndef f(): return A().g()", [])) == ["candidate"]
    assert values(pool, function("from dataclasses import dataclass\n@dataclass\nclass A:\n  n: 'int'\ndef f(): return A(3).n", [])) == [3]


def test_calls_do_not_see_each_other(pool):
    assert values(pool, function("def f(a):\n  a.append(1)\n  return a", [[]], [[]])) == [[1], [1]]
    assert values(pool, function("kept = []\ndef f(x):\n  kept.append(x)\n  return kept", [1], [2])) == [[1], [1, 2]]


def test_equal_on_every_run(pool):
    job = function("import random\ndef f(): return [random.random(), hash('octavo'), list({'a', 'b', 'c', 'd', 'e'})]", [])
    first = values(pool, job)
    other = Pool(pool._tier)
    again = values(other, job)
    other.close()
    assert first == again
    assert first[0][0] == 0.8444218515250481


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("(x*2)+3)", "does not load: SyntaxError: unmatched ')' (answer, line 1)"),
        ("x; y", "does not load: SyntaxError"),
        ("import os", "does not load: SyntaxError"),
        ("x) + (x", "does not load: SyntaxError"),
        ("y = x", "does not load: SyntaxError"),
        ("", "does not load: SyntaxError"),
        ("x\0", "does not load: "),
        ("'\ud800'", "does not load: UnicodeEncodeError"),
        ("-" * 100_000 + "x", ""),
        ("(" * 100_000, ""),
        ("x" + "+x" * 50_000, ""),
    ],
)
def test_expressions_that_do_not_load(pool, code, reason):
    found = ran(pool, expression(code, [1]))
    assert found.outcome == "stopped" and found.reason.startswith(reason)


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("def f(:", "does not load: SyntaxError"),
        ("def g(): pass", "does not load: NameError: the answer defines no function f"),
        ("f = 3", "does not load: NameError"),
        ("raise ValueError('no')", "does not load: ValueError: no"),
        ("import numpy", "does not load: ModuleNotFoundError"),
        ("raise SystemExit", "does not load: SystemExit"),
        ("import time\ntime.sleep(1000)", "does not load: PermissionError"),
        ("open('/etc/passwd')", "does not load: PermissionError"),
        ("import os\nos._exit(0)", "ended without a result"),
        ("import os\ndef f(): os._exit(0)", "ended without a result"),
        ("import os\nos.close(3)\ndef f(): return 9", "ended without a result"),
        ("while True: pass", "timeout: used more than 0.2 s of CPU time"),
        ("while True: print('x' * 1000)", "timeout"),
        ("def f(): return 9**9**9**9", "timeout"),
        ("import os\nos.close(3)\nwhile True: pass", "timeout"),
        ("import signal\nsignal.signal(signal.SIGPROF, lambda *_: None)\nwhile True: pass", "timeout"),
        ("import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\nwhile True: pass", "timeout"),
        ("try:\n  while True: pass\nexcept BaseException: pass\ndef f(): return 1", "timeout"),
        ("import ctypes\nctypes.string_at(0)", "crashed with signal 11"),
        ("import threading\nlock = threading.Lock()\nlock.acquire()\nlock.acquire()", "crashed with signal"),
        ("import os\ntry:\n  while True: os.write(3, b'x' * 65536)\nexcept OSError: pass", "the result is too large"),
        ("def f(): return 'x' * 5_000_000", "the result is too large"),
        ("import os\nos.write(3, b'{}')\nos._exit(0)", "ended without a result"),
        ("import os\nos.write(3, b'[' * 1_000_000)\nos._exit(0)", "ended without a result"),
    ],
)
def test_candidates_that_are_at_fault(pool, code, reason):
    found = ran(pool, function(code, [], cpu=0.2))
    assert (found.outcome, found.values) == ("stopped", ())
    assert found.reason.startswith(reason), found.reason
    assert found.cpu < 1.5


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("def f(): return (1, 2)", "returned a tuple, which is not plain data"),
        ("def f(): return {1: 2}", "returned a dict, which is not plain data"),
        ("def f(): return {1, 2}", "returned a set"),
        ("class T:\n  def __eq__(self, other): return True\ndef f(): return T()", "returned a T"),
        ("class I(int):\n  def __eq__(self, other): return True\ndef f(): return I(3)", "returned a I"),
        ("def f():\n  a = []\n  a.append(a)\n  return a", "returned a list"),
        ("def f(): return 10**5000", "returned a int"),
        ("import sys\nsys.set_int_max_str_digits(0)\ndef f(): return 10**5000", "returned a value that cannot be read"),
        ("def f():\n  a = []\n  for _ in range(100000): a = [a]\n  return a", "returned a list"),
        ("def f(): return f()", "raised RecursionError"),
        ("def f(): raise KeyboardInterrupt", "raised KeyboardInterrupt"),
        ("def f(): return len(bytearray(10 * 2**30))", "raised MemoryError"),
        ("def f(): return input()", "raised EOFError"),
        ("def f(): raise ValueError('<b>\\n\\x1b[31m\\ud800')", "raised ValueError: <b>  [31m\\ud800"),
        ("def f(x): return x", "raised TypeError"),
    ],
)
def test_calls_that_give_no_value(pool, code, error):
    (found,) = ran(pool, function(code, [])).values
    assert not found.ok and found.value is None
    assert found.error.startswith(error)


def test_deep_recursion_harms_only_the_candidate(pool):
    code = "import sys\nsys.setrecursionlimit(10**9)\ndef f(n): return [f(n + 1)]"
    assert ran(pool, function(code, [0])).outcome in ("stopped", "values")
    assert values(pool, function("def f(): return 1", [])) == [1]


def test_numbers_that_json_does_not_have(pool):
    nan, infinite = values(pool, function("def f(s): return float(s)", ["nan"], ["inf"]))
    assert nan != nan and infinite == float("inf")


def test_one_candidate_cannot_poison_the_next(pool):
    poison = (
        "import builtins, json, sys\njson.dumps = lambda *a, **k: '9'\nbuiltins.len = lambda x: 9\nsys.modules.clear()\ndef f(): return 1"
    )
    ran(pool, function(poison, []))
    assert values(pool, function("import json\ndef f(): return [len('ab'), json.dumps([1])]", [])) == [[2, "[1]"]]


@pytest.mark.parametrize("size", [1, 65_535, 65_536, 131_072, 196_608])
@pytest.mark.parametrize("ending", ["os._exit(0)", "os.kill(os.getpid(), 11)", "while True: pass", "time.sleep(0)\nos._exit(1)"])
def test_nothing_of_one_candidate_is_left_for_the_next(pool, size, ending):
    """All candidates of a zygote write into one pipe, one after the other."""
    code = f"import os, time\nos.write(3, b'x' * {size})\n{ending}"
    assert ran(pool, function(code, [], cpu=0.1)).outcome == "stopped"
    assert values(pool, function(f"def f(x): return x + {size}", [1])) == [1 + size]


def test_equal_jobs_run_once_and_are_kept(pool):
    fresh = Pool(pool._tier)
    job, other = expression("x + 41", [1]), expression("x + 40", [1])
    found = fresh.run([job, other, job, job])
    before = fresh.zygotes[0].jobs
    assert [one.values[0].value for one in found] == [42, 41, 42, 42]
    assert fresh.run([job])[0] == found[0]
    assert fresh.zygotes[0].jobs == before == 3 + 2, "three canaries and two jobs"
    loop = function("while True: pass", [], cpu=0.05)
    fresh.run([loop, loop])
    fresh.run([loop])
    assert fresh.zygotes[0].jobs == before + 2, "a time-out is not kept: it may end otherwise next time"
    fresh.close()


def test_the_cpu_limit_is_not_a_wall_limit(pool):
    """A busy neighbour does not make an answer time out: 4 processes share the cores with it."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * (os.cpu_count() or 1))]
    try:
        found = ran(pool, function("import time\ndef f():\n  while time.process_time() < 0.3: pass\n  return 1", [], cpu=0.9))
    finally:
        for process in busy:
            process.kill()
            process.wait()
    assert found.outcome == "values"


def test_a_killed_zygote_is_replaced(pool):
    first = pool.pid or (pool.run([expression("x", [0])]), pool.pid)[1]
    os.kill(first, signal.SIGKILL)
    assert values(pool, expression("x + 1000", [1])) == [1001]
    assert pool.pid != first


def test_an_interrupt_leaves_nothing_half_said(pool):
    def interrupt(number, frame):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for delay in (0.001, 0.003, 0.01, 0.1):
            signal.setitimer(signal.ITIMER_REAL, delay)
            with pytest.raises(KeyboardInterrupt):
                pool.run([function("while True: pass", [], cpu=0.9)])
            assert values(pool, expression(f"x + {delay}", [1])) == [1 + delay]
    finally:
        signal.signal(signal.SIGALRM, before)


def test_starvation_is_told_from_a_time_out(tier):
    """Seen from the zygote: the wall limit comes before the CPU limit only when the process did not get its share."""
    zygote = PythonZygote(tier)
    job = {"code": "while True: pass", "answer": "function", "names": ("f",), "calls": [], "cpu": 5.0, "memory": MEMORY}
    _, answered = zygote.ask(job, 0.2)
    assert answered.why == "wall" and read(function("", []), "n", answered).outcome == "unknown"
    _, answered = zygote.ask({**job, "cpu": 0.1}, 5.0)
    assert answered.why == "" and answered.status & 127 == signal.SIGPROF
    zygote.close()


def test_a_zygote_that_dies_again_and_again_is_unknown(tier):
    pool, over = Pool(tier), threading.Event()

    def killer():
        while not over.wait(0.01):
            if pool.pid:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pool.pid, signal.SIGKILL)

    thread = threading.Thread(target=killer)
    thread.start()
    found = pool.run([function("def f(): return 1", [], cpu=1.0), function("def f(): return 2", [])])
    over.set()
    thread.join()
    assert {one.outcome for one in found} <= {"unknown", "values"}
    assert any(one.outcome == "unknown" and one.reason for one in found)
    assert [one.values[0].value for one in pool.run([function("def f(): return 3", [])])] == [3], "and afterwards all is well"
    pool.close()


def test_canaries_catch_a_zygote_that_no_longer_knows(tier, monkeypatch):
    monkeypatch.setattr(python_pool, "_GOOD", function("def f(x): return [x, x * x + 1]", [3]))
    pool = Pool(tier)
    (found,) = pool.run([expression("x", [1])])
    assert found.outcome == "unknown" and "a known answer came back as values" in found.reason
    assert pool.pid is None


def test_canaries_come_again_and_zygotes_retire(tier, monkeypatch):
    monkeypatch.setattr(zygote_pool, "CANARY_EVERY", 10)
    monkeypatch.setattr(zygote_pool.Pool, "retire_after", 30)
    pool, pids, jobs = Pool(tier), set(), 60
    for number in range(jobs):
        assert values(pool, expression(f"x + {number}", [1])) == [number + 1]
        pids.add(pool.pid)
    pool.close()
    assert len(pids) >= 3


@pytest.mark.parametrize(
    ("answered", "outcome", "reason"),
    [
        (Answered(0, "wall", 0.01, b"n"), "unknown", "the verifier was starved"),
        (Answered(0, "fork: no", 0.0, b""), "unknown", "the verifier was starved or could not start a process (fork: no)"),
        (Answered(256, "", 0.0, None), "unknown", "the verifier was starved or could not start a process (set-up failed)"),
        (Answered(9, "", 0.01, b"n"), "unknown", "the candidate's process was killed from outside"),
        (Answered(9, "", 1.5, b"n"), "stopped", "timeout"),
        (Answered(27, "", 0.99, b"n"), "stopped", "timeout"),
        (Answered(0, "", 1.5, b"nvalue 1"), "stopped", "timeout"),
        (Answered(0, "", 0.1, b"nvalue 1"), "values", ""),
        (Answered(0, "", 0.1, b"n"), "stopped", "ended without a result"),
        (Answered(0, "", 0.1, b""), "stopped", "ended without a result"),
        (Answered(0, "", 0.1, b"n3"), "stopped", "ended without a result"),
        (Answered(0, "", 0.1, b"mvalue 1"), "stopped", "ended without a result"),
        (Answered(0, "", 0.1, b"mnvalue 1"), "stopped", "ended without a result"),
        (Answered(0, "", 0.1, b"nvalue 1\nvalue 1"), "stopped", "ended without a result"),
        (Answered(0, "", 0.1, b"nvalue 1\n"), "stopped", "ended without a result"),
        (Answered(0, "", 0.1, b"n[1]"), "stopped", "ended without a result"),
        (Answered(0, "", 0.1, b"nload [1]"), "stopped", "ended without a result"),
        (Answered(0, "", 0.1, b"nload 1"), "stopped", "ended without a result"),
        (Answered(0, "", 0.1, b"nraised []"), "stopped", "ended without a result"),
        (Answered(0, "", 0.1, b"nvalue \xff"), "stopped", "ended without a result"),
        (Answered(0, "", 0.1, b"n" + b"value [" * 10), "values", ""),
        (Answered(0, "", 0.1, b'nodd "set"'), "values", ""),
    ],
)
def test_reading_an_answer(answered, outcome, reason):
    found = read(function("", []), "n", answered)
    assert found.outcome == outcome and found.reason.startswith(reason)
    assert found.keep == (outcome == "values" or (outcome == "stopped" and not reason.startswith("timeout")))


def test_clean_text_is_short_printable_utf8():
    assert clean("a\nb\0\ud800") == "a b \\ud800"
    assert len(clean("x" * 1000)) == 200


def test_a_fork_of_the_host_has_its_own_zygote(tier, monkeypatch):
    shared = python_pool.pool()
    monkeypatch.setattr(shared, "_tier", tier)
    shared.close()
    assert values(shared, expression("x", [5])) == [5]
    mine, (reader, writer) = shared.pid, os.pipe()
    child = os.fork()
    if child == 0:
        try:
            (found,) = shared.run([expression("x * 3", [5])])
            os.write(writer, json.dumps([shared.pid, found.values[0].value]).encode())
            shared.close()
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    other, value = json.loads(os.read(reader, 1000))
    os.close(reader)
    os.close(writer)
    assert value == 15 and other not in (mine, None)
    assert values(shared, expression("x * 7", [5])) == [35]
    assert shared.pid == mine, "the parent's zygote lived on"


def test_a_thread_that_ends_does_no_harm(tier):
    pool, found = Pool(tier), []
    thread = threading.Thread(target=lambda: found.extend(pool.run([expression("x", [1])])))
    thread.start()
    thread.join()
    assert values(pool, expression("x + 1", [1])) == [2]
    assert found[0].outcome == "values"
    pool.close()


HOST = """
import sys, os
sys.path.insert(0, {root!r})
from stages.train.verifiers import python_pool
python_pool.pool()._tier = {tier!r}
(ran,) = python_pool.pool().run([python_pool.Job("x", "expression", ("x",), "[[1]]", 1.0, 512 * 2**20)])
print(python_pool.pool().pid, ran.values[0].value, flush=True)
{end}
"""


@pytest.mark.parametrize("end", ["pass", "import time; time.sleep(60)"])
def test_the_zygote_ends_with_its_host(tier, end):
    host = subprocess.Popen([sys.executable, "-c", HOST.format(root=str(ROOT), tier=tier, end=end)], stdout=subprocess.PIPE, text=True)
    pid, value = host.stdout.readline().split()
    assert value == "1"
    if end != "pass":
        host.kill()
    host.wait(20)
    host.stdout.close()
    until = time.monotonic() + 10
    while running(int(pid)) and time.monotonic() < until:
        time.sleep(0.02)
    assert not running(int(pid))


def running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def test_the_zygote_loads_what_it_promises(pool):
    code = "import importlib\ndef f(name):\n  importlib.import_module(name)\n  return name"
    names = python_zygote.PRELOADED.split()
    assert values(pool, function(code, *[[name] for name in names])) == names
