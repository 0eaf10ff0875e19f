"""What `octavo doctor` asks of the machine: devices, the sandbox of model-written code, git, disk."""

from __future__ import annotations

import ctypes.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator

from compiler.commands.doctor import Line, Needs, Status
from compiler.commands.doctor_python import installed

FREE_BYTES = 2 * 10**9
"""Below this a run's checkpoints, DVC's cache and the site do not fit beside each other."""
_ASK_TORCH = """
import json, torch
names = [[torch.cuda.get_device_name(i), torch.cuda.get_device_properties(i).total_memory] for i in range(torch.cuda.device_count())]
print(json.dumps({"cuda": torch.version.cuda, "devices": names if torch.cuda.is_available() else []}))
"""
_MERGE = "git config merge.octavo-lock.driver 'octavo merge-lock %O %A %B %P'"


def checks(needs: Needs) -> Iterator[Line]:
    """Devices, sandbox and its parts, verifiers, git and its merge driver, disk."""
    yield from devices(needs)
    yield from quantization(needs)
    yield from sandbox(needs)
    yield from verifiers(needs)
    yield from git()
    yield disk()


def devices(needs: Needs) -> Iterator[Line]:
    """Asked of torch in a process of its own: a broken driver can hang or crash it."""
    try:
        asked = subprocess.run([sys.executable, "-c", _ASK_TORCH], capture_output=True, text=True, timeout=120)
        found = json.loads(asked.stdout) if asked.returncode == 0 else None
    except (OSError, subprocess.TimeoutExpired, ValueError):
        found = None
    if found is None:
        yield Line("torch", "missing", "does not start", "pip install -c constraints.txt -e . && python -c 'import torch'")
        return
    yield Line("cpu", "ok", f"{os.cpu_count()} cores")
    yield gpus(needs, [(str(name), int(memory)) for name, memory in found["devices"]], found["cuda"])


def gpus(needs: Needs, devices: list[tuple[str, int]], cuda: str | None) -> Line:
    """GPUs of this machine, (name, bytes) each, against what a run of the live experiments asks for. `cuda`: torch's own build."""
    build = f"torch is built for CUDA {cuda}" if cuda else "torch is a build without CUDA"
    if not devices and needs.gpu:
        fix = "nvidia-smi" if cuda else "install a CUDA build of torch, or set `resources: {gpus: 0}`"
        return Line("gpu", "missing", f"none seen ({build}); needed by {', '.join(needs.gpu)}", fix)
    if not devices:
        return Line("gpu", "optional", f"none seen ({build}); no live experiment trains on one")
    seen = ", ".join(f"{name} ({memory / 10**9:.0f} GB)" for name, memory in devices)
    for experiment, count, memory in needs.per_run:
        large_enough = sum(has >= (memory or 0) for _, has in devices)
        if large_enough < count:
            asked = f"{count} with {memory / 10**9:.0f} GB each" if memory else str(count)
            return Line(
                "gpu",
                "missing",
                f"{seen}; a run of {experiment} asks for {asked}",
                "train it on another machine, or change its `resources`",
            )
    return Line("gpu", "ok", seen)


def quantization(needs: Needs) -> Iterator[Line]:
    """bitsandbytes, when a live experiment loads its base model in 4 or 8 bits."""
    if not needs.quantized:
        return
    asked = f"needed by {', '.join(needs.quantized)}"
    version = installed("bitsandbytes")
    if version is None:
        yield Line("bitsandbytes", "missing", f"not installed; {asked}", "pip install -c constraints.txt -e '.[quantization]'")
    else:
        yield Line("bitsandbytes", "ok", f"{version}; {asked}")


def sandbox(needs: Needs) -> Iterator[Line]:
    """The tier that holds, found by running the attacks, and why no better one does."""
    wanted: Status = "missing" if needs.sandbox or needs.problem else "optional"
    asked = f"needed by {', '.join(needs.sandbox)}" if needs.sandbox else "no live experiment runs model-written code"
    try:
        from stages.train.verifiers import isolation
        from stages.train.verifiers import sandbox as probed
        from stages.train.verifiers.faults import VerifierUnavailable
    except ImportError as error:
        yield Line("sandbox", wanted, f"cannot be probed: {error.name or error} is not installed", "pip install -c constraints.txt -e .")
        return
    try:
        tier, why_not = probed.choose()
        reasons = "".join(f"; not {name}: {why}" for name, why in why_not.items())
        yield Line("sandbox", "ok", f"{tier} ({asked}){reasons}")
        wanted = "optional"  # its parts are there, or another tier does without
    except VerifierUnavailable as error:
        yield Line("sandbox", wanted, f"{error.what} ({asked})", error.fix)
    has_bwrap = isolation.bubblewrap() is not None
    yield Line("bwrap", "ok" if has_bwrap else wanted, "found" if has_bwrap else "none", "" if has_bwrap else "apt-get install bubblewrap")
    has_seccomp = ctypes.util.find_library("seccomp") is not None
    install = "" if has_seccomp else "apt-get install libseccomp2"
    yield Line("libseccomp", "ok" if has_seccomp else wanted, "found" if has_seccomp else "none", install)


def verifiers(needs: Needs) -> Iterator[Line]:
    """Each gate that asks a process, asked itself: it knows its compilers and its tier."""
    if not needs.sandbox:
        return
    from stages.contracts.diagnostic import StageError
    from stages.contracts.plugin import GATES, load

    for kind in needs.sandbox:
        try:
            yield Line(f"gate {kind}", "ok", f"runs in the tier {load(GATES, kind).tier()}")
        except StageError as error:
            yield Line(f"gate {kind}", "missing", str(error), error.fix)


def git() -> Iterator[Line]:
    """git, the repository, and the merge driver that .gitattributes names."""
    if shutil.which("git") is None:
        yield Line("git", "missing", "none: ledgers and cards could not name their commit", "apt-get install git")
        return
    if _git("rev-parse", "--is-inside-work-tree") != "true":
        yield Line(
            "git",
            "missing",
            "this folder is in no repository that git trusts",
            'git init, or in a container: git config --global --add safe.directory "$PWD"',
        )
        return
    yield Line("git", "ok", (_git("--version") or "").removeprefix("git version "))
    if _git("config", "merge.octavo-lock.driver"):
        yield Line("merge driver", "ok", "dvc.lock is merged stage by stage")
    else:
        yield Line("merge driver", "optional", "not set: git merges dvc.lock line by line", _MERGE)


def disk() -> Line:
    """Free space where runs, checkpoints and DVC's cache lie."""
    free = shutil.disk_usage(".").free
    found = f"{free / 10**9:.0f} GB free"
    if free < FREE_BYTES:
        return Line("disk", "missing", f"{found}, {FREE_BYTES // 10**9} GB are needed", "df -h . && du -sh .dvc/cache .cache/checkpoints")
    return Line("disk", "ok", found)


def _git(*arguments: str) -> str | None:
    try:
        asked = subprocess.run(["git", *arguments], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return asked.stdout.strip() if asked.returncode == 0 else None
