"""Format `tensorboard`: event files (`events.out.tfevents.*`), one or a folder of them, in the order of the times at which they begin.

TensorBoard's own reader checks the checksums. A file ends, for octavo as for TensorBoard, at its first frame that is torn (a crash) or
whose checksum is wrong; a note says after which step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stages.train.imports.log import EVENT_STEP, Log, Unreadable, bytes_of, from_rows


@dataclass
class _EventFile:
    """One event file, read up to the first frame that is not whole."""

    path: Path
    rows: list[dict[str, Any]] = field(default_factory=list)
    others: set[str] = field(default_factory=set)
    """Tags of what is no single number: images, texts, histograms."""
    begins: float = 0.0
    until: float = 0.0
    """Wall times of the first and the last event; 0 in a file without any."""
    cut: str = ""


def read_tensorboard(path: Path, index: str = EVENT_STEP) -> Log:
    """Raises Unreadable for a file that is none. `Log.at_once` names tags that two files hold at the same time: a run that is resumed
    writes a new file when the old one has ended."""
    files = [_read_file(file) for file in (sorted(path.rglob("*tfevents*")) if path.is_dir() else [path])]
    files.sort(key=lambda file: (file.begins, file.path.as_posix()))
    if not files or (len(files) == 1 and files[0].cut and not files[0].begins):
        raise Unreadable(f"{path} is no event file of TensorBoard (`*tfevents*`), and no folder that holds one")
    rows: list[dict[str, Any]] = []
    starts, at_once, latest = set[int](), dict[str, str](), dict[str, _EventFile]()
    for file in files:
        starts.add(len(rows))
        rows += file.rows
        for tag in sorted({name for row in file.rows for name in row} - {EVENT_STEP}):
            if tag in latest and file.begins < latest[tag].until:
                at_once.setdefault(
                    tag,
                    f"`{tag}` was written to {latest[tag].path} and to {file.path} at the same time, so they are two series or two "
                    "processes: name the one that is meant by `path` or `files`",
                )
            latest[tag] = file
    log = from_rows(rows, EVENT_STEP)
    log.starts, log.at_once = starts, at_once
    log.no_numbers = {tag for file in files for tag in file.others} - set(log.columns)
    log.cut = "; ".join(file.cut for file in files if file.cut)
    folders = {file.path.parent for file in files}
    if len(folders) > 1:
        log.notes.append(f"event files of {len(folders)} folders were read as one run")
    return log


def _read_file(path: Path) -> _EventFile:
    try:
        from tensorboard.compat.proto.event_pb2 import Event  # TensorBoard takes a second to import
        from tensorboard.compat.tensorflow_stub import errors
        from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import PyRecordReader_New
    except ImportError:
        raise Unreadable("TensorBoard reads event files, and it is not installed: pip install 'octavo[tensorboard]'") from None
    bytes_of(path)  # raises Unreadable for what is no file to read
    file, reader = _EventFile(path), PyRecordReader_New(str(path).encode())
    while True:
        try:
            reader.GetNext()
            event = Event.FromString(reader.record())
        except errors.OutOfRangeError:
            return file
        except errors.DataLossError:
            after = f"after step {file.rows[-1][EVENT_STEP]}" if file.rows else "before its first number"
            file.cut = f"{path.name} is torn or damaged {after}"
            return file
        except Exception as error:  # protobuf's DecodeError has no types
            raise Unreadable(f"{path} is no event file of TensorBoard: {error}") from None
        file.begins = file.begins or event.wall_time
        file.until = event.wall_time
        for value in event.summary.value:
            cell = _scalar(value)
            if cell is None:
                file.others.add(value.tag)
                continue
            if not file.rows or file.rows[-1][EVENT_STEP] != event.step or value.tag in file.rows[-1]:
                file.rows.append({EVENT_STEP: event.step})
            file.rows[-1][value.tag] = cell


def _scalar(value: Any) -> float | None:
    """A Summary.Value's number, inf when it is not finite; None for what holds no single number."""
    from tensorboard.util.tensor_util import make_ndarray

    if value.WhichOneof("value") == "simple_value":
        scalar = float(value.simple_value)
    elif value.WhichOneof("value") == "tensor" and value.tensor.dtype in (1, 2):  # float and double
        array = make_ndarray(value.tensor)
        if array.size != 1:
            return None
        scalar = float(array.reshape(-1)[0])
    else:
        return None
    return scalar if math.isfinite(scalar) else math.inf
