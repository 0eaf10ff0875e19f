"""SHA-256 of texts, files and folders. Imports nothing that costs time: a compile that finds nothing changed needs no more than this."""

import hashlib
from pathlib import Path


def digest(text: str | bytes) -> str:
    """SHA-256 in hex."""
    return hashlib.sha256(text.encode() if isinstance(text, str) else text).hexdigest()


def file_digest(path: Path) -> str:
    """SHA-256 in hex of a file's bytes; of a folder: of its sorted (relative name, file digest) pairs. Raises OSError."""
    if path.is_dir():
        names = sorted(p.relative_to(path).as_posix() for p in path.rglob("*") if p.is_file())
        return digest("".join(f"{name}\0{file_digest(path / name)}\n" for name in names))
    with open(path, "rb", buffering=0) as stream:
        found = hashlib.sha256()
        while part := stream.read(_PART):  # hashlib.file_digest clears a buffer a file, which is half the time for a small one
            found.update(part)
        return found.hexdigest()


_PART = 1 << 16
