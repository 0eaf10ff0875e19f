"""Slots of this machine: its GPUs, or cores for runs without GPUs. Each is a file that is locked while a run has it.

The files lie in a folder of the user's, not in a project: every `octavo run` on the machine, of any project, shares the slots. A lock is
held by the open file, so it is free the moment the last process of a run has ended, however it ended.
"""

from __future__ import annotations

import fcntl
import os
import stat
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from compiler.problems import Rejected, problem
from stages.train.verifiers.verifier import cores, memory

FOLDER = "OCTAVO_SLOTS"
"""Environment variable with another folder for the locks."""
THREADS = "OMP_NUM_THREADS"
RUN_BYTES = 1_500_000_000
"""Memory that a small run without GPUs takes."""
_NVIDIA_SMI = ("nvidia-smi", "--query-gpu=index,uuid", "--format=csv,noheader")


@dataclass(frozen=True)
class Slot:
    """`name` is that of its lock, the same for all who see it; `device` what CUDA_VISIBLE_DEVICES calls it, "" for a core."""

    name: str
    device: str


@dataclass(frozen=True)
class Lease:
    """A slot that this process has. `descriptor` is of the locked file."""

    slot: Slot
    descriptor: int

    def give_back(self) -> None:
        """Free here; a run that was started with it has it until its processes end."""
        os.close(self.descriptor)


def gpus() -> list[Slot]:
    """GPUs that this process may use: those of CUDA_VISIBLE_DEVICES, else all that nvidia-smi names."""
    try:
        asked = subprocess.run(_NVIDIA_SMI, capture_output=True, text=True, timeout=60)
        lines = asked.stdout.splitlines() if asked.returncode == 0 else []
    except (OSError, subprocess.TimeoutExpired):
        lines = []
    names = {index: uuid for index, _, uuid in (line.partition(", ") for line in lines) if uuid}
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    devices = list(names) if visible is None else [device.strip() for device in visible.split(",") if device.strip()]
    return [Slot(f"gpu-{names.get(device, device)}".replace("/", "-"), device) for device in devices]


def places(slots: int | None) -> list[Slot]:
    """So many slots for runs without GPUs; not given: as many runs as there are cores for their threads, and memory."""
    count = slots or max(1, min(cores() // threads(), memory() // RUN_BYTES))
    return [Slot(f"cpu-{number}", "") for number in range(count)]


def threads() -> int:
    """Of a run without GPUs. Stages take one where nothing else is said, so numbers hang on this setting and never on the slots."""
    given = os.environ.get(THREADS, "")
    return max(1, int(given)) if given.isdecimal() else 1


def take(slots: list[Slot], count: int) -> list[Lease]:
    """`count` of these that are free; [] when fewer are. Raises Rejected E502 when the folder of the locks is no safe place."""
    folder = lock_folder()
    leases: list[Lease] = []
    for slot in slots:
        if len(leases) == count:
            break
        descriptor = os.open(folder / slot.name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            leases.append(Lease(slot, descriptor))
        except BlockingIOError:
            os.close(descriptor)
    if len(leases) < count:
        for lease in leases:
            lease.give_back()
        return []
    return leases


def lock_folder() -> Path:
    """Where the locks lie. Raises Rejected E502."""
    folder = Path(os.environ.get(FOLDER) or f"{tempfile.gettempdir()}/octavo-slots-{os.getuid()}")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.lstat()
    except OSError as error:
        raise Rejected([problem("E502.slots", folder=folder, reason=error.strerror or error, variable=FOLDER)]) from None
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        raise Rejected([problem("E502.slots", folder=folder, reason="it is no folder of yours", variable=FOLDER)])
    return folder
