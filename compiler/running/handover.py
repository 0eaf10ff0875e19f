"""What a stage wrote goes into DVC's cache and run cache the moment it ends: `python -m compiler.running.handover <folder> <stage>`.

From then on any `dvc repro` with the same command and inputs takes it from there ("cached - skipping run"), and one that empties the run's
folder in between loses nothing. No dvc.lock is written: both caches are addressed by content, and entries appear by a rename, so any number
of workers may do this at once. These are inner parts of DVC, the same in 3.60 to 3.67; tests/e2e/test_side_by_side.py holds them.
"""

from __future__ import annotations

import sys

from dvc.repo import Repo

from stages.contracts.files import parse_json


def hand_over(folder: str, name: str, deps: dict[str, str]) -> str:
    """Remember a stage of `folder`/dvc.yaml. `deps`: path -> MD5 that the stage began with. Returns why not, or ""."""
    with Repo() as repo:
        stage = repo.stage.load_one(f"{folder}/dvc.yaml", name)
        stage.save(run_cache=False)
        now = {dep.def_path: dep.hash_info.value for dep in stage.deps}
        changed = [path for path, value in now.items() if deps.get(path, value) != value]
        if changed:
            return f"{changed[0]} changed while {name} ran, so what it wrote is of no inputs that are here: it is due again"
        for out in stage.outs:  # and not stage.commit(), which waits for the repository's lock
            out.commit()
        repo.stage_cache.save(stage)  # last: an entry whose files are not there would be of no use
    return ""


if __name__ == "__main__":
    reason = hand_over(sys.argv[1], sys.argv[2], parse_json(sys.stdin.read()))
    if reason:
        print(reason, file=sys.stderr)
    raise SystemExit(1 if reason else 0)
