"""`octavo compile --update` fetches runs that are imported from W&B: wandb's own client in a process of its own, against a stand-in."""

from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from types import SimpleNamespace

import pytest

from compiler.__main__ import main
from compiler.build.inputs import Inputs
from compiler.build.revisions import LOCK, lock
from compiler.commands.plan import plan
from compiler.commands.plan_report import text
from stages.contracts.files import file_digest
from tests.compiler.plan_project import commit, git
from tests.compiler.wandb_stand_in import KEY, Faults, Run, Wandb, wandb
from tests.e2e.imported import compiled, findings, health, make, run

pytest.importorskip("wandb")
SPEC = """\
title: Runs of W&B
question: Does the reward rise?
runs:
  import:
    format: wandb
    entity: team
    project: prover
    ids: {shaped-s1: a1, shaped-s2: a2, zero-s1: b1, zero-s2: b2}
    steps: 20
    metrics: {reward: train/reward}
    unavailable: [truncated, zero_signal_share]
seeds: [1, 2]
conditions:
  shaped: {reward: shaped by tests, role: treatment}
  zero: {reward: zero, role: null_control}
health: {gates: {steps: complete}}
"""
FOLDER = Path("data/imports/wanted")


def rising(rise: float, steps: int = 20, **more: object) -> Run:
    return Run([{"_step": s, "train/global_step": s + 1, "train/reward": 0.2 + rise * s} for s in range(steps)], **more)


def runs() -> dict[str, Run]:
    rises = {"a1": 0.02, "a2": 0.021, "b1": 0.0, "b2": 0.001}
    return {f"team/prover/{name}": rising(rise) for name, rise in rises.items()}


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make(tmp_path, "wanted", SPEC)
    Path("specs/pipeline.yaml").write_text("- wanted\n")
    return tmp_path


def octavo(server: Wandb | None, *arguments: str) -> SimpleNamespace:
    """`octavo compile` in this process; wandb runs in one of its own. Without a server, there is no network."""
    environment = server.environment if server else {"WANDB_BASE_URL": "http://127.0.0.1:9", "WANDB_API_KEY": KEY, "NO_PROXY": "*"}
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        for name, value in {**environment, "WANDB_X_GRAPHQL_RETRY_MAX": "1"}.items():
            patch.setenv(name, value)
        code = main(["compile", *arguments])
    assert KEY not in out.getvalue() + err.getvalue() and not Path(".cache/octavo-reports").exists()
    return SimpleNamespace(returncode=code, stdout=out.getvalue(), stderr=err.getvalue())


def everything() -> dict[str, bytes]:
    return {path.as_posix(): path.read_bytes() for path in Path().rglob("*") if path.is_file() and ".cache" not in path.parts}


def test_fetches_pins_tells_what_changed_and_what_runs_again(project):
    before = everything()
    missing = octavo(None, "wanted")
    assert missing.returncode == 1 and missing.stderr.count("E389") == 4 and "octavo compile --update wanted" in missing.stderr
    assert everything() == before
    held = runs()
    held["team/prover/a1"] = rising(0.02, 12, state="running", config={"api_key": KEY, "lr": 1e-6}, summary={"note": KEY})
    with wandb(held) as server:
        first = octavo(server, "--update")
    assert first.returncode == 0, first.stderr
    assert "wanted/shaped-s1 (team/prover/a1): fetched, running, 12 rows; it is still running" in first.stderr
    assert "wanted/zero-s2 (team/prover/b2): fetched, finished, 20 rows\n" in first.stderr
    pins = lock(Inputs().document).snapshots
    assert pins == {path.as_posix(): file_digest(path) for path in sorted(FOLDER.iterdir())} and len(pins) == 4
    assert octavo(None, "wanted", "--check").returncode == 0, "a plain compile needs no network"
    assert not [path for path, content in everything().items() if KEY.encode() in content]

    folder = run(Path("runs/wanted"))
    assert health(folder.parent, "shaped-s1")["reasons"] == [
        "gate steps: unknown (still running: W&B said `running` when the snapshot was made, at step 12)"
    ]
    shown = (folder / "index.md").read_text()
    assert "still running" in shown and KEY not in shown and KEY not in (folder / "lineage.json").read_text()

    with wandb(runs()) as server:
        again = octavo(server, "--update", "wanted")
    assert again.returncode == 0 and "shaped-s1 (team/prover/a1): changed, finished, 20 rows (before: running, 12 rows)\n" in again.stderr
    assert "zero-s2 (team/prover/b2): as before, finished, 20 rows\n" in again.stderr
    assert again.stdout.split() == ["runs/wanted/shaped-s1/import.card.json"], "one card, and the lock with its snapshot before"
    run(compiled("wanted"))
    assert health(Path("runs/wanted"), "shaped-s1")["included"]
    assert findings(Path("runs/wanted"))["shaped-s1/reward/final"]["value"] == pytest.approx(0.2 + 0.02 * 18.5)


def test_a_run_that_cannot_be_fetched_keeps_its_snapshot_and_plan_names_the_changed_one(project):
    with wandb(runs()) as server:
        assert octavo(server, "--update").returncode == 0
        git(project, "init", "--quiet")
        commit(project, "before")
        old = (FOLDER / "shaped-s2.jsonl").read_bytes()
        del server.runs["team/prover/a2"]
        server.runs["team/prover/b1"] = rising(0.0, 19)
        ran = octavo(server, "--update")
    assert ran.returncode == 1 and "wanted.yaml:8:37: E491 `shaped-s2` was not fetched" in ran.stderr
    assert "the snapshot of 20 rows stays" in ran.stderr and "zero-s1 (team/prover/b1): changed" in ran.stderr
    assert (FOLDER / "shaped-s2.jsonl").read_bytes() == old and octavo(None, "--check").returncode == 0
    assert lock(Inputs().document).snapshots == {path.as_posix(): file_digest(path) for path in sorted(FOLDER.iterdir())}
    planned = plan(["wanted"], Inputs(), "HEAD")
    why = {stage.stage: {reason.key for reason in stage.reasons} for stage in planned.stages}
    assert "source.sha256" in why["import-zero-s1"] and "source.sha256" not in why["import-zero-s2"]
    assert "data/imports/wanted/zero-s1.jsonl changed" in text(planned) and "zero-s2.jsonl changed" not in text(planned)


def test_w_and_b_is_down(project):
    with wandb(runs(), Faults({"RunHistoryKeys": [None, None, (503, {})]})) as server:
        ran = octavo(server, "--update")
    assert ran.returncode == 1 and ran.stderr.count("E490") == 1 and "E389" not in ran.stderr
    assert "shaped-s1 (team/prover/a1): fetched" in ran.stderr and "2 more runs were not asked for" in ran.stderr
    assert [path.name for path in FOLDER.iterdir()] == ["shaped-s1.jsonl"], "nothing half-written"
    assert list(lock(Inputs().document).snapshots) == ["data/imports/wanted/shaped-s1.jsonl"]


@pytest.mark.parametrize(("old", "new"), [("    entity: team\n", ""), ("zero-s2: b2", "zero-s3: b2")])
def test_a_run_without_its_name_is_an_error_before_anything_is_asked(project, old, new):
    Path("specs/wanted.yaml").write_text(SPEC.replace(old, new))
    with wandb(runs()) as server:
        ran = octavo(server, "--update")
        assert ran.returncode == 1 and "E389" in ran.stderr and not server.asked and not LOCK.exists()


def test_what_is_named_is_asked_and_an_entry_goes_when_no_spec_imports_its_run(project):
    def pinned() -> list[str]:
        return list(lock(Inputs().document).snapshots)

    other = SPEC.replace("title: Runs", "title: Other")
    with wandb(runs()) as server:
        assert octavo(server, "--update").returncode == 0
        path = FOLDER / "zero-s1.jsonl"
        path.write_text(path.read_text().replace("0.2}", "0.9}", 1))
        edited = octavo(None, "wanted")
        assert edited.returncode == 1 and "E493" in edited.stderr and "zero-s1" in edited.stderr
        make(project, "other", other)
        assert octavo(server, "--update", "other").returncode == 0
        assert {path.split("/")[2] for path in pinned()} == {"wanted", "other"}
        fewer = other.replace("seeds: [1, 2]", "seeds: [1]").replace(" shaped-s2: a2,", "").replace(", zero-s2: b2", "")
        make(project, "other", fewer)
        server.asked.clear()
        assert octavo(server, "--update", "other").returncode == 0
        assert {variables.get("name") for name, variables in server.asked if name == "Run"} == {"a1", "b1"}
        assert len(pinned()) == 6
        Path("specs/other.yaml").write_text("title: half of a spec\n")
        assert octavo(server, "--update", "wanted").returncode == 0, "what was edited is fetched again"
        assert len(pinned()) == 6, "a spec that cannot be read may name them"
    Path("specs/other.yaml").unlink()
    Path("logs").mkdir()
    for path in FOLDER.iterdir():
        (Path("logs") / path.name).write_text("".join(f'{{"step": {step}, "reward": 0.2}}\n' for step in range(1, 21)))
    head, rest = SPEC.split("    format: wandb\n")
    tail = rest[rest.index("    steps:") :].replace("train/reward", "reward").replace("20\n", "20\n    step: step\n", 1)
    Path("specs/wanted.yaml").write_text(f"{head}    format: jsonl\n    path: logs/{{condition}}-s{{seed}}.jsonl\n{tail}")
    ran = octavo(None, "--update")
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr.count(": dropped, no spec names it") == 6 and not pinned()


def test_a_place_that_cannot_be_written_is_said_before_anything_is_asked(project):
    Path("data").mkdir(exist_ok=True)
    Path("data/imports").write_text("a file\n")
    with wandb(runs()) as server:
        ran = octavo(server, "--update")
        assert not server.asked
    assert ran.returncode == 1 and "wanted.yaml:8:22: E401 the snapshot of `shaped-s1` cannot be written: data/imports" in ran.stderr
    assert not LOCK.exists()


def test_a_folder_in_a_snapshot_s_place_costs_that_run_only(project):
    (FOLDER / "shaped-s2.jsonl").mkdir(parents=True)
    with wandb(runs()) as server:
        ran = octavo(server, "--update")
    assert ran.returncode == 1 and "E401 the snapshot of `shaped-s2` cannot be written" in ran.stderr and "directory" in ran.stderr
    pins = lock(Inputs().document).snapshots
    assert sorted(map(Path, pins)) == [FOLDER / f"{name}.jsonl" for name in ("shaped-s1", "zero-s1", "zero-s2")]
    assert sorted(path.name for path in FOLDER.iterdir()) == ["shaped-s1.jsonl", "shaped-s2.jsonl", "zero-s1.jsonl", "zero-s2.jsonl"]


def test_all_tries_of_a_run_are_fetched_and_counted(project, capsys):
    """12 of 27 runs of the study finished; here 4 of 6, two of which died before their twentieth step."""
    tries = runs() | {"team/prover/a0": rising(0.02, 7, state="crashed"), "team/prover/b0": Run([], state="failed")}
    make(project, "wanted", SPEC.replace("{shaped-s1: a1,", "{shaped-s1: [a0, a1],").replace("zero-s2: b2", "zero-s2: [b2, b0]"))
    with wandb(tries) as server:
        ended = octavo(server, "--update")
    assert ended.returncode == 0, ended.stderr
    assert sorted(path.name for path in FOLDER.iterdir()) == sorted(
        [*(f"{name}-s{seed}.jsonl" for name in ("shaped", "zero") for seed in (1, 2)), "shaped-s1.2.jsonl", "zero-s2.2.jsonl"]
    )
    folder = compiled("wanted")
    run(folder)
    finished = findings(folder)["experiment/attempts/finished"]
    assert (finished["k"], finished["n"]) == (4, 6)
    assert all(health(folder, name)["state"] == "finished" for name in ("shaped-s1", "shaped-s2", "zero-s1", "zero-s2"))
    make(project, "wanted", SPEC.replace("{shaped-s1: a1,", "{shaped-s1: [a1, a0],").replace("zero-s2: b2", "zero-s2: [b2, b0]"))
    assert octavo(None).returncode == 1 and "E493" in octavo(None).stderr, "the snapshots lie in the order of the ids"
