"""Format `tensorboard`: event files (`events.out.tfevents.*`), one or a folder of them, in the order of the times at which they begin.

TensorBoard's own reader checks the checksums. A file ends, for octavo as for TensorBoard, at its first frame that is torn (a crash) or
whose checksum is wrong; the note says where, and how much lies behind it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stages.train.imports.log import EVENT_STEP, Log, Unreadable, from_rows

_FAULTS = {
    "header crc32": "the length of a frame has a wrong checksum",
    "event crc32": "a frame has a wrong checksum",
    "truncated": "a frame is torn",
}


def read_tensorboard(path: Path, index: str = EVENT_STEP) -> Log:
    """Raises Unreadable for a file that is none. `Log.at_once` names tags that two files hold at the same time: a run that is resumed
    writes a new file when the old one has ended."""
    files = [_EventFile(file) for file in (path.rglob("*tfevents*") if path.is_dir() else [path])]
    files.sort(key=lambda file: (file.begins, file.path.as_posix()))
    if not files:
        raise Unreadable(f"{path} holds no event file (`*tfevents*`)")
    rows: list[dict[str, Any]] = []
    starts, others, at_once, ends = set[int](), set[str](), dict[str, str](), dict[str, _EventFile]()
    for file in files:
        if file.cut and file.whole == 0 and len(files) == 1:
            raise Unreadable(f"{path} is no event file of TensorBoard: at its beginning {file.fault}")
        starts.add(len(rows))
        rows += file.rows
        others |= file.others
        for tag in sorted({name for row in file.rows for name in row} - {EVENT_STEP}):
            if tag in ends and file.begins < ends[tag].until:
                at_once.setdefault(tag, _overlap(tag, ends[tag].path, file.path))
            ends[tag] = file
    log = from_rows(rows, EVENT_STEP)
    log.starts, log.at_once, log.no_numbers = starts, at_once, others - set(log.columns)
    log.cut = "; ".join(file.cut for file in files if file.cut)
    folders = sorted({file.path.parent.as_posix() for file in files})
    if len(folders) > 1:
        more = ", ..." if len(folders) > 3 else ""
        log.notes.append(f"event files of {len(folders)} folders were read as one run: {', '.join(folders[:3])}{more}")
    return log


class _EventFile:
    """One event file, read up to the first frame that is not whole."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: list[dict[str, Any]] = []
        self.others: set[str] = set()
        """Tags of what is no single number: images, texts, histograms."""
        self.begins, self.until = 0.0, 0.0
        """Wall times of the first and the last event."""
        self.whole = 0
        """Bytes of whole frames."""
        self.cut, self.fault = "", ""
        try:
            from tensorboard.compat.proto.event_pb2 import Event  # TensorBoard takes a second to import
        except ImportError:
            raise Unreadable("TensorBoard reads event files, and it is not installed: pip install 'octavo[tensorboard]'") from None

        for record in self._records():
            try:
                event = Event.FromString(record)
            except Exception as error:  # protobuf's DecodeError has a different home in each version
                raise Unreadable(f"the frame at byte {self.whole - 16 - len(record)} of {path} is no event: {error}") from None
            self.begins = self.begins or event.wall_time
            self.until = event.wall_time
            for value in event.summary.value:
                cell = _scalar(value)
                if cell is None:
                    self.others.add(value.tag)
                    continue
                if not self.rows or self.rows[-1][EVENT_STEP] != event.step or value.tag in self.rows[-1]:
                    self.rows.append({EVENT_STEP: event.step})
                self.rows[-1][value.tag] = cell

    def _records(self) -> Iterator[bytes]:
        from tensorboard.compat.tensorflow_stub import errors
        from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import PyRecordReader_New

        size = self.path.stat().st_size
        reader = PyRecordReader_New(str(self.path).encode())
        try:
            while True:
                reader.GetNext()
                record: bytes = reader.record()
                self.whole += 16 + len(record)  # length, its checksum, the event, its checksum
                yield record
        except errors.OutOfRangeError:
            return
        except errors.DataLossError as error:
            rest = self.path.read_bytes()[self.whole :]
            self.fault = next(text for mark, text in _FAULTS.items() if mark in str(error)) if rest.strip(b"\0") else "there are only zeros"
            after = f" (after step {self.rows[-1][EVENT_STEP]})" if self.rows else ""
            self.cut = (
                f"{self.path.name}: at byte {self.whole}{after} {self.fault}, so its last {size - self.whole} of {size} bytes were not read"
            )


def _scalar(value: Any) -> float | None:
    """A Summary.Value's number, inf when it is not finite; None for what holds no single number."""
    kind = value.WhichOneof("value")
    if kind == "simple_value":
        number = float(value.simple_value)
    elif kind == "tensor" and value.tensor.dtype in (1, 2):  # float and double
        from tensorboard.util.tensor_util import make_ndarray

        array = make_ndarray(value.tensor)
        if array.size != 1:
            return None
        number = float(array.reshape(-1)[0])
    else:
        return None
    return number if math.isfinite(number) else math.inf


def _overlap(tag: str, first: Path, second: Path) -> str:
    where = [(file.parent if first.parent != second.parent else file).as_posix() for file in (first, second)]
    return (
        f"`{tag}` was written to {where[0]} and to {where[1]} at the same time, so they are two series or two processes: "
        "name the one that is meant by `path` or `files`"
    )
