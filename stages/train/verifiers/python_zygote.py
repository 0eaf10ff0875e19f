"""The inside of the Python verifier: loads the standard library once, locks itself up, then forks one process a candidate.

Run as a program of its own, from source text, with the standard library only. It talks through stdin and stdout in frames: four
bytes of length (little endian), then the content. The first frame from the host is the setup as JSON, each later one a job: its number
(8 bytes) and its wall seconds (a double), then a dictionary as `marshal` writes it, which only the candidate's process reads:

    {"nonce", "code", "answer": "function" | "expression", "names": (...), "calls": [[...], ...], "cpu": s, "memory": B}

The answer to a job is two frames: "<number> <status of wait> <CPU seconds> <why>" and what the candidate wrote, untrusted: LOCKED, the
nonce, then one line a call: `value <JSON>`, `raised <JSON of [type, text]>`, `odd <JSON of type>`; or one line only:
`load <JSON of [type, text]>`.
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
import marshal
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
HEADER = struct.Struct("<Qd")
"""Number and wall seconds of a job."""
_FUNCTION = "import math\ndef f(xs):\n  best = {}\n  for x in sorted(xs):\n    best[x] = [x, str(x)]\n  return len(best)"
WARM_UP = (
    {"code": _FUNCTION, "answer": "function", "names": ("f",), "calls": [[[3, 1, 2]], [1]]},
    {"code": "(x*2)+3", "answer": "expression", "names": ("x",), "calls": [[1], [-2.5]]},
    {"code": "(x*2)+3)", "answer": "expression", "names": ("x",), "calls": [[1]]},
)
"""What it does before the first job; never a candidate's text."""
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
_PR_GET_DUMPABLE = 3
_SECCOMP_FILTER = 2
_LANDLOCK_CREATE, _LANDLOCK_RESTRICT = 444, 446
_LANDLOCK_FILES = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
"""ABI version -> number of file access rights it knows; later versions know those of 5."""
_encoder = json.JSONEncoder()
_encode = json.encoder.c_make_encoder(  # type: ignore[attr-defined]
    None, _encoder.default, json.encoder.encode_basestring_ascii, None, ": ", ", ", False, False, True
)
_libc = ctypes.CDLL(None, use_errno=True)
_fork = ctypes.PyDLL(None, use_errno=True).fork
"""libc's own. `os.fork` also makes locks anew, seeds `random` and runs the hooks of logging and threading: in a process of one thread that
holds no lock they change nothing, and they wrote on more pages, each copied for it, than all the rest of a job."""
CHUNK = 65536
QUIET_SECONDS = 0.02
"""For so long the zygote only waits for the end of a candidate: whatever it writes meanwhile lies in the pipe, and wakes nobody."""


def read_exactly(size: int) -> bytes:
    """Bytes from the host; when it has gone, so do we."""
    content = b""
    while len(content) < size:
        chunk = os.read(0, size - len(content))
        if not chunk:
            os._exit(0)
        content = content + chunk if content else chunk
    return content


def read_frame() -> bytes:
    (size,) = struct.unpack("<I", read_exactly(4))
    return read_exactly(size)


def write_frames(*frames: bytes) -> None:
    content = b"".join([struct.pack("<I", len(frame)) + frame for frame in frames])
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


def _encoded(value: Any) -> str:
    """As json.dumps, without its layers of Python: it is ASCII on one line."""
    return "".join(_encode(value, 0))


def plain(value: Any) -> bool:
    """Whether a value is made of JSON's types exactly, no subclass among them."""
    kind = type(value)
    if kind is list:
        return all(map(plain, value))
    if kind is dict:
        return all(type(key) is str and plain(item) for key, item in value.items())
    return kind in (int, float, str, bool, type(None))


def called(function: Any, arguments: list[Any]) -> str:
    """What a call gave, as one line, written down before the candidate can change it."""
    try:
        value = function(*arguments)
    except BaseException as error:
        return f"raised {_words(error)}"
    try:
        if plain(value):
            return f"value {_encoded(value)}"
    except BaseException:
        pass
    return f"odd {_encoded(type(value).__name__[:80])}"


def _words(error: BaseException) -> str:
    return _encoded([type(error).__name__[:80], str(error)[:120]])


def outcome(job: dict[str, Any]) -> str:
    """What becomes of the candidate, in lines."""
    try:
        function = loaded(job)
    except BaseException as error:
        return f"load {_words(error)}"
    return "\n".join([called(function, arguments) for arguments in job["calls"]])


def limited(cpu: float, memory: int, files: int) -> None:
    """Bound what this process may use from here on."""
    seconds = math.ceil(cpu + 0.1)  # for candidates that ignore the profiling timer, which comes first and at the exact time
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    signal.setitimer(signal.ITIMER_PROF, cpu)


def candidate(text: bytes, pipe: int, null: int, filter_: tuple[_Program, Any]) -> None:
    """The candidate's process: never returns."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.dup2(pipe, RESULT_FD)  # after the line above: `null` may well be number 3
    os.closerange(RESULT_FD + 1, 64)
    job = marshal.loads(text)
    limited(job["cpu"], job["memory"], RESULT_FD + 1)
    install(filter_)
    os.write(RESULT_FD, LOCKED)
    content = (job["nonce"] + outcome(job)).encode()
    while content:
        content = content[os.write(RESULT_FD, content) :]
    os._exit(0)


def warm_up() -> None:
    """Do what every candidate's process does, until Python has adapted its byte code and filled its caches. What it writes there for the
    first time in a process that is thrown away, it writes for each job anew, on a copy of each page."""
    for job in WARM_UP * 20:
        outcome(marshal.loads(marshal.dumps(job)))
        _libc.prctl(_PR_GET_DUMPABLE, 0, 0, 0, 0)
        HEADER.unpack_from(HEADER.pack(1, 1.0))
    del sys.modules["candidate"]


def watched(pid: int, pipe: int, seconds: float) -> tuple[bytes, str]:
    """Wait until the process ends. What was read of its words meanwhile, so that the pipe has room (`judged` reads the rest), and why we
    ended it: "wall", "output", or "" when it ended by itself."""
    began = time.monotonic()
    ended = os.pidfd_open(pid)
    poll = select.poll()
    poll.register(ended, select.POLLIN)
    written, why = b"", ""
    if not poll.poll(1000 * min(QUIET_SECONDS, seconds)):
        written, why = _drained(pid, pipe, ended, began + seconds)
    os.close(ended)
    return written, why


def _drained(pid: int, pipe: int, ended: int, until: float) -> tuple[bytes, str]:
    """Make room for what the process writes until it ends. Gives what was read and why we ended it."""
    written = bytearray()
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    poll.register(ended, select.POLLIN)
    while True:
        left = until - time.monotonic()
        if len(written) > OUTPUT_BYTES or left <= 0:
            os.kill(pid, signal.SIGKILL)
            return bytes(written), "output" if len(written) > OUTPUT_BYTES else "wall"
        ready = {fd for fd, _ in poll.poll(1000 * left)}
        if pipe in ready:
            written += os.read(pipe, CHUNK)
        elif ready:
            return bytes(written), ""


def judged(frame: bytes, reader: int, writer: int, null: int, filter_: tuple[_Program, Any]) -> None:
    """Run one job and send its answer."""
    number, wall = HEADER.unpack_from(frame)
    pid = _fork()
    if pid == 0:
        try:
            candidate(frame[HEADER.size :], writer, null, filter_)
        finally:
            os._exit(1)
    if pid < 0:
        write_frames(f"{number} 0 0 fork: {os.strerror(ctypes.get_errno())}".encode(), b"")
        return
    written, why = watched(pid, reader, wall)
    _, status, usage = os.wait4(pid, 0)
    while True:  # nobody is left who could write; a pipe gives all that it has
        try:
            chunk = os.read(reader, CHUNK)
        except BlockingIOError:
            break
        written += chunk
        if len(chunk) < CHUNK:
            break
    write_frames(f"{number} {status} {usage.ru_utime + usage.ru_stime:.6f} {why}".encode(), written)


def main() -> None:
    setup = json.loads(read_frame())
    for name in PRELOADED.split():
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    filter_ = program(base64.b64decode(setup["candidate_filter"]))
    null = os.open(os.devnull, os.O_RDWR)
    reader, writer = os.pipe()  # one for all candidates: no two of them live at a time, and what one wrote is read when it has ended
    os.set_blocking(reader, False)
    abi = lock_up(setup)
    sys.path[:] = []
    warm_up()
    random.seed(0)
    gc.collect()
    gc.freeze()
    write_frames(json.dumps({"ready": os.getpid(), "uid": os.getuid(), "landlock": abi}).encode())
    while True:
        judged(read_frame(), reader, writer, null, filter_)


if __name__ == "__main__":
    main()
