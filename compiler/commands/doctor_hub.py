"""What `octavo doctor` says of the Hugging Face hub: access, by its settings only, and which pinned commits this machine holds."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from compiler.commands.doctor import Line, Needs


def checks(needs: Needs) -> Iterator[Line]:
    """Access, then one line a repository that a live experiment uses. Nothing is asked of the network."""
    yield access(needs)
    for kind, name, commit in needs.hub:
        here = _cache() / f"{kind}--{name.replace('/', '--')}" / "snapshots" / commit
        if here.is_dir() and any(here.iterdir()):
            yield Line("hub cache", "ok", f"{name} at {commit[:12]}")
            continue
        flag = " --repo-type dataset" if kind == "datasets" else ""
        fetch = f"hf download {name}{flag} --revision {commit}"
        if _is_offline():
            yield Line("hub cache", "missing", f"{name} at {commit[:12]} is not here, and this is offline", f"HF_HUB_OFFLINE=0 {fetch}")
        else:
            yield Line("hub cache", "optional", f"{name} at {commit[:12]} is not here: the first stage that needs it fetches it", fetch)


def access(needs: Needs) -> Line:
    """Offline or online, and whether there is a token; never the token."""
    uses = f"live experiments use {listed}" if (listed := ", ".join(name for _, name, _ in needs.hub)) else "no live experiment uses it"
    if _is_offline():
        return Line("hub", "optional", f"offline (HF_HUB_OFFLINE); {uses}")
    has_token = bool(os.environ.get("HF_TOKEN")) or (_home() / "token").is_file()
    return Line("hub", "optional", f"online, {'with' if has_token else 'without'} a token; {uses}")


def _is_offline() -> bool:
    return os.environ.get("HF_HUB_OFFLINE", "").lower() in ("1", "true", "yes", "on")


def _home() -> Path:
    return Path(os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "huggingface")


def _cache() -> Path:
    return Path(os.environ.get("HF_HUB_CACHE") or _home() / "hub")
