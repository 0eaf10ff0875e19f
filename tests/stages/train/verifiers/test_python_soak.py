"""A thousand jobs with zygotes killed on purpose: no wrong verdict, no growth."""

import os
import random
import signal
import threading
from pathlib import Path

from stages.train.verifiers.python_pool import Job, Pool


def fds():
    return len(os.listdir("/proc/self/fd"))


def zombies():
    found = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        found += fields[0] == "Z" and int(fields[1]) == os.getpid()
    return found


def job(kind, number):
    code = {
        "good": f"def f(n):\n  return n * n + {number}",
        "bad": f"def f(n):\n  return n + {number}",
        "exit": f"import os\ndef f(n):\n  os._exit({number % 3})",
        "crash": f"import ctypes\ndef f(n):\n  ctypes.string_at({number % 7})",
    }[kind]
    return Job(code, "function", ("f",), "[[3], [10], [0]]", 1.0, 512 * 2**20)


def right(kind, number, ran):
    if kind in ("exit", "crash"):
        return ran.outcome == "stopped"
    values = [9 + number, 100 + number, number] if kind == "good" else [3 + number, 10 + number, number]
    return ran.outcome == "values" and [value.value for value in ran.values] == values


def test_soak(tier):
    pool, generator, wrong, unknown, killed = Pool(tier), random.Random(7), [], 0, 0
    pool.run([job("good", -1)])
    before = fds()
    for start in range(0, 1000, 20):
        kinds = [(generator.choice(["good", "good", "bad", "exit", "crash"]), number) for number in range(start, start + 20)]
        if start % 100 == 60:  # in the middle of a batch, from another thread
            timer = threading.Timer(generator.uniform(0.005, 0.04), os.kill, (pool.pid, signal.SIGKILL))
            timer.start()
            killed += 1
        if start % 200 == 40:  # between two batches
            os.kill(pool.pid, signal.SIGKILL)
            killed += 1
        for (kind, number), ran in zip(kinds, pool.run([job(*one) for one in kinds]), strict=True):
            unknown += ran.outcome == "unknown"
            if ran.outcome != "unknown" and not right(kind, number, ran):
                wrong.append((kind, number, ran))
    assert wrong == []
    assert unknown == 0, "one retry is enough when a zygote dies once"
    assert killed == 15
    assert fds() == before
    assert zombies() == 0
    pool.close()
    assert fds() < before
