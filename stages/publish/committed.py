"""When a claim's rule was written: the newest commit of its lines in the spec, asked of git with fixed arguments."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

_SECONDS = 5.0
_LINE = re.compile(r"([0-9a-f]{40,64}) \d+ (\d+)(?: \d+)?")
_NONE_YET = re.compile("0+")
_SAYS = re.compile(r"\s+says:")


@dataclass(frozen=True)
class RuleDate:
    """`at` is UTC, ISO 8601; None when git cannot tell, and `why` says why."""

    at: str | None
    commit: str = ""
    why: str = ""


def rule_dates(spec: Path, starts: Mapping[str, int]) -> dict[str, RuleDate]:
    """For each claim, by its first line in the spec, when the newest of its lines was committed."""
    if not starts or not spec.is_file():
        return {claim: RuleDate(None, why="unknown: the spec is not here") for claim in starts}
    try:
        shallow = _git("rev-parse", "--is-shallow-repository").strip() == "true"
        blamed = _blame(_git("blame", "--porcelain", "--ignore-revs-file=", "--", spec.as_posix()))
    except subprocess.CalledProcessError as error:
        why = "not committed yet" if "no such path" in str(error.stderr) else "unknown: not in a git repository"
        return {claim: RuleDate(None, why=why) for claim in starts}
    except (OSError, subprocess.TimeoutExpired):
        return {claim: RuleDate(None, why="unknown: git did not answer") for claim in starts}
    text = spec.read_text(encoding="utf-8").splitlines()
    return {claim: _newest([blamed[n] for n in _lines(text, start) if n in blamed], shallow) for claim, start in starts.items()}


def _lines(text: list[str], start: int) -> range:
    """Numbers of an entry's lines: to the next line that is not indented deeper than its dash, blank lines and comments aside."""
    first = text[start - 1] if start <= len(text) else ""
    dash = first.find("-") if first.lstrip().startswith("-") else len(first) - len(first.lstrip())
    last = start
    for number in range(start + 1, len(text) + 1):
        line = text[number - 1]
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if len(line) - len(line.lstrip()) <= dash:
            break
        last = number
    return range(start, last + 1)


@dataclass(frozen=True)
class _Commit:
    id: str
    seconds: int
    boundary: bool


def _blame(porcelain: str) -> dict[int, _Commit]:
    """Line -> commit. Details of a commit are written once, at its first line."""
    lines: dict[int, str] = {}
    seconds: dict[str, int] = {}
    boundary: set[str] = set()
    commit = ""
    for line in porcelain.splitlines():
        if line.startswith("\t"):
            continue
        match = _LINE.fullmatch(line)
        if match:
            commit = match[1]
            lines[int(match[2])] = commit
        elif line.startswith("committer-time "):
            seconds[commit] = int(line.split()[1])
        elif line == "boundary":
            boundary.add(commit)
    return {number: _Commit(id_, seconds.get(id_, 0), id_ in boundary) for number, id_ in lines.items()}


def _newest(commits: list[_Commit], shallow: bool) -> RuleDate:
    if not commits:
        return RuleDate(None, why="unknown: git does not know these lines")
    if any(_NONE_YET.fullmatch(commit.id) for commit in commits):
        return RuleDate(None, why="not committed yet")
    newest = max(commits, key=lambda commit: commit.seconds)
    if shallow and any(commit.boundary for commit in commits):
        return RuleDate(None, why="unknown: the clone is shallow")
    return RuleDate(datetime.fromtimestamp(newest.seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), newest.id[:10])


def _git(*arguments: str) -> str:
    command = ["git", "-c", "core.fsmonitor=false", "-c", "blame.showRoot=false", *arguments]
    return subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=_SECONDS, check=True).stdout


def stood_before(spec: Path, start: int, data: str) -> bool:
    """Whether the entry that begins at a line of the spec stood there word for word in the newest commit from before `data`: an edit that
    was taken back is none."""
    try:
        commit = _last_before(spec, data)
        older = _git("show", f"{commit}:./{spec.as_posix()}").splitlines() if commit else []
        now = spec.read_text(encoding="utf-8").splitlines()
    except (subprocess.SubprocessError, OSError, ValueError):
        return False
    entry, before = _plain([now[number - 1] for number in _lines(now, start) if number <= len(now)]), _plain(older)
    size = len(entry)
    places = (at for at in range(len(before) - size + 1) if before[at : at + size] == entry)
    return bool(entry) and any(len(_lines(before, at + 1)) == size for at in places)  # not the beginning of a longer one


def _plain(lines: list[str]) -> list[str]:
    """Without comments, blank lines, and the sentence of a claim: words are no rule."""
    kept: list[str] = []
    says: int | None = None
    for line in lines:
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        indent = len(line) - len(line.lstrip())
        if says is not None and indent > says:
            continue
        says = indent if _SAYS.match(line) else None
        if says is None:
            kept.append(line.rstrip())
    return kept


def card_before(card: Path, data: str) -> dict[str, Any] | None:
    """A card in its newest commit from before `data` (UTC, ISO 8601); None when git has none."""
    try:
        return _card_in(_last_before(card, data), card)
    except (subprocess.SubprocessError, OSError):
        return None


def card_after(card: Path, data: str) -> dict[str, Any] | None:
    """A card as the oldest commit since `data` has it, whatever that commit was about: what differs from it now was edited once there were
    data. None when nothing was committed since."""
    try:  # commits of other branches, merged later, do not know what ran here; --since would cut --ancestry-path short
        base = _last_before(card, data)
        which = ["--ancestry-path", f"{base}..HEAD"] if base else ["HEAD"]
        dated = [line.split() for line in _git("rev-list", "--reverse", "--timestamp", *which).splitlines()]
    except (subprocess.SubprocessError, OSError):
        return None
    began = datetime.fromisoformat(data).timestamp()
    return _card_in(next((commit for seconds, commit in dated if int(seconds) >= began), ""), card)


def entry_start(spec: Path, line: int) -> int:
    """The line that opens the block which a line of the spec is in: itself when it holds the block's name and all of it."""
    lines = spec.read_text(encoding="utf-8").splitlines() if spec.is_file() else []
    if not 0 < line <= len(lines):
        return line
    indent = len(lines[line - 1]) - len(lines[line - 1].lstrip())
    for number in range(line - 1, 0, -1):
        text = lines[number - 1]
        if text.strip() and not text.lstrip().startswith("#") and len(text) - len(text.lstrip()) < indent:
            return number
    return line


def whole_history() -> bool:
    """Whether git knows everything that was committed: not in a shallow clone, nor where there is no repository."""
    try:
        return _git("rev-parse", "--is-shallow-repository").strip() == "false"
    except (subprocess.SubprocessError, OSError):
        return False


def _last_before(path: Path, data: str) -> str:
    """The newest commit of a file from before `data`; empty when there is none. Raises as `_git` does."""
    return _git("rev-list", "-1", f"--before={data}", "HEAD", "--", path.as_posix()).strip()


def _card_in(commit: str, card: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(_git("show", f"{commit}:./{card.as_posix()}")) if commit else None
    except (subprocess.SubprocessError, OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def against_data(rule: RuleDate | None, data: str | None, what: str = "the first data of") -> tuple[str, bool]:
    """(`2026-11-27 22:10 (commit 1f2e3d4c5b), before the first data of 2026-11-28 00:03`, whether the rule is younger than the data)."""
    began = f"{what} {_short(data)}" if data else ""
    if rule is None or rule.at is None:
        why = rule.why if rule else "unknown: the spec's place is not known"
        return why + (f", so it is not known to be older than {began}" if began else ""), False
    words = f"{_short(rule.at)} UTC, commit {rule.commit}"
    if data is None:
        return f"{words}; there are no data yet", False
    late = datetime.fromisoformat(rule.at) > datetime.fromisoformat(data)
    return f"{words}, {'after' if late else 'before'} {began}", late


def _short(at: str) -> str:
    return at[:16].replace("T", " ")
