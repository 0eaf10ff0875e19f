"""Format `tensorboard`: event files (`events.out.tfevents.*`), one or a folder of them, in the order of the times at which they begin.

A file ends, for us as for TensorBoard, at its first frame that is torn (a crash) or whose checksum is wrong, and says where and how much
is behind it: what follows a wrong byte may begin anywhere.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from stages.train.imports.event_frames import frame, scalars, unpacked, wrong
from stages.train.imports.log import Column, Log, Unreadable

_FLOAT = struct.Struct("<f").unpack
_TIME = struct.Struct("<d").unpack


def read(path: Path, index: str = "step") -> Log:
    """`index` has no meaning here: every event carries its step. Raises Unreadable for a file that is none. A tag that two files hold at
    the same time is told in `Log.at_once`: a run that is resumed writes a new file when the old one has ended."""
    begins = {file: _begins(file) for file in (path.rglob("*tfevents*") if path.is_dir() else [path])}
    files = sorted(begins, key=lambda file: begins[file])
    if not files:
        raise Unreadable(f"{path} holds no event file (`*tfevents*`)")
    log = Log([], {})
    tags: dict[bytes, Column] = {}
    others: set[bytes] = set()
    cuts: list[str] = []
    ends: dict[bytes, tuple[float, Path]] = {}
    for file in files:
        before = {tag: len(column.rows) for tag, column in tags.items()}
        log.starts.add(len(log.index))
        cut, until = _file(file, log.index, tags, others, alone=len(files) == 1)
        cuts += [cut] if cut else []
        for tag in (tag for tag, column in tags.items() if len(column.rows) > before.get(tag, 0)):
            if tag in ends and begins[file][0] < ends[tag][0]:
                log.at_once.setdefault(tag.decode("utf-8", "replace"), _at_once(tag, ends[tag][1], file))
            ends[tag] = until, file
    for tag, column in tags.items():
        column.cells = _cells(column.cells)
        log.columns[tag.decode("utf-8", "replace")] = column
    log.no_numbers = {tag.decode("utf-8", "replace") for tag in others - tags.keys()}
    log.cut = "; ".join(cuts)
    folders = sorted({file.parent.as_posix() for file in files})
    if len(folders) > 1:
        log.notes.append(
            f"event files of {len(folders)} folders were read as one run: {', '.join(folders[:3])}" + ", ..." * (len(folders) > 3)
        )
    return log


def _begins(path: Path) -> tuple[float, str]:
    """The wall time of a file's first event, which every file has; names of folders and hosts are in no order of time."""
    with path.open("rb") as stream:
        head = stream.read(21)
    return (_TIME(head[13:])[0] if len(head) == 21 and head[12] == 9 else 0.0), path.as_posix()


def _at_once(tag: bytes, first: Path, second: Path) -> str:
    name = tag.decode("utf-8", "replace")
    where = [(file.parent if first.parent != second.parent else file).as_posix() for file in (first, second)]
    return (
        f"`{name}` was written to {where[0]} and to {where[1]} at the same time, so they are two series or two processes: "
        "name the one that is meant by `path` or `files`"
    )


def _file(path: Path, index: list[Any], columns: dict[bytes, Column], others: set[bytes], *, alone: bool) -> tuple[str, float]:
    """Add one file's events; where it is cut, and the wall time of its last event. Cells of the fast way stay packed floats until all is
    read."""
    data = path.read_bytes()
    at, size, until = 0, len(data), 0.0
    last: Any = object()  # a new file is a new row, whatever its step
    row = len(index) - 1
    while at < size:
        while (block := scalars(data, at)).cells:
            at, until = block.end, block.time
            for packed, tag, value in block.cells:
                if packed != last:
                    last = packed
                    row += 1
                    index.append(unpacked(packed))
                try:
                    column = columns[tag]
                except KeyError:
                    column = columns[tag] = Column()
                column.rows.append(row)
                column.cells.append(value)
        if at >= size:
            break
        fault = wrong(data, at)
        if fault and at == 0 and alone:
            raise Unreadable(f"{path} is no event file of TensorBoard: at its beginning {fault}")
        if fault:
            after = f" (after step {index[-1]})" if index else ""
            return f"{path.name}: at byte {at}{after} {fault}, so its last {size - at} of {size} bytes were not read", until
        try:
            one = frame(data, at)
        except ValueError as error:
            raise Unreadable(f"the frame at byte {at} of {path} is no event: {error}") from None
        at, until = one.end, one.time
        others.update(one.others)
        for name, cell in one.scalars:
            row += 1
            last = object()
            index.append(one.step)
            column = columns.setdefault(name, Column())
            column.rows.append(row)
            column.cells.append(cell)
    return "", until


def _cells(cells: Iterable[Any]) -> list[float]:
    try:
        found: list[float] = np.frombuffer(b"".join(cells), "<f4").tolist()
    except TypeError:  # some came the slow way, and are numbers already
        found = [_FLOAT(cell)[0] if isinstance(cell, bytes) else cell for cell in cells]
    return found
