"""Every code's full rendered text: `tests/golden_errors/<code>[-what]/` holds a spec (or a command, files, a file to be without,
`nobody`: git knows no user, or what a stand-in for the hub or for W&B answers) and what octavo says."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest
from hub_stand_in import hub, octavo
from wandb_stand_in import Faults, Run, wandb

from compiler.__main__ import main

CASES = Path(__file__).parents[1] / "golden_errors"
KINDS = re.compile(r"(a kind is a file in stages/train/rewards/; known:) .*")
"""A new gate is a new file, and changes no message but this one."""
NAMES = sorted(path.name for path in CASES.iterdir())


@pytest.mark.parametrize("name", NAMES)
def test_says(name: str, work: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, update_golden: bool) -> None:
    case = CASES / name
    user = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "user.name", "GIT_CONFIG_VALUE_0": "" if (case / "nobody").exists() else "Ada"}
    for key, value in {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull, **user}.items():
        monkeypatch.setenv(key, value)
    for key in ("OCTAVO_LEAN_SERVER", "OCTAVO_LEAN_REPL"):
        monkeypatch.delenv(key, raising=False)
    monkeypatch.setenv("OCTAVO_LEAN", "no-such-lean")  # whatever this machine has
    if (case / "files").exists():
        shutil.copytree(case / "files", work, dirs_exist_ok=True)
    if (case / "spec.yaml").exists():
        shutil.copyfile(case / "spec.yaml", work / "specs" / "example.yaml")
    if (case / "without").exists():
        (work / (case / "without").read_text().strip()).unlink()
    before = snapshot(work)

    command = (case / "command").read_text() if (case / "command").exists() else "check example"
    if (case / "hub").exists():
        with hub(json.loads((case / "hub").read_text())) as stand_in:
            ran = octavo(*command.split(), endpoint=stand_in.address)
        code, said = ran.returncode, ran.stderr.replace(stand_in.address, "https://hub")
    elif (case / "wandb").exists():
        pytest.importorskip("wandb")
        answers = {query: [tuple(one) for one in given] for query, given in json.loads((case / "wandb").read_text()).items()}
        with wandb({"team/prover/a1": Run([{"_step": 0}])}, Faults(answers)) as server:
            ran = octavo(*command.split(), endpoint="http://127.0.0.1:9", **server.environment)
        code, said = ran.returncode, ran.stderr
    else:
        code, said = main(command.split()), capsys.readouterr().err
    said = KINDS.sub(r"\1 (every file there)", said)
    expected = case / "expected.txt"
    if update_golden:
        expected.write_text(said, encoding="utf-8")
    assert said == expected.read_text(encoding="utf-8")
    assert code == (0 if name.startswith("W") else 1)
    assert snapshot(work) == before, "a refused or merely checked spec writes nothing"
    if name[0] in "EW":
        assert name[:4] in re.findall(r"\b[EW]\d{3}\b", said)


def snapshot(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not {".cache", "hf"} & {*path.parts}
    }
