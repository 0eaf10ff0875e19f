"""What comes back for each kind of Python answer: values, the answer's fault, or ours. And boxes that die, starve or are interrupted."""

import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from stages.train.rewards.python_tests import same
from stages.train.verifiers import box, inside, python_answers
from stages.train.verifiers.box import Activity, Box, Ended, members, memory_used
from stages.train.verifiers.python_answers import Job, read
from stages.train.verifiers.verdict import printable

ROOT = Path(__file__).parents[4]


def function(code, *calls, cpu=1.0):
    return Job(code, "function", ("f",), json.dumps(calls), cpu, 512 * 2**20)


def expression(code, *calls, names=("x",)):
    return Job(code, "expression", names, json.dumps(calls), 1.0, 512 * 2**20)


def ran(pool, job):
    (verdict,) = pool.run([job])
    return verdict


def values(pool, job):
    verdict = ran(pool, job)
    assert verdict.outcome == "values", verdict
    return [value.value if value.ok else value.error for value in verdict.values]


@pytest.mark.parametrize(
    ("job", "right"),
    [
        (function("def f(a, b): return {'s': [a + b, None, True, 1.5, '\\ud800']}", [1, 2]), [{"s": [3, None, True, 1.5, "\ud800"]}]),
        (expression(" (x*2)+3\n", [1], [-4]), [5, -5]), (expression("a - b  # comment", [5, 3], names=("a", "b")), [2]),
        (function("import math, collections, heapq\ndef f(n): return math.gcd(n, 12)", [18]), [6]),
        (function("class A:\n  def g(self): return __name__\ndef f(): return A().g()", []), ["candidate"]),
        (function("from dataclasses import dataclass\n@dataclass\nclass A:\n  n: 'int'\ndef f(): return A(3).n", []), [3]),
        (function("def f(a):\n  a.append(1)\n  return a", [[]], [[]]), [[1], [1]]),
        (function("kept = []\ndef f(x):\n  kept.append(x)\n  return kept", [1], [2]), [[1], [1, 2]]),
        (function("def f(s): return [float(s)]", ["inf"], ["-inf"]), [[float("inf")], [-float("inf")]]),
        (function("import random\ndef f(): return [random.random(), list({'a', 'b', 'c'})]", []), [[0.8444218515250481, ["c", "a", "b"]]]),
    ],
)  # fmt: skip
def test_values(pool, job, right):
    assert values(pool, job) == right


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("(x*2)+3)", "does not load: SyntaxError: unmatched ')' (answer, line 1)"), ("x; y", "does not load: SyntaxError"),
        ("import os", "does not load: SyntaxError"), ("x) + (x", "does not load: SyntaxError"), ("y = x", "does not load: SyntaxError"),
        ("", "does not load: SyntaxError"), ("x\0", "does not load: "), ("'\ud800'", "does not load: UnicodeEncodeError"),
        ("-" * 100_000 + "x", ""), ("(" * 100_000, ""), ("x" + "+x" * 50_000, ""),
    ],
)  # fmt: skip
def test_expressions_that_do_not_load(pool, code, reason):
    verdict = ran(pool, expression(code, [1]))
    assert verdict.outcome == "stopped" and verdict.reason.startswith(reason)


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("def f(:", "does not load: SyntaxError"), ("def g(): pass", "does not load: NameError: the answer defines no function f"),
        ("f = 3", "does not load: NameError"), ("raise ValueError('no')", "does not load: ValueError: no"),
        ("import numpy", "does not load: ModuleNotFoundError"), ("raise SystemExit", "does not load: SystemExit"),
        ("import time\ntime.sleep(1000)", "does not load: PermissionError"), ("open('/etc/passwd')", "does not load: PermissionError"),
        ("import os\nos._exit(0)", "ended without a result"), ("import os\ndef f(): os._exit(0)", "ended without a result"),
        ("import os\nos.close(3)\ndef f(): return 9", "ended without a result"),
        ("import os\nos.write(3, b'{}')\nos._exit(0)", "ended without a result"),
        ("import os\nos.write(3, b'[' * 1_000_000)\nos._exit(0)", "ended without a result"),
        ("while True: pass", "timeout: used more than 0.2 s of CPU time"), ("while True: print('x' * 1000)", "timeout"),
        ("def f(): return 9**9**9**9", "timeout"), ("import os\nos.close(3)\nwhile True: pass", "timeout"),
        ("import signal\nsignal.signal(signal.SIGPROF, lambda *_: None)\nwhile True: pass", "timeout"),
        ("import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\nwhile True: pass", "timeout"),
        ("try:\n  while True: pass\nexcept BaseException: pass\ndef f(): return 1", "timeout"),
        ("import ctypes\nctypes.string_at(0)", "crashed"),
        ("import threading\nlock = threading.Lock()\nlock.acquire()\nlock.acquire()", "crashed"),
        ("import os\ntry:\n  while True: os.write(3, b'x' * 65536)\nexcept OSError: pass", "the result is too large"),
        ("def f(): return 'x' * 5_000_000", "the result is too large"),
        ("def f() -> Missing: return 9", "does not load: NameError"),
        ("import ctypes\ncall = ctypes.CDLL(None).syscall\nwhile True: call(324, 1, 0, 0)  # membarrier, asleep as for a disk", "timeout"),
    ],
)  # fmt: skip
def test_candidates_that_are_at_fault(pool, code, reason):
    """And nothing of them is left for the next, whose output goes to the same file."""
    verdict = ran(pool, function(code, [], cpu=0.2))
    assert (verdict.outcome, verdict.values) == ("stopped", ()) and verdict.cpu < 1.5
    assert verdict.reason.startswith(reason), verdict.reason
    assert values(pool, function(f"def f(x): return x + {len(code)}", [1])) == [1 + len(code)]


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("def f(): return (1, 2)", "returned a tuple, which is not plain data"), ("def f(): return {1, 2}", "returned a set"),
        ("def f(): return {1: 2}", "returned a dict, which is not plain data"),
        ("class T:\n  def __eq__(self, other): return True\ndef f(): return T()", "returned a T"),
        ("class I(int):\n  def __eq__(self, other): return True\ndef f(): return I(3)", "returned a I"),
        ("def f():\n  a = []\n  a.append(a)\n  return a", "returned a list"), ("def f(): return 10**5000", "returned a int"),
        ("import sys\nsys.set_int_max_str_digits(0)\ndef f(): return 10**5000", "returned a value that cannot be read"),
        ("def f():\n  a = []\n  for _ in range(100000): a = [a]\n  return a", "returned a list"),
        ("def f(): return f()", "raised RecursionError"), ("def f(): raise KeyboardInterrupt", "raised KeyboardInterrupt"),
        ("def f(): return len(bytearray(10 * 2**30))", "raised MemoryError"), ("def f(): return input()", "raised EOFError"),
        ("def f(): raise ValueError('<b>\\n\\x1b[31m\\ud800')", "raised ValueError: <b> [31m\\ud800"),
        ("def f(x): return x", "raised TypeError"),
    ],
)  # fmt: skip
def test_calls_that_give_no_value(pool, code, error):
    (value,) = ran(pool, function(code, [])).values
    assert not value.ok and value.value is None
    assert value.error.startswith(error)


def test_one_candidate_cannot_harm_the_next(pool):
    poison = (
        "import builtins, json, sys\njson.dumps = lambda *a, **k: '9'\nbuiltins.len = lambda x: 9\nsys.modules.clear()\ndef f(): return 1"
    )
    deep = "import sys\nsys.setrecursionlimit(10**9)\ndef f(): return [f()]"
    pool.run([function(poison, []), function(deep, [])])
    assert values(pool, function("import json\ndef f(): return [len('ab'), json.dumps([1])]", [])) == [[2, "[1]"]]


def test_the_box_loads_what_it_promises(pool):
    names = inside.PRELOADED.split()
    code = "import importlib\ndef f(name):\n  importlib.import_module(name)\n  return name"
    assert values(pool, function(code, *[[name] for name in names])) == names


def test_equal_jobs_run_once_and_are_kept(tier, fresh, monkeypatch):
    verifier, asked, real = fresh(tier), [], Box.ask
    monkeypatch.setattr(Box, "ask", lambda self, orders: asked.extend(orders) or real(self, orders))
    job, other, loop = expression("x + 41", [1]), expression("x + 40", [1]), function("while True: pass", [], cpu=0.05)
    assert [verdict.values[0].value for verdict in verifier.run([job, other, job, job])] == [42, 41, 42, 42]
    verifier.run([job, loop, loop])
    verifier.run([loop])
    assert len(asked) == 4, "a time-out is not kept: it may end otherwise next time"


@pytest.mark.parametrize(
    ("ended", "outcome", "reason"),
    [
        (Ended(0, 0.01, "starved", b"n"), "unknown", "the verifier was starved"), (Ended(0, 0.01, "waited", b"n"), "stopped", "waits"),
        (Ended(9, 0.01, "", b"n"), "unknown", "the answer's process was killed from outside"),
        (Ended(15, 0.01, "", b"n"), "unknown", "the answer's process was killed from outside"),
        (Ended(256, 0.1, "", b"value 1"), "stopped", "ended without a result"), (Ended(9, 1.5, "", b"n"), "stopped", "timeout"),
        (Ended(27, 0.99, "", b"n"), "stopped", "timeout"), (Ended(0, 1.5, "", b"value 1"), "stopped", "timeout"),
        (Ended(0, 0.1, "", b"value 1"), "values", ""), (Ended(0, 0.1, "", b"value [" * 10), "values", ""),
        (Ended(0, 0.1, "", b'odd "set"'), "values", ""),
        *[(Ended(0, 0.1, "", written), "stopped", "ended without a result") for written in (
            b"n", b"", b"n3", b"mvalue 1", b"value 1\nvalue 1", b"value 1\n", b"[1]", b"load [1]", b"load 1", b"raised []", b"value \xff",
        )],
    ],
)  # fmt: skip
def test_reading_what_an_answer_wrote(ended, outcome, reason):
    verdict = read(function("", []), ended)
    assert verdict.outcome == outcome and verdict.reason.startswith(reason)
    assert verdict.keep == (outcome == "values" or (outcome == "stopped" and not reason.startswith(("timeout", "waits"))))


def test_untrusted_words_are_short_printable_utf8():
    assert printable("a\nb\0\ud800") == "a b \\ud800" and len(printable("x" * 1000)) == 200


# ---- time, and boxes that end


def test_the_cpu_limit_is_not_a_wall_limit(pool):
    """Busy neighbours do not make an answer time out."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * (os.cpu_count() or 1))]
    verdict = ran(pool, function("import time\ndef f():\n  while time.process_time() < 0.3: pass\n  return 1", [], cpu=0.9))
    for process in busy:
        process.kill()
        process.wait()
    assert verdict.outcome == "values"


def test_starvation_waiting_and_memory_are_told_from_a_time_out(tier, monkeypatch):
    """The wall limit comes before the CPU limit only when the process did not get its share; the kernel says whether it wanted one."""
    loop, greedy = function("while True: pass", [], cpu=5.0), function("held = b'x' * (200 << 20)\nwhile True: pass", [], cpu=5.0)

    def asked(job, stop="", **changes):
        held = Box(python_answers.program(tier), tier)
        stopping = (
            threading.Timer(0.5, lambda: [getattr(child, stop)() for child in members(held.pid)]) if stop else threading.Timer(0, int)
        )
        stopping.start()
        (ended,) = held.ask([replace(python_answers.order(job), **changes)])
        assert held.whole == (ended.why == "")
        held.close()
        assert memory_used(held.pid) == 0
        return ended

    timed = asked(replace(loop, cpu=0.1))
    assert timed.why == "" and timed.status & 127 == signal.SIGPROF
    assert asked(greedy, resident=100 << 20).why == "memory", "as the host ends Lean, which no limit of the kernel can"
    with monkeypatch.context() as patch:
        patch.setattr(box.Order, "wall", 1.5)
        assert read(loop, asked(loop, "suspend")).outcome == "unknown", "someone else has stopped it"
    assert Activity(frozenset("SR"), ((1, 10**9), (1, 0))).is_starved(2.0) and not Activity(frozenset("SR"), ((1, 10**8),)).is_starved(2.0)
    assert Activity().is_starved(1.0) and not Activity().is_asleep, "a kernel that does not count"


def test_many_jobs_on_several_boxes_come_back_in_order(fresh, tier):
    verifier = fresh(tier, 3)
    verdicts = verifier.run([expression(f"x + {number}", [1]) for number in range(200)])
    assert [verdict.values[0].value for verdict in verdicts] == [number + 1 for number in range(200)]
    assert sum(box is not None for box in verifier.boxes) == 3


def test_a_killed_box_is_replaced_and_no_verdict_changes(pool):
    for number in range(3):
        assert values(pool, expression(f"x + {number} + 700", [1])) == [701 + number]
        os.kill(pool.boxes[0].pid, signal.SIGKILL)
        assert values(pool, expression(f"x + {number} + 1000", [1])) == [1001 + number]


def test_a_box_that_dies_again_and_again_is_unknown(fresh, tier):
    verifier, over = fresh(tier), threading.Event()

    def kill_again_and_again():
        while not over.wait(0.005):
            if held := verifier.boxes[0]:
                with suppress(ProcessLookupError):
                    os.kill(held.pid, signal.SIGKILL)

    thread = threading.Thread(target=kill_again_and_again)
    thread.start()
    spin = "import time\ndef f():\n  while time.process_time() < 0.5: pass\n  return "
    verdicts = verifier.run([function(spin + "1", []), function(spin + "2", [])])
    over.set()
    thread.join()
    assert {verdict.outcome for verdict in verdicts} == {"unknown"} and all(verdict.reason for verdict in verdicts)
    assert values(verifier, function("def f(): return 3", [])) == [3], "and afterwards all is well"


def test_an_interrupt_leaves_nothing_half_said(pool):
    def interrupt(number, frame):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    for delay in (0.001, 0.003, 0.01, 0.1):
        signal.setitimer(signal.ITIMER_REAL, delay)
        with pytest.raises(KeyboardInterrupt):
            pool.run([function("while True: pass", [], cpu=0.9)])
        assert values(pool, expression(f"x + {delay}", [1])) == [1 + delay]
    signal.signal(signal.SIGALRM, before)


def test_a_fork_of_the_host_and_a_thread_that_ends_do_no_harm(fresh, tier):
    verifier = fresh(tier)
    thread = threading.Thread(target=lambda: verifier.run([expression("x", [1])]))
    thread.start()
    thread.join()
    assert values(verifier, expression("x + 1", [5])) == [6]
    mine, (reader, writer) = verifier.boxes[0].pid, os.pipe()
    if os.fork() == 0:
        try:
            value = values(verifier, expression("x * 3", [5]))
            os.write(writer, json.dumps([verifier.boxes[0].pid, value]).encode())
            verifier.close()
        finally:
            os._exit(0)
    os.wait()
    other, value = json.loads(os.read(reader, 1000))
    os.close(reader)
    os.close(writer)
    assert value == [15] and other != mine
    assert values(verifier, expression("x * 7", [5])) == [35] and verifier.boxes[0].pid == mine, "the parent's box lived on"


HOST = """
import sys, time
sys.path.insert(0, {root!r})
from stages.train.verifiers import python_answers as python
from stages.train.verifiers.verifier import Verifier
verifier = Verifier(python.program, python.asking, {tier!r})
(ran,) = verifier.run([python.Job("x", "expression", ("x",), "[[1]]", 1.0, 512 * 2**20)])
print(verifier.boxes[0].pid, ran.values[0].value, flush=True)
time.sleep({seconds})
"""


@pytest.mark.parametrize("seconds", [0, 60])
def test_the_box_ends_with_its_host(tier, seconds):
    source = HOST.format(root=str(ROOT), tier=tier, seconds=seconds)
    with subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.PIPE, text=True) as host:
        pid, value = host.stdout.readline().split()
        if seconds:
            host.kill()
    assert value == "1"
    with suppress(psutil.NoSuchProcess):
        until, process = time.monotonic() + 10, psutil.Process(int(pid))
        while process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
            assert time.monotonic() < until
            time.sleep(0.02)


# ---- an answer's process holds nothing of another answer


READ_ALL_MEMORY = r"""
import ctypes, re
libc = ctypes.CDLL(None)
libc.sbrk.restype = ctypes.c_void_p
libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
end = start = libc.sbrk(0) & ~4095
while libc.madvise(start - 4096, 4096, 0) == 0:
    start -= 4096
siblings = re.findall(rb"octavo_sibling_[a-z]+\(x\): return [ -~]+", ctypes.string_at(start, end - start))
def f(x):
    return len(siblings)
"""


def test_no_answer_finds_another_in_its_memory(fresh, tier):
    """A sibling of the group, in the same box before it, and with a long text; and what that one returned."""
    honest = f'"""{"I think about the problem first. " * 60}"""\ndef octavo_sibling_'
    others = [function(f"{honest}{name}(x): return 3 * x + 7\ndef f(x): return octavo_sibling_{name}(x)", [2]) for name in ("one", "two")]
    verifier = fresh(tier, 1)
    assert [verdict.values[0].value for verdict in verifier.run([*others, function(READ_ALL_MEMORY, [0])])] == [13, 13, 0]
    assert values(verifier, function(READ_ALL_MEMORY + "# later", [0])) == [0]


def test_the_reviewers_attacks_earn_nothing(fresh, tier, shared_attacks):
    """98 answers that try everything; none passes, and a right answer after each still does. The thief finds no sibling."""
    scope, thief = {}, {}
    exec("A={}" + (shared_attacks / "python_98_attacks.py").read_text().split("A={}")[1].split("if __name__")[0], scope)
    inputs = (2, 10, -4, 31)
    right, calls = [3 * x + 7 for x in inputs], [[x] for x in inputs]
    jobs = {name: replace(function(code, *calls, cpu=0.15), memory=256 * 2**20) for name, code in scope["A"].items()}
    verdicts = fresh(tier).run([job for name in jobs for job in (jobs[name], function(f"def f(x): return 3 * x + 7  # {name!r}", *calls))])
    assert len(jobs) == 98
    for name, attack, good in zip(jobs, verdicts[::2], verdicts[1::2], strict=True):
        assert attack.outcome != "unknown", (name, attack)
        assert not same([value.value for value in attack.values], right), name
        assert [value.value for value in good.values] == right, name
    exec("THIEF" + (shared_attacks / "python_reads_siblings.py").read_text().split("THIEF", 1)[1].split("for tier")[0], thief)
    verdicts = fresh(tier, 1).run([function(thief["HONEST"], [2]), function(thief["THIEF"], [2])])
    assert [verdict.values[0].value for verdict in verdicts] == [13, 0]


LEAVING = """
import builtins, os, sys, types
os.environ["OCTAVO_LEFT"] = "1"
builtins.left = sys.left = os.left = 1
os.umask = lambda mask: 0o777
sys.modules["left"] = types.ModuleType("left")
for place in range(3, 20):
    try: os.lseek(place, 900, 0); os.write(place, b"octavo_left")
    except OSError: pass
def f(x): return x
"""
LOOKING = """
import builtins, ctypes, os, sys
def f(x):
    seen = [name for name in ("OCTAVO_LEFT",) if name in os.environ] + [each for each in (builtins, sys, os) if hasattr(each, "left")]
    for place in range(20):
        try: os.lseek(place, 0, 0); seen += [place] * (len(os.read(place, 4096)) > 0)
        except OSError: pass
    return len(seen) + ("left" in sys.modules) + len(os.environ)
"""


def test_an_answer_leaves_nothing_for_the_next(fresh, tier):
    """Neither in the box's process, nor in the file that both write to, nor in the next batch."""
    verifier = fresh(tier, 1)
    (before,) = values(verifier, function(LOOKING, [0]))
    for number in range(2):
        leave, look = (function(f"{code}# {number}", [0]) for code in (LEAVING, LOOKING))
        verifier.run([leave])
        assert values(verifier, look) == [before]


SPAMS = (
    "import os\nwhile True: os.write(3, b'value [' + b'[],' * 2**16)",
    "def f(x): return [[]] * 250_000",
    "def f(x): return {str(n): None for n in range(50_000)}",
    "import os\nos.write(3, b'value ' + b'[' * 500_000 + b']' * 500_000)\nos._exit(0)",
    "import os\nos.write(3, b'value 1e' + b'9' * 1_000_000)\nos._exit(0)",
    "import os\nos.write(3, b'raised [' + b'\"\\\\ud800\",' * 90_000 + b'1]')\nos._exit(0)",
    "def f(x): raise ValueError('\ud800' * 900_000)",
    "class E(Exception): pass\nE.__name__ = 'E' * 900_000\ndef f(x): raise E('\\0' * 900_000)",
)


def test_what_answers_write_costs_the_host_little(fresh, tier):
    verifier = fresh(tier, 2)
    values(verifier, function("def f(x): return 1", [1]))
    jobs = [function(f"{code}\n# {number}", [1], cpu=0.5) for code in SPAMS for number in range(4)]
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    verdicts = verifier.run(jobs)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 * 1024 and time.process_time() - began < 60
    assert not any(verdict.outcome == "unknown" for verdict in verdicts)
    assert all(verdict.reason.encode() and len(verdict.reason) <= 200 for verdict in verdicts if verdict.reason)


@contextmanager
def most_descriptors(number):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, number), hard))
    yield min(hard, number)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_an_answer_holds_no_descriptor_of_others_however_high_their_numbers(fresh, tier):
    count = "import os\ndef f(n):\n  open = 0\n  for fd in range(4, n):\n"
    count += "    try: os.lseek(fd, 0, 1); open += 1\n    except OSError as error: open += error.errno != 9\n  return open"
    with most_descriptors(20_000) as most:
        held = [os.dup(0)]
        while held[-1] < most - 300:
            held.append(os.dup(0))
        assert values(fresh(tier), function(count, [25_000])) == [0]
        for descriptor in held:
            os.close(descriptor)


def test_no_descriptors_left_is_unknown(fresh, tier):
    verifier, lowest = fresh(tier), os.dup(0)
    os.close(lowest)
    with most_descriptors(lowest):
        assert ran(verifier, expression("x", [1])).outcome == "unknown"
    assert values(verifier, expression("x", [1])) == [1]
