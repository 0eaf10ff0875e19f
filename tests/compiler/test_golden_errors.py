"""The whole text that octavo shows for each code: the cases of `tests/errors/*.txt` (error_cases.py says how to write one)."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from error_cases import all_cases, read, write
from hub_stand_in import hub, octavo
from plan_project import git
from wandb_stand_in import Faults, Run, wandb

from compiler.__main__ import main
from stages.contracts.code import OTHER_VERSIONS

KINDS = re.compile(r"(a kind is a file in stages/train/rewards/; known:) .*")
"""A new gate is a new file, and changes no message but this one."""
CASES = all_cases()


@pytest.mark.parametrize("name", CASES)
def test_message(name: str, work: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, update_golden: bool) -> None:
    case = CASES[name]
    user = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "user.name", "GIT_CONFIG_VALUE_0": "Ada" if case.text("nobody") is None else ""}
    for key, value in {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull, **user}.items():
        monkeypatch.setenv(key, value)
    if "code_versions.jsonl" in case.files():
        monkeypatch.setenv(OTHER_VERSIONS, "code_versions.jsonl")
    monkeypatch.delenv("OCTAVO_LEAN_SERVER", raising=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # whatever this machine has
    monkeypatch.setenv("OCTAVO_LEAN", "no-such-lean")
    for path, content in case.files().items():
        (work / path).parent.mkdir(parents=True, exist_ok=True)
        (work / path).write_bytes(content)
        if path.startswith("bin/"):  # all programs that there are
            (work / path).chmod(0o755)
            monkeypatch.setenv("PATH", str(work / "bin"))
    if (absent := case.text("without")) is not None:
        (work / absent.strip()).unlink()
    if (committed := case.text("committed")) is not None:
        git(work, "init", "--quiet")
        git(work, "add", "--force", committed.strip())
    before = snapshot(work)

    command = case.command.split()
    if (answers := case.text("hub")) is not None:
        with hub(json.loads(answers)) as stand_in:
            ran = octavo(*command, endpoint=stand_in.address)
        code, message = ran.returncode, ran.stderr.replace(stand_in.address, "https://hub")
    elif (answers := case.text("wandb")) is not None:
        pytest.importorskip("wandb")
        faults = Faults({query: [tuple(answer) for answer in given] for query, given in json.loads(answers).items()})
        with wandb({"team/prover/a1": Run([{"_step": 0}])}, faults) as server:
            ran = octavo(*command, endpoint="http://127.0.0.1:9", **server.environment)
        code, message = ran.returncode, ran.stderr
    else:
        code, message = main(command), capsys.readouterr().err
    message = KINDS.sub(r"\1 (every file there)", message)
    if update_golden:
        update(case.file, name, message)
    else:
        assert message == case.text("expect")
    assert code == (0 if name.startswith("W") else 1)
    assert snapshot(work) == before, "a refused or merely checked spec writes nothing"
    if name[0] in "EW":
        assert name[:4] in re.findall(r"\b[EW]\d{3}\b", message)


def update(file: Path, name: str, message: str) -> None:
    cases = read(file)
    for case in cases:
        if case.name == name:
            case.blocks = [(kind, argument, message if kind == "expect" else body) for kind, argument, body in case.blocks]
    write(file, cases)


def snapshot(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not {".cache", "hf"} & {*path.parts}
    }
