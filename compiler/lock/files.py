"""Files as DVC sees them: the MD5 of a file's bytes, and of a folder the MD5 of the sorted JSON of its files' names and MD5s."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from stages.contracts.dvc_lock import Entry, Locked, read_record
from stages.contracts.files import FileRefused, dvc_cache, open_file, read_json, read_text

Change = Literal["same", "changed", "missing"]
_NEVER = (".git", ".hg", ".dvc")


class Files:
    """Files below `root`. Texts of `overlay` (path -> text) stand for files that are not written yet. Each file is hashed once."""

    def __init__(self, root: Path, overlay: Mapping[str, str]) -> None:
        self.root, self.overlay = root, overlay
        self.folders: dict[str, dict[str, str]] = {}
        """MD5 of a folder -> its listing, for folders that were hashed."""
        self._hashes: dict[str, str | None] = {}

    def md5(self, path: str) -> str | None:
        """DVC's hash of a file or folder; None if it is missing."""
        if path not in self._hashes:
            self._hashes[path] = self._hash(path)
        return self._hashes[path]

    def against(self, path: str, entry: Entry) -> Change:
        """How a path compares with its record. Another size is enough, so that most changes cost no reading."""
        if entry.size is not None and path not in self._hashes and path not in self.overlay and not entry.md5.endswith(".dir"):
            try:
                if os.path.getsize(self._full(path)) != entry.size:
                    return "changed"
            except OSError:
                return "missing"
        md5 = self.md5(path)
        return "missing" if md5 is None else "same" if md5 == entry.md5 else "changed"

    def text(self, path: str) -> str | None:
        """Content of a text file; None if there is none."""
        if path in self.overlay:
            return self.overlay[path]
        try:
            return read_text(self._full(path))
        except (OSError, UnicodeDecodeError):
            return None

    def listing(self, path: str) -> dict[str, str]:
        """Relative name -> MD5 of the files of a folder, "" of one that cannot be read, such as a link; {} for anything else."""
        return {name: self._md5_inside(f"{self._full(path)}/{name}") for name in self._names(path)}

    @staticmethod
    def _md5_inside(file: str) -> str:
        try:
            return _md5(file)
        except OSError:
            return ""

    def _names(self, path: str, below: str = "") -> Iterator[str]:
        try:
            entries = list(os.scandir(f"{self._full(path)}/{below}"))
        except OSError:
            return
        for entry in entries:
            name = below + entry.name
            if not entry.is_dir(follow_symlinks=False):
                if not self._ignores(f"{path}/{name}"):
                    yield name
            elif entry.name not in _NEVER and not self._ignores(f"{path}/{name}/"):
                yield from self._names(path, f"{name}/")

    def _hash(self, path: str) -> str | None:
        if path in self.overlay:
            return hashlib.md5(self.overlay[path].encode(), usedforsecurity=False).hexdigest()
        try:
            return _md5(self._full(path))
        except IsADirectoryError:
            listing = self.listing(path)
            md5 = folder_md5(listing)
            self.folders[md5] = listing
            return md5
        except FileRefused:
            raise
        except OSError:
            return None

    def _full(self, path: str) -> str:
        return path if self.root == Path() else f"{self.root}/{path}"

    def _ignores(self, path: str) -> bool:
        return self._dvcignore is not None and bool(self._dvcignore.match_file(path))

    @cached_property
    def _dvcignore(self) -> Any:
        lines = (self.text(".dvcignore") or "").splitlines()
        if not any(line.strip() and not line.startswith("#") for line in lines):
            return None
        from pathspec import PathSpec

        return PathSpec.from_lines("gitwildmatch", lines)


def folder_md5(listing: Mapping[str, str]) -> str:
    """DVC's hash of a folder."""
    rows = [{"md5": listing[name], "relpath": name} for name in sorted(listing)]
    return hashlib.md5(json.dumps(rows, sort_keys=True).encode(), usedforsecurity=False).hexdigest() + ".dir"


def _md5(file: str) -> str:
    with open_file(file) as stream:
        return hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


class Cache:
    """DVC's cache: whether what a stage once wrote can be put back without running it."""

    def __init__(self, root: Path) -> None:
        self.root, self.folder = root, dvc_cache(root)
        self._names: dict[str, set[str]] = {}

    def holds(self, md5: str, listing: Mapping[str, str] | None = None) -> bool:
        """Whether an object is there; for a folder, each of its files. A `listing` of this MD5 saves reading the record."""
        files = (listing or self.listing(md5)).values() if md5.endswith(".dir") else ()
        return self._has(md5) and all(map(self._has, files))

    def listing(self, md5: str) -> dict[str, str]:
        """Relative name -> MD5 of a folder's files, as recorded; {} if the record is gone."""
        try:
            rows = read_json(self.folder / "files/md5" / md5[:2] / md5[2:])
            return {row["relpath"]: row["md5"] for row in rows}
        except (OSError, ValueError, KeyError, TypeError):
            return {}

    def run(self, cmd: str, deps: Mapping[str, str], outs: tuple[str, ...]) -> Locked | None:
        """The newest run that DVC remembers with this command, these inputs (path -> MD5) and these outputs' names."""
        inputs = [{"hash": "md5", "md5": deps[path], "path": path} for path in sorted(deps)]
        key = hashlib.sha256(json.dumps({"cmd": cmd, "deps": inputs, "outs": sorted(outs)}, sort_keys=True).encode()).hexdigest()
        folder = self.folder / "runs" / key[:2] / key
        records = folder.glob("*") if os.path.isdir(folder) else ()  # a configuration may name a folder that no file system can hold
        newest = max(records, key=lambda path: path.stat().st_mtime, default=None)
        return read_record(newest) if newest is not None else None

    def _has(self, md5: str) -> bool:
        if md5[:2] not in self._names:  # 256 listings of folders in place of a call for each object
            folder = self.folder / "files/md5" / md5[:2]
            self._names[md5[:2]] = set(os.listdir(folder)) if os.path.isdir(folder) else set()
        return md5[2:] in self._names[md5[:2]]
