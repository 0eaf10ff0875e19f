"""What must be set before torch is imported, and what a ledger says about the machine."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import platform
import subprocess
import warnings
from typing import Literal

from stages.contracts.files import GIT
from stages.train.determinism import leave_out_cudnn_attention

_LAUNCHER = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")
"""What torchrun and cluster jobs set for their own processes."""
RECORDED = ("torch", "transformers", "trl", "peft", "accelerate", "datasets", "bitsandbytes")


def prepare(device: Literal["cpu", "cuda"], gpus: int = 1, worker: bool = False) -> None:
    """Set thread counts and quiet flags. On a CPU one thread: it is deterministic, and two threads beside a busy neighbour
    were measured 6-14x slower on a model this small. The user's own settings win, except those of a launcher: inside a cluster job
    `dvc repro` is one of the job's processes, and libraries would wait for the others. `worker`: we started it (ranks.py)."""
    if not worker:
        for name in _LAUNCHER:
            os.environ.pop(name, None)
    if device == "cpu":
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        os.environ.setdefault("MKL_NUM_THREADS", "1")
    elif gpus == 1:  # else transformers takes all that it sees, which TRL refuses
        os.environ["CUDA_VISIBLE_DEVICES"] = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
    quiet = {"TOKENIZERS_PARALLELISM": "false", "TRANSFORMERS_VERBOSITY": "error"}
    for name, value in (quiet | {"HF_HUB_DISABLE_TELEMETRY": "1", "HF_DATASETS_DISABLE_PROGRESS_BARS": "1"}).items():
        os.environ.setdefault(name, value)
    if device == "cuda":
        leave_out_cudnn_attention()
    # transformers 5.24 renames the field; 5.17 knows only the old name, and TRL's own default is True, so it must be passed
    warnings.filterwarnings("ignore", message=".*gradient_checkpointing.* is deprecated", category=FutureWarning)


def versions() -> dict[str, str]:
    """Installed versions of the libraries a result depends on; a missing one is left out. The local build tag is kept."""
    installed = {"python": platform.python_version()}
    for name in RECORDED:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            installed[name] = importlib.metadata.version(name)
    return installed


def host_class() -> str:
    """Kind of machine, such as `linux-x86_64-2cpu`; never a host or user name."""
    return f"{platform.system()}-{platform.machine()}-{os.cpu_count()}cpu".lower()


def cluster_job() -> str | None:
    """What Slurm calls the job that this process is part of, such as `4711` or `4711_0`; None outside a job."""
    array, task = os.environ.get("SLURM_ARRAY_JOB_ID"), os.environ.get("SLURM_ARRAY_TASK_ID")
    return f"{array}_{task}" if array and task else os.environ.get("SLURM_JOB_ID")


def job_place() -> str | None:
    """The job and the node that it runs on, by the cluster's own name for it, such as `4711_0 on gpu-node-3`; None outside a job."""
    job, node = cluster_job(), os.environ.get("SLURMD_NODENAME")
    return f"{job} on {node}" if job and node else job


def commit() -> str | None:
    """Git commit of the working tree, with `+` when tracked files differ from it; None outside git."""
    try:
        head = subprocess.run([*GIT, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, timeout=10)
        changed = subprocess.run([*GIT, "status", "--porcelain", "--untracked-files=no"], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    if head.returncode != 0:
        return None
    return head.stdout.strip() + ("+" if changed.stdout.strip() else "")
