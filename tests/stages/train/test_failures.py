"""Each class of failure, with its real cause: the machine runs out of something, a library refuses, a signal comes."""

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from stages.contracts.model import DatasetRef
from stages.train import interrupts
from stages.train.attempts import Stopped, classify
from stages.train.data import read_rows


@pytest.fixture(autouse=True)
def in_a_folder(monkeypatch, tmp_path, signals):
    monkeypatch.chdir(tmp_path)


def caught(function):
    with pytest.raises(BaseException) as raised:
        function()
    return raised.value


def cuda_error(words, code):
    error = torch.AcceleratorError(words)
    error.error_code = code
    return error


def full():
    with open("/dev/full", "w") as stream:
        stream.write("x")


def could_not_save():
    try:
        full()
    except OSError as error:
        raise RuntimeError("could not save") from error


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (lambda: caught(lambda: bytearray(1 << 62)), "out_of_memory"),
        (lambda: caught(lambda: torch.empty(1 << 58, dtype=torch.uint8).fill_(1)), "out_of_memory"),
        (lambda: torch.cuda.OutOfMemoryError("tried to allocate"), "out_of_memory"),
        (lambda: cuda_error("CUDA error: unspecified", 2), "out_of_memory"),
        (lambda: OSError(errno.ENOMEM, "Cannot allocate memory"), "out_of_memory"),
        (lambda: cuda_error("CUDA error: out of memory, they say", 719), "bug"),
        (lambda: ValueError("CUDA out of memory"), "bug"),
        (lambda: RuntimeError("size mismatch"), "bug"),
        (lambda: caught(Path("nowhere.txt").read_text), "bug"),
        (lambda: caught(full), "disk"),
        (lambda: caught(could_not_save), "disk"),
        (lambda: caught(lambda: read_rows(DatasetRef(path="rows.jsonl", sha256="0" * 64))), "data"),
    ],
)
def test_the_cause_decides_and_words_only_where_a_library_leaves_nothing_else(error, failure):
    Path("rows.jsonl").write_text('{"id": "a", "prompt": "x"}\n')
    assert classify(error())[0] == failure


def test_the_sentence_names_the_error():
    assert classify(caught(could_not_save)) == ("disk", "No space left on device: (no file named)")
    assert classify(caught(Path("nowhere.txt").read_text))[1].startswith("FileNotFoundError")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
def test_torch_out_of_memory_on_a_gpu():
    assert classify(caught(lambda: torch.empty(1 << 44, dtype=torch.uint8, device="cuda")))[0] == "out_of_memory"


def test_a_full_disk_is_seen_on_the_disk_when_no_error_says_so():
    """A file system of 600 kB in a mount namespace of its own, filled by torch, which raises a RuntimeError of its own."""
    script = (
        "import os, torch\nfrom stages.train.attempts import classify\nos.makedirs('.cache/checkpoints'); os.makedirs('runs')\n"
        "try:\n    torch.save(torch.zeros(1 << 20), '.cache/checkpoints/x')\n"
        "except Exception as error:\n    print(type(error).__name__, *classify(error), sep='|')\n"
    )
    inner = f'mount -t tmpfs -o size=600k none {Path.cwd()} && cd {Path.cwd()} && exec {sys.executable} -c "$0"'
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run(["unshare", "-Urm", "sh", "-c", inner, script], capture_output=True, text=True, env=environment)
    if "|" not in done.stdout:
        pytest.skip(f"no own file system here: {done.stderr.strip()[-200:]}")
    assert done.stdout == "RuntimeError|disk|the disk that holds .cache/checkpoints is full (RuntimeError)\n"


def test_no_inodes_are_no_room_either(monkeypatch):
    monkeypatch.setattr(os, "statvfs", lambda folder: SimpleNamespace(f_bavail=1 << 30, f_frsize=4096, f_files=10, f_favail=0))
    assert classify(RuntimeError("cannot open"))[0] == "disk"


@pytest.fixture
def handlers():
    interrupts.install_handlers()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_is_an_interruption_whatever_it_broke(number, handlers):
    error, sentence = caught(lambda: os.kill(os.getpid(), number)), f"stopped by {number.name}"
    assert isinstance(error, KeyboardInterrupt) and classify(error) == ("interrupted", sentence)
    assert classify(BrokenPipeError(errno.EPIPE, "Broken pipe")) == ("interrupted", sentence)
    assert classify(Stopped("verifier", "its worker is gone")) == ("interrupted", sentence)
    assert classify(Stopped("nonfinite", "measured")) == ("nonfinite", "measured")


def test_a_deferred_signal_comes_later(handlers):
    with interrupts.deferred():
        os.kill(os.getpid(), signal.SIGTERM)
        assert interrupts.received() == "stopped by SIGTERM"
        with pytest.raises(KeyboardInterrupt, match="stopped by SIGTERM"), interrupts.interruptible():
            raise AssertionError("not reached")
    with pytest.raises(KeyboardInterrupt):
        interrupts.check()
