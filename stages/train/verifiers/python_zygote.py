"""The inside of the Python verifier: loads the standard library once, locks itself up, then forks one process a candidate.

Run as a program of its own, from source text, with the standard library only. It talks through stdin and stdout in frames: four
bytes of length (little endian), then the content. The first frame from the host is the setup, each later one a job:

    {"id", "nonce", "code", "answer": "function" | "expression", "names": [...], "calls": "<JSON>", "cpu": s, "wall": s, "memory": B}

The answer to a job is two frames: a header {"id", "status" (of wait), "why", "cpu"} and what the candidate wrote, untrusted.
A candidate's process holds nothing but /dev/null and the pipe it writes its values to. Expected values never come in here.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import ctypes
import gc
import importlib
import json
import math
import os
import random
import resource
import select
import signal
import struct
import sys
import time
import types
from typing import Any

OUTPUT_BYTES = 4 * 2**20
"""More than this from one candidate ends it."""
RESULT_FD = 3
LOCKED = b"."
"""First byte from a candidate's process, written behind its filter and before its code runs: without it, it never ran."""
PRELOADED = (
    "abc argparse array base64 binascii bisect calendar cmath codecs collections collections.abc colorsys contextlib copy csv dataclasses "
    "datetime decimal difflib enum fractions functools graphlib hashlib heapq hmac html inspect io itertools json keyword locale logging "
    "math numbers operator pickle pprint queue random re reprlib secrets statistics string struct textwrap threading time timeit token "
    "tokenize traceback types typing unicodedata unittest urllib.parse uuid warnings weakref zlib "
    "encodings.idna encodings.latin_1 encodings.ascii"
)
"""What candidates may import: they cannot open files, so what is not loaded here does not exist for them."""
_PR_SET_PDEATHSIG, _PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 1, 22, 38
_SECCOMP_FILTER = 2
_LANDLOCK_CREATE, _LANDLOCK_RESTRICT = 444, 446
_LANDLOCK_FILES = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
"""ABI version -> number of file access rights it knows; later versions know those of 5."""
_libc = ctypes.CDLL(None, use_errno=True)


def read_exactly(size: int) -> bytes:
    """Bytes from the host; when it has gone, so do we."""
    content = b""
    while len(content) < size:
        chunk = os.read(0, size - len(content))
        if not chunk:
            os._exit(0)
        content += chunk
    return content


def read_frame() -> Any:
    (size,) = struct.unpack("<I", read_exactly(4))
    return json.loads(read_exactly(size))


def write_frame(content: bytes) -> None:
    content = struct.pack("<I", len(content)) + content
    while content:
        content = content[os.write(1, content) :]


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


def program(bpf: bytes) -> tuple[_Program, Any]:
    """A seccomp program and the buffer that must outlive it."""
    buffer = ctypes.create_string_buffer(bpf, len(bpf))
    return _Program(len(bpf) // 8, ctypes.cast(buffer, ctypes.c_void_p)), buffer


def install(filter_: tuple[_Program, Any]) -> None:
    """Put this process behind a filter for good."""
    if _libc.prctl(_PR_SET_SECCOMP, _SECCOMP_FILTER, ctypes.byref(filter_[0]), 0, 0):
        raise OSError(ctypes.get_errno(), "seccomp filter refused")


def landlock() -> int:
    """Forbid all access to files, TCP ports and processes outside; the ABI version, 0 where the kernel has no landlock."""
    abi = max(int(_libc.syscall(ctypes.c_long(_LANDLOCK_CREATE), None, ctypes.c_size_t(0), ctypes.c_long(1))), 0)
    if not abi:
        return 0
    rights = [(1 << _LANDLOCK_FILES.get(abi, 16)) - 1, 0b11 if abi >= 4 else 0, 0b11 if abi >= 6 else 0]
    size = 8 if abi < 4 else 16 if abi < 6 else 24
    attributes = struct.pack("<QQQ", *rights)[:size]
    ruleset = _libc.syscall(ctypes.c_long(_LANDLOCK_CREATE), attributes, ctypes.c_size_t(size), ctypes.c_long(0))
    if ruleset < 0 or _libc.syscall(ctypes.c_long(_LANDLOCK_RESTRICT), ctypes.c_long(ruleset), ctypes.c_long(0)):
        return 0
    os.close(ruleset)
    return abi


def lock_up(setup: dict[str, Any]) -> int:
    """Give up all that the zygote will not need: uid, capabilities, files, most system calls. Returns landlock's ABI version."""
    os.chdir("/")
    if setup["uid"] is not None:
        os.setgroups([])
        os.setresgid(setup["uid"], setup["uid"], setup["uid"])
        os.setresuid(setup["uid"], setup["uid"], setup["uid"])
    _libc.capset(struct.pack("<Ii", 0x20080522, 0), struct.pack("<6I", 0, 0, 0, 0, 0, 0))
    if _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "no_new_privs refused")
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    abi = landlock()
    install(program(base64.b64decode(setup["zygote_filter"])))
    return abi


def loaded(job: dict[str, Any]) -> Any:
    """The candidate's function. Raises whatever the candidate raises."""
    module = types.ModuleType("candidate")
    sys.modules["candidate"] = module
    if job["answer"] == "expression":
        tree = ast.parse(job["code"].strip(), "answer", "eval")
        arguments = ast.arguments(posonlyargs=[], args=[ast.arg(name) for name in job["names"]], kwonlyargs=[], kw_defaults=[], defaults=[])
        expression = ast.fix_missing_locations(ast.Expression(ast.Lambda(arguments, tree.body)))
        return eval(compile(expression, "answer", "eval"), module.__dict__)
    exec(compile(job["code"], "answer", "exec"), module.__dict__)
    entry = module.__dict__.get(job["names"][0])
    if not callable(entry):
        raise NameError(f"the answer defines no function {job['names'][0]}")
    return entry


def plain(value: Any) -> bool:
    """Whether a value is made of JSON's types exactly, no subclass among them."""
    kind = type(value)
    if kind is list:
        return all(map(plain, value))
    if kind is dict:
        return all(type(key) is str and plain(item) for key, item in value.items())
    return kind in (int, float, str, bool, type(None))


def called(function: Any, arguments: list[Any]) -> list[str]:
    """["value", JSON], ["raised", type, text] or ["odd", type]: what a call gave, written down before the candidate can change it."""
    try:
        value = function(*arguments)
    except BaseException as error:
        return ["raised", type(error).__name__[:80], str(error)[:120]]
    try:
        if plain(value):
            return ["value", json.dumps(value)]
    except BaseException:
        pass
    return ["odd", type(value).__name__[:80]]


def candidate(job: dict[str, Any], pipe: int, null: int, filter_: tuple[_Program, Any]) -> None:
    """The candidate's process: never returns."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.dup2(pipe, RESULT_FD)  # after the line above: `null` may well be number 3
    os.closerange(RESULT_FD + 1, 64)
    calls = json.loads(job["calls"])
    seconds = math.ceil(job["cpu"] + 0.1)  # for candidates that ignore the profiling timer, which comes first and at the exact time
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_NOFILE, (RESULT_FD + 1, RESULT_FD + 1))
    resource.setrlimit(resource.RLIMIT_AS, (job["memory"], job["memory"]))
    signal.setitimer(signal.ITIMER_PROF, job["cpu"])
    install(filter_)
    random.seed(0)  # fork gave this process a new seed
    os.write(RESULT_FD, LOCKED)
    try:
        function = loaded(job)
    except BaseException as error:
        found: dict[str, Any] = {"load": [type(error).__name__[:80], str(error)[:120]]}
    else:
        found = {"calls": [called(function, arguments) for arguments in calls]}
    content = job["nonce"].encode() + json.dumps(found).encode()
    while content:
        content = content[os.write(RESULT_FD, content) :]
    os._exit(0)


def watched(pid: int, pipe: int, seconds: float) -> tuple[bytes, str]:
    """What the process wrote until it ended, and why we ended it: "wall", "output", or "" when it ended by itself."""
    ended = os.pidfd_open(pid)
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    poll.register(ended, select.POLLIN)
    written = bytearray()
    limit, why, open_ = time.monotonic() + seconds, "", True
    while True:
        left = limit - time.monotonic()
        events = {fd for fd, _ in poll.poll(max(left, 0) * 1000)}
        if pipe in events and open_:
            chunk = os.read(pipe, 65536)
            written += chunk
            if not chunk:
                poll.unregister(pipe)
                open_ = False
        elif ended in events:
            break
        if len(written) > OUTPUT_BYTES or left <= 0:
            why = "output" if len(written) > OUTPUT_BYTES else "wall"
            os.kill(pid, signal.SIGKILL)
            break
    os.close(ended)
    return bytes(written), why


def judged(job: dict[str, Any], null: int, filter_: tuple[_Program, Any]) -> None:
    """Run one job and send its answer."""
    reader, writer = os.pipe()
    try:
        pid = os.fork()
    except OSError as error:
        os.close(reader)
        os.close(writer)
        write_frame(json.dumps({"id": job["id"], "status": 0, "why": f"fork: {error}", "cpu": 0.0}).encode())
        write_frame(b"")
        return
    if pid == 0:
        try:
            candidate(job, writer, null, filter_)
        finally:
            os._exit(1)
    os.close(writer)
    written, why = watched(pid, reader, job["wall"])
    os.close(reader)
    _, status, usage = os.wait4(pid, 0)
    cpu = usage.ru_utime + usage.ru_stime
    write_frame(json.dumps({"id": job["id"], "status": status, "why": why, "cpu": cpu}).encode())
    write_frame(written)


def main() -> None:
    setup = read_frame()
    for name in PRELOADED.split():
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    filter_ = program(base64.b64decode(setup["candidate_filter"]))
    null = os.open(os.devnull, os.O_RDWR)
    abi = lock_up(setup)
    sys.path[:] = []
    gc.collect()
    gc.freeze()
    write_frame(json.dumps({"ready": os.getpid(), "uid": os.getuid(), "landlock": abi}).encode())
    while True:
        judged(read_frame(), null, filter_)


if __name__ == "__main__":
    main()
