"""`octavo doctor`: each finding is made true and made false; nothing private is printed."""

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
from compiler.commands import doctor_hub, doctor_machine, doctor_python
from compiler.commands.doctor import Line, Needs, examine, live_needs

ROOT = Path(__file__).parents[2]
NOTHING = Needs((), (), ())


@pytest.fixture
def ready(work, monkeypatch):
    """The tests' project in a repository with DVC, in the environment that runs the tests, with the versions it has."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    for name in ("WANDB_API_KEY", "WANDB_MODE", "HF_TOKEN", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    (work / "constraints.txt").write_text(
        f"pydantic=={doctor_python.installed('pydantic')}\ntorch==1.0\ntransformers==1\ntrl==1\npeft==1\n"
    )
    subprocess.run(["git", "init", "-q"], check=True)
    (work / ".dvc").mkdir()
    return work


def by_name(lines):
    return {line.name: line for line in lines}


def test_needs_are_those_of_the_live_experiments(work, spec):
    assert live_needs() == Needs(("example",), (), ("python_tests",))
    (work / "specs/example.yaml").write_text(spec + "\nresources: {gpus: 1}\n")
    assert live_needs() == Needs(("example",), ("example",), ("python_tests",), per_run=(("example", 1, None),))
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
    lines = by_name(doctor_python.libraries())
    assert "pydantic" not in lines
    assert lines["torch"].status == "missing" and ", pinned is 1.0: " in lines["torch"].found
    assert lines["torch"].install == "pip install -c constraints.txt -e ."
    assert lines["libraries"].status == "ok"
    torch = doctor_python.installed("torch").partition("+")[0]
    (ready / "constraints.txt").write_text(f"torch=={torch}\n")
    assert "torch" not in by_name(doctor_python.libraries())  # a build tag such as +cpu is the same version


def test_what_only_extras_ask_for_need_not_be_there(ready, monkeypatch):
    """`make demo` installs no tools for tests, and its doctor must not call them missing."""
    monkeypatch.setattr(
        "importlib.metadata.requires", lambda name: ["no-such-library", "no-such-tool>=1; extra == 'dev'", "ruff; extra == 'dev'"]
    )
    (ready / "constraints.txt").write_text("no-such-library==3.1\nno-such-tool==1.0\npytest==0.1\n")
    lines = by_name(doctor_python.libraries())
    assert lines.keys() == {"no-such-library", "pytest", "libraries"}
    assert lines["no-such-library"] == Line(
        "no-such-library", "missing", "not installed, pinned is 3.1", "pip install -c constraints.txt -e ."
    )
    assert (lines["pytest"].status, lines["pytest"].install) == ("optional", "pip install pytest==0.1")


def test_what_octavo_depends_on_is_looked_for():
    assert {"torch", "dvc", "ruamel.yaml", "pydantic"} <= set(doctor_python.required())
    assert not {"pytest", "wandb"} & set(doctor_python.required())


def test_commands_on_path(ready, monkeypatch):
    assert doctor_python.dvc().status == "ok" and doctor_python.python_of_stages().status == "ok"
    shutil.rmtree(ready / ".dvc")
    assert doctor_python.dvc().install == "dvc init"
    other = ready / "bin"
    other.mkdir()
    (other / "python").write_text("#!/bin/sh\necho /elsewhere\n")
    (other / "python").chmod(0o755)
    monkeypatch.setenv("PATH", str(other))
    assert doctor_python.python_of_stages().found.startswith("another environment")
    assert doctor_python.dvc() == Line(
        "dvc", "missing", f"{doctor_python.installed('dvc')}, and no command `dvc` on PATH", "source .venv/bin/activate"
    )
    assert [line.status for line in doctor_machine.git()] == ["missing"]
    monkeypatch.setenv("PATH", str(ready))
    assert doctor_python.python_of_stages().status == "missing"


def test_git_its_repository_and_the_merge_driver(ready, monkeypatch):
    lines = by_name(doctor_machine.git())
    assert lines["git"].status == "ok"
    assert lines["merge driver"].status == "optional"
    command = lines["merge driver"].install
    subprocess.run(command, shell=True, check=True)  # what it says to type, typed
    assert by_name(doctor_machine.git())["merge driver"].status == "ok"
    (ready / ".git").rename(ready / "git")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(ready.parent))
    assert [line.name for line in doctor_machine.git() if line.status == "missing"] == ["git"]


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
    needs = Needs(("big",), ("big",), (), per_run=(("big", count, memory),))
    line = doctor_machine.gpus(needs, [("A", 24 * 10**9), ("B", 80 * 10**9)], "13.0")
    assert (line.status, line.found, bool(line.install)) == (status, says, status == "missing")


def test_a_gpu_is_missing_only_to_those_who_train_on_one(ready, monkeypatch):
    """That nobody needs one is part of the test of the command."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    lines = by_name(doctor_machine.devices(Needs(("a",), ("a",), ())))
    assert lines["cpu"] == Line("cpu", "ok", f"{os.cpu_count()} cores")
    assert lines["gpu"].status == "missing" and lines["gpu"].found.endswith("needed by a") and lines["gpu"].install


def test_a_torch_that_does_not_start_is_missing(ready, monkeypatch):
    (ready / "broken").mkdir()
    (ready / "broken/torch.py").write_text("raise OSError('libcudart.so.99')\n")
    monkeypatch.setenv("PYTHONPATH", str(ready / "broken"))
    assert [(line.name, line.status) for line in doctor_machine.devices(NOTHING)] == [("torch", "missing")]


def test_the_sandbox_is_probed(ready):
    lines = by_name(doctor_machine.sandbox(Needs(("a",), (), ("python_tests",))))
    from stages.train.verifiers import sandbox

    tier, why_not = sandbox.choose()
    assert lines["sandbox"].status == "ok"
    assert lines["sandbox"].found.startswith(f"{tier} (needed by python_tests)")
    assert ("; not bubblewrap: " in lines["sandbox"].found) == ("bubblewrap" in why_not)
    assert {"bwrap", "libseccomp"} < set(lines)


def test_each_gate_that_runs_code_is_asked_itself(ready):
    from stages.train.verifiers import sandbox

    assert list(doctor_machine.verifiers(NOTHING)) == []
    (line,) = doctor_machine.verifiers(Needs(("a",), (), ("python_tests",)))
    assert line == Line("gate python_tests", "ok", f"runs in the tier {sandbox.tier()}")


def test_a_gate_whose_verifier_is_not_there_is_missing_with_its_own_fix(ready, monkeypatch):
    from stages.train.rewards import python_tests
    from stages.train.verifiers.faults import VerifierUnavailable

    def nothing_holds():
        raise VerifierUnavailable("no compiler", why="it is needed", fix="apt-get install it")

    monkeypatch.setattr(python_tests, "tier", nothing_holds)
    (line,) = doctor_machine.verifiers(Needs(("a",), (), ("python_tests",)))
    assert line == Line("gate python_tests", "missing", "no compiler", "apt-get install it")


def test_tracking_and_hub_say_whether_a_key_is_set(ready, monkeypatch):
    assert doctor_python.tracking().status == "optional"
    monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
    assert "configured" in doctor_python.tracking().found and "not configured" not in doctor_python.tracking().found
    monkeypatch.setenv("HF_TOKEN", "hf_x")
    assert "with a token" in doctor_hub.access(NOTHING).found
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert doctor_hub.access(NOTHING).found.startswith("offline")


def test_disk(ready, monkeypatch):
    assert doctor_machine.disk().status == "ok"
    monkeypatch.setattr(doctor_machine, "FREE_BYTES", 10**18)
    assert doctor_machine.disk().status == "missing" and doctor_machine.disk().install.startswith("df -h")


def test_the_command(ready, monkeypatch, capsys):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("WANDB_API_KEY", "0123456789abcdef0123456789abcdef01234567")
    monkeypatch.setenv("HF_TOKEN", "hf_" + "Z" * 30)
    assert main(["doctor"]) == 1  # the tests' project pins other versions than those installed
    said = capsys.readouterr().out
    assert said.startswith("live experiments: example\n") and "\nmissing   torch " in said
    private = ["0123456789abcdef", "hf_Z", platform.node(), str(Path.home()), str(ready)]
    assert [word for word in private if len(word) > 3 and word in said] == []
    assert getpass.getuser() == "root" or getpass.getuser() not in said

    pins = "".join(f"{name}=={doctor_python.installed(name).partition('+')[0]}\n" for name in ("torch", "transformers", "trl", "peft"))
    (ready / "constraints.txt").write_text(pins)
    assert main(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["live"] == ["example"]
    lines = {line["name"]: line for line in found["lines"]}
    assert {"python", "dvc", "cpu", "sandbox", "git", "disk", "wandb"} <= set(lines)
    assert {line["status"] for line in lines.values()} <= {"ok", "optional"}
    assert lines["gpu"]["status"] == "optional" and lines["gpu"]["found"].endswith("no live experiment trains on one")


def test_it_works_where_octavos_own_libraries_are_missing(ready):
    code = (
        "import sys\nfor name in ('pydantic', 'ruamel', 'ruamel.yaml', 'torch', 'pyseccomp'): sys.modules[name] = None\n"
        "from compiler.__main__ import main\nsys.exit(main(['doctor']))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert found.returncode == 1 and found.stderr == ""
    assert "missing   specs              cannot be read: " in found.stdout and "is not installed" in found.stdout


def test_pinned_commits_are_looked_for_in_the_cache(ready, spec, monkeypatch):
    commit = "ab" * 20
    (ready / "specs/example.yaml").write_text(spec.replace("octavo/tiny", "owner/model"))
    (ready / "specs/revisions.lock.yaml").write_text(f'models:\n  owner/model: "{commit}"\ndatasets: {{}}\n')
    needs = live_needs()
    assert needs.hub == (("models", "owner/model", commit),)
    monkeypatch.setenv("HF_HOME", str(ready / "hf"))
    away = Line("hub cache", "optional", "owner/model at abababababab is not here: the first stage that needs it fetches it")
    access, line = doctor_hub.checks(needs)
    assert (line.status, line.found) == (away.status, away.found) and line.install == f"hf download owner/model --revision {commit}"
    assert access.found == "online, without a token; live experiments use owner/model"
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert [line.status for line in doctor_hub.checks(needs)] == ["optional", "missing"]
    folder = ready / f"hf/hub/models--owner--model/snapshots/{commit}"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    assert list(doctor_hub.checks(needs))[1] == Line("hub cache", "ok", "owner/model at abababababab")
