"""The files of a project, which hold what strangers wrote: the one way to read and to write them.

A read takes a regular file of the project and at most so many bytes; what it holds is parsed without recursion. A link in git names any
file of the reader's machine, so none is followed; those are that DVC makes into its own cache, and that the user has made on this machine
and git does not hold. A write is whole or does not happen. Its temporary name cannot be guessed, and what a killed writer leaves is
removed by the next one.
"""

from __future__ import annotations

import configparser
import contextlib
import errno
import fcntl
import hashlib
import io
import os
import re
import secrets
import stat
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any, BinaryIO

from pydantic_core import from_json

MOST_BYTES = 64 << 20
"""Of a file that is read as a whole."""
MOST_LINE_BYTES = 4 << 20
BLANK = b"\xef\xbb\xbf \t\r\n"
"""Bytes of a line that holds nothing: white space, and the mark with which some editors begin a file."""
MOST_VALUES = 1_500_000
"""Of a JSON text: each may take 70 times the bytes in memory that it takes in the file."""

PROJECT = "OCTAVO_PROJECT"
"""In the environment: the project that a scratch folder, which octavo made, may link to."""
GIT = ("git", "-c", "safe.bareRepository=explicit", "-c", "core.fsmonitor=false")
"""No file in git is a configuration of git: a folder that is committed may look like a repository, and one can name commands to run."""
_NEW = ".octavo-"
"""Begins the names of temporary files."""
_OBJECT = re.compile(r"files/md5/[0-9a-f]{2}/[0-9a-f]{30}")
_LARGE = re.compile(rb"[eE]\+?[0-9]{3}|[0-9]{300}")
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NO_LINK = os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NONBLOCK | _NO_LINK


class FileRefused(OSError):
    """A file that is not read or written, whatever it holds. `strerror` says what it is; `why` and `fix` complete the message."""

    def __init__(self, path: Path | str, what: str, why: str, fix: str, number: int = errno.EPERM) -> None:
        super().__init__(number, what, os.fspath(path))
        self.why, self.fix = why, fix


def open_file(path: Path | str) -> io.BufferedReader:
    """A regular file, open for reading. Raises FileRefused for a link, a pipe or a device, and OSError."""
    with _folder(path) as (folder, name), _naming(path):
        try:
            descriptor = os.open(name, _READ, dir_fd=folder)
        except OSError as error:
            if error.errno != errno.ELOOP or (target := _followed(path)) is None:
                raise
            return open_file(target)
    return os.fdopen(_regular(descriptor, path), "rb")


def open_append(path: Path | str) -> BinaryIO:
    """A regular file, open for reading and for writing at its end; made when it is missing, with its folders. Raises as `open_file`."""
    with _folder(path, make=True) as (folder, name), _naming(path):
        descriptor = os.open(name, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | _NO_LINK, 0o644, dir_fd=folder)
    return os.fdopen(_regular(descriptor, path), "a+b")


def _regular(descriptor: int, path: Path | str) -> int:
    kind = os.fstat(descriptor).st_mode
    if stat.S_ISREG(kind):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(kind):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    raise FileRefused(path, "it is no regular file", "a pipe or a device may have no end", f"ls -l {path}", errno.EINVAL)


def read_bytes(path: Path | str, most: int = MOST_BYTES) -> bytes:
    """The whole file. Raises FileRefused, also for more than `most` bytes, and OSError."""
    with open_file(path) as stream:
        content = stream.read(most + 1) if os.fstat(stream.fileno()).st_size <= most else None
    if content is None or len(content) > most:
        raise _too_large(path, f"it holds more than {most:,} bytes")
    return content


def read_text(path: Path | str, most: int = MOST_BYTES) -> str:
    """The same of a text. Raises UnicodeDecodeError too."""
    return read_bytes(path, most).decode("utf-8")


def read_lines(path: Path | str, most: int = 4 * MOST_BYTES) -> Iterator[bytes]:
    """The lines of a file, each with its end. Raises FileRefused, also for more than `most` bytes or a line of MOST_LINE_BYTES."""
    with open_file(path) as stream:
        if os.fstat(stream.fileno()).st_size > most:
            raise _too_large(path, f"it holds more than {most:,} bytes")
        number = 0
        while line := stream.readline(MOST_LINE_BYTES + 1):
            number += 1
            if len(line) > MOST_LINE_BYTES:
                raise _too_large(path, f"line {number} holds more than {MOST_LINE_BYTES:,} bytes")
            yield line


def _too_large(path: Path | str, what: str) -> FileRefused:
    return FileRefused(path, what, "it is read as a whole, and no file may fill the memory", f"ls -l {path}", errno.EFBIG)


def parse_json(text: bytes | str, *, nonfinite: bool = False) -> Any:
    """The value of a JSON text. `nonfinite`: NaN and Infinity of other writers may stand in it. Raises ValueError for what is no JSON, for
    half a surrogate pair, and for what is nested or counted beyond all use."""
    content = (text.encode() if isinstance(text, str) else text).removeprefix(b"\xef\xbb\xbf")
    require_few(content, b",[{")
    value = from_json(content, allow_inf_nan=nonfinite)
    if not nonfinite and _LARGE.search(content) and any(number in (float("inf"), -float("inf")) for number in _leaves(value)):
        raise ValueError("it holds a number that is not finite")
    return value


def require_few(content: bytes, marks: bytes) -> None:
    """Raise ValueError for a text with more than MOST_VALUES values, each of which one of these bytes begins or ends."""
    if sum(map(content.count, marks)) > MOST_VALUES:
        raise ValueError(f"it holds more than {MOST_VALUES:,} values")


def _leaves(value: Any) -> Iterator[Any]:
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict | list):
            waiting += value.values() if isinstance(value, dict) else value
        else:
            yield value


def read_json(path: Path | str, most: int = MOST_BYTES) -> Any:
    """The value of a JSON file. Raises FileRefused, OSError, ValueError."""
    return parse_json(read_bytes(path, most))


def load_table(path: Path) -> Any:
    """A YAML table that stands beside a module. Its text is octavo's own: what strangers write goes through compiler/document."""
    from ruamel.yaml import YAML

    return YAML(typ="safe").load(path)


def file_digest(path: Path, algorithm: str = "sha256") -> str:
    """SHA-256 in hex of a file's bytes; of a folder: of its sorted (relative name, file digest) pairs. Raises OSError."""
    if path.is_dir():
        names = sorted(p.relative_to(path).as_posix() for p in path.rglob("*") if p.is_file())
        pairs = "".join(f"{name}\0{file_digest(path / name, algorithm)}\n" for name in names)
        return hashlib.new(algorithm, pairs.encode("utf-8", "surrogateescape"), usedforsecurity=False).hexdigest()
    with open_file(path) as stream:
        return hashlib.file_digest(stream, lambda: hashlib.new(algorithm, usedforsecurity=False)).hexdigest()


def write_text(path: Path, text: str) -> None:
    """Write one text: a reader never sees half a file, also on a full disk or after a loss of power."""
    write_files({path: text.encode()}, durable=True)


def write_files(contents: Mapping[Path, bytes], *, durable: bool = False) -> None:
    """Write all files or none: first each beside its place, then rename. Raises OSError with the path of the file that cannot be written,
    FileRefused where its folder is a link."""
    beside = {path: _NEW + secrets.token_hex(8) for path in contents}
    swept: set[Path] = set()
    with _alone() as is_alone:
        try:
            for path, content in contents.items():
                make_folder(path.parent)
                if is_alone and path.parent not in swept:
                    _remove_left(path.parent)
                    swept.add(path.parent)
                with _folder(path) as (folder, _), _naming(path):
                    if path.is_dir():
                        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
                    _write_new(folder, beside[path], content, durable)
            for path, temporary in beside.items():
                with _folder(path) as (folder, name), _naming(path):
                    os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            for path, temporary in beside.items():
                with contextlib.suppress(OSError), _folder(path) as (folder, _):
                    os.unlink(temporary, dir_fd=folder)
            raise


def _write_new(folder: int, name: str, content: bytes, durable: bool) -> None:
    descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK, 0o644, dir_fd=folder)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(content)
        stream.flush()
        if durable:
            os.fsync(descriptor)


def make_folder(path: Path) -> None:
    """Make a folder and those above it. Raises FileRefused when one of them is a link, and OSError."""
    with _naming(path), _folder(path / "_", make=True):
        pass


def check_folder(path: Path) -> None:
    """Raise FileRefused for the first link or pipe in a folder and below it, links of DVC apart, and for a folder whose way is through a
    link. What a killed writer left there is removed. A folder that is missing is fine."""
    waiting = [os.fspath(path)]
    while waiting:
        folder = waiting.pop()
        try:
            with _folder(f"{folder}/_"):
                entries = list(os.scandir(folder))
        except (FileNotFoundError, NotADirectoryError):
            continue
        if any(entry.name.startswith(_NEW) for entry in entries):
            with _alone() as is_alone:
                if is_alone:
                    _remove_left(folder)
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)
            elif not entry.is_file(follow_symlinks=False):
                with contextlib.suppress(FileNotFoundError, IsADirectoryError):  # a folder: of the project, in a scratch folder
                    open_file(entry.path).close()


def _remove_left(path: Path | str) -> None:
    """Remove temporary files. Nobody else writes now, so those who began them are gone."""
    with _folder(f"{path}/_") as (folder, _):
        for name in os.listdir(folder):
            if name.startswith(_NEW):
                with contextlib.suppress(OSError):
                    os.unlink(name, dir_fd=folder)


@contextlib.contextmanager
def links_to(project: Path) -> Iterator[None]:
    """Follow links into this project: the working directory will be a scratch folder of it."""
    before = os.environ.get(PROJECT)
    os.environ[PROJECT] = os.fspath(project)
    try:
        yield
    finally:
        os.environ.pop(PROJECT)
        os.environ |= {} if before is None else {PROJECT: before}


@contextlib.contextmanager
def _alone() -> Iterator[bool]:
    """Wait until no other process writes into this project; false where the file system knows no locks."""
    project = os.open(".", _FOLDER)
    try:
        try:
            fcntl.flock(project, fcntl.LOCK_EX)
            is_alone = True
        except OSError:
            is_alone = False
        yield is_alone
    finally:
        with contextlib.suppress(OSError):
            fcntl.flock(project, fcntl.LOCK_UN)  # for a process, too, that was forked meanwhile and holds the descriptor
        os.close(project)


@contextlib.contextmanager
def _folder(path: Path | str, make: bool = False) -> Iterator[tuple[int, str]]:
    """(descriptor of the folder that holds a file, the file's name in it). The way from the project's root leads through no link."""
    start, parts = _way(path)
    if make:
        os.makedirs(start, exist_ok=True)
    folder = os.open(start, _FOLDER)
    try:
        for place, part in enumerate(parts[:-1]):
            with _naming(path):
                if make:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(part, dir_fd=folder)
                try:
                    inner = os.open(part, _FOLDER | _NO_LINK, dir_fd=folder)
                except OSError:
                    if not _is_users_own(os.path.join(start, *parts[: place + 1])):
                        raise
                    inner = os.open(part, _FOLDER, dir_fd=folder)
            os.close(folder)
            folder = inner
        yield folder, parts[-1]
    finally:
        os.close(folder)


def _way(path: Path | str) -> tuple[str, tuple[str, ...]]:
    """(the project's root, parts below it). Of a place outside, such as a temporary folder of our own: (its folder, its name)."""
    text, here, project = os.fspath(path), os.getcwd(), os.environ.get(PROJECT)
    root = next((root for root in (here, project) if root and text.startswith(f"{root}/")), "" if os.path.isabs(text) else here)
    parts = PurePath(text.removeprefix(f"{root}/")).parts
    if not root or ".." in parts:
        return os.path.dirname(text) or ".", (os.path.basename(text),)
    if project and root == here:
        ways = ((os.path.join(here, *parts[:count]), parts[count:]) for count in range(1, len(parts)))
        link, rest = next(((place, rest) for place, rest in ways if os.path.islink(place)), (here, ()))
        if rest and os.readlink(link).startswith(f"{project}/"):
            return _way(os.path.join(os.readlink(link), *rest))
    return root, parts


@contextlib.contextmanager
def _naming(path: Path | str) -> Iterator[None]:
    """Errors of calls below a descriptor name the whole path; one for a link is FileRefused."""
    try:
        yield
    except FileRefused:
        raise
    except OSError as error:
        link = next((str(place) for place in (*reversed(Path(path).parents), Path(path)) if place.is_symlink()), None)
        if error.errno in (errno.ELOOP, errno.ENOTDIR) and link is not None:
            why = "a link that is in git, or comes without git, could name any file of this machine"
            fix = f"rm {link} and put what it leads to in its place; if the link is yours: git rm --cached {link}"
            raise FileRefused(link, "it is a symbolic link", why, fix, errno.ELOOP) from None
        raise OSError(error.errno, error.strerror, os.fspath(path)) from None


def _followed(link: Path | str) -> str | None:
    """What a link of the user's names, an object of DVC's cache, or in a scratch folder a file of its project; None: not to be followed."""
    project = os.environ.get(PROJECT)
    if project and os.readlink(link).startswith(f"{project}/"):
        return os.readlink(link)
    target, cache = os.path.realpath(link), os.path.realpath(dvc_cache())
    is_object = target.startswith(f"{cache}/") and _OBJECT.fullmatch(target[len(cache) + 1 :])
    return target if is_object or _is_users_own(os.fspath(link)) else None


def _is_users_own(link: str) -> bool:
    """Whether this is a link that git, which is there, does not hold: no clone and no pull request has brought it."""
    if not os.path.islink(link):
        return False
    place, project = Path(os.path.realpath(os.path.dirname(link)), os.path.basename(link)), Path.cwd()
    top = next((folder for folder in place.parents if os.path.lexists(folder / ".git")), None)  # no clone brings a `.git`
    if top is None or _is_held(top, place):
        return False
    return top == project or top not in project.parents or _is_held(top, project)  # else: of an archive that was unpacked in a repository


def _is_held(top: Path, place: Path) -> bool:
    """Whether the repository of this folder holds the file, or one below the folder, in any case of its letters; true if git cannot say."""
    options = ("--noglob-pathspecs", "--icase-pathspecs", "-C", os.fspath(top))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_") or name.startswith("GIT_CONFIG")}
    try:
        command = [*GIT, *options, "ls-files", "-z", "--", f"./{place.relative_to(top)}"]
        listed = subprocess.run(command, capture_output=True, check=True, timeout=60, env=environment)
    except (OSError, subprocess.SubprocessError):
        return True
    return bool(listed.stdout)


def dvc_cache(root: Path = Path()) -> Path:
    """DVC's cache: the default, or what a configuration of DVC names, relative to `.dvc`."""
    parser = configparser.ConfigParser(interpolation=None)
    user = Path(os.environ.get("DVC_GLOBAL_CONFIG_DIR") or Path.home() / ".config/dvc")
    for file in (user / "config", root / ".dvc/config", root / ".dvc/config.local"):
        if not file.is_symlink():
            with contextlib.suppress(OSError, ValueError, configparser.Error):
                whole = configparser.ConfigParser(interpolation=None)  # one that is broken leaves half of itself behind
                whole.read_string(read_text(file, 1 << 20))
                parser.read_dict(whole)
    return root / ".dvc" / os.path.expanduser(parser.get("cache", "dir", fallback="cache"))
