"""What a process and its descendants use."""

import os
import subprocess
import sys
from pathlib import Path

from stages.train.verifiers.family import usage

HOLD = "held = bytearray(64 << 20); sum(range(3000000)); print(flush=True); input()"
BELOW = f"import subprocess, sys; one = subprocess.Popen([sys.executable, '-c', {HOLD!r}], stdin=subprocess.PIPE); one.wait()"


def test_descendants_count():
    with subprocess.Popen([sys.executable, "-c", BELOW], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        parent.stdout.readline()
        seconds, resident = usage(parent.pid)
        alone = int(Path(f"/proc/{parent.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        parent.kill()
    assert seconds > 0 and resident > alone + (64 << 20)


def test_a_process_that_has_gone_uses_nothing():
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    assert usage(gone.pid) == (0.0, 0)
