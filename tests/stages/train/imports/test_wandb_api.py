"""Snapshots of W&B runs, made by wandb's own public client from a local stand-in for its API."""

import io
import json
import math
import subprocess
import sys

import pytest

from stages.contracts.import_card import Answer, Ask
from stages.train.imports.log import INFINITE, NAN
from stages.train.imports.readers import read_snapshot
from stages.train.imports.wandb_api import fault_of, settings_of
from tests.compiler.wandb_stand_in import KEY, Faults, Run, wandb

pytest.importorskip("wandb")
NAME = "team/misalign/0q46w52p"


def asked(server, path, *names):
    """What the module answers, run as the compiler runs it."""
    questions = "".join(
        Ask(run=name, file=str(path.with_name(f"{index}.jsonl"))).model_dump_json() + "\n" for index, name in enumerate(names)
    )
    command = [sys.executable, "-m", "stages.train.imports.wandb_api", "-"]
    done = subprocess.run(command, input=questions, capture_output=True, text=True, env=server.environment, timeout=120, check=True)
    assert KEY not in done.stdout + done.stderr
    return [Answer.model_validate_json(line) for line in done.stdout.splitlines() if line.startswith("{")]


def row(step, **cells):
    return {"_step": step, "train/global_step": step + 1, **cells}


def test_a_snapshot_holds_every_row_of_all_pages_and_gaps_and_reads_back(tmp_path):
    """3,001 steps are four pages of wandb; two of them hold nothing at all."""
    rows = [row(step, **{"train/loss": step / 4}) for step in range(3001) if not 900 < step < 2995]
    rows[3]["train/loss"], rows[4]["train/loss"], rows[5]["train/loss"] = "NaN", "Infinity", None
    rows[6] |= {"note": f"token={KEY}", "sample": {"_type": "table-file", "path": KEY}, "nested": {"kl": 0.5, "text": KEY}}
    config = {
        "learning_rate": 1e-6,
        "seed": 3,
        "bf16": True,
        "model": "owner/model",
        "api_key": KEY,
        "auth_token": 12345,
        "lr": {"end": 0.5},
    }
    run = Run(rows, config=config, summary={"train/loss": 0.5, "train/global_step": 3001, "note": KEY})
    with wandb({NAME: run}) as server:
        assert asked(server, tmp_path / "x", NAME) == [Answer(run=NAME, rows=len(rows), state="finished")]
        first = (tmp_path / "0.jsonl").read_bytes()
        asked(server, tmp_path / "x", NAME)
        assert (tmp_path / "0.jsonl").read_bytes() == first, "equal runs give equal bytes"
        assert "history" not in {name.lower() for name, _ in server.asked}
    assert KEY.encode() not in first and b"12345" not in first
    head = json.loads(first.splitlines()[0])
    assert (head["id"], head["rows"], head["last_history_step"], head["state"]) == ("0q46w52p", len(rows), 3000, "finished")
    assert head["config"] == {"learning_rate": 1e-6, "seed": 3, "bf16": True, "lr.end": 0.5}
    assert head["summary"] == {"train/loss": 0.5, "train/global_step": 3001}
    log = read_snapshot(tmp_path / "0.jsonl")
    assert list(log.table[log.index]) == [entry["train/global_step"] for entry in rows]
    cells = list(log.logged("train/loss"))
    assert cells[3] == NAN and cells[4] == INFINITE and cells[5] is None and cells[6:] == [entry["train/loss"] for entry in rows[6:]]
    assert list(log.logged("nested.kl")) == [0.5] and set(log.columns) == {"_step", "train/global_step", "train/loss", "nested.kl"}
    assert log.notes == ["columns of W&B that hold no numbers are not in the snapshot: nested.text, note, sample"] and not log.failed


def test_older_rows_that_wandb_keeps_in_parquet_files_are_read_too(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    file = io.BytesIO()
    old = [row(step, **{"train/loss": math.nan if step == 2 else step / 2}) for step in range(50)]
    pq.write_table(pa.table({name: [entry[name] for entry in old] for name in old[0]}), file)
    run = Run([row(step, **{"train/loss": step / 2}) for step in range(50, 60)], parquet=[file.getvalue()], last_of_parquet=49)
    with wandb({NAME: run}) as server:
        assert asked(server, tmp_path / "x", NAME)[0].rows == 60
    log = read_snapshot(tmp_path / "0.jsonl")
    assert list(log.table[log.index]) == list(range(1, 61))
    cells = list(log.logged("train/loss"))
    assert cells[2] == NAN and cells[3:] == [step / 2 for step in range(3, 60)]


def test_case_33_no_rows_is_an_error_and_never_a_run_of_no_steps(tmp_path):
    runs = {
        "t/p/empty": Run([], last=160660),
        "t/p/short": Run([row(step) for step in range(10)], last=20),
        "t/p/twice": Run([row(1, loss=1), row(1, loss=2)]),
        "t/p/same": Run([row(1, loss=1), row(1, loss=1)]),
        "t/p/placeless": Run([{"_step": 1, "loss": 2}], state="running"),
    }
    with wandb(runs) as server:
        empty, short, twice, same, placeless = asked(server, tmp_path / "x", *runs)
    assert [answer.fault for answer in (empty, short, twice, same, placeless)] == ["unclear"] * 3 + [None] * 2
    assert "0 rows, but its last history step is 160660" in empty.text and "ends at 9 of 20" in short.text and "1 twice" in twice.text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["3.jsonl", "4.jsonl"] and same.rows == 1
    log = read_snapshot(tmp_path / "4.jsonl")
    assert placeless.state == "running" and log.running.startswith("W&B said `running`") and "fetches it again" in log.notes[0]


def test_a_rate_limit_is_waited_out(tmp_path):
    faults = Faults({"Run": [(429, {}), None], "HistoryPage": [(429, {}), None]})
    with wandb({NAME: Run([row(1)])}, faults) as server:
        assert asked(server, tmp_path / "x", NAME)[0].rows == 1
        assert [name for name, _ in server.asked].count("Run") == 2


@pytest.mark.parametrize(
    ("query", "status", "body", "fault", "text"),
    [
        ("Run", 404, {}, "unknown", "no such run"),
        ("Run", 200, {"data": {"project": None}}, "unknown", "no such run"),
        ("Viewer", 401, {}, "unknown", "missing or wrong"),
        ("Run", 403, {"errors": [{"message": f"permission denied {KEY}"}]}, "unknown", "refuses"),
        ("HistoryPage", 403, {}, "unknown", "refuses"),
        ("Run", 500, {}, "away", "does not answer"),
        ("HistoryPage", 429, {}, "away", "rate limit"),
        ("Run", 200, {"data": {"project": {"run": {"nonsense": KEY}}}}, "unclear", "cannot use the answer"),
    ],
)
def test_what_wandb_refuses(tmp_path, query, status, body, fault, text):
    with wandb({NAME: Run([row(1)])}, Faults({query: [(status, body)]})) as server:
        answers = asked(server, tmp_path / "x", NAME, NAME)
    assert len(answers) == (1 if fault == "away" or query == "Viewer" else 2), "a server that is away is not asked again"
    assert answers[0].fault == fault and text in answers[0].text and not list(tmp_path.iterdir())


def test_words_of_other_clients():
    assert fault_of(ImportError("No module named 'wandb'")) == ("away", "wandb is not installed: pip install wandb")
    assert fault_of(RuntimeError("No API key configured. Use `wandb login` to log in."))[0] == "unknown"
    assert fault_of(OSError(28, "No space left on device"))[1] == "the snapshot cannot be written: No space left on device"
    assert fault_of(RuntimeError("something else"))[0] == "unclear"


def test_names_that_look_like_secrets_stay_out_also_with_numbers():
    config = dict.fromkeys(
        ["apiKey", "hub.token", "password", "db_pwd", "private_key", "max_tokens", "token_count", "keys", "tokenizer"], 1
    )
    assert sorted(settings_of(config)) == ["keys", "max_tokens", "token_count", "tokenizer"]
