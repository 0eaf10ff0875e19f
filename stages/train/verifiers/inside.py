"""The inside of a box for Python and for Lean: locks itself up, then forks one process an answer (see box.py).

Run as a program of its own, from source text, with the standard library only. Expected values never come in here.

Without a command, answers are Python: the box loads the standard library once, and an answer's content is a dictionary as `marshal`
writes it:

    {"code", "answer": "function" | "expression", "names": (...), "calls": [[...], ...]}

Its process writes one line a call: `value <JSON>`, `raised <JSON of [type, text]>`, `odd <JSON of type>`; or one line only:
`load <JSON of [type, text]>`. It holds /dev/null and its own output, nothing else.

With a command (`inside.py lean --json --stdin`), an answer is a text which a process of it compiles; what it leaves goes to the host.
Where the order has a rest, that is a compiled file which the text imports, and nothing is compiled.

With `inside.py module JSON ARGUMENTS`, the box loads modules of ours from [name, source] pairs and calls `prepare(*ARGUMENTS)` of the last
one; each forked process writes what its `run(answer, rest)` gives.
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
import signal
import stat
import struct
import sys
import types
from typing import Any

FOLDER = "/out"
"""A file system in memory, of one box and so of one answer."""
COMPILED = "Answer.olean"
COMPILED_BYTES = 2**25
"""Most that goes to the host; the answer's process may write twice as much."""
THREADS = 256
"""Most threads of a command, where the kernel counts those of a box by themselves."""
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
_LANDLOCK_FILES = (0, 13, 14, 15, 15, 16)
"""By version of the ABI: number of file access rights that it knows; later versions know those of 5."""
_encode = json.JSONEncoder().encode
_libc = ctypes.CDLL(None, use_errno=True)


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


def landlock() -> None:
    """Forbid all access to files, TCP ports and processes outside, where the kernel has landlock."""
    abi = int(_libc.syscall(ctypes.c_long(_LANDLOCK_CREATE), None, ctypes.c_size_t(0), ctypes.c_long(1)))
    if abi <= 0:
        return
    rights = [(1 << _LANDLOCK_FILES[min(abi, 5)]) - 1, 0b11 if abi >= 4 else 0, 0b11 if abi >= 6 else 0]
    size = 8 if abi < 4 else 16 if abi < 6 else 24
    ruleset = _libc.syscall(ctypes.c_long(_LANDLOCK_CREATE), struct.pack("<QQQ", *rights)[:size], ctypes.c_size_t(size), ctypes.c_long(0))
    if ruleset >= 0:
        _libc.syscall(ctypes.c_long(_LANDLOCK_RESTRICT), ctypes.c_long(ruleset), ctypes.c_long(0))
        os.close(ruleset)


def lock_up(uid: int, output_bytes: int) -> None:
    """Give up all that is not needed from here on: uid, capabilities, large files."""
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


def confine(streams: list[int], cpu: float, memory: int | None, filter_: _Program) -> None:
    """Keep these descriptors alone, as 0, 1, 2...; bound what this process may use; go behind the filter."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    for place, descriptor in enumerate(streams):
        os.dup2(descriptor, place)
    os.closerange(len(streams), MOST_DESCRIPTORS)
    seconds = math.ceil(cpu + 0.1)  # for answers that ignore the profiling timer, which comes first and at the exact time
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    if memory is not None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (len(streams), len(streams)))
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    signal.setitimer(signal.ITIMER_PROF, cpu)
    if _libc.prctl(_PR_SET_SECCOMP, _SECCOMP_FILTER, ctypes.byref(filter_), 0, 0):
        raise OSError("seccomp filter refused")


def loaded(job: dict[str, Any]) -> Any:
    """The answer's function. Raises whatever the answer raises."""
    module = types.ModuleType("candidate")
    sys.modules["candidate"] = module
    if job["answer"] == "expression":
        tree = ast.parse(job["code"].strip(), "answer", "eval")
        arguments = ast.arguments(posonlyargs=[], args=[ast.arg(name) for name in job["names"]], kwonlyargs=[], kw_defaults=[], defaults=[])
        expression = ast.fix_missing_locations(ast.Expression(ast.Lambda(arguments, tree.body)))
        return eval(compile(expression, "answer", "eval"), module.__dict__)
    exec(compile(job["code"], "answer", "exec", dont_inherit=True), module.__dict__)
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


def called(function: Any, arguments: list[Any]) -> str:
    """What a call gave, as one line, written down before the answer can change it."""
    try:
        value = function(*arguments)
    except BaseException as error:
        return f"raised {_words(error)}"
    with contextlib.suppress(BaseException):
        if plain(value):
            return f"value {_encode(value)}"
    return f"odd {_encode(type(value).__name__[:80])}"


def _words(error: BaseException) -> str:
    return _encode([type(error).__name__[:80], str(error)[:120]])


def outcome(job: dict[str, Any]) -> str:
    """What becomes of the answer, in lines."""
    try:
        function = loaded(job)
    except BaseException as error:
        return f"load {_words(error)}"
    return "\n".join([called(function, arguments) for arguments in job["calls"]])


def run_python(content: bytes, output: int, null: int, cpu: float, memory: int, filter_: _Program) -> None:
    try:
        job = marshal.loads(content)
        random.seed(0)  # after the fork, which seeds it anew
        confine([null, null, null, output], cpu, memory, filter_)
    except BaseException:  # ours: it dies as only the outside can kill it later on
        os.kill(os.getpid(), signal.SIGKILL)
    written = outcome(job).encode()
    while written:
        written = written[os.write(3, written) :]
    os._exit(0)


def run_command(content: bytes, rest: bytes, output: int, null: int, cpu: float, command: list[str], filter_: _Program) -> None:
    try:
        place = f"{FOLDER}/{COMPILED}"
        if rest:
            with open(place, "wb") as file:
                file.write(rest)
        text = os.memfd_create("text")
        os.write(text, content)
        os.lseek(text, 0, os.SEEK_SET)
        if tuple(map(int, os.uname().release.split(".")[:2])) >= (5, 14):
            resource.setrlimit(resource.RLIMIT_NPROC, (THREADS, THREADS))
        confine([text, output, null], cpu, None, filter_)
    except BaseException:
        os.kill(os.getpid(), signal.SIGKILL)
    os.execv(command[0], command if rest else [*command, "-o", place])


def run_module(answer: bytes, rest: bytes, output: int, null: int, cpu: float, module: types.ModuleType, filter_: _Program) -> None:
    try:
        confine([null, output, null], cpu, None, filter_)
    except BaseException:
        os.kill(os.getpid(), signal.SIGKILL)
    written = module.run(answer, rest)
    while written:
        written = written[os.write(1, written) :]
    os._exit(0)


def loaded_module(sources: list[list[str]]) -> types.ModuleType:
    """The last of several modules, which may import those before it."""
    for name, source in sources:
        module = sys.modules[name] = types.ModuleType(name)
        exec(compile(source, name, "exec"), module.__dict__)
    return module


def hand_over(contents: int, end: int) -> None:
    """Put what was compiled behind the orders. The answer's process, which has ended, may have left anything there."""
    path = f"{FOLDER}/{COMPILED}"
    with contextlib.suppress(OSError):
        compiled = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        left = os.fstat(compiled)
        if stat.S_ISREG(left.st_mode) and left.st_size <= COMPILED_BYTES:
            os.lseek(contents, end, os.SEEK_SET)
            while os.sendfile(contents, compiled, None, COMPILED_BYTES):
                pass


def main() -> None:
    command, module = sys.argv[1:], None
    uid, contents, filter_size, output_bytes = map(int, sys.stdin.readline().split())
    for name in [] if command else PRELOADED.split():
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    buffer = ctypes.create_string_buffer(os.pread(contents, filter_size, 0), filter_size)
    filter_ = _Program(filter_size // 8, ctypes.cast(buffer, ctypes.c_void_p))
    null = os.open(os.devnull, os.O_RDWR)
    lock_up(uid, 2 * COMPILED_BYTES if command else output_bytes)
    if not command:
        landlock()
        sys.path[:] = []
    elif command[0] == "module":
        module = loaded_module(json.loads(command[1]))
        module.prepare(*command[2:])
    gc.collect()
    gc.freeze()

    os.write(1, b"ready\n")
    for line in sys.stdin:
        offset, size, rest_size, output, milliseconds, memory = map(int, line.split())
        cpu, end = milliseconds / 1000, offset + size + rest_size
        pid = os.fork()
        if not pid:
            try:
                content, rest = os.pread(contents, size, offset), os.pread(contents, rest_size, offset + size)
                if module:
                    run_module(content, rest, output, null, cpu, module, filter_)
                elif command:
                    run_command(content, rest, output, null, cpu, command, filter_)
                run_python(content, output, null, cpu, memory, filter_)
            finally:
                os._exit(1)
        _, status, usage = os.wait4(pid, 0)
        if command and not module:
            hand_over(contents, end)
        os.write(1, f"{status} {usage.ru_utime + usage.ru_stime:.6f} -\n".encode())


if __name__ == "__main__":
    main()
