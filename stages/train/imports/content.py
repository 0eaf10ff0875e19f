"""What a log file holds, as UTF-8 without a mark; and files that are no text at all."""

from __future__ import annotations

from pathlib import Path

from stages.train.imports.log import Unreadable

_PACKED = {b"\x1f\x8b": ("gzip", "gunzip"), b"PK\x03\x04": ("zip", "unzip"), b"\xfd7zXZ": ("xz", "unxz"), b"BZh": ("bzip2", "bunzip2")}
_PACKED |= {b"\x28\xb5\x2f\xfd": ("zstd", "unzstd")}
_MARK = b"\xef\xbb\xbf"
_WIDE = (b"\xff\xfe", b"\xfe\xff")


def content(path: Path) -> bytes:
    """The whole file, read once: a file that grows is read up to its length now. UTF-16, as a shell of Windows writes it, becomes UTF-8.
    Raises Unreadable for an empty, packed or broken file, and for a folder."""
    if path.is_dir():
        raise Unreadable(f"{path} is a folder, and the format is that of a file: name the file in it")
    data = path.read_bytes()
    if not data:
        raise Unreadable(f"{path} is empty")
    for mark, (kind, command) in _PACKED.items():
        if data.startswith(mark):
            raise Unreadable(f"{path} is packed ({kind}), and a card pins what is read: {command} it first")
    if data.startswith(_WIDE):
        try:
            return data.decode("utf-16").encode("utf-8")
        except UnicodeError:
            raise Unreadable(f"{path} begins as UTF-16 and is none") from None
    return data.removeprefix(_MARK)
