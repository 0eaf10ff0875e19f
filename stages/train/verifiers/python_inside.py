"""The inside of the Python verifier: loads the standard library once, locks itself up, then forks one process an answer (see box.py).

Run as a program of its own, from source text, with the standard library only. An answer's content is a dictionary as `marshal` writes
it, which only the forked process reads:

    {"code", "answer": "function" | "expression", "names": (...), "calls": [[...], ...]}

That process writes one line a call: `value <JSON>`, `raised <JSON of [type, text]>`, `odd <JSON of type>`; or one line only:
`load <JSON of [type, text]>`. It holds /dev/null and its own output, nothing else. Expected values never come in here.
"""

from __future__ import annotations

import ast
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
import types
from typing import Any

RESULT_FD = 3
MOST_DESCRIPTORS = 2**20
"""The host may have many files open, and what it hands in keeps its number."""
PRELOADED = (
    "abc argparse array base64 binascii bisect calendar cmath codecs collections collections.abc colorsys contextlib copy csv dataclasses "
    "datetime decimal difflib enum fractions functools graphlib hashlib heapq hmac html inspect io itertools json keyword locale logging "
    "math numbers operator pickle pprint queue random re reprlib secrets statistics string struct textwrap threading time timeit token "
    "tokenize traceback types typing unicodedata unittest urllib.parse uuid warnings weakref zlib "
    "encodings.idna encodings.latin_1 encodings.ascii"
)
"""What answers may import: they cannot open files, so what is not loaded here does not exist for them."""
_PR_SET_PDEATHSIG, _PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 1, 22, 38
_SECCOMP_FILTER = 2
_LANDLOCK_CREATE, _LANDLOCK_RESTRICT = 444, 446
_LANDLOCK_FILES = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
"""ABI version -> number of file access rights it knows; later versions know those of 5."""
_encoder = json.JSONEncoder()
_encode = json.encoder.c_make_encoder(  # type: ignore[attr-defined]
    None, _encoder.default, json.encoder.encode_basestring_ascii, None, ": ", ", ", False, False, True
)
_libc = ctypes.CDLL(None, use_errno=True)


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


def program(bpf: bytes) -> tuple[_Program, Any]:
    """A seccomp program and the buffer that must outlive it."""
    buffer = ctypes.create_string_buffer(bpf, len(bpf))
    return _Program(len(bpf) // 8, ctypes.cast(buffer, ctypes.c_void_p)), buffer


def landlock() -> None:
    """Forbid all access to files, TCP ports and processes outside, where the kernel has landlock."""
    abi = max(int(_libc.syscall(ctypes.c_long(_LANDLOCK_CREATE), None, ctypes.c_size_t(0), ctypes.c_long(1))), 0)
    if not abi:
        return
    rights = [(1 << _LANDLOCK_FILES.get(abi, 16)) - 1, 0b11 if abi >= 4 else 0, 0b11 if abi >= 6 else 0]
    size = 8 if abi < 4 else 16 if abi < 6 else 24
    attributes = struct.pack("<QQQ", *rights)[:size]
    ruleset = _libc.syscall(ctypes.c_long(_LANDLOCK_CREATE), attributes, ctypes.c_size_t(size), ctypes.c_long(0))
    if ruleset >= 0:
        _libc.syscall(ctypes.c_long(_LANDLOCK_RESTRICT), ctypes.c_long(ruleset), ctypes.c_long(0))
        os.close(ruleset)


def lock_up(uid: int, output_bytes: int) -> None:
    """Give up all that is not needed from here on: uid, capabilities, files."""
    os.chdir("/")
    if uid >= 0:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    _libc.capset(struct.pack("<Ii", 0x20080522, 0), struct.pack("<6I", 0, 0, 0, 0, 0, 0))
    if _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "no_new_privs refused")
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (output_bytes, output_bytes))
    landlock()


def loaded(job: dict[str, Any]) -> Any:
    """The answer's function. Raises whatever the answer raises."""
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
    """What a call gave, as one line, written down before the answer can change it."""
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
    """What becomes of the answer, in lines."""
    try:
        function = loaded(job)
    except BaseException as error:
        return f"load {_words(error)}"
    return "\n".join([called(function, arguments) for arguments in job["calls"]])


def limited(cpu: float, memory: int) -> None:
    """Bound what this process may use from here on."""
    seconds = math.ceil(cpu + 0.1)  # for answers that ignore the profiling timer, which comes first and at the exact time
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_NOFILE, (RESULT_FD + 1, RESULT_FD + 1))
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    signal.setitimer(signal.ITIMER_PROF, cpu)


def run_answer(contents: int, order: list[int], null: int, filter_: tuple[_Program, Any]) -> None:
    """The answer's process. Until it is behind its filter, any trouble is ours: it dies as only the outside can kill it later on."""
    offset, size, _, output, milliseconds, memory, _ = order
    try:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        content = os.pread(contents, size, offset)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        os.dup2(output, RESULT_FD)
        os.closerange(RESULT_FD + 1, MOST_DESCRIPTORS)
        job = marshal.loads(content)
        random.seed(0)  # after the fork, which seeds it anew
        limited(milliseconds / 1000, memory)
        if _libc.prctl(_PR_SET_SECCOMP, _SECCOMP_FILTER, ctypes.byref(filter_[0]), 0, 0):
            raise OSError("seccomp filter refused")
    except BaseException:
        os.kill(os.getpid(), signal.SIGKILL)
    written = outcome(job).encode()
    while written:
        written = written[os.write(RESULT_FD, written) :]
    os._exit(0)


def waited(pid: int, seconds: float) -> str:
    """Wait until a process ends; returns "wall" when it was ended here after the limit, else "-"."""
    ended = os.pidfd_open(pid)
    poll = select.poll()
    poll.register(ended, select.POLLIN)
    late = not poll.poll(1000 * seconds)
    if late:
        os.kill(pid, signal.SIGKILL)
    os.close(ended)
    return "wall" if late else "-"


def main() -> None:
    uid, contents, size, output_bytes = map(int, sys.stdin.readline().split())
    for name in PRELOADED.split():
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    filter_ = program(os.pread(contents, size, 0))
    null = os.open(os.devnull, os.O_RDWR)
    lock_up(uid, output_bytes)
    sys.path[:] = []
    gc.collect()
    gc.freeze()
    os.write(1, b"ready\n")
    for line in sys.stdin:
        order = [int(number) for number in line.split()]
        pid = os.fork()
        if pid == 0:
            try:
                run_answer(contents, order, null, filter_)
            finally:
                os._exit(1)
        why = waited(pid, order[-1] / 1000)
        _, status, usage = os.wait4(pid, 0)
        os.write(1, f"{status} {usage.ru_utime + usage.ru_stime:.6f} {why}\n".encode())


if __name__ == "__main__":
    main()
