"""Each class of failure, with its real cause: the machine runs out of something, a library refuses, a signal comes."""

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from stages.contracts.diagnostic import StageError
from stages.contracts.model import DatasetRef
from stages.train import interrupts
from stages.train.attempts import Stopped
from stages.train.data import read_rows
from stages.train.failures import classify


@pytest.fixture(autouse=True)
def untold(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(interrupts, "_state", interrupts._SignalState())


def caught(function):
    with pytest.raises(BaseException) as raised:
        function()
    return raised.value


def test_python_out_of_memory():
    assert classify(caught(lambda: bytearray(1 << 62)))[0] == "out_of_memory"


def test_torch_out_of_memory_on_a_cpu_is_told_in_words_alone():
    torch = pytest.importorskip("torch")
    error = caught(lambda: torch.empty(1 << 58, dtype=torch.uint8).fill_(1))
    assert type(error) is RuntimeError and classify(error)[0] == "out_of_memory"


def test_torch_out_of_memory_on_a_gpu():
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        assert classify(caught(lambda: torch.empty(1 << 44, dtype=torch.uint8, device="cuda")))[0] == "out_of_memory"
    assert classify(torch.cuda.OutOfMemoryError("tried to allocate"))[0] == "out_of_memory"


def test_the_error_code_of_cuda_outweighs_its_words():
    torch = pytest.importorskip("torch")
    memory, other = (torch.AcceleratorError(words) for words in ("CUDA error: unspecified", "CUDA error: out of memory, they say"))
    memory.error_code, other.error_code = 2, 719
    assert classify(memory)[0] == "out_of_memory" and classify(other)[0] == "bug"


def test_words_of_an_error_of_our_own_are_no_evidence():
    assert classify(ValueError("CUDA out of memory"))[0] == "bug"
    assert classify(RuntimeError("size mismatch"))[0] == "bug"


def test_a_disk_without_room():
    def full():
        with open("/dev/full", "w") as stream:
            stream.write("x")

    failure, says = classify(caught(full))
    assert failure == "disk" and says.startswith("No space left on device")


def test_a_full_disk_behind_another_error():
    def full():
        try:
            os.write(os.open("/dev/full", os.O_WRONLY), b"x")
        except OSError as error:
            raise RuntimeError("could not save") from error

    assert classify(caught(full)) == ("disk", "No space left on device: (no file named)")


def test_a_full_disk_is_seen_on_the_disk_when_no_error_says_so():
    """A file system of 600 kB in a mount namespace of its own, filled by torch, which raises a RuntimeError of its own."""
    script = (
        "import os, torch\nfrom stages.train.failures import classify\nos.makedirs('.cache/checkpoints'); os.makedirs('runs')\n"
        "try:\n    torch.save(torch.zeros(1 << 20), '.cache/checkpoints/x')\n"
        "except Exception as error:\n    print(type(error).__name__, *classify(error), sep='|')\n"
    )
    inner = f'mount -t tmpfs -o size=600k none {Path.cwd()} && cd {Path.cwd()} && exec {sys.executable} -c "$0"'
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run(["unshare", "-Urm", "sh", "-c", inner, script], capture_output=True, text=True, env=environment)
    if "|" not in done.stdout:
        pytest.skip(f"no file system of one's own here: {done.stderr.strip()[-200:]}")
    assert done.stdout == "RuntimeError|disk|the disk that holds .cache/checkpoints is full (RuntimeError)\n"


def test_no_inodes_are_no_room_either(monkeypatch):
    monkeypatch.setattr(os, "statvfs", lambda folder: SimpleNamespace(f_bavail=1 << 30, f_frsize=4096, f_files=10, f_favail=0))
    assert classify(RuntimeError("cannot open"))[0] == "disk"


def test_a_file_that_is_not_there_is_no_full_disk():
    failure, says = classify(caught(Path("nowhere.txt").read_text))
    assert failure == "bug" and says.startswith("FileNotFoundError")
    assert classify(OSError(errno.ENOMEM, "Cannot allocate memory"))[0] == "out_of_memory", "fork on a machine without memory"


def test_data_that_changed():
    Path("rows.jsonl").write_text('{"id": "a", "prompt": "x"}\n')
    error = caught(lambda: read_rows(DatasetRef(path="rows.jsonl", sha256="0" * 64)))
    assert isinstance(error, StageError) and classify(error)[0] == "data"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_is_an_interruption_whatever_it_broke(number):
    before = {handled: signal.getsignal(handled) for handled in interrupts.HANDLED}
    try:
        interrupts.install_handlers()
        error = caught(lambda: os.kill(os.getpid(), number))
    finally:
        for handled, handler in before.items():
            signal.signal(handled, handler)
    sentence = f"stopped by {number.name}"
    assert isinstance(error, KeyboardInterrupt) and classify(error) == ("interrupted", sentence)
    assert classify(BrokenPipeError(errno.EPIPE, "Broken pipe")) == ("interrupted", sentence)
    assert classify(Stopped("verifier", "its worker is gone")) == ("interrupted", sentence)
    assert classify(Stopped("nonfinite", "measured")) == ("nonfinite", "measured")


def test_a_signal_that_is_held_back_comes_later():
    before = {handled: signal.getsignal(handled) for handled in interrupts.HANDLED}
    try:
        interrupts.install_handlers()
        with interrupts.deferred():
            os.kill(os.getpid(), signal.SIGTERM)
            assert interrupts.received() == "stopped by SIGTERM"
            with pytest.raises(KeyboardInterrupt, match="stopped by SIGTERM"), interrupts.interruptible():
                raise AssertionError("not reached")
        with pytest.raises(KeyboardInterrupt):
            interrupts.check()
    finally:
        for handled, handler in before.items():
            signal.signal(handled, handler)
