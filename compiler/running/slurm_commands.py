"""Slurm's own commands, and nothing else of it: no library, and no accounting database, which many clusters lack."""

from __future__ import annotations

import math
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Literal

from pydantic import Field

from compiler.problems import Rejected, problem
from stages.contracts.artifact import Section

_GPUS = re.compile(r"(?:^|,)gpu(?::[^:,()]+)?:(\d+)")
_NAME = r"^[^-\s]\S*$"
_Option = Annotated[str, Field(pattern="^--[a-z]")]


class SlurmMachine(Section):
    """A Slurm cluster whose nodes see this folder under the same name."""

    kind: Literal["slurm"] = Field(description="Runs are jobs of an array that `sbatch` takes.")
    partition: str | None = Field(None, pattern=_NAME, description="`sbatch --partition`.")
    account: str | None = Field(None, pattern=_NAME, description="`sbatch --account`.")
    time: float = Field(
        14400, ge=60, json_schema_extra={"unit": "s"}, description="Limit of one job. A run that takes longer goes on in its next job."
    )
    grace: float = Field(
        120,
        ge=10,
        le=3600,
        json_schema_extra={"unit": "s"},
        description="Time before the limit at which a run gets the signal to save.",
    )
    at_once: int | None = Field(None, ge=1, description="Most runs of an experiment side by side.")
    cpus: int | None = Field(None, ge=1, description="Cores of a run: `sbatch --cpus-per-task`.")
    memory: int | None = Field(None, ge=1, json_schema_extra={"unit": "B"}, description="Main memory of a run: `sbatch --mem`.")
    gres: str = Field("gpu", pattern=r"^[A-Za-z0-9_:.-]+$", description="What `sbatch --gres` calls a GPU, such as `gpu:h100`.")
    setup: tuple[str, ...] = Field((), description="Lines of shell before a run, such as `module load cuda/12.8`.")
    options: tuple[_Option, ...] = Field((), description="Handed to `sbatch` as they are, such as `--constraint=h100`.")


def submit(machine: SlurmMachine, name: str, lines: Sequence[str], gpus: int, extra: Iterable[str]) -> str:
    """The id of a job that runs `lines` of shell in this folder. Raises Rejected E503 with Slurm's own words when it is refused."""
    options = [f"--job-name={name}", f"--chdir={os.getcwd()}", "--nodes=1", "--ntasks=1", "--requeue", "--open-mode=append"]
    options += [f"--time={math.ceil(machine.time / 60)}"]
    options += [f"--partition={machine.partition}"] if machine.partition else []
    options += [f"--account={machine.account}"] if machine.account else []
    options += [f"--cpus-per-task={machine.cpus}"] if machine.cpus else []
    options += [f"--mem={math.ceil(machine.memory / 2**20)}M"] if machine.memory else []
    options += [f"--gres={machine.gres}:{gpus}"] if gpus else []
    path = f'export PATH={shlex.quote(os.path.dirname(sys.executable))}:"$PATH"'  # after `setup`: DVC starts what `python` is there
    script = "\n".join(["#!/bin/bash", *machine.setup, path, *lines, ""])
    arguments = [*options, *extra, *machine.options]
    done = ask("sbatch", "--parsable", *arguments, script=script)
    if done.returncode:
        raise Rejected([problem("E503.refused", words=_words(done), options=" ".join(arguments))])
    return done.stdout.strip().partition(";")[0]


def queue(jobs: Sequence[str], *, ended: bool = False) -> dict[str, str]:
    """Job, or `<array>_<index>` -> state such as PENDING, of those that Slurm still has to do with; also of those that have `ended` in the
    last minutes. Raises Rejected E503 when Slurm does not answer."""
    if not jobs:
        return {}
    done = ask("squeue", "--noheader", "--array", "--format=%i|%T", f"--jobs={','.join(jobs)}", *(["--states=all"] if ended else []))
    if done.returncode and "Invalid job id" in done.stderr:  # all of it is long gone
        return {}
    if done.returncode:
        raise Rejected([problem("E503.silent", words=_words(done))])
    return dict(line.split("|", 1) for line in done.stdout.split())


def cancel(jobs: Sequence[str]) -> None:
    """End jobs, or single ones of an array. Raises Rejected E503."""
    done = ask("scancel", *jobs) if jobs else None
    if done is not None and done.returncode:
        raise Rejected([problem("E503.silent", words=_words(done))])


def most_gpus(machine: SlurmMachine) -> int | None:
    """GPUs of the node that has most of them; None when Slurm names no node."""
    done = ask("sinfo", "--noheader", "--format=%G", *([f"--partition={machine.partition}"] if machine.partition else []))
    if done.returncode:
        raise Rejected([problem("E503.silent", words=_words(done))])
    nodes = done.stdout.split()
    return max((sum(map(int, _GPUS.findall(node))) for node in nodes), default=None)


def array_size() -> int:
    """Most jobs of one array."""
    match = re.search(r"^MaxArraySize\s*=\s*(\d+)", ask("scontrol", "show", "config").stdout, re.MULTILINE)
    return max(1, int(match[1])) if match else 1001


def facts(job: str) -> Mapping[str, str]:
    """What Slurm says of one job, such as JobState and Restarts; empty when it says nothing."""
    return dict(word.split("=", 1) for word in ask("scontrol", "show", "job", "-o", job).stdout.split() if "=" in word)


def require(command: str) -> None:
    """Raises Rejected E503 when this machine does not have one of Slurm's commands."""
    if shutil.which(command) is None:
        raise Rejected([problem("E503", command=command)])


def ask(*command: str, script: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run one of Slurm's commands. Raises Rejected E503 when this machine does not have it."""
    require(command[0])
    environment = {**os.environ, "LC_ALL": "C"}
    if "SLURM_JOB_ID" in environment:  # a job that submits others must not hand its own place on to them
        environment = {name: value for name, value in environment.items() if not name.startswith("SLURM_") or name == "SLURM_CONF"}
    return subprocess.run(command, input=script, capture_output=True, text=True, env=environment, check=False)


def _words(done: subprocess.CompletedProcess[str]) -> str:
    """What Slurm printed, in one line."""
    return " ".join((done.stderr or done.stdout).split()) or f"it ended with code {done.returncode} and no word"
