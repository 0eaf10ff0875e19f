"""What a node of a Slurm machine sees, for `octavo doctor --on`: `python -m compiler.running.slurm_node <answer>`, by one short job."""

from __future__ import annotations

import json
import platform
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from compiler.running.batch import JOBS
from compiler.running.slurm_commands import SlurmMachine, cancel, queue, submit
from stages.contracts.files import make_folder, parse_json, read_text, write_text

WAIT_SECONDS, LOOK_SECONDS = 300.0, 1.0
_TORCH = "import torch; print(torch.cuda.device_count() if torch.cuda.is_available() else 0)"


def node_facts(machine: SlurmMachine, gpus: int) -> tuple[str, dict[str, Any]]:
    """(state, facts of the node that answered). The state is `ok`, `waits` when the queue is longer than WAIT_SECONDS, or `unseen` when a
    node ran the job and its answer is not in this folder. Raises Rejected E503."""
    make_folder(JOBS)
    answer = JOBS / f"node-{time.time_ns()}.json"
    line = shlex.join([sys.executable, "-m", "compiler.running.slurm_node", answer.as_posix()])
    job = submit(machine, "octavo-doctor", [line], gpus, [f"--output={JOBS}/slurm-%j.out", "--time=5"])
    until = time.monotonic() + WAIT_SECONDS
    try:
        while time.monotonic() < until:
            is_over = not queue([job])  # asked before the answer is looked for, which the job writes before it ends
            if answer.exists():
                facts: dict[str, Any] = parse_json(read_text(answer))
                return "ok", facts
            if is_over:
                return "unseen", {"job": job, "log": f"{JOBS}/slurm-{job}.out"}
            time.sleep(LOOK_SECONDS)
        cancel([job])
        return "waits", {"seconds": round(WAIT_SECONDS)}
    finally:
        answer.unlink(missing_ok=True)


def main() -> int:
    """Write what this node sees into a file."""
    torch = subprocess.run([sys.executable, "-P", "-c", _TORCH], capture_output=True, text=True, check=False)
    facts = {
        "python": platform.python_version(),
        "gpus": int(torch.stdout) if torch.returncode == 0 else None,
        "may_submit": subprocess.run(["sh", "-c", "command -v sbatch"], capture_output=True, check=False).returncode == 0,
    }
    write_text(Path(sys.argv[1]), json.dumps(facts))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
