"""Pull requests of strangers: nothing is sent to the addresses of their specs, and none of their files stands in for a check."""

import itertools
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from plan_project import ENVIRONMENT, git
from test_command import octavo

from compiler.__main__ import main
from compiler.commands.check import NOT_TRIED
from compiler.commands.doctor import Needs, devices, programs, stand_ins
from stages.contracts.code_cache import CodeCache, code_cache
from stages.contracts.code_tree import CodeTree, _understood
from stages.train.verifiers.web import ALLOWED, LEAN_SERVER, post

TESTS = "      - tests: {kind: python_tests, answer: expression, arguments: [x], timeout: 1s}\n"


class Service(BaseHTTPRequestHandler):
    """Gives every completion the whole reward, and remembers that it was asked."""

    def do_POST(self):
        self.server.asked.append(self.path)
        self.rfile.read(int(self.headers["Content-Length"]))
        body = b'{"scores": [1.0]}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_HEAD = do_POST

    def log_message(self, *_):
        pass


@pytest.fixture
def service():
    with ThreadingHTTPServer(("127.0.0.1", 0), Service) as server:
        server.asked, server.address = [], f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def stranger(work, spec, service, monkeypatch):
    """The project with a gate that asks the service, on a machine of CI, and every file by which a pull request might allow it."""
    text = spec.replace(TESTS, f"{TESTS}      - ask: {{kind: http, url: '{service.address}/score', batch: 1}}\n").replace(
        "expect: 0.0", "expect: 1.0"
    )
    (work / "specs/example.yaml").write_text(text)
    settings = f"{ALLOWED}={service.address}\nCI=false\n"
    for name in (".env", ".envrc", "octavo.toml", ".octavo", "octavo.cfg", ".dvc/config", ".config/octavo/addresses"):
        (work / name).parent.mkdir(exist_ok=True, parents=True)
        (work / name).write_text(settings if name != ".dvc/config" else f"[core]\n    {ALLOWED} = {service.address}\n")
    monkeypatch.setenv("CI", "true")
    for name in (ALLOWED, LEAN_SERVER):
        monkeypatch.delenv(name, raising=False)
    return work


def test_in_ci_nothing_is_sent_to_the_addresses_of_a_spec(stranger, service, monkeypatch, capsys):
    monkeypatch.setenv("HF_ENDPOINT", service.address)
    for command in (["check", "example"], ["compile"], ["compile", "--check"], ["plan"], ["doctor"]):
        main(command)
    capsys.readouterr()
    assert main(["check", "example", "--rewards"]) == NOT_TRIED
    says = capsys.readouterr().err
    assert service.asked == []
    assert f"W397 the examples of the reward `shaped` are not checked here: this machine may not call {service.address}" in says
    assert f"set {ALLOWED}={service.address} in the settings of the CI machine" in says
    assert says.endswith("examples of rewards that score what they should: 0; rewards that were not tried, because of their addresses: 2\n")
    with pytest.raises(PermissionError):  # what every gate sends through, in training too
        post(f"{service.address}/score", b"{}", 1.0, 100)
    assert service.asked == []


@pytest.mark.parametrize("variable", [ALLOWED, LEAN_SERVER])
def test_the_machines_own_environment_allows_an_address(stranger, service, variable, monkeypatch):
    monkeypatch.setenv(variable, f"http://judge.example:1 {service.address}/" if variable == ALLOWED else service.address)
    assert main(["check", "example", "--rewards"]) == 1 and service.asked, "now the service judges, and the examples expect something else"


@pytest.mark.parametrize("allowed", ["http://127.0.0.1:1", "https://{}", "http://user@evil.example/{}", "{}.evil.example"])
def test_another_address_allows_nothing(stranger, service, allowed, monkeypatch):
    monkeypatch.setenv(ALLOWED, allowed.format(service.address.removeprefix("http://")))
    assert main(["check", "example", "--rewards"]) == NOT_TRIED and service.asked == []


def test_on_ones_own_machine_addresses_are_called(stranger, service, monkeypatch):
    monkeypatch.setenv("CI", "")
    main(["check", "example", "--rewards"])
    assert service.asked


MARKED = "import pathlib\npathlib.Path(__file__).with_name('ran').touch()\n"
SHADOWS = {
    "json.py": "Python's own `json`",
    "sitecustomize.py": "Python's own `sitecustomize`",
    "torch/__init__.py": "the library `torch`",
    "ruamel/yaml/__init__.py": "the library `ruamel`",
    "pydantic.cpython-311-x86_64-linux-gnu.so": "the library `pydantic`",
    "stages/train/rewards/format.py": "octavo's own `stages`",
    "compiler.py": "octavo's own `compiler`",
}


COMMANDS = (["compile", "--check"], ["plan"], ["verify"], ["rescore", "shaped-s1"])


@pytest.mark.parametrize(("path", "command"), zip(SHADOWS, itertools.cycle(COMMANDS), strict=False))
def test_a_file_that_hides_code_is_refused_and_does_not_run(path, command, work, capsys):
    (work / path).parent.mkdir(parents=True, exist_ok=True)
    (work / path).write_text(MARKED)
    hides = f"E114 `{path.partition('/')[0]}` hides {SHADOWS[path]}"
    ran = octavo(Path(sys.executable).with_name("octavo"), "check", cwd=work, text=True)
    assert ran.returncode == 1 and hides in ran.stderr and not [*work.rglob("ran")]
    assert main(command) == 1 and hides in capsys.readouterr().err


def test_doctor_asks_torch_and_python_without_the_files_of_the_project(work):
    for name in ("json.py", "torch.py", "sys.py"):
        (work / name).write_text(MARKED)
    lines = {line.name: line for check in (programs, devices, stand_ins) for line in check(Needs())}
    assert lines["stand-ins"].found.startswith("E114 ") and lines["cpu"].status == "ok" and not [*work.rglob("ran")]


def test_what_hides_nothing_is_no_business_of_octavos(work, capsys):
    for name in ("my_gate.py", "json/data.txt", "tests/test_a.py", "notes.txt", "torch.md"):
        (work / name).parent.mkdir(exist_ok=True)
        (work / name).write_text("raise SystemExit(3)\n")
    assert main(["check"]) == 0


COMMITTED = (
    "runs/example/preflight/shaped.permission.json",
    "runs/example/preflight/preflight.json",
    "runs/example/shaped-s1/adapter/adapter_model.safetensors",
    "runs/example/analysis/findings.json",
    "runs/_models/tiny/model/model.safetensors",
    "build/site/index.html",
    ".venv/octavo.installed",
    "tools/env/pyvenv.cfg",
    ".cache/plan.json",
    ".dvc/cache/files/md5/00/11",
    ".dvc/config.local",
    "wandb/settings",
    "lib/__pycache__/gate.cpython-311.pyc",
    "stages/train/rewards/format.cpython-311-x86_64-linux-gnu.so",
)


def test_committed_results_and_caches_are_refused(work, monkeypatch, capsys):
    """A file is refused once it is in git, whatever .gitignore says; not while it only lies there."""
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("compiler.commands.stand_ins.OWN", ())
    git(work, "init", "--quiet")
    for path in COMMITTED:
        (work / path).parent.mkdir(parents=True, exist_ok=True)
        (work / path).write_text("x\n")
    assert main(["check"]) == 0
    for path, command in zip(COMMITTED, (*COMMANDS, *[["check"]] * len(COMMITTED)), strict=False):
        git(work, "add", "--force", path)
        assert main(command) == 1
        assert f"E115 these files are in git, and only programs may write them: {path}\n" in capsys.readouterr().err
        git(work, "rm", "--quiet", "--cached", path)


def test_the_digest_of_code_is_that_of_the_file_that_python_imports(tmp_path):
    """A package comes before a module of its name."""
    digests = []
    for names in (["gate.py"], ["gate/__init__.py"], ["gate.py", "gate/__init__.py"]):
        for name in names:
            file = tmp_path / "".join(names).replace("/", "") / "stages" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"name = {name!r}\n")
        digests.append(CodeTree(file.parents[name.count("/") + 1]).files("stages.gate"))
    assert digests == [{"stages/gate.py"}, {"stages/gate/__init__.py"}, {"stages/gate/__init__.py"}]


def test_a_cache_of_what_code_means_hides_no_change_and_is_never_one_of_the_project(tmp_path, monkeypatch):
    project, home = tmp_path / "project", tmp_path / "home"
    (project / ".cache").mkdir(parents=True)
    monkeypatch.chdir(project)
    monkeypatch.setenv("XDG_CACHE_HOME", str(home))
    cache = code_cache()
    first = _understood(cache, "a.py", "A = 1\n", "")
    cache.save()
    assert CodeCache(home / "octavo/code.json").entries == {**cache.entries} and first in cache.entries.values()
    assert _understood(cache, "a.py", "A = 2\n", "") != first != _understood(cache, "a.py", "A = 1\n", "data")
    (project / ".cache/octavo").mkdir()
    (project / ".cache/octavo/code.json").write_text((home / "octavo/code.json").read_text())
    monkeypatch.setenv("XDG_CACHE_HOME", ".cache")
    assert code_cache().file is None and code_cache().entries == {}
    for torn in ('{"a": [', '{"a": 1}', "[" * 100_000, "[]"):
        (home / "octavo/code.json").write_text(torn)
        assert CodeCache(home / "octavo/code.json").entries == {}
