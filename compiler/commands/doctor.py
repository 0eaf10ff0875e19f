"""`octavo doctor`: what the live experiments need, what this machine has, and what to type for the rest.

It works in a half-installed environment: a check imports what it needs itself. It prints no secrets, no names of machines or people, and
no absolute paths.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

FREE_BYTES = 2 * 10**9
"""Below this a run's checkpoints, DVC's cache and the site do not fit beside each other."""
_INSTALL = "pip install -c constraints.txt -e ."
_ACTIVATE = "source .venv/bin/activate"
_MERGE = "git config merge.octavo-lock.driver 'octavo merge-lock %O %A %B %P'"
_TRUST = 'git init, or in a container: git config --global --add safe.directory "$PWD"'
_TORCH = """
import json, torch
names = [[torch.cuda.get_device_name(i), torch.cuda.get_device_properties(i).total_memory] for i in range(torch.cuda.device_count())]
print(json.dumps({"cuda": torch.version.cuda, "devices": names if torch.cuda.is_available() else []}))
"""
Status = Literal["ok", "missing", "optional"]


@dataclass(frozen=True)
class Line:
    """One thing that was looked for. `missing`: a live experiment or octavo itself needs it; `install` is something to type."""

    name: str
    status: Status
    found: str
    install: str = ""


@dataclass(frozen=True)
class Needs:
    """What the live experiments ask of a machine. `problem` says why the specs could not be read; then everything is needed."""

    experiments: tuple[str, ...] = ()
    gpus: tuple[tuple[str, int, int | None], ...] = ()
    """(experiment, GPUs, bytes of memory on each or None) of experiments that train on GPUs."""
    gates: tuple[str, ...] = ()
    """Kinds of gates that run a verifier."""
    quantized: tuple[str, ...] = ()
    """Experiments whose base model is loaded in fewer bits."""
    hub: tuple[tuple[str, str, str], ...] = ()
    """(models or datasets, name, commit) of hub repositories."""
    problem: str = ""
    repair: str = "octavo check"


def run(options: argparse.Namespace) -> int:
    """Print a line a check; 1 if something needed is missing."""
    needs = live_needs()
    lines = list(examine(needs))
    if options.json:
        print(json.dumps({"live": needs.experiments, "lines": [asdict(line) for line in lines]}, indent=2))
    else:
        print(f"live experiments: {', '.join(needs.experiments) or 'none'}")
        for line in lines:
            print(f"{line.status:<9} {line.name:<18} {line.found}" + (f"\n{'':<28} {line.install}" if line.install else ""))
    return 1 if any(line.status == "missing" for line in lines) else 0


def examine(needs: Needs) -> Iterator[Line]:
    """All checks, in the order in which a person would repair what is missing."""
    if needs.problem:
        yield Line("specs", "missing", needs.problem, needs.repair)
    for check in (programs, libraries, services, devices, gates, hub):
        yield from check(needs)


def live_needs() -> Needs:
    """What the specs ask for, if octavo is installed well enough to read them."""
    try:
        from compiler.build.inputs import Inputs
        from compiler.build.pipeline import live
        from compiler.compile import compile_all
        from compiler.problems import Rejected, errors
        from stages.contracts.plugin import GATES, load
    except ImportError as error:
        return Needs(problem=f"cannot be read: {error.name or error} is not installed")
    try:
        compiled = compile_all(live(Inputs()), Inputs())
    except Rejected as rejected:
        first = errors(rejected.diagnostics)[0]
        where = f"{first.place.file}:{first.place.line}: " if first.place else ""
        repair = first.fix if first.place is None or first.fix.startswith("octavo ") else "octavo check"
        return Needs(problem=f"cannot be compiled: {where}{first.code} {first.what}", repair=repair)
    specs = {each.experiment.name: each.experiment.spec for each in compiled}
    uses = [use for each in compiled for setup in each.expansion.setups for use in setup.reward.gates]
    uses += [use for each in compiled for use in each.expansion.scores]
    return Needs(
        tuple(specs),
        tuple((name, spec.resources.gpus, spec.resources.gpu_memory) for name, spec in specs.items() if spec.resources.gpus),
        tuple(kind for kind in sorted({use.card.kind for use in uses}) if hasattr(load(GATES, kind), "tier")),
        tuple(name for name, spec in specs.items() if spec.model.quantization != "none"),
        tuple(sorted({repository for each in compiled for repository in each.cards.on_hub()})),
    )


def programs(needs: Needs) -> Iterator[Line]:
    """Python, which DVC meets as `python`; the commands dvc and git; the repository with its merge driver; and free space."""
    yield _first("python", platform.python_version(), (sys.version_info < (3, 11), "too old", "apt-get install python3.11-venv"))
    is_same = _output("python", "-P", "-c", "import sys; print(sys.prefix)") == sys.prefix
    other = "none, or of another environment than octavo's, and DVC starts stages with it"
    yield _first("python on PATH", "octavo's own environment", (not is_same, other, _ACTIVATE))
    version = installed("dvc")
    yield _first(
        "dvc",
        str(version),
        (version is None, "not installed", _INSTALL),
        (shutil.which("dvc") is None, f"{version}, and no command `dvc` on PATH", _ACTIVATE),
        (not Path(".dvc").is_dir(), f"{version}, and this folder has no .dvc/", "dvc init"),
    )
    git, is_inside = _output("git", "--version"), _output("git", "rev-parse", "--is-inside-work-tree") == "true"
    yield _first(
        "git",
        (git or "").removeprefix("git version "),
        (git is None, "none: ledgers and cards could not name their commit", "apt-get install git"),
        (not is_inside, "this folder is in no repository that git trusts", _TRUST),
    )
    if is_inside:
        no_driver = (not _output("git", "config", "merge.octavo-lock.driver"), "not set: git merges dvc.lock line by line", _MERGE)
        yield _first("merge driver", "dvc.lock is merged stage by stage", no_driver, otherwise="optional")
    free = shutil.disk_usage(".").free
    space, fix = f"{free / 10**9:.0f} GB free", "df -h . && du -sh .dvc/cache .cache/checkpoints"
    yield _first("disk", space, (free < FREE_BYTES, f"{space}, {FREE_BYTES // 10**9} GB are needed", fix))


def libraries(needs: Needs) -> Iterator[Line]:
    """Each library that is absent or has another version than constraints.txt pins; and one line for all others."""
    path, where = Path("constraints.txt"), "cd to the project's root, which holds specs/ and constraints.txt"
    text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    pins = {name.lower(): version for name, version in re.findall(r"^\s*([A-Za-z0-9._-]+)\s*==\s*([^\s;#]+)", text, re.MULTILINE)}
    needed, fine = required(), 0
    if not pins:
        yield Line("constraints.txt", "missing", "no versions are pinned here", where)
    for name in sorted({*needed, *pins}):
        version, pin, is_needed = installed(name), pins.get(name), name in needed
        pinned = f", pinned is {pin}" if pin else ""
        if version and (pin is None or version.partition("+")[0] == pin):  # +cpu is a build of the same version
            fine += is_needed
        elif is_needed:
            cards = f"{version}{pinned}: cards would name a version that did not train"
            yield Line(name, "missing", cards if version else f"not installed{pinned}", _INSTALL)
        elif version:
            yield Line(name, "optional", f"{version}{pinned}", f"pip install {name}=={pin}")
    yield Line("libraries", "ok", f"{fine} as constraints.txt pins them or pyproject.toml asks for them")


def required() -> list[str]:
    """Names of what octavo itself depends on, without extras."""
    try:
        lines = importlib.metadata.requires("octavo") or []
    except importlib.metadata.PackageNotFoundError:
        return []
    return [match[0].lower() for line in lines if "extra ==" not in line and (match := re.match(r"[A-Za-z0-9._-]+", line))]


def installed(name: str) -> str | None:
    """Version of a library, or None."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def services(needs: Needs) -> Iterator[Line]:
    """Weights & Biases, and whether a key is set, never the key; bitsandbytes if a live experiment loads its base model with it."""
    version = installed("wandb")
    try:
        from stages.train.tracking import configured

        is_asked = configured()
    except ImportError:
        is_asked = False
    yield _first(
        "wandb",
        f"{version}, configured",
        (version is None, "not installed; runs need no account", "pip install -c constraints.txt wandb"),
        (not is_asked, f"{version}, not configured", "export WANDB_MODE=offline, or WANDB_API_KEY"),
        otherwise="optional",
    )
    if needs.quantized:
        version, asked = installed("bitsandbytes"), f"needed by {', '.join(needs.quantized)}"
        fix = "pip install -c constraints.txt -e '.[quantization]'"
        yield _first("bitsandbytes", f"{version}; {asked}", (version is None, f"not installed; {asked}", fix))


def devices(needs: Needs) -> Iterator[Line]:
    """Asked of torch in a process of its own: a broken driver can hang or crash it."""
    try:
        answer = json.loads(_output(sys.executable, "-P", "-c", _TORCH, seconds=120) or "")
    except ValueError:
        yield Line("torch", "missing", "does not start", f"{_INSTALL} && python -c 'import torch'")
        return
    yield Line("cpu", "ok", f"{os.cpu_count()} cores")
    yield gpus(needs, [(str(name), int(memory)) for name, memory in answer["devices"]], answer["cuda"])


def gpus(needs: Needs, seen: list[tuple[str, int]], cuda: str | None) -> Line:
    """GPUs of this machine, (name, bytes) each, against what a run of each live experiment asks for. `cuda`: version torch is built for."""
    build = f"torch is built for CUDA {cuda}" if cuda else "torch is a build without CUDA"
    if not seen and needs.gpus:
        fix = "nvidia-smi" if cuda else "install a CUDA build of torch, or set `resources: {gpus: 0}`"
        return Line("gpu", "missing", f"none seen ({build}); needed by {', '.join(name for name, *_ in needs.gpus)}", fix)
    if not seen:
        return Line("gpu", "optional", f"none seen ({build}); no live experiment trains on one")
    names = ", ".join(f"{name} ({memory / 10**9:.0f} GB)" for name, memory in seen)
    for experiment, count, least in needs.gpus:
        if sum(memory >= (least or 0) for _, memory in seen) < count:
            asked = f"{count} with {least / 10**9:.0f} GB each" if least else str(count)
            fix = "train it on another machine, or change its `resources`"
            return Line("gpu", "missing", f"{names}; a run of {experiment} asks for {asked}", fix)
    return Line("gpu", "ok", names)


def gates(needs: Needs) -> Iterator[Line]:
    """The sandbox tier that holds, found by running the attacks; then each gate that asks a process, which knows its programs, their
    versions and its sandbox. Those of no live experiment are optional."""
    asked = f"needed by {', '.join(needs.gates)}" if needs.gates else "no live experiment runs model-written code"
    wanted: Status = "missing" if needs.gates or needs.problem else "optional"
    try:
        from stages.contracts.diagnostic import StageError
        from stages.contracts.plugin import GATES, kinds, load
        from stages.train.verifiers.isolation import NOT_COVERED
        from stages.train.verifiers.sandbox import choose

        plugins = {kind: load(GATES, kind) for kind in kinds(GATES)}
    except ImportError as error:
        yield Line("sandbox", wanted, f"cannot be probed: {error.name or error} is not installed", _INSTALL)
        return
    try:
        tier, why_not = choose()
        stronger = "".join(f"; not {name}: {why}" for name, why in why_not.items())
        yield Line("sandbox", "ok", f"{tier} ({asked}){stronger}; it does not cover {NOT_COVERED[tier]}")
    except StageError as error:
        yield Line("sandbox", wanted, f"{error.what} ({asked})", error.fix)
    for kind, gate in plugins.items():
        is_needed = kind in needs.gates
        try:
            if hasattr(gate, "tier"):
                yield Line(f"gate {kind}", "ok", f"runs in the tier {gate.tier()}")
        except StageError as error:
            words = f"{error}{'' if is_needed else '; no live experiment needs it'}"
            yield Line(f"gate {kind}", "missing" if is_needed else "optional", words, error.fix)


def hub(needs: Needs) -> Iterator[Line]:
    """Access to the Hugging Face hub, by its settings only, then the pinned commits of live experiments. The network is not asked."""
    names = ", ".join(name for _, name, _ in needs.hub)
    uses = f"live experiments use {names}" if names else "no live experiment uses it"
    home = Path(os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "huggingface")
    is_offline = os.environ.get("HF_HUB_OFFLINE", "").lower() in ("1", "true", "yes", "on")
    has_token = bool(os.environ.get("HF_TOKEN")) or (home / "token").is_file()
    access = "offline (HF_HUB_OFFLINE)" if is_offline else f"online, {'with' if has_token else 'without'} a token"
    yield Line("hub", "optional", f"{access}; {uses}")
    for kind, name, commit in needs.hub:
        cache = Path(os.environ.get("HF_HUB_CACHE") or home / "hub")
        snapshot = cache / f"{kind}--{name.replace('/', '--')}/snapshots/{commit}"
        at, fetch = (
            f"{name} at {commit[:12]}",
            f"hf download {name}{' --repo-type dataset' if kind == 'datasets' else ''} --revision {commit}",
        )
        if snapshot.is_dir() and any(snapshot.iterdir()):
            yield Line("hub cache", "ok", at)
        elif is_offline:
            yield Line("hub cache", "missing", f"{at} is not here, and this is offline", f"HF_HUB_OFFLINE=0 {fetch}")
        else:
            yield Line("hub cache", "optional", f"{at} is not here: the first stage that needs it fetches it", fetch)


def _first(name: str, good: str, *problems: tuple[bool, str, str], otherwise: Status = "missing") -> Line:
    """The first problem (whether it is there, its words, what to type), or `good` if there is none."""
    return next((Line(name, otherwise, words, fix) for is_there, words, fix in problems if is_there), Line(name, "ok", good))


def _output(*command: str, seconds: float = 30) -> str | None:
    try:
        process = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return process.stdout.strip() if process.returncode == 0 else None
