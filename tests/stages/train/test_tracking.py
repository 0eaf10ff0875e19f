"""W&B as it is: offline it writes a file; a server that is not there, or never answers, costs seconds and no run."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import pytest

from stages.contracts.artifact import read, write
from stages.contracts.attempt import Ended, Started
from stages.contracts.finding import Finding, Findings, Verdict
from stages.contracts.health import Health
from stages.contracts.layout import ExperimentFolder
from stages.contracts.stage import ROOT
from stages.contracts.tracking import Tracking, Wandb
from stages.train.attempts import append
from stages.train.tracking import configured
from stages.train.wandb_results import send

URL = "https://wandb.ai/team/provers/runs/shaped-s1-a1-0001"
ENDED = {"attempt": "shaped-s1-a1-0001", "at": "2026-11-29T00:00:00Z", "outcome": "finished", "last_step": 3, "seconds": 1.0}

PROGRAM = """\
from types import SimpleNamespace
from stages.contracts.tracking import Tracking, Wandb
from stages.train.tracking import tracked
card = SimpleNamespace(experiment="quickstart", condition="shaped", model_dump=lambda mode: {"condition": "shaped"})
how = Tracking(wandb=Wandb(project="provers", tags=("grpo",), notes="Does it learn?", completions_every=2))
with tracked(card, "shaped-s1", "shaped-s1-a1-0001", how) as sink:
    for step in (1, 2, 3):
        sink.log(step, {"reward": step / 4, "loss": float("nan")}, {"gate.tests.pass_share": step / 8, "zero_signal_share": None})
        if sink.shows_completions(step):
            sink.completions(step, [{"prompt": "double x", "text": f"x*{step}", "reward": 1.0}])
    print("place", sink.place)
print("trained")
"""


def tracked(folder, **environment):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("WANDB_")}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=folder, env={**kept, "PYTHONPATH": str(ROOT), **environment}, capture_output=True, text=True
    )
    assert done.returncode == 0 and done.stdout.endswith("trained\n"), done.stdout + done.stderr
    return done.stdout


def logged(folder):
    (file,) = (folder / ".cache/wandb/wandb").glob("offline-run-*-shaped-s1-a1-0001/run-shaped-s1-a1-0001.wandb")
    return file


@pytest.mark.parametrize("environment", [{"WANDB_MODE": "offline"}, {"HOME": "/nonexistent"}], ids=["offline", "no key"])
def test_offline_every_step_is_in_the_file(tmp_path, environment):
    """Asked for by the spec alone it logs to disk where no key is known."""
    pytest.importorskip("wandb")
    output = tracked(tmp_path, **environment)
    content, folder = logged(tmp_path).read_bytes(), os.path.relpath(logged(tmp_path).parent, tmp_path)
    words = (
        b"shaped-s1",
        b"quickstart/shaped",
        b"condition",
        b"train/reward",
        b"octavo/gate.tests.pass_share",
        b"provers",
        b"Does it learn?",
    )
    for word in words:
        assert word in content, word
    assert b"zero_signal_share" not in content, "null is no number"
    tables = sorted(path.read_text() for path in logged(tmp_path).parent.glob("files/media/table/completions_*.json"))
    assert len(tables) == 2 and all('"double x"' in table for table in tables)
    assert {step for step in (1, 2, 3) if any(f'"x*{step}"' in table for table in tables)} == {1, 3}
    assert f"place {folder}\n" in output and f"send it with: wandb sync {folder}\n" in output
    assert Ended.model_validate(ENDED | {"wandb": folder}).wandb_address is None


@pytest.mark.parametrize("answers", [False, True])
def test_a_server_that_cannot_be_reached_costs_no_run(tmp_path, answers):
    pytest.importorskip("wandb")
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        if answers:
            server.listen()  # it takes connections, and never says anything
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
        output = tracked(tmp_path, WANDB_API_KEY="a" * 40, WANDB_BASE_URL=address, WANDB_INIT_TIMEOUT="2")
    assert "W&B did not start" in output and "wandb sync" in output
    assert b"train/reward" in logged(tmp_path).read_bytes()


def test_it_is_off_unless_asked_for(monkeypatch):
    for name in ("WANDB_MODE", "WANDB_API_KEY", "WANDB_DISABLED"):
        monkeypatch.delenv(name, raising=False)
    assert not configured()
    monkeypatch.setenv("WANDB_API_KEY", "x")
    assert configured()
    monkeypatch.setenv("WANDB_MODE", "disabled")
    assert not configured() and not configured(Wandb())
    monkeypatch.delenv("WANDB_MODE")
    monkeypatch.delenv("WANDB_API_KEY")
    assert configured(Wandb()) and not configured()


@pytest.mark.parametrize("wrong", ["http://wandb.ai/x", "javascript:alert(1)", "https://a b", "/home/me/wandb", ".cache/wandb/../../x y"])
def test_only_an_address_or_a_folder_of_its_own_enters_the_ledger(wrong):
    with pytest.raises(ValueError, match="pattern"):
        Ended.model_validate(ENDED | {"wandb": wrong})
    assert "wandb" not in Ended.model_validate(ENDED).model_dump()


class Api:
    """A stand-in for wandb's public client: it knows one run."""

    summaries: ClassVar[dict] = {}

    def run(self, path):
        if path != "team/provers/shaped-s1-a1-0001":
            raise ValueError("could not find run")
        return SimpleNamespace(summary=self.summaries.setdefault(path, {}))


def test_verdicts_evaluation_and_the_page_go_to_the_summary(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_API_KEY", "a" * 40)
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(Api=Api))
    experiment = ExperimentFolder(Path("runs/quickstart"))
    write(experiment.tracking, Tracking(wandb=Wandb(project="provers", entity="team", site="https://lab.example/octavo/")))
    value = {"unit": "share", "value": 0.75, "says": "", "method": ""}
    ids = {"subject": "shaped-s1", "metric": "evaluation.tests.pass_share", "statistic": "final"}
    finding = Finding.model_construct(**ids, **value, id="shaped-s1/evaluation.tests.pass_share/final")
    verdict = Verdict(claim="shaped-teaches", verdict="supported", why="", finding=None, direction="above", margin=0.05)
    monkeypatch.setattr("stages.train.wandb_results.read", lambda kind, path: FILES.get(kind) or read(kind, path))
    FILES = {
        Findings: Findings.model_construct(findings=(finding,), verdicts=(verdict,)),
        Health: Health.model_construct(included=False, reasons=("truncated above 0.5",)),
    }
    started = {"attempt": "shaped-s1-a1-0001", "number": 1, "at": "2026-11-29T00:00:00Z", "card_id": "0", "commit": None, "host": "x"}
    more = {"devices": ("cpu",), "versions": {}, "sandbox": "none", "resumed_from": None}
    for name, place in (("shaped-s1", URL), ("zero-s1", ".cache/wandb/wandb/offline-run-1-zero-s1-a1-0001")):
        attempt = {"attempt": f"{name}-a1-0001"}
        append(experiment.run(name).attempts, Started.model_validate(started | more | attempt))
        append(experiment.run(name).attempts, Ended.model_validate(ENDED | attempt | {"wandb": place}))
    send(experiment.root)
    assert Api.summaries == {
        "team/provers/shaped-s1-a1-0001": {
            "octavo/evaluation.tests.pass_share": 0.75,
            "octavo/claims/shaped-teaches": "supported",
            "octavo/included": False,
            "octavo/why_not": "truncated above 0.5",
            "octavo/page": "https://lab.example/octavo/experiments/quickstart/index.html",
        }
    }
    assert "W&B has no run zero-s1-a1-0001 yet" in capsys.readouterr().out
    assert json.loads(experiment.wandb_results.read_text()) == {"shaped-s1": "sent", "zero-s1": "later"}
    monkeypatch.delenv("WANDB_API_KEY")
    monkeypatch.setenv("HOME", str(tmp_path))
    send(experiment.root)
    assert "no key here" in capsys.readouterr().out
