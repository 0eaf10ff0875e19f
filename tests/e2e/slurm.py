"""A real Slurm on this machine alone: controller, nodes with a GPU that is none, munge of its own; ports of its own, nothing in /etc.

    apt-get install --no-install-recommends slurmctld slurmd slurm-client munge

It has no accounting database, which is the hard case. Jobs of the partition `urgent` preempt those of `gpu`, which go back into the queue.
GPUs are character devices like /dev/null: with them Slurm sets CUDA_VISIBLE_DEVICES.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import socket
import stat
import subprocess
from dataclasses import dataclass
from pathlib import Path

import psutil
from side_by_side import wait_for

PROGRAMS = ("slurmctld", "slurmd", "munged", "sbatch", "squeue")
_CONF = """\
ClusterName=octavo
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
AuthType=auth/munge
AuthInfo=socket={at}/munge.socket,cred_expire=10
CredType=cred/munge
StateSaveLocation={at}/state
SlurmdSpoolDir={at}/spool/%n
SlurmctldPidFile={at}/slurmctld.pid
SlurmdPidFile={at}/slurmd.%n.pid
SlurmctldLogFile={at}/slurmctld.log
SlurmdLogFile={at}/slurmd.%n.log
SlurmUser=root
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SchedulerParameters=bf_interval=2,sched_interval=2,batch_sched_delay=1
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
GresTypes=gpu
MpiDefault=none
MaxArraySize={array_size}
ReturnToService=2
KillWait=60
MinJobAge=600
SlurmdTimeout=60
JobRequeue=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
"""
_PARTITIONS = """\
PartitionName=gpu Nodes=n[1-{count}] Default=YES MaxTime=INFINITE State=UP PriorityTier=1 PreemptMode=REQUEUE
PartitionName=urgent Nodes=n[1-{count}] MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF
"""


class Unavailable(Exception):
    """Why no Slurm starts here."""


@dataclass(frozen=True)
class Cluster:
    """A Slurm that goes on. Its commands work where SLURM_CONF names `conf`."""

    at: Path
    nodes: tuple[str, ...]

    @property
    def conf(self) -> Path:
        return self.at / "slurm.conf"

    def call(self, *words: str) -> str:
        """Output of one of Slurm's commands."""
        done = subprocess.run(words, env={**os.environ, "SLURM_CONF": str(self.conf)}, capture_output=True, text=True)
        assert done.returncode == 0, f"{' '.join(words)}: {done.stderr}"
        return done.stdout

    def jobs(self) -> dict[str, tuple[str, str]]:
        """Job -> (state, node) of all that have not ended."""
        lines = self.call("squeue", "--noheader", "--array", "--format=%i|%T|%N").split()
        return {job: (state, node) for job, state, node in (line.split("|") for line in lines)}

    def lose_node(self, node: str) -> None:
        """As when its power fails: its daemons and the processes of its jobs are killed at once. The controller, which would see it after
        SlurmdTimeout, is told."""
        ids = self.call("squeue", "--noheader", f"--nodelist={node}", "--states=RUNNING", "--format=%A").split()
        victims = [psutil.Process(int((self.at / f"slurmd.{node}.pid").read_text()))]
        for process in psutil.process_iter(["environ"]):  # a process that has ended meanwhile has none
            environment = process.info["environ"] or {}
            if environment.get("SLURM_CONF") == str(self.conf) and environment.get("SLURM_JOB_ID") in ids:
                with contextlib.suppress(psutil.NoSuchProcess):
                    above = [parent for parent in process.parents() if parent.name() == "slurmstepd"]
                    victims += [*above, process]
        for process in victims:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self.call("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=lost")

    def stop(self) -> None:
        """End its jobs and daemons, each by its id."""
        self.call("scancel", "--user=root")
        wait_for(lambda: not self.jobs())
        for path in (*self.at.glob("slurmd.*.pid"), self.at / "slurmctld.pid", self.at / "munged.pid"):
            with contextlib.suppress(psutil.NoSuchProcess, FileNotFoundError):
                psutil.Process(int(path.read_text())).terminate()


def start(at: Path, count: int, array_size: int = 1001) -> Cluster:
    """A cluster of `count` nodes n1, n2, ... whose files lie in `at`. Raises Unavailable."""
    absent = [program for program in PROGRAMS if shutil.which(program) is None]
    if absent or os.geteuid():
        raise Unavailable(
            f"a real Slurm needs root and {', '.join(absent) or 'its daemons'}: apt-get install slurmctld slurmd slurm-client munge"
        )
    for folder in ("state", *(f"spool/n{number}" for number in range(1, count + 1))):
        (at / folder).mkdir(parents=True)
    at.chmod(0o755)
    (at / "munge.key").write_bytes(os.urandom(128))
    (at / "munge.key").chmod(0o400)
    host, port = socket.gethostname(), _free_ports(count + 1)
    gres, nodes = [], []
    for number in range(1, count + 1):
        device = at / f"nvidia{number}"
        try:
            os.mknod(device, stat.S_IFCHR | 0o600, os.makedev(1, 3))
        except PermissionError:
            raise Unavailable("this box makes no devices, and Slurm takes nothing else for a GPU") from None
        gres.append(f"NodeName=n{number} Name=gpu File={device}\n")
        place = f"NodeHostname={host} NodeAddr=127.0.0.1 Port={port + number}"
        nodes.append(f"NodeName=n{number} {place} CPUs=2 RealMemory=1000 Gres=gpu:1 State=UNKNOWN\n")
    (at / "gres.conf").write_text("".join(gres))
    (at / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
    conf = _CONF.format(at=at, host=host, port=port, array_size=array_size) + "".join(nodes) + _PARTITIONS.format(count=count)
    cluster = Cluster(at, tuple(f"n{number}" for number in range(1, count + 1)))
    cluster.conf.write_text(conf)
    munge = [f"--key-file={at}/munge.key", f"--socket={at}/munge.socket", f"--pid-file={at}/munged.pid", f"--log-file={at}/munged.log"]
    for command in (
        ["munged", "--force", *munge, f"--seed-file={at}/munge.seed"],
        ["slurmctld"],
        *(["slurmd", "-N", node] for node in cluster.nodes),
    ):
        done = subprocess.run(command, env={**os.environ, "SLURM_CONF": str(cluster.conf)}, capture_output=True, text=True)
        if done.returncode:
            raise Unavailable(f"{command[0]} does not start here: {done.stderr.strip()[-300:]}")
    idle = ["sinfo", "--noheader", "--partition=gpu", "--states=idle", "--format=%D"]
    wait_for(lambda: cluster.call(*idle).split() == [str(count)])
    return cluster


def _free_ports(count: int) -> int:
    """The first of so many free ports side by side."""
    while True:
        first = random.randrange(20000, 32000)  # below those that the kernel gives to connections
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            for port in range(first, first + count):
                stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
            return first
