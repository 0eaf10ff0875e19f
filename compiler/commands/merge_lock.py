"""`octavo merge-lock %O %A %B %P`: git's merge of a `dvc.lock`, stage by stage instead of line by line.

A record says: this command made these outputs from these inputs. So a merge may keep one side's record of a stage, whole, and never mixes
two: DVC compares every record with the files, and runs a stage again whose inputs differ. Where both sides ran a stage, the inputs are
merged; the side that ran with exactly these is right. If neither did (two branches trained two runs, and each drew its own page), our
record is kept and the stage is due. Only "same inputs, other outputs" needs a person.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from compiler.problems import sentence
from stages.contracts.dvc_lock import HEAD, Locked, parse_lock
from stages.contracts.files import read_text, write_text


@dataclass
class Merged:
    """`text` holds conflict markers around the stages of `conflicts`; the stages of `due` run with the next `dvc repro`."""

    text: str = HEAD
    conflicts: list[str] = field(default_factory=list)
    due: list[str] = field(default_factory=list)


def merge(base: str, ours: str, theirs: str) -> Merged:
    """Three texts of a lock to one; `base` is empty if both sides made the file. Raises ValueError for a text that is no lock."""
    old, mine, other = (parse_lock(text or HEAD) for text in (base, ours, theirs))
    merged, texts = Merged(), [HEAD]
    for name in {**mine, **other}:
        before, our_record, their_record = old.get(name), mine.get(name), other.get(name)
        if our_record is None or their_record is None:  # removed on one side: gone, unless the other side ran it again
            kept = our_record or their_record
            texts.append(kept.text if kept and (before is None or kept.text != before.text) else "")
            continue
        inputs = _merged_inputs(before, our_record, their_record)
        right = [side for side in (our_record, their_record) if _inputs(side) == inputs]
        if their_record.text in (our_record.text, before.text if before else None):
            right = [our_record]
        elif before and our_record.text == before.text:
            right = [their_record]
        if len(right) == 2:
            merged.conflicts.append(name)
            texts.append(f"<<<<<<< ours\n{our_record.text}=======\n{their_record.text}>>>>>>> theirs\n")
            continue
        if not right:
            merged.due.append(name)
        texts.append((right or [our_record])[0].text)
    merged.text = "".join(texts)
    return merged


def _inputs(record: Locked) -> dict[str, Any]:
    return {"": record.cmd, **record.deps}


def _merged_inputs(before: Locked | None, our_record: Locked, their_record: Locked) -> dict[str, Any]:
    """The inputs after the merge. One that both sides changed to different values is equal to neither."""
    old, mine, other = _inputs(before) if before else {}, _inputs(our_record), _inputs(their_record)
    merged = {}
    for key in {**mine, **other}:
        ours, theirs = mine.get(key), other.get(key)
        merged[key] = ours if theirs in (ours, old.get(key)) else theirs if ours == old.get(key) else object()
    return {key: value for key, value in merged.items() if value is not None}


def run(options: argparse.Namespace) -> int:
    """Merge into `ours`, as git asks of a driver: 0 clean, 1 conflicts. Git merges the lines of a file that is no lock."""
    base, ours, theirs, name = Path(options.base), Path(options.ours), Path(options.theirs), sentence(options.path)
    try:
        merged = merge(*(read_text(path) for path in (base, ours, theirs)))
    except OSError as error:  # a person called it; git's own files are always there
        print(f"{error.filename}: {error.strerror}\n  fix: git calls this, once it is set: octavo doctor says how", file=sys.stderr)
        return 1
    except ValueError:
        print(f"{name}: not as DVC writes it, so its lines are merged", file=sys.stderr)
        command = ["git", "merge-file", "-L", "ours", "-L", "base", "-L", "theirs", str(ours), str(base), str(theirs)]
        return min(subprocess.run(command, check=False).returncode, 1)
    write_text(ours, merged.text)
    if merged.due:
        print(f"{name}: due with the next dvc repro: {', '.join(merged.due)}", file=sys.stderr)
    if merged.conflicts:
        print(f"{name}: both sides ran from the same inputs to other outputs: {', '.join(merged.conflicts)}", file=sys.stderr)
    return 1 if merged.conflicts else 0
