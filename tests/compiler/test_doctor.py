"""`octavo doctor`: each finding is made true and made false; nothing private is printed."""

import getpass
import json
import os
import platform
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from compiler.__main__ import main
from compiler.commands import doctor
from compiler.commands.doctor import Line, Needs, examine, live_needs

ROOT = Path(__file__).parents[2]
NOTHING = Needs()


@pytest.fixture
def ready(work, monkeypatch):
    """The tests' project in a repository with DVC, in the environment that runs the tests, with the versions it has."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    for name in ("WANDB_API_KEY", "WANDB_MODE", "HF_TOKEN", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    (work / "constraints.txt").write_text(f"pydantic=={doctor.installed('pydantic')}\ntorch==1.0\ntransformers==1\ntrl==1\npeft==1\n")
    subprocess.run(["git", "init", "-q"], check=True)
    (work / ".dvc").mkdir()
    return work


def by_name(lines):
    return {line.name: line for line in lines}


def test_needs_are_those_of_the_live_experiments(work, spec):
    assert live_needs() == Needs(("example",), gates=("python_tests",))
    (work / "specs/example.yaml").write_text(spec + "\nresources: {gpus: 1}\n")
    assert live_needs() == Needs(("example",), (("example", 1, None),), ("python_tests",))
    (work / "specs/pipeline.yaml").write_text("[]\n")
    assert live_needs() == NOTHING


def test_specs_that_do_not_compile_are_a_finding(work):
    (work / "specs/example.yaml").write_text("title: 1\n")
    needs = live_needs()
    assert needs.experiments == ()
    first = next(examine(needs))
    assert (first.name, first.status, first.install) == ("specs", "missing", "octavo check")
    assert first.found.startswith("cannot be compiled: specs/example.yaml:1: E2")


def test_versions_are_held_against_the_pins(ready):
    lines = by_name(doctor.libraries(NOTHING))
    assert "pydantic" not in lines
    assert lines["torch"].status == "missing" and ", pinned is 1.0: " in lines["torch"].found
    assert lines["torch"].install == "pip install -c constraints.txt -e ."
    assert lines["libraries"].status == "ok"
    torch = doctor.installed("torch").partition("+")[0]
    (ready / "constraints.txt").write_text(f"torch=={torch}\n")
    assert "torch" not in by_name(doctor.libraries(NOTHING))  # a build tag such as +cpu is the same version


def test_what_only_extras_ask_for_need_not_be_there(ready, monkeypatch):
    """`make demo` installs no tools for tests, and its doctor must not call them missing."""
    monkeypatch.setattr(
        "importlib.metadata.requires", lambda name: ["no-such-library", "no-such-tool>=1; extra == 'dev'", "ruff; extra == 'dev'"]
    )
    (ready / "constraints.txt").write_text("no-such-library==3.1\nno-such-tool==1.0\npytest==0.1\n")
    lines = by_name(doctor.libraries(NOTHING))
    assert lines.keys() == {"no-such-library", "pytest", "libraries"}
    assert lines["no-such-library"] == Line(
        "no-such-library", "missing", "not installed, pinned is 3.1", "pip install -c constraints.txt -e ."
    )
    assert (lines["pytest"].status, lines["pytest"].install) == ("optional", "pip install pytest==0.1")


def test_what_octavo_depends_on_is_looked_for():
    assert {"torch", "dvc", "ruamel.yaml", "pydantic"} <= set(doctor.required())
    assert not {"pytest", "tensorboard"} & set(doctor.required())


def test_commands_on_path(ready, monkeypatch):
    def on_path():
        lines = by_name([*doctor.dvc(NOTHING), *doctor.python(NOTHING)])
        return lines["dvc"], lines["python on PATH"]

    assert [line.status for line in on_path()] == ["ok", "ok"]
    shutil.rmtree(ready / ".dvc")
    assert on_path()[0].install == "dvc init"
    other = ready / "bin"
    other.mkdir()
    (other / "python").write_text("#!/bin/sh\necho /elsewhere\n")
    (other / "python").chmod(0o755)
    monkeypatch.setenv("PATH", str(other))
    assert on_path()[0] == Line("dvc", "missing", f"{doctor.installed('dvc')}, and no command `dvc` on PATH", "source .venv/bin/activate")
    assert on_path()[1].found.startswith("another environment")
    assert [(line.status, line.install) for line in doctor.git(NOTHING)] == [("missing", "apt-get install git")]
    monkeypatch.setenv("PATH", str(ready))
    assert on_path()[1].found.startswith("none")


def test_git_its_repository_and_the_merge_driver(ready, monkeypatch):
    lines = by_name(doctor.git(NOTHING))
    assert lines["git"].status == "ok"
    assert lines["merge driver"].status == "optional"
    command = lines["merge driver"].install
    subprocess.run(command, shell=True, check=True)  # what it says to type, typed
    assert by_name(doctor.git(NOTHING))["merge driver"].status == "ok"
    (ready / ".git").rename(ready / "git")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(ready.parent))
    assert [line.name for line in doctor.git(NOTHING) if line.status == "missing"] == ["git"]


@pytest.mark.parametrize(
    ("count", "memory", "status", "says"),
    [
        (1, None, "ok", "A (24 GB), B (80 GB)"),
        (2, 24 * 10**9, "ok", "A (24 GB), B (80 GB)"),
        (1, 80 * 10**9, "ok", "A (24 GB), B (80 GB)"),
        (2, 30 * 10**9, "missing", "A (24 GB), B (80 GB); a run of big asks for 2 with 30 GB each"),
        (3, None, "missing", "A (24 GB), B (80 GB); a run of big asks for 3"),
    ],
)
def test_gpus_are_held_against_what_a_run_asks_for(count, memory, status, says):
    needs = Needs(("big",), (("big", count, memory),))
    line = doctor.gpus(needs, [("A", 24 * 10**9), ("B", 80 * 10**9)], "13.0")
    assert (line.status, line.found, bool(line.install)) == (status, says, status == "missing")


def test_a_gpu_is_missing_only_to_those_who_train_on_one(ready, monkeypatch):
    """That nobody needs one is part of the test of the command."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    lines = by_name(doctor.devices(Needs(("a",), (("a", 1, None),))))
    assert lines["cpu"] == Line("cpu", "ok", f"{os.cpu_count()} cores")
    assert lines["gpu"].status == "missing" and lines["gpu"].found.endswith("needed by a") and lines["gpu"].install


def test_a_torch_that_does_not_start_is_missing(ready, monkeypatch):
    (ready / "broken").mkdir()
    (ready / "broken/torch.py").write_text("raise OSError('libcudart.so.99')\n")
    monkeypatch.setenv("PYTHONPATH", str(ready / "broken"))
    assert [(line.name, line.status) for line in doctor.devices(NOTHING)] == [("torch", "missing")]


def test_the_sandbox_is_probed(ready):
    from stages.train.verifiers import sandbox

    tier, why_not = sandbox.choose()
    (line,) = doctor.sandbox(Needs(("a",), gates=("python_tests",)))
    assert line.status == "ok" and line.found.startswith(f"{tier} (needed by python_tests)")
    assert ("; not bubblewrap: " in line.found) == ("bubblewrap" in why_not)


def test_each_gate_with_a_verifier_is_asked_itself(ready, monkeypatch):
    from stages.contracts.plugin import GATES, kinds, load
    from stages.train.verifiers.verdict import VerifierUnavailable

    def nothing_there():
        raise VerifierUnavailable("no compiler", why="it is needed", fix="apt-get install it")

    plugins = {kind: gate for kind in kinds(GATES) if hasattr(gate := load(GATES, kind), "tier")}
    for gate in plugins.values():
        monkeypatch.setattr(gate, "tier", nothing_there)
    monkeypatch.setattr(plugins["python_tests"], "tier", lambda: "glass")
    lines = by_name(doctor.gates(Needs(("a",), gates=("lean", "python_tests"))))
    assert lines.keys() == {f"gate {kind}" for kind in plugins}
    assert lines["gate python_tests"] == Line("gate python_tests", "ok", "runs in the tier glass")
    assert lines["gate lean"] == Line("gate lean", "missing", "no compiler", "apt-get install it")
    assert (lines["gate ocaml_tests"].status, lines["gate ocaml_tests"].found) == ("optional", "no compiler; no live experiment needs it")


def test_a_lean_server_is_asked_whether_it_is_there(monkeypatch):
    def lean_line():
        return by_name(doctor.gates(Needs(gates=("lean",))))["gate lean"]

    with socket.create_server(("127.0.0.1", 0)) as listening:
        monkeypatch.setenv("OCTAVO_LEAN_SERVER", f"http://127.0.0.1:{listening.getsockname()[1]}")
        assert lean_line().status == "ok" and lean_line().found.endswith("; the server answers")
    assert (lean_line().status, lean_line().found) == ("missing", "no server answers at the address in OCTAVO_LEAN_SERVER")
    monkeypatch.setenv("OCTAVO_LEAN_SERVER", "localhost:8000")
    assert "is no address" in lean_line().found


def test_tracking_and_hub_say_whether_a_key_is_set(ready, monkeypatch):
    def finding(check):
        return next(check(NOTHING)).found

    assert "not configured" in finding(doctor.tracking) or "not installed" in finding(doctor.tracking)
    monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
    assert "configured" in finding(doctor.tracking) and "not configured" not in finding(doctor.tracking)
    monkeypatch.setenv("HF_TOKEN", "hf_x")
    assert "with a token" in finding(doctor.hub)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert finding(doctor.hub).startswith("offline")


def test_disk(ready, monkeypatch):
    assert [line.status for line in doctor.disk(NOTHING)] == ["ok"]
    monkeypatch.setattr(doctor, "FREE_BYTES", 10**18)
    (line,) = doctor.disk(NOTHING)
    assert line.status == "missing" and line.install.startswith("df -h")


def test_the_command(ready, monkeypatch, capsys):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("WANDB_API_KEY", "0123456789abcdef0123456789abcdef01234567")
    monkeypatch.setenv("HF_TOKEN", "hf_" + "Z" * 30)
    assert main(["doctor"]) == 1  # the tests' project pins other versions than those installed
    output = capsys.readouterr().out
    assert output.startswith("live experiments: example\n") and "\nmissing   torch " in output
    private = ["0123456789abcdef", "hf_Z", platform.node(), str(Path.home()), str(ready)]
    assert [word for word in private if len(word) > 3 and word in output] == []
    assert getpass.getuser() == "root" or getpass.getuser() not in output

    pins = "".join(f"{name}=={doctor.installed(name).partition('+')[0]}\n" for name in ("torch", "transformers", "trl", "peft"))
    (ready / "constraints.txt").write_text(pins)
    assert main(["doctor", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["live"] == ["example"]
    lines = {line["name"]: line for line in report["lines"]}
    assert {"python", "dvc", "cpu", "sandbox", "git", "disk", "wandb"} <= set(lines)
    assert {line["status"] for line in lines.values()} <= {"ok", "optional"}
    assert lines["gpu"]["status"] == "optional" and lines["gpu"]["found"].endswith("no live experiment trains on one")


def test_it_works_where_octavos_own_libraries_are_missing(ready):
    code = (
        "import sys\nfor name in ('pydantic', 'ruamel', 'ruamel.yaml', 'torch', 'pyseccomp'): sys.modules[name] = None\n"
        "from compiler.__main__ import main\nsys.exit(main(['doctor']))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert result.returncode == 1 and result.stderr == ""
    assert "missing   specs              cannot be read: " in result.stdout and "is not installed" in result.stdout


def test_pinned_commits_are_looked_for_in_the_cache(ready, spec, monkeypatch):
    commit = "ab" * 20
    (ready / "specs/example.yaml").write_text(spec.replace("octavo/tiny", "owner/model"))
    (ready / "specs/revisions.lock.yaml").write_text(f'models:\n  owner/model: "{commit}"\ndatasets: {{}}\n')
    needs = live_needs()
    assert needs.hub == (("models", "owner/model", commit),)
    monkeypatch.setenv("HF_HOME", str(ready / "hf"))
    away = Line("hub cache", "optional", "owner/model at abababababab is not here: the first stage that needs it fetches it")
    access, line = doctor.hub(needs)
    assert (line.status, line.found) == (away.status, away.found) and line.install == f"hf download owner/model --revision {commit}"
    assert access.found == "online, without a token; live experiments use owner/model"
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert [line.status for line in doctor.hub(needs)] == ["optional", "missing"]
    folder = ready / f"hf/hub/models--owner--model/snapshots/{commit}"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    assert list(doctor.hub(needs))[1] == Line("hub cache", "ok", "owner/model at abababababab")
