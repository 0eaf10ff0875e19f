"""Whether the kernel killed an attempt for lack of memory. A killed process leaves no word; the kernel counts what it kills."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from stages.contracts.artifact import Artifact, ArtifactError, read, write

_NAME = "memory.json"


class MemoryWatch(Artifact):
    """`memory.json` beside an attempt's checkpoints: the kernel's count when the attempt began."""

    SCHEMA: ClassVar[str] = "octavo.memory_watch/1"

    attempt: str
    boot: str
    """The kernel's own name of this boot: after another one the count begins anew."""
    counter: str
    """File of the control group's count."""
    kills: int


def watch(folder: Path, attempt: str, root: Path = Path("/")) -> None:
    """Note the count as an attempt begins; nothing where there is none."""
    found = _count(root)
    if found is not None:
        counter, kills = found
        write(folder / _NAME, MemoryWatch(attempt=attempt, boot=_boot(root), counter=counter, kills=kills))


def killed(folder: Path, attempt: str, root: Path = Path("/")) -> int:
    """How many processes of this control group were killed for lack of memory since the attempt began; 0 when nobody can tell."""
    try:
        noted, now = read(MemoryWatch, folder / _NAME), _count(root)
    except ArtifactError:
        return 0
    if now is None or (noted.attempt, noted.boot, noted.counter) != (attempt, _boot(root), now[0]):
        return 0
    return max(0, now[1] - noted.kills)


def kills(root: Path = Path("/")) -> int | None:
    """The kernel's count for this control group now; None where there is none."""
    found = _count(root)
    return found[1] if found else None


def _count(root: Path) -> tuple[str, int] | None:
    for path in _counters(root):
        try:
            lines = dict(line.rsplit(maxsplit=1) for line in (root / path).read_text().splitlines() if line.strip())
        except (OSError, ValueError):
            continue
        if lines.get("oom_kill", "").isdigit():
            return path, int(lines["oom_kill"])
    return None


def _counters(root: Path) -> list[str]:
    """Files that may hold the count: version 2, then version 1. In a container the group's path may be that of the host, so the top
    of what is mounted comes second."""
    try:
        lines = [line.split(":", 2) for line in (root / "proc/self/cgroup").read_text().splitlines()]
    except OSError:
        return []
    found = [f"sys/fs/cgroup{path}/memory.events" for number, _, path in lines if number == "0"]
    found += [f"sys/fs/cgroup/memory{path}/memory.oom_control" for _, kinds, path in lines if "memory" in kinds.split(",")]
    return [path.replace("//", "/") for path in [*found, "sys/fs/cgroup/memory.events", "sys/fs/cgroup/memory/memory.oom_control"]]


def _boot(root: Path) -> str:
    try:
        return (root / "proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
