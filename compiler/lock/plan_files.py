"""Files as DVC sees them: MD5 of a file's bytes, and of a folder the MD5 of the sorted JSON of its files' names and MD5s."""

from __future__ import annotations

import configparser
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from stat import S_ISDIR
from typing import Any, Literal

from compiler.lock.plan_lock import Entry, Locked, read_record

Change = Literal["same", "changed", "missing"]
_CHUNK = 1 << 20
_OTHER_SIZE = "another size"
_ALWAYS_IGNORED = (".git", ".hg", ".dvc")


class Files:
    """A tree of files under `root`. Texts of `overlay` stand for files that are not written yet."""

    def __init__(self, root: Path, overlay: Mapping[str, str]) -> None:
        self.root, self.overlay = root, overlay
        self._here = root == Path()
        self._known: dict[str, str | None] = {}
        self.folders: dict[str, dict[str, str]] = {}
        """MD5 of a folder -> its listing, of those that were read."""
        self._ignored = _ignored_patterns(root)

    def md5(self, path: str) -> str | None:
        """DVC's hash of a file or folder, None when it is missing. Each is read once."""
        if path not in self._known:
            self._known[path] = self._md5(path)
        return self._known[path]

    def against(self, path: str, entry: Entry | None) -> Change:
        """How a path compares with what was recorded of it. The size decides first, so that most changes cost no reading."""
        if path not in self._known:
            size = None if entry is None or entry.md5.endswith(".dir") else entry.size
            found = self._md5(path, size)
            if found == _OTHER_SIZE:
                return "changed"
            self._known[path] = found
        found = self._known[path]
        if found is None:
            return "missing"
        return "same" if entry is not None and found == entry.md5 else "changed"

    def text(self, path: str) -> str | None:
        """Content of a text file, None when there is none."""
        if path in self.overlay:
            return self.overlay[path]
        try:
            return (self.root / path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return None

    def listing(self, path: str) -> dict[str, str]:
        """Relative name -> MD5 of the files of a folder; {} when it is none."""
        found: dict[str, str] = {}
        self._walk(self._full(path), "", path, found)
        return found

    def _walk(self, folder: str, below: str, path: str, found: dict[str, str]) -> None:
        try:
            entries = list(os.scandir(folder))
        except OSError:
            return
        for entry in entries:
            name = f"{below}{entry.name}"
            if entry.is_dir():
                if entry.name not in _ALWAYS_IGNORED and not self._ignores(f"{path}/{name}/"):
                    self._walk(entry.path, f"{name}/", path, found)
            elif not self._ignores(f"{path}/{name}"):
                found[name] = _md5(entry.path)

    def _md5(self, path: str, size: int | None = None) -> str | None:
        """_OTHER_SIZE for a file on the disk that does not have the size."""
        text = self.overlay.get(path)
        if text is not None:
            return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
        try:
            return _md5(self._full(path), size)
        except IsADirectoryError:
            listing = self.listing(path)
            self.folders[found := folder_md5(listing)] = listing
            return found
        except OSError:
            return None

    def _full(self, path: str) -> str:
        return path if self._here else f"{self.root}/{path}"

    def _ignores(self, path: str) -> bool:
        return self._ignored is not None and bool(self._ignored.match_file(path))


def folder_md5(listing: Mapping[str, str]) -> str:
    """DVC's hash of a folder."""
    rows = [{"md5": listing[name], "relpath": name} for name in sorted(listing)]
    return hashlib.md5(json.dumps(rows, sort_keys=True).encode(), usedforsecurity=False).hexdigest() + ".dir"


class Cache:
    """DVC's cache: whether what a stage once made can be put back without running it."""

    def __init__(self, root: Path) -> None:
        self.root, self.folder = root, _cache_folder(root)
        self._names: dict[str, set[str]] = {}
        self._whole: dict[str, bool] = {}

    def holds(self, md5: str, listing: Mapping[str, str] | None = None) -> bool:
        """Whether an object is there; of a folder, each of its files. Its listing need not be read where one that has this MD5 is known."""
        if md5 not in self._whole:
            files = (listing or self.listing(md5)).values() if md5.endswith(".dir") else ()
            self._whole[md5] = self._file(md5) and all(map(self._file, files))
        return self._whole[md5]

    def listing(self, md5: str) -> dict[str, str]:
        """Relative name -> MD5 of a folder's files, as recorded; {} when the record is gone."""
        try:
            with open(self._path(md5), "rb", buffering=0) as stream:
                rows = json.loads(stream.read())
            return {row["relpath"]: row["md5"] for row in rows}
        except (OSError, ValueError, KeyError, TypeError):
            return {}

    def run(self, cmd: str, deps: Mapping[str, str], outs: tuple[str, ...]) -> Locked | None:
        """The newest run with the same command, inputs and outputs' names that DVC remembers."""
        record = {
            "cmd": cmd,
            "deps": [{"hash": "md5", "md5": deps[path], "path": path} for path in sorted(deps)],
            "outs": sorted(outs),
        }
        key = hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()
        folder = self.folder / "runs" / key[:2] / key
        try:
            newest = max(folder.iterdir(), key=lambda path: path.stat().st_mtime, default=None)
        except OSError:
            return None
        return read_record(newest) if newest is not None else None

    def _path(self, md5: str) -> str:
        return f"{self.folder}/files/md5/{md5[:2]}/{md5[2:]}"

    def _file(self, md5: str) -> bool:
        if md5[:2] not in self._names:  # one listing for each of 256 folders instead of a call for each object
            try:
                self._names[md5[:2]] = set(os.listdir(self.folder / "files" / "md5" / md5[:2]))
            except OSError:
                self._names[md5[:2]] = set()
        return md5[2:] in self._names[md5[:2]]


def _cache_folder(root: Path) -> Path:
    found = root / ".dvc" / "cache"
    for name in ("config", "config.local"):
        parser = configparser.ConfigParser(interpolation=None)
        try:
            parser.read(root / ".dvc" / name, encoding="utf-8")
        except (configparser.Error, UnicodeDecodeError):
            continue
        if parser.has_option("cache", "dir"):
            found = (root / ".dvc" / parser.get("cache", "dir")).resolve()
    return found


def _md5(file: str, size: int | None = None) -> str:
    """_OTHER_SIZE, unread, when it does not have the size. Raises OSError, IsADirectoryError for a folder."""
    handle = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        here = os.fstat(handle)
        if S_ISDIR(here.st_mode):
            raise IsADirectoryError(21, "a folder", file)
        if size not in (None, here.st_size):
            return _OTHER_SIZE
        content = os.read(handle, min(here.st_size, _CHUNK))
        found = hashlib.md5(content, usedforsecurity=False)
        if not content or len(content) != here.st_size:  # a file of any length in bounded memory
            while content := os.read(handle, _CHUNK):
                found.update(content)
        return found.hexdigest()
    finally:
        os.close(handle)


def _ignored_patterns(root: Path) -> Any:
    """Patterns of `.dvcignore`, None when it holds none."""
    try:
        lines = (root / ".dvcignore").read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return None
    lines = [line for line in lines if line.strip() and not line.startswith("#")]
    if not lines:
        return None
    from pathspec import PathSpec

    return PathSpec.from_lines("gitwildmatch", lines)
