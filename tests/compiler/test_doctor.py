"""`octavo doctor`: each line is made true and made false; nothing private is printed."""

import getpass
import json
import os
import platform
import shutil
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
    assert live_needs() == NOTHING and live_needs(["example@smoke"]).experiments == ("example@smoke",)
    (work / "specs/pipeline.yaml").write_text("- example\n")
    (work / "specs/example.yaml").write_text("title: 1\n")
    needs = live_needs()
    first = next(examine(needs))
    assert (needs.experiments, first.name, first.status, first.install) == ((), "specs", "missing", "octavo check")
    assert first.found.startswith("cannot be compiled: specs/example.yaml:1: E2")


def test_versions_are_held_against_the_pins_and_extras_need_not_be_there(ready, monkeypatch):
    lines, install = by_name(doctor.libraries(NOTHING)), "pip install -c constraints.txt -e ."
    assert "pydantic" not in lines and lines["libraries"].status == "ok"
    assert (lines["torch"].status, lines["torch"].install) == ("missing", install) and ", pinned is 1.0: " in lines["torch"].found
    (ready / "constraints.txt").write_text(f"torch=={doctor.installed('torch').partition('+')[0]}\n")
    assert "torch" not in by_name(doctor.libraries(NOTHING))  # a build tag such as +cpu is the same version
    assert {"torch", "dvc", "ruamel.yaml"} <= set(doctor.required()) and not {"pytest", "tensorboard"} & set(doctor.required())
    wanted = ["no-such-library", "no-such-tool>=1; extra == 'dev'", "ruff; extra == 'dev'"]
    monkeypatch.setattr("importlib.metadata.requires", lambda name: wanted)
    (ready / "constraints.txt").write_text("no-such-library==3.1\nno-such-tool==1.0\npytest==0.1\n")
    lines = by_name(doctor.libraries(NOTHING))
    assert lines.keys() == {"no-such-library", "pytest", "libraries"}
    assert lines["no-such-library"] == Line("no-such-library", "missing", "not installed, pinned is 3.1", install)
    assert (lines["pytest"].status, lines["pytest"].install) == ("optional", "pip install pytest==0.1")


def test_programs_repository_and_space(ready, monkeypatch):
    lines = by_name(doctor.programs(NOTHING))
    assert {name for name, line in lines.items() if line.status == "ok"} == {"python", "python on PATH", "dvc", "git", "disk"}
    assert lines["merge driver"].status == "optional"
    subprocess.run(lines["merge driver"].install, shell=True, check=True)  # what it says to type, typed
    assert by_name(doctor.programs(NOTHING))["merge driver"].status == "ok"
    shutil.rmtree(ready / ".dvc")
    (ready / ".git").rename(ready / "git")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(ready.parent))
    monkeypatch.setattr(doctor, "FREE_BYTES", 10**18)
    lines = by_name(doctor.programs(NOTHING))
    assert (lines["dvc"].status, lines["dvc"].install) == ("missing", "dvc init")
    assert lines["git"].status == "missing" and lines["git"].install.startswith("git init")
    assert lines["disk"].status == "missing" and lines["disk"].install.startswith("df -h")
    other = ready / "bin"
    other.mkdir()
    (other / "python").write_text("#!/bin/sh\necho /elsewhere\n")
    (other / "python").chmod(0o755)
    for path in (other, ready):  # another Python, and none
        monkeypatch.setenv("PATH", str(path))
        lines = by_name(doctor.programs(NOTHING))
        assert lines["dvc"].found.endswith("no command `dvc` on PATH")
        assert {lines[name].install for name in ("dvc", "python on PATH")} == {"source .venv/bin/activate"}
        assert (lines["git"].status, lines["git"].install) == ("missing", "apt-get install git")


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
    assert doctor.gpus(needs, [], None).found == "none seen (torch is a build without CUDA); needed by big"


def test_a_torch_that_does_not_start_is_missing(ready, monkeypatch):
    (ready / "broken").mkdir()
    (ready / "broken/torch.py").write_text("raise OSError('libcudart.so.99')\n")
    monkeypatch.setenv("PYTHONPATH", str(ready / "broken"))
    assert [(line.name, line.status) for line in doctor.devices(NOTHING)] == [("torch", "missing")]


def test_the_sandbox_is_probed_and_each_gate_with_a_verifier_is_asked_itself(ready, monkeypatch):
    from stages.contracts.plugin import GATES, kinds, load
    from stages.train.verifiers import isolation, sandbox
    from stages.train.verifiers.verdict import VerifierUnavailable

    def nothing_there():
        raise VerifierUnavailable("no compiler", why="it is needed", fix="apt-get install it")

    tier, why_not = sandbox.choose()
    plugins = {kind: gate for kind in kinds(GATES) if hasattr(gate := load(GATES, kind), "tier")}
    for gate in plugins.values():
        monkeypatch.setattr(gate, "tier", nothing_there)
    monkeypatch.setattr(plugins["python_tests"], "tier", lambda: "glass")
    lines = by_name(doctor.gates(Needs(("a",), gates=("lean", "python_tests"))))
    assert lines.keys() == {"sandbox", *(f"gate {kind}" for kind in plugins)}
    assert lines["sandbox"].status == "ok" and lines["sandbox"].found.startswith(f"{tier} (needed by lean, python_tests)")
    assert ("; not bubblewrap: " in lines["sandbox"].found) == ("bubblewrap" in why_not)
    assert lines["sandbox"].found.endswith(f"; it does not cover {isolation.NOT_COVERED[tier]}")
    assert lines["gate python_tests"] == Line("gate python_tests", "ok", "runs in the tier glass")
    assert lines["gate lean"] == Line("gate lean", "missing", "no compiler", "apt-get install it")
    assert (lines["gate ocaml_tests"].status, lines["gate ocaml_tests"].found) == ("optional", "no compiler; no live experiment needs it")


def test_the_command(ready, monkeypatch, capsys):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("WANDB_API_KEY", "0123456789abcdef0123456789abcdef01234567")
    monkeypatch.setenv("HF_TOKEN", "hf_" + "Z" * 30)
    assert main(["doctor"]) == 1  # the tests' project pins other versions than those installed
    output = capsys.readouterr().out
    assert output.startswith("live experiments: example\n") and "\nmissing   torch " in output and "with a token" in output
    private = ["0123456789abcdef", "hf_Z", platform.node(), str(Path.home()), str(ready)]
    assert [word for word in private if len(word) > 3 and word in output] == []
    assert getpass.getuser() == "root" or getpass.getuser() not in output

    pins = "".join(f"{name}=={doctor.installed(name).partition('+')[0]}\n" for name in ("torch", "transformers", "trl", "peft"))
    (ready / "constraints.txt").write_text(pins)
    monkeypatch.delenv("WANDB_API_KEY")
    assert main(["doctor", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["live"] == ["example"]
    lines = {line["name"]: line for line in report["lines"]}
    assert {"python", "dvc", "cpu", "sandbox", "git", "disk", "wandb"} <= set(lines)
    assert {line["status"] for line in lines.values()} <= {"ok", "optional"} and lines["wandb"]["status"] == "optional"
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
    away, fetch = "owner/model at abababababab is not here: the first stage that needs it fetches it", f"--revision {commit}"
    access, line = doctor.hub(needs)
    assert line == Line("hub cache", "optional", away, f"hf download owner/model {fetch}")
    assert access.found == "online, without a token; live experiments use owner/model"
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert [line.status for line in doctor.hub(needs)] == ["optional", "missing"]
    folder = ready / f"hf/hub/models--owner--model/snapshots/{commit}"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    assert list(doctor.hub(needs))[1] == Line("hub cache", "ok", "owner/model at abababababab")
