"""The inside of the verifier of Lean programs: for each answer one Lean that compiles it and one, new, that checks what was compiled.

Run as a program of its own in a box (see box.py): `lean_inside.py NAME=value ... -- command of Lean`. An answer's content is the text
to compile, the rest of the order is the text to check. This process reads neither. It says `at-<size>` in place of a reason: how much
of the output the first Lean wrote, so that it cannot write what the second one says.
"""

from __future__ import annotations

import ctypes
import math
import os
import resource
import select
import signal
import sys

COMPILED = "/out/Answer.olean"
"""In a file system in memory, of one box and so of one answer."""
_PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS, _SECCOMP_FILTER = 22, 38, 2


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


def become(command: list[str], environment: dict[str, str], text: tuple[int, int, int], output: int, cpu: float, filter_: bytes) -> None:
    """Turn this process into Lean. `text` is what it reads: (descriptor, bytes, offset)."""
    given, null = os.memfd_create("text"), os.open(os.devnull, os.O_RDWR)
    os.write(given, os.pread(*text))
    os.lseek(given, 0, os.SEEK_SET)
    for old, new in ((given, 0), (output, 1), (null, 2)):
        os.dup2(old, new)
    os.closerange(3, 2**20)
    seconds = math.ceil(cpu + 0.1)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    signal.setitimer(signal.ITIMER_PROF, cpu)
    buffer = ctypes.create_string_buffer(filter_, len(filter_))
    program = _Program(len(filter_) // 8, ctypes.cast(buffer, ctypes.c_void_p))
    libc = ctypes.CDLL(None)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(_PR_SET_SECCOMP, _SECCOMP_FILTER, ctypes.byref(program), 0, 0):
        raise OSError("seccomp filter refused")
    os.execve(command[0], command, environment)


def run(wall: float, *arguments: object) -> tuple[int, float, str]:
    """(status, CPU seconds, why it was ended or "-") of a Lean."""
    pid = os.fork()
    if pid == 0:
        try:
            become(*arguments)  # type: ignore[arg-type]
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
    ended = os.pidfd_open(pid)
    poll = select.poll()
    poll.register(ended, select.POLLIN)
    why = "-" if poll.poll(1000 * wall) else "wall"
    if why == "wall":
        os.kill(pid, signal.SIGKILL)
    os.close(ended)
    _, status, usage = os.wait4(pid, 0)
    return status, usage.ru_utime + usage.ru_stime, why


def main() -> None:
    place = sys.argv.index("--")
    environment = dict(entry.split("=", 1) for entry in sys.argv[1:place])
    command = sys.argv[place + 1 :]
    _, contents, filter_size, output_bytes = map(int, sys.stdin.readline().split())
    filter_ = os.pread(contents, filter_size, 0)
    size_limit = max(output_bytes, 2**28)  # what was compiled may be larger than what is said
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_limit, size_limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.write(1, b"ready\n")
    for line in sys.stdin:
        offset, answer, rest, output, milliseconds, _, wall = map(int, line.split())
        limits = (output, milliseconds / 1000, filter_)
        compiled = [*command, "-o", COMPILED]
        status, seconds, why = run(wall / 1000, compiled, environment, (contents, answer, offset), *limits)
        if status == 0 and why == "-":
            why = f"at-{os.fstat(output).st_size}"
            run(wall / 1000, command, environment, (contents, rest, offset + answer), *limits)
        os.write(1, f"{status} {seconds:.6f} {why}\n".encode())


if __name__ == "__main__":
    main()
