"""Whatever lies in the place of a log: rows, or one sentence that says why not, in under 2 seconds and 200 MB more than a small log."""

import contextlib
import json
import os
import resource
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from stages.contracts.import_card import ColumnCard, ReadCard
from stages.train.imports.files import read_log
from stages.train.imports.log import Unreadable
from stages.train.imports.mapping import map_log
from stages.train.imports.summary import read_summary

FORMATS = ("jsonl", "csv", "trainer_state", "text", "console", "parquet", "wandb", "wandb_file", "tensorboard", "summary")
SECONDS, MEGABYTES = 2.0, 200
ROW = '{{"step": {step}, "reward": {value}}}\n'


def write(content: str | bytes) -> Callable[[Path], None]:
    return lambda path: path.write_bytes(content if isinstance(content, bytes) else content.encode()) and None


def sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, 10**12)


def logged(rows: list[tuple[object, object]]) -> Callable[[Path], None]:
    """The same log in three formats, one after the other: each reader takes what it can."""

    def lay(path: Path) -> None:
        lines = "".join(ROW.format(step=step, value=value) for step, value in rows)
        table = "step,reward\n" + "".join(f"{step},{value}\n" for step, value in rows)
        state = '{"global_step": 3, "log_history": [' + lines.strip().replace("\n", ",") + "]}"
        path.write_text({"csv": table, "trainer_state": state}.get(path.name, lines))

    return lay


def columns(count: int, of_each: int, prefix: str = "") -> Callable[[Path], None]:
    """Rows that have no column but the step in common."""

    def lay(path: Path) -> None:
        rows = [{f"c{row}-{column}": 1 for column in range(of_each)} for row in range(count)]
        lines = [json.dumps({"step": step, "reward": 1, **({prefix: row} if prefix else row)}) for step, row in enumerate(rows)]
        path.write_text(f'{{"log_history": [{",".join(lines)}]}}' if path.name == "trainer_state" else "\n".join(lines) + "\n")

    return lay


def tensor(*sizes: int) -> Callable[[Path], None]:
    """An event of one number, whose shape may say that it stands for 10 GB of them; without a shape, the number is missing."""
    return lambda path: lay_tensor(path, sizes)


def lay_tensor(path: Path, sizes: tuple[int, ...]) -> None:
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.tensor_pb2 import TensorProto
    from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
    from tensorboard.summary.writer.record_writer import RecordWriter

    shape = TensorShapeProto(dim=[TensorShapeProto.Dim(size=size) for size in sizes])
    event = Event(wall_time=1.0, step=1)
    event.summary.value.add(tag="reward", tensor=TensorProto(dtype=1, float_val=[1.0] if sizes else [], tensor_shape=shape))
    with path.open("wb") as stream:
        RecordWriter(stream).write(event.SerializeToString())


HOSTILE: dict[str, Callable[[Path], None]] = {
    "a pipe": os.mkfifo,
    "a link": lambda path: path.symlink_to("/etc/passwd"),
    "a folder": lambda path: path.mkdir(),
    "a terabyte": sparse,
    "zeros": write(b"\0" * 20_000_000),
    "one line": write("a" * 60_000_000),
    "lines": write("a\n" * 20_000_000),
    "brackets": write("[" * 100_000),
    "nested rows": write('{"step": 1, "reward": ' + '{"a":' * 100_000 + "\n"),
    "values": write("[" + "0," * 5_000_000 + "0]"),
    "columns": write("step,reward," + ",".join(f"c{n}" for n in range(100_000)) + "\n1,1" + "," * 100_000 + "\n"),
    "quotes": write('step,reward\n1,"' + "a," * 5_000_000),
    "half a letter": write(b'{"step": 1, "reward": 1}\n{"step": 2, "reward": "\xc3'),
    "half a pair": write('{"step": 1, "reward": "\\ud800"}\n'),
    "digits": write('{"step": 1, "reward": ' + "9" * 100_000 + "}\n"),
    "wide numbers": logged([(1, "9" * 400), (2, "1e999"), (3, "-1e999"), (4, "NaN")]),
    "far steps": logged([(1, 1), (2**52, 1), (2**53 - 1, 1)]),
    "steps beyond all": logged([(1, 1), (10**400, 1)]),
    "back and forth": logged([(step % 2, step) for step in range(40_000)]),
    "resumed for ever": logged([(step % 4, 1) for step in range(40_000)]),
    "columns of each row": columns(10_000, 1),
    "columns of one row": columns(1, 120_000),
    "a long name": columns(1, 100_000, "a" * 1_000_000),
    "a tensor": tensor(50_000, 50_000),
    "a tensor of nothing": tensor(),
    "equal steps": logged([(1, step) for step in range(40_000)]),
}


def read(form: str, path: Path) -> None:
    if form == "summary":
        read_summary(path, {"step": 1})
        return
    card = ReadCard(format=form, pattern="step={step} reward={reward}" if form == "text" else None, columns=(COLUMN,))
    map_log(read_log(path, card), card, 100, "a1")


COLUMN = ColumnCard(metric="reward", column="reward", unit="as it is")


def measured(form: str, path: Path) -> tuple[str, float, float]:
    """(what was raised, seconds of CPU, MB) of a reader in a process of its own."""
    said = path.with_name("said")
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (10, 10))
        signal.alarm(30)
        try:
            read(form, path)
            said.write_text("read")
        except Unreadable as error:
            said.write_text(f"Unreadable: {error}", errors="backslashreplace")
        except BaseException as error:
            said.write_text(f"{type(error).__name__}: {error}"[:500], errors="backslashreplace")
        finally:
            os._exit(0)
    _, status, used = os.wait4(child, 0)
    assert status == 0, (form, status)
    return said.read_text(), used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """MB of readers that have a small log, with all that they import."""
    path = tmp_path_factory.mktemp("log") / "jsonl"
    logged([(1, 1), (2, 1)])(path)
    for form in FORMATS:
        with contextlib.suppress(Unreadable):
            read(form, path)  # in this process, so that a fork has imported all already
    return measured("jsonl", path)[2]


@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.parametrize("form", FORMATS)
def test_a_hostile_log_ends_no_reader(base, tmp_path, monkeypatch, form, kind):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / form
    HOSTILE[kind](path)
    said, seconds, megabytes = measured(form, path)
    assert said == "read" or said.startswith("Unreadable: "), said
    assert len(said) < 1_000 and "root:" not in said
    assert seconds < SECONDS and megabytes < base + MEGABYTES, (seconds, megabytes, base, said)
