"""`octavo doctor`: what the live experiments need, what this machine has, and what to type for the rest; doctor.toml holds the words.

It works in a half-installed environment: a check imports what it needs itself. It prints no secrets, no names of machines or people, and
no absolute paths.
"""

from __future__ import annotations

import argparse
import functools
import importlib.metadata
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from stages.contracts.files import GIT, parse_json, read_bytes

WORDS = Path(__file__).parents[1] / "doctor.toml"
FREE_BYTES = 2 * 10**9
"""Below this a run's checkpoints, DVC's cache and the site do not fit beside each other."""
_TORCH = """
import json, torch
names = [[torch.cuda.get_device_name(i), torch.cuda.get_device_properties(i).total_memory] for i in range(torch.cuda.device_count())]
print(json.dumps({"cuda": torch.version.cuda, "devices": names if torch.cuda.is_available() else []}))
"""


@dataclass(frozen=True)
class Line:
    """One thing that was looked for. `status`: ok, missing (a live experiment or octavo itself needs it), or optional; `install`: what to
    type."""

    name: str
    status: str
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
    needs = live_needs(options.specs)
    lines = [*examine(needs), *(cluster(needs, options.on) if options.on else ())]
    if options.json:
        print(json.dumps({"live": needs.experiments, "lines": [asdict(line) for line in lines]}, indent=2))
    else:
        print(f"{'' if options.specs else 'live '}experiments: {', '.join(needs.experiments) or 'none'}")
        for line in lines:
            print(f"{line.status:<9} {line.name:<18} {line.found}" + (f"\n{'':<28} {line.install}" if line.install else ""))
    return 1 if any(line.status == "missing" for line in lines) else 0


def examine(needs: Needs) -> Iterator[Line]:
    """All checks, in the order in which a person would repair what is missing."""
    if needs.problem:
        yield _line("specs", "unread", problem=needs.problem, repair=needs.repair)
    for check in (programs, stand_ins, libraries, services, devices, gates, hub):
        try:
            yield from check(needs)
        except ImportError as error:
            yield _line("any", "unasked", check.__name__, library=error.name or error)


@functools.cache
def _words() -> dict[str, dict[str, list[str]]]:
    return tomllib.loads(WORDS.read_text(encoding="utf-8"))


def _line(check: str, state: str, /, called: str = "", **facts: Any) -> Line:
    """A state of a check. `called`: its name, where a check gives several lines."""
    says, install, status = [*_words()[check][state], "", ""][:3]
    return Line(
        called or check, status.format(**facts) or ("ok" if state == "ok" else "missing"), says.format(**facts), install.format(**facts)
    )


def _first(**problems: object) -> str:
    """The first state whose problem is there, else `ok`."""
    return next((state for state, is_there in problems.items() if is_there), "ok")


def live_needs(names: Sequence[str] = ()) -> Needs:
    """What the live experiments ask for, or those that are named, if octavo is installed well enough to read their specs."""
    try:
        from compiler.build.inputs import Inputs
        from compiler.build.pipeline import live, named
        from compiler.compile import compile_all
        from compiler.problems import Rejected, errors
        from stages.contracts.plugin import GATES, load
    except ImportError as error:
        return Needs(problem=f"cannot be read: {error.name or error} is not installed")
    try:
        compiled = compile_all([named(name) for name in names] or live(Inputs()), Inputs())
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
    yield _line("python", "ok", version=platform.python_version())
    yield _line("python on PATH", _first(other=_output("python", "-P", "-c", "import sys; print(sys.prefix)") != sys.prefix))
    version = installed("dvc")
    state = _first(absent=version is None, off_path=shutil.which("dvc") is None, no_folder=not Path(".dvc").is_dir())
    yield _line("dvc", state, version=version)
    git, is_inside = _output("git", "--version"), _output(*GIT, "rev-parse", "--is-inside-work-tree") == "true"
    yield _line("git", _first(absent=git is None, outside=not is_inside), version=(git or "").removeprefix("git version "))
    if is_inside:
        yield _line("merge driver", _first(unset=not _output(*GIT, "config", "merge.octavo-lock.driver")))
    free = shutil.disk_usage(".").free
    yield _line("disk", _first(full=free < FREE_BYTES), free=free / 10**9, least=FREE_BYTES // 10**9)


def stand_ins(needs: Needs) -> Iterator[Line]:
    """Files of the project that could stand in for a check, or for a stage."""
    from compiler.commands.stand_ins import stand_ins

    for problem in stand_ins():
        yield _line("stand-ins", "there", problem=f"{problem.code} {problem.what}", repair=problem.fix)


def libraries(needs: Needs) -> Iterator[Line]:
    """Each library that is absent or has another version than constraints.txt pins; and one line for all others."""
    path = Path("constraints.txt")
    text = read_bytes(path).decode("utf-8", "replace") if path.is_file() else ""
    pins = {name.lower(): version for name, version in re.findall(r"^\s*([A-Za-z0-9._-]+)\s*==\s*([^\s;#]+)", text, re.MULTILINE)}
    needed, fine = required(), 0
    if not pins:
        yield _line("constraints.txt", "absent")
    for name in sorted({*needed, *pins}):
        version, pin, is_needed = installed(name), pins.get(name), name in needed
        is_other = pin is not None and version is not None and version.partition("+")[0] != pin  # +cpu is a build of the same version
        state = _first(absent=is_needed and version is None, other=is_needed and is_other, extra=is_other)
        fine += is_needed and state == "ok"
        if state != "ok":
            yield _line("library", state, name, version=version, pinned=f", pinned is {pin}" if pin else "", name=name, pin=pin)
    yield _line("libraries", "ok", fine=fine)


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
    from stages.train.tracking import configured

    version = installed("wandb")
    yield _line("wandb", _first(absent=version is None, unset=not configured()), version=version)
    if needs.quantized:
        version = installed("bitsandbytes")
        yield _line("bitsandbytes", _first(absent=version is None), version=version, users=", ".join(needs.quantized))


def devices(needs: Needs) -> Iterator[Line]:
    """Asked of torch in a process of its own: a broken driver can hang or crash it."""
    try:
        answer = parse_json(_output(sys.executable, "-P", "-c", _TORCH, seconds=120) or "")
    except ValueError:
        yield _line("torch", "broken")
        return
    yield _line("cpu", "ok", cores=os.cpu_count())
    yield gpus(needs, [(str(name), int(memory)) for name, memory in answer["devices"]], answer["cuda"])


def gpus(needs: Needs, seen: list[tuple[str, int]], cuda: str | None) -> Line:
    """GPUs of this machine, (name, bytes) each, against what a run of each live experiment asks for. `cuda`: version torch is built for."""
    build = f"torch is built for CUDA {cuda}" if cuda else "torch is a build without CUDA"
    if not seen:
        state = _first(unused=not needs.gpus, none_for_cuda=cuda, none=True)
        return _line("gpu", state, build=build, users=", ".join(name for name, *_ in needs.gpus))
    names = ", ".join(f"{name} ({memory / 10**9:.0f} GB)" for name, memory in seen)
    for experiment, count, least in needs.gpus:
        if sum(memory >= (least or 0) for _, memory in seen) < count:
            asked = f"{count} with {least / 10**9:.0f} GB each" if least else str(count)
            return _line("gpu", "few", names=names, experiment=experiment, asked=asked)
    return _line("gpu", "ok", names=names)


def gates(needs: Needs) -> Iterator[Line]:
    """The sandbox tier that holds, found by running the attacks; then each gate that asks a process, which knows its programs, their
    versions and its sandbox. Those of no live experiment are optional."""
    from stages.contracts.diagnostic import StageError
    from stages.contracts.plugin import GATES, kinds, load
    from stages.train.verifiers.isolation import NOT_COVERED
    from stages.train.verifiers.sandbox import choose

    asked = f"needed by {', '.join(needs.gates)}" if needs.gates else "no live experiment runs model-written code"
    wanted = "missing" if needs.gates or needs.problem else "optional"
    try:
        tier, why_not = choose()
        stronger = "".join(f"; not {name}: {why}" for name, why in why_not.items())
        yield _line("sandbox", "ok", tier=tier, asked=asked, stronger=stronger, not_covered=NOT_COVERED[tier])
    except StageError as error:
        yield _line("sandbox", "none", problem=error.what, asked=asked, repair=error.fix, wanted=wanted)
    for kind in kinds(GATES):
        try:
            if hasattr(gate := load(GATES, kind), "tier"):
                yield _line("gate", "ok", f"gate {kind}", tier=gate.tier())
        except StageError as error:
            yield _line("gate", _first(unused=kind not in needs.gates, none=True), f"gate {kind}", problem=error, repair=error.fix)


def hub(needs: Needs) -> Iterator[Line]:
    """Access to the Hugging Face hub, by its settings only, then the pinned commits of live experiments. The network is not asked."""
    names = ", ".join(name for _, name, _ in needs.hub)
    home = Path(os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "huggingface")
    is_offline = os.environ.get("HF_HUB_OFFLINE", "").lower() in ("1", "true", "yes", "on")
    has_token = bool(os.environ.get("HF_TOKEN")) or (home / "token").is_file()
    access = "offline (HF_HUB_OFFLINE)" if is_offline else f"online, {'with' if has_token else 'without'} a token"
    yield _line("hub", "access", access=access, uses=f"live experiments use {names}" if names else "no live experiment uses it")
    cache = Path(os.environ.get("HF_HUB_CACHE") or home / "hub")
    for kind, name, commit in needs.hub:
        snapshot = cache / f"{kind}--{name.replace('/', '--')}/snapshots/{commit}"
        is_absent = not snapshot.is_dir() or not any(snapshot.iterdir())
        fetch = f"hf download {name}{' --repo-type dataset' if kind == 'datasets' else ''} --revision {commit}"
        yield _line("hub cache", _first(offline=is_absent and is_offline, absent=is_absent), at=f"{name} at {commit[:12]}", fetch=fetch)


def cluster(needs: Needs, name: str) -> Iterator[Line]:
    """What a node of a machine sees, asked by a job of its queue."""
    from compiler.build.inputs import Inputs
    from compiler.problems import Rejected
    from compiler.running.machines import settings
    from compiler.running.slots import gpus as visible_gpus
    from compiler.running.slots import lock_folder, places
    from compiler.running.slurm_commands import SlurmMachine
    from compiler.running.slurm_node import node_facts

    wanted = max((count for _, count, _ in needs.gpus), default=0)
    try:
        _, machine = settings(name, Inputs())
        if not isinstance(machine, SlurmMachine):
            lock_folder()
            gpus, slots = len(visible_gpus()), len(places(machine.slots))
            yield _line("cluster", _first(few=gpus < wanted, here=True), name=name, wanted=wanted, gpus=gpus, slots=slots)
            return
        state, facts = node_facts(machine, wanted)
    except Rejected as rejected:
        first = rejected.diagnostics[0]
        yield _line("cluster", "refused", name=name, problem=f"{first.code} {first.what}", repair=first.fix)
        return
    if state == "ok":
        state = _first(
            python=facts["python"] != platform.python_version(),
            gpus=wanted and (facts["gpus"] or 0) < wanted,
            alone=not facts["may_submit"],
        )
    yield _line("cluster", state, name=name, wanted=wanted, here=platform.python_version(), **facts)


def _output(*command: str, seconds: float = 30) -> str | None:
    try:
        process = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return process.stdout.strip() if process.returncode == 0 else None
