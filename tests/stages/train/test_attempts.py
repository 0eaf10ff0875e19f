import subprocess
import sys

import pytest

from stages.contracts.attempt import Outcome, read_attempts
from stages.contracts.diagnostic import StageError
from stages.contracts.layout import RunFolder
from stages.train.attempts import begin, end, holder, lock, under
from stages.train.resume import WEIGHTS, newest
from stages.train.trl import CHECKPOINT

FILES = (*CHECKPOINT, *WEIGHTS["lora"])


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return RunFolder(tmp_path / "runs/quickstart/shaped-s1")


def begun(run, card="c1"):
    return begin(run, card, devices=("cpu",), sandbox="bubblewrap", resumed_from=None)


def outcome(started, steps, failure=None, error=None):
    fields = {"card_id": started.card_id, "attempt": started.attempt, "finished": failure is None, "steps_done": steps, "target_steps": 60}
    return Outcome(**fields, failure=failure, error=error)


def test_attempts_are_numbered_and_the_ledger_keeps_them_all(run):
    first = begun(run)
    second = begun(run)
    end(run, second, outcome(second, 7, failure="nonfinite", error="x" * 900), 1.26)
    third = begun(run, card="c2")
    end(run, third, outcome(third, 60), 2.0)
    attempts = read_attempts(run.attempts)
    assert [attempt.started.number for attempt in attempts] == [1, 2, 3]
    assert {attempt.started.attempt: attempt.state for attempt in attempts} == {
        first.attempt: "killed",
        second.attempt: "failed",
        third.attempt: "finished",
    }
    failed = under(run, "c1")[-1]
    assert failed.ended.failure == "nonfinite" and len(failed.ended.error) == 500 and failed.ended.seconds == 1.3
    assert under(run, "c9") == ()


@pytest.mark.parametrize(
    "damage", [lambda text: text + '{"event": "en', lambda text: text.removesuffix("\n")], ids=["torn line", "no line end"]
)
def test_a_damaged_end_of_the_ledger_loses_no_attempt(run, damage):
    first = begun(run)
    run.attempts.write_text(damage(run.attempts.read_text()))
    second = begun(run)
    assert [attempt.started for attempt in read_attempts(run.attempts)] == [first, second]
    assert len(run.attempts.read_text().splitlines()) == 2


def test_a_second_process_cannot_hold_the_run(run):
    script = (
        "import sys\nfrom pathlib import Path\nfrom stages.contracts.layout import RunFolder\nfrom stages.train.attempts import lock\n"
        "with lock(RunFolder(Path(sys.argv[1]))):\n    print('held', flush=True); sys.stdin.read()\n"
    )
    other = subprocess.Popen([sys.executable, "-c", script, run.root], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert other.stdout.readline() == "held\n"
    with pytest.raises(StageError, match=f"process {other.pid} trains") as caught, lock(run):
        pass
    assert caught.value.code == "S210" and holder(run) == "here"
    other.communicate("")
    assert holder(run) is None, "the lock's file stays"
    with lock(run):
        pass


def test_a_job_of_a_cluster_stands_in_the_ledger_and_in_the_lock(run, monkeypatch):
    for name, value in {"SLURM_JOB_ID": "4713", "SLURM_ARRAY_JOB_ID": "4711", "SLURM_ARRAY_TASK_ID": "2", "SLURMD_NODENAME": "n3"}.items():
        monkeypatch.setenv(name, value)
    assert begun(run).job == "4711_2 on n3" and read_attempts(run.attempts)[0].started.job == "4711_2 on n3"
    with lock(run), pytest.raises(StageError, match="job 4711_2 on ") as caught, lock(run):
        pass
    assert "scancel 4711_2" in caught.value.fix


def checkpoint(folder, step, missing=None, state=None):
    path = folder / f"checkpoint-{step}"
    path.mkdir(parents=True)
    for name in FILES:
        if name != missing:
            (path / name).write_text(state or f'{{"global_step": {step}}}')
    return path


def test_the_newest_complete_checkpoint_counts_and_torn_ones_go(tmp_path):
    checkpoint(tmp_path, 20)
    whole = checkpoint(tmp_path, 100)
    torn = checkpoint(tmp_path, 120, missing="optimizer.pt")
    broken = checkpoint(tmp_path, 140, state="{")
    assert newest(tmp_path, FILES) == (whole, 100)
    assert not torn.exists() and not broken.exists()
    assert newest(tmp_path / "nowhere", FILES) is None
