"""Each format against logs that its own writer made where it can be had, and every kind of broken file."""

import glob
import json
import math
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from stages.contracts.attempt import Started
from stages.contracts.import_card import ColumnCard, ImportCard, ReadCard, SourceCard
from stages.train.imports import csv_columns, csv_table, jsonl, summary, tensorboard, text_lines, trainer_state, wandb_file, wandb_snapshot
from stages.train.imports.cells import NoNumber, number, whole
from stages.train.imports.found import found_in
from stages.train.imports.json_text import loads
from stages.train.imports.log import Log, Unreadable, by_column

FIXTURES = Path(__file__).parents[5] / "shared" / "cases" / "fixtures"


def pairs(log: Log, name: str) -> list[tuple[object, object]]:
    """(index, cell) of a column."""
    column = log.columns[name]
    return [(log.index[row], cell) for row, cell in zip(column.rows, column.cells, strict=True)]


def test_bare_nan_in_json_is_read_and_text_of_that_name_is_left_alone():
    text = b'{"a": NaN,\n "b": [1, -Infinity\n], "c": "x: NaN,", "d": Infinity}'
    found = loads(text)
    assert math.isnan(number(found["a"])) and number(found["b"][1]) == -math.inf and number(found["d"]) == math.inf
    assert found["c"] == "x: NaN,"
    with pytest.raises(ValueError):
        loads(b"{")
    with pytest.raises(ValueError):
        loads(b"[" * 100_000)


def test_cells_keep_their_states_apart():
    assert [number(cell) for cell in (1, 2.5, True, "3", None, "null")] == [1.0, 2.5, 1.0, 3.0, None, None]
    assert math.isnan(number("NaN")) and number("-inf") == -math.inf
    with pytest.raises(NoNumber):
        number("warm")
    assert whole(3.0) == 3 and whole("4") == 4 and whole(None) is None
    for bad in (2.5, float("nan"), -1, "x", 1e300):
        with pytest.raises(NoNumber):
            whole(bad)


def test_trainer_state(tmp_path):
    path = tmp_path / "trainer_state.json"
    rows = '{"step": 1, "loss": 0.5},\n{"step": 2, "loss": 0.0, "grad_norm": NaN},\n{"step": 2, "train_loss": 0.1}'
    path.write_text(f'{{"global_step": 2, "max_steps": 3, "log_history": [{rows}]}}')
    log = trainer_state.read(path)
    assert log.index == [1, 2, 2] and log.steps_done == 2
    assert pairs(log, "loss") == [(1, 0.5), (2, 0.0)]
    assert log.columns["grad_norm"].rows == [1], "absent at step 1: nothing is filled in"
    assert "train_loss" not in log.columns and "train_loss" in log.notes[0]
    for broken in ("{", "[]", '{"log_history": 1}', '{"log_history": [1]}'):
        path.write_text(broken)
        with pytest.raises(Unreadable):
            trainer_state.read(path)


@pytest.mark.skipif(not FIXTURES.exists(), reason="the shared cases are not here")
def test_case_3_bare_nan_and_infinity_of_a_real_trainer_state():
    path = FIXTURES / "trainer_state_with_NaN.json"
    log = trainer_state.read(path)
    expected = json.loads(path.read_text())
    rows = expected["log_history"]
    assert log.index == [row["step"] for row in rows] and log.steps_done == expected["global_step"]
    for name in {name for row in rows for name in row} - {"step", "train_loss"}:
        told = [number(cell) for _, cell in pairs(log, name)]
        assert [repr(cell) for cell in told] == [repr(number(row[name])) for row in rows if name in row], name
    assert any(isinstance(v, float) and not math.isfinite(v) for row in rows for v in row.values())


def test_jsonl_reads_up_to_a_torn_line_and_refuses_a_broken_one(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"step": 1, "a": {"b": 2}, "list": [1]}\n\n{"step": 2, "a": {"b": NaN}}\n{"step": 3, "a')
    log = jsonl.read(path)
    assert log.index == [1, 2] and log.columns["a.b"].cells[0] == 2 and math.isnan(number(log.columns["a.b"].cells[1]))
    assert log.cut == "line 4 is torn" and log.columns["list"].cells == ["a list of 1"]
    path.write_bytes(b'{"step": 1}\n{"st\n{"step": 3}\n')
    with pytest.raises(Unreadable, match="line 2"):
        jsonl.read(path)
    path.write_bytes(b"3\n")
    with pytest.raises(Unreadable, match="not a JSON object"):
        jsonl.read(path)


def test_csv_keeps_four_states_apart(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("step,loss,kl\n1,0.5,\n2,NaN,null\n3,inf,0.25\n", encoding="utf-8-sig")
    log = csv_table.read(path)
    assert log.index == [1.0, 2.0, 3.0]
    assert pairs(log, "kl") == [(2.0, None), (3.0, 0.25)], "an empty cell is absent, null is null"
    assert math.isnan(log.columns["loss"].cells[1]) and log.columns["loss"].cells[2] == math.inf
    path.write_text("step;a\n1;2\n")
    assert csv_table.read(path).columns["a"].cells.tolist() == [2.0]
    for text, match in (("a,b,a\n1,2,3\n", "2 times"), ("a,b\n1,2,3\n", "3 cells under 2"), ("\xff", "UTF-8")):
        path.write_text(text, encoding="latin-1")
        with pytest.raises(Unreadable, match=match):
            csv_table.read(path)


PATTERN = (
    "[Epoch {epoch}]  loss={loss}  grad={grad}  lr={lr}  reward={reward}±{spread}  syntax_rew={syntax}±{syntax_spread}  "
    "entropy={entropy}  frac_zero_std={zero}"
)
LINE = (
    "[Epoch 0.28]  loss=-0.0469  grad=0.0838  lr=3.58e-06  reward=0.102{}0.077  syntax_rew=0.102{}0.078  entropy=0.155  frac_zero_std=0.00"
)


@pytest.mark.parametrize(
    "content", [LINE.replace("{}", "±").encode(), LINE.replace("{}", "Â±").encode(), LINE.replace("{}", "±").encode("cp1252")]
)
def test_case_35_lines_of_a_text_log_also_with_a_wrong_encoding(tmp_path, content):
    path = tmp_path / "learning.log"
    path.write_bytes(b"loading model\n" + content + b"\r\nprogress 10%\rprogress 99%\r" + content + b"\n")
    log = text_lines.read(path, PATTERN, "epoch")
    assert log.index == [0.28, 0.28]
    row = {name: column.cells[0] for name, column in log.columns.items()}
    assert row == {
        "epoch": 0.28, "loss": -0.0469, "grad": 0.0838, "lr": 3.58e-06, "reward": 0.102, "spread": 0.077,
        "syntax": 0.102, "syntax_spread": 0.078, "entropy": 0.155, "zero": 0.0,
    }  # fmt: skip
    assert "1 of 3 lines do not follow" in log.notes[0]
    assert (len(log.notes) == 2) == (content != LINE.replace("{}", "±").encode())


STYLES = ("{:.4f}", "{:.2e}", "{:+.3f}", "{:g}", "{:.0f}", "{:E}", "{:.1f}")
ENCODINGS = {
    "utf-8": lambda text: text.encode(),
    "once": lambda text: text.encode().decode("cp1252").encode(),
    "twice": lambda text: text.encode().decode("cp1252").encode().decode("cp1252").encode(),
    "cp1252": lambda text: text.encode("cp1252"),
    "once beside another script": lambda text: "█ ".encode() + text.replace("±", "Â±").encode(),
    "twice beside another script": lambda text: "█ ".encode() + text.replace("±", "Ã‚Â±").encode(),
}


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_case_35_numbers_of_any_style_and_size_are_read_as_they_were_printed(tmp_path, encoding):
    """Lines between others, behind a progress bar, a time or colours, with any blanks; NaN and Inf among the numbers."""
    random_ = random.Random(35)
    pattern, names_, path = (
        "[Epoch {epoch}] loss={loss} reward={reward}±{spread} lr={lr}",
        ("loss", "reward", "spread", "lr"),
        tmp_path / "a.log",
    )
    right, lines = [], []
    for number_ in range(200):
        printed = [random_.choice(STYLES).format(random_.choice([-1, 1]) * 10 ** random_.uniform(-8, 6)) for _ in names_]
        if number_ % 10 == 0:
            printed[random_.randrange(4)] = random_.choice(["nan", "NaN", "inf", "-inf"])
        right.append((number_ / 100, [float(text) for text in printed]))
        loss, reward, spread, rate = printed
        blank = random_.choice([" ", "  ", "\t"])
        before = random_.choice(["", "2026-11-28 12:00:01,337 INFO ", "\x1b[32m", " 10%|##   | 3/30\r"])
        red = random_.choice(["{}", "\x1b[31m{}\x1b[0m"])
        line = f"{before}[Epoch {number_ / 100}]{blank}loss={red.format(loss)}{blank}reward={reward}±{spread} lr={rate}"
        lines.append(ENCODINGS[encoding](line))
        lines += [random_.choice([b"loading", b"", b"[Epoch 1] loss=", b"saved 12 files"])] * (number_ % 3 == 0)
    path.write_bytes(random_.choice([b"\n", b"\r\n"]).join(lines) + b"\n")
    log = text_lines.read(path, pattern, "epoch")
    assert log.index == [epoch for epoch, _ in right]
    for place, name in enumerate(names_):
        cells = log.columns[name].cells
        assert [repr(cell) for cell in cells] == [repr(values[place]) for _, values in right], name
    assert any("wrong encoding" in note for note in log.notes) == (encoding != "utf-8")


def test_text_without_a_fitting_line_and_with_nan(tmp_path):
    path = tmp_path / "a.log"
    path.write_text("step 3: loss nan\n")
    assert math.isnan(text_lines.read(path, "step {step}: loss {loss}", "step").columns["loss"].cells[0])
    with pytest.raises(Unreadable, match="no line"):
        text_lines.read(path, "at {step}", "step")


@pytest.fixture(scope="module")
def wandb_run(tmp_path_factory):
    """A real offline file of the installed wandb: 300 steps, rows of another logger between them, NaN, null and long texts."""
    pytest.importorskip("wandb")
    folder = tmp_path_factory.mktemp("wandb")
    code = """if True:
        import wandb
        run = wandb.init(project="p", settings=wandb.Settings(x_disable_stats=True))
        for step in range(1, 301):
            kl = float("nan") if step == 7 else None if step == 11 else step / 4
            run.log({"train/loss": step / 2, "train/kl": kl, "train/global_step": step, "note": "x" * 300})
            run.log({"profiling/time": 0.1})
        run.finish(exit_code=3)
    """
    environment = {**os.environ, "WANDB_MODE": "offline", "WANDB_SILENT": "true", "WANDB_DIR": str(folder)}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment, cwd=folder, capture_output=True, timeout=120)
    (found,) = glob.glob(str(folder / "wandb" / "offline-run-*" / "*.wandb"))
    return Path(found)


def test_wandb_file(wandb_run):
    log = wandb_file.read(wandb_run)
    assert [index for index in log.index if index is not None] == list(range(1, 301)), "rows of other loggers have no step"
    assert pairs(log, "train/loss") == [(step, step / 2) for step in range(1, 301)]
    told = dict(pairs(log, "train/kl"))
    assert told[11] is None and told[8] == 2.0
    assert told[7] is None or math.isnan(told[7]), "wandb writes NaN as it likes; it is never a number"
    assert log.failed == "exit code 3" and not log.cut and log.columns["note"].cells[0] == "x" * 300


def test_case_34_a_wandb_file_with_any_byte_wrong_or_missing_is_read_up_to_there_and_never_beyond(wandb_run, tmp_path):
    """Nothing of a torn or changed record, nor of what follows it, is taken as data; what is whole before it is."""
    whole_file, path, ends = wandb_run.read_bytes(), tmp_path / "cut.wandb", set()
    random_ = random.Random(34)
    for trial in range(120):
        data = bytearray(whole_file)
        at = random_.randrange(7, len(data))
        if trial % 2:
            del data[at:]
        else:
            data[at] ^= 1 << random_.randrange(8)
        path.write_bytes(data)
        log = wandb_file.read(path)
        found = pairs(log, "train/loss") if "train/loss" in log.columns else []
        assert found == [(step, step / 2) for step in range(1, len(found) + 1)]
        assert log.cut or trial % 2 or len(found) == 300, "a changed byte is told"
        assert len(found) >= 300 * at / len(whole_file) - 75, "a block of 32 KiB holds fewer records"
        assert log.failed in ("", "exit code 3") and (log.failed or any("no exit record" in note for note in log.notes))
        ends.add(len(found))
    assert len(ends) > 20


def test_case_34_a_cut_wandb_file_is_read_up_to_the_torn_record(wandb_run, tmp_path):
    whole_file = wandb_run.read_bytes()
    assert len(whole_file) > 3 * 32768, "records run over blocks"
    path = tmp_path / "cut.wandb"
    path.write_bytes(whole_file[: len(whole_file) // 2])
    log = wandb_file.read(path)
    steps = [step for step, _ in pairs(log, "train/loss")]
    assert "torn" in log.cut and 100 < len(steps) < 200 and steps == list(range(1, len(steps) + 1))
    assert any("no exit record" in note for note in log.notes) and not log.failed
    broken = bytearray(whole_file)
    broken[len(broken) // 2] ^= 0xFF
    path.write_bytes(bytes(broken))
    assert "checksum" in wandb_file.read(path).cut
    path.write_bytes(whole_file[:7] + bytes(500))
    assert wandb_file.read(path).index == []
    for other, says in ((b"", "is empty"), (b":W&B", r"no \.wandb file"), (b"plain text", r"no \.wandb file")):
        path.write_bytes(other)
        with pytest.raises(Unreadable, match=says):
            wandb_file.read(path)
    with pytest.raises(Unreadable, match=r"is a folder: name the \.wandb file in it"):
        wandb_file.read(tmp_path)


def test_tensorboard_against_its_own_reader(tmp_path):
    writers = pytest.importorskip("torch.utils.tensorboard")
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    writer = writers.SummaryWriter(tmp_path)
    for step in range(0, 400, 2):
        writer.add_scalar("train/loss", step / 3, step)
        writer.add_scalar("train/kl", float("nan") if step == 4 else -1.5, step)
        writer.add_scalar("new/style", step, step, new_style=True)
        writer.add_text("note", "a text", step)
    writer.close()
    log = tensorboard.read(tmp_path)
    known = reader.EventAccumulator(str(tmp_path), size_guidance={"scalars": 0, "tensors": 0})
    known.Reload()
    for tag in ("train/loss", "train/kl"):
        assert [repr(pair) for pair in pairs(log, tag)] == [repr((event.step, event.value)) for event in known.Scalars(tag)]
    assert pairs(log, "new/style") == [(step, float(step)) for step in range(0, 400, 2)]
    assert sorted(log.columns) == ["new/style", "train/kl", "train/loss"] and not log.cut
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-10])
    assert "torn" in tensorboard.read(path).cut
    path.write_bytes(b"no events at all, only text")
    with pytest.raises(Unreadable, match="no event file"):
        tensorboard.read(path)


def test_summary_finds_the_one_object(tmp_path):
    path = tmp_path / "summary.json"
    path.write_text(json.dumps({"runs": [{"name": "a", "seed": 1, "x": 2}, {"name": "a", "seed": 2}], "name": "b"}))
    assert summary.read(path, {"name": "a", "seed": 1})["x"] == 2
    with pytest.raises(Unreadable, match="no object"):
        summary.read(path, {"name": "c"})
    path.write_text(json.dumps({"runs": [{"name": "a", "seed": "1", "x": 2}, {"name": "a", "seed": "11", "x": 3}]}))
    assert summary.read(path, {"name": "a", "seed": 1})["x"] == 2, "a seed may be written as a text"
    path.write_text(json.dumps({"runs": [{"name": "a", "seed": 1}, {"name": "a", "seed": 2}]}))
    with pytest.raises(Unreadable, match="2 objects"):
        summary.read(path, {"name": "a"})


def test_snapshot_must_be_whole_and_made_by_fetch(tmp_path):
    path = tmp_path / "run.jsonl"
    head = {
        "schema": wandb_snapshot.SNAPSHOT,
        "entity": "e",
        "project": "p",
        "id": "i",
        "state": "crashed",
        "rows": 2,
        "last_history_step": 1,
    }
    rows = [{"train/global_step": 1, "train/loss": 0.5}, {"train/global_step": 2, "train/loss": 0.25}]
    path.write_text("\n".join(map(json.dumps, [head, *rows])) + "\n")
    log = wandb_snapshot.read(path)
    assert pairs(log, "train/loss") == [(1, 0.5), (2, 0.25)] and log.failed == "W&B says `crashed`" and "state" not in log.columns
    path.write_text("\n".join(map(json.dumps, [head, rows[0]])) + "\n")
    with pytest.raises(Unreadable, match="says 2 rows and holds 1"):
        wandb_snapshot.read(path)
    path.write_text(json.dumps(rows[0]) + "\n")
    with pytest.raises(Unreadable, match="no snapshot"):
        wandb_snapshot.read(path)


def read_by_rows(text: str, delimiter: str = ",") -> Log:
    """The reader that decides what a table means."""
    return by_column(csv_table.rows(text, delimiter, Path("log.csv"), csv_table.Lines()), "step")


def shown(column) -> str:
    """Rows and cells; NaN is no equal of itself, and numbers may be a list or an array."""
    return repr((column.rows, list(column.cells)))


def test_a_snapshot_that_somebody_wrote_by_hand_is_refused_with_a_sentence(tmp_path):
    path = tmp_path / "run.jsonl"
    row = json.dumps({"train/global_step": 1, "r": 1})
    for head, says in (({}, "says None rows and holds 1"), ({"rows": "1"}, "says '1' rows and holds 1")):
        path.write_text(json.dumps({"schema": wandb_snapshot.SNAPSHOT, **head}) + "\n" + row + "\n")
        with pytest.raises(Unreadable, match=says):
            wandb_snapshot.read(path)
    for part in ({"config": None}, {"summary": []}, {"left_out": "x"}):
        path.write_text(json.dumps({"schema": wandb_snapshot.SNAPSHOT, "rows": 1, **part}) + "\n" + row + "\n")
        with pytest.raises(Unreadable, match="is no snapshot"):
            wandb_snapshot.read(path)
    with pytest.raises(Unreadable, match="is a folder"):
        wandb_snapshot.read(tmp_path)


def card_of_wandb(seed: int = 3, **config) -> ImportCard:
    columns = (ColumnCard(metric="reward", column="r", unit="reward"),)
    return ImportCard(
        experiment="e", condition="a", seed=seed, null_control=False, source=SourceCard(path="run.jsonl", sha256=""), 
        code={"some.stage": ""},
        read=ReadCard(format="wandb", columns=columns, config=config), target_steps=2,
    )  # fmt: skip


def test_the_config_of_a_wandb_run_is_held_against_the_spec(tmp_path, monkeypatch):
    """What the spec declares must be there; the seed and the number of steps are held against it by themselves."""
    monkeypatch.chdir(tmp_path)
    config = {"learning_rate": 1e-06, "beta": 0, "bf16": True, "seed": 3, "max_steps": 2, "num_generations": 8}
    head = {"schema": wandb_snapshot.SNAPSHOT, "state": "finished", "rows": 2, "config": config}
    rows = [{"train/global_step": step, "r": step / 2} for step in (1, 2)]
    Path("run.jsonl").write_text("".join(json.dumps(one) + "\n" for one in [head, *rows]))
    started = Started(
        attempt="a", number=1, at="2026-01-01T00:00:00Z", card_id="c", commit=None, host="h", devices=(), versions={}, sandbox="",
        resumed_from=None,
    )  # fmt: skip

    def notes(card):
        return found_in(card, started).imported.notes

    assert notes(card_of_wandb()) == ()
    agrees = "the run's config at W&B has what the spec declares: learning_rate 1e-06, beta 0, bf16 true"
    assert notes(card_of_wandb(learning_rate=1.0e-6, beta=0.0, bf16=True)) == (agrees,)
    assert notes(card_of_wandb(seed=4)) == ("the run's config at W&B says `seed` 3, and the spec says 4",)
    assert notes(card_of_wandb().model_copy(update={"target_steps": 1}))[0] == "the trainer was told to make 2 steps, and the spec says 1"
    for wrong, says in (
        ({"learning_rate": 2e-6}, "says `learning_rate` 1e-06, and the spec says 2e-06: it was trained otherwise"),
        ({"bf16": 1}, "says `bf16` true, and the spec says 1"),
        ({"learning_rates": 1e-6}, "has no number `learning_rates`; did you mean `learning_rate`"),
    ):
        with pytest.raises(Unreadable, match=says):
            found_in(card_of_wandb(**wrong), started)
    assert "config" not in json.loads(card_of_wandb().read.model_dump_json()), "old cards keep their bytes"


CELLS = ["1", "2.5e-6", "-0.0", "", " ", "NaN", "nan", "-nan(ind)", "nan(ind)", "inf", "-Infinity", "1e400", "1e-400", "+3", "1_000", " 7 "]
CELLS += ["null", "None", "n/a", "0x10", "text", "true", "123456789012345678901234567890", "0.1", "5e-324", "\u0663", "x" * 200]


@pytest.mark.parametrize("delimiter", [",", "\t", ";"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_csv_read_by_columns_equals_the_one_read_by_rows(tmp_path, delimiter, end):
    """Each kind of cell alone in a column of numbers, beside all others in one column, and in a column of its own."""
    header = ["step", "all", *(f"with{number}" for number in range(len(CELLS))), *(f"only{number}" for number in range(len(CELLS))), "none"]
    rows = [
        [str(step), cell, *(other if step == number else str(step / 7) for number, other in enumerate(CELLS)), *CELLS, ""]
        for step, cell in enumerate(CELLS)
    ]
    text = end.join(delimiter.join(row) for row in [header, *rows]) + end
    (tmp_path / "log.csv").write_bytes(b"\xef\xbb\xbf" + text.encode())
    content = (tmp_path / "log.csv").read_bytes()
    by_columns = csv_columns.plain(content, header, delimiter, "step", csv_table.cell)
    assert by_columns is not None
    by_rows = read_by_rows(text, delimiter)
    assert repr(by_rows.index) == repr(by_columns.index) == repr(csv_table.read(tmp_path / "log.csv").index)
    assert set(by_rows.columns) == set(by_columns.columns) and "none" not in by_columns.columns
    for name, column in by_rows.columns.items():
        assert shown(column) == shown(by_columns.columns[name]), name
    quoted = end.join(delimiter.join(f'"{one}"' for one in row) for row in [header, *rows]) + end
    every = csv_columns.plain(quoted.encode(), header, delimiter, "step", csv_table.cell)
    assert every is not None and {name: shown(column) for name, column in every.columns.items()} == {
        name: shown(column) for name, column in read_by_rows(quoted, delimiter).columns.items()
    }


@pytest.mark.parametrize("text", ["step,a\n", "step,a\n1,2\n\n3,4\n", "step,a\n1,2", "step,a\n,\n"])
def test_empty_lines_and_ends_mean_the_same_by_columns(text):
    by_columns = csv_columns.plain(text.encode(), ["step", "a"], ",", "step", csv_table.cell)
    assert by_columns == (by_rows := read_by_rows(text)) or shown(by_columns.columns["a"]) == shown(by_rows.columns["a"])
    assert by_columns.index == by_rows.index and by_columns.columns.keys() == by_rows.columns.keys()


@pytest.mark.parametrize("text", CELLS)
@pytest.mark.parametrize("first", [True, False])
def test_each_kind_of_cell_in_a_table_of_numbers(text, first):
    """Beside a column of numbers that stays one: the first cell, or a later one, decides what a column is."""
    cells = [text, "0.5"] if first else ["0.5", text]
    table = "step,a,b\n" + "".join(f"{step},{cell},{step / 7}\n" for step, cell in enumerate(cells))
    by_columns = csv_columns.plain(table.encode(), ["step", "a", "b"], ",", "step", csv_table.cell)
    by_rows = read_by_rows(table)
    assert by_columns is not None and repr(by_columns.index) == repr(by_rows.index) and by_columns.columns.keys() == by_rows.columns.keys()
    assert all(shown(column) == shown(by_rows.columns[name]) for name, column in by_columns.columns.items())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "step,a\n1\n",
        "step,a\n1,2,3\n",
        "step,a\n1,2\r3,4\n",
        'step,a\n1,"2"\n',
        'step,a\n1,"2\n3"\n',
        "step,a\n1,2\x00\n",
        "step,a\n1," + "x" * 131073 + "\n",
    ],
)
def test_any_other_csv_is_left_to_the_reader_by_rows(text):
    header = text.partition("\n")[0].split(",") if text.strip() else []
    assert csv_columns.plain(text.encode(), header, ",", "step", csv_table.cell) is None


@pytest.mark.parametrize(
    "text",
    [
        '{\n "a": NaN,\n "b": -Infinity,\n "c": [\n  Infinity\n ],\n "NaN": "NaN,"\n}\n',
        '{"a": NaN, "b": 1}',
        '{\n "a": "ends with NaN",\n "b": "-Infinity"\n}',
        '{\r\n "N": NaN\r\n}',
        '{\n "' + "N" * 3000 + '": NaN,\n "b": NaN\n}',
        '["\\"\\nNaN\\n", NaN\n]',
        "[" + "1,\n NaN,\n -Infinity,\n" * 4000 + '"a NaN,",\n"b NaN"\n]',
        "[" + "1,\r\nNaN,\r\n" * 4000 + '"a NaN,",\r\n NaN\r\n]',
    ],
)
def test_bare_numbers_that_json_lacks_mean_the_same_as_to_python(text):
    def numbers(value):
        if isinstance(value, dict):
            return {key: numbers(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [numbers(inner) for inner in value]
        return repr(float(value)) if value in ("NaN", "Infinity", "-Infinity") or isinstance(value, float) else value

    assert numbers(loads(text.encode())) == numbers(json.loads(text))
