"""The manifest of a run's checkpoints: what made them. Training goes on from them under the same, or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from stages.contracts.artifact import Artifact, ArtifactError, read, write
from stages.contracts.diagnostic import StageError

MATTER = ("torch", "transformers", "trl", "peft", "accelerate", "bitsandbytes")
"""Libraries that make numbers. A run that changes one on the way is neither of the two."""
NAME = "manifest.json"


class Manifest(Artifact):
    """`manifest.json` beside the checkpoints."""

    SCHEMA: ClassVar[str] = "octavo.checkpoints/1"

    run: str
    """`<experiment>/<run>`."""
    card_id: str
    seed: int
    device: str
    versions: dict[str, str]

    @classmethod
    def now(cls, run: str, card_id: str, seed: int, device: str, versions: Mapping[str, str]) -> Manifest:
        """What would make them here and now."""
        return cls(
            run=run, card_id=card_id, seed=seed, device=device, versions={name: versions[name] for name in MATTER if name in versions}
        )


def keep(folder: Path, manifest: Manifest) -> None:
    """Write the manifest before the first checkpoint."""
    if not (folder / NAME).exists():
        write(folder / NAME, manifest)


def require(folder: Path, now: Manifest) -> None:
    """Raises StageError S250 when the checkpoints in the folder were made by anything else."""
    try:
        before = read(Manifest, folder / NAME)
    except ArtifactError:
        raise _refused(folder, "nothing says what made them", f"rm -r {folder}") from None
    differs = [
        f"{key}: {one} then, {other} now"
        for key, one, other in (
            ("run", before.run, now.run),
            ("card", before.card_id, now.card_id),
            ("seed", str(before.seed), str(now.seed)),
            ("device", before.device, now.device),
        )
        if one != other
    ]
    names = sorted(before.versions.keys() | now.versions.keys())
    moved = [name for name in names if before.versions.get(name) != now.versions.get(name)]
    differs += [f"{name}: {before.versions.get(name, 'none')} then, {now.versions.get(name, 'none')} now" for name in moved]
    if not differs:
        return
    again = " ".join(f"{name}=={before.versions[name]}" for name in moved if name in before.versions)
    anew = f"rm -r {folder} && dvc repro"
    fix = f"pip install {again}   (goes on), or {anew}   (from the start)" if again and len(moved) == len(differs) else anew
    raise _refused(folder, "; ".join(differs), fix)


def _refused(folder: Path, what: str, fix: str) -> StageError:
    return StageError(
        "S250",
        f"the checkpoints in {folder} are not those of this run here and now: {what}",
        why="a run that goes on under another seed, card or library is a mixture that nobody asked for",
        fix=fix,
    )
