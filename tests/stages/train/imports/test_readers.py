"""Each format against logs that its own writer made where it can be had, and every kind of broken file."""

import json
import math
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from stages.contracts.import_card import SNAPSHOT, ColumnCard, ImportCard, ReadCard, SourceCard
from stages.train.imports.binary import read_tensorboard, read_wandb_file
from stages.train.imports.files import read_log, read_run
from stages.train.imports.log import INFINITE, NAN, Log, NoNumber, Unreadable, number, whole
from stages.train.imports.readers import read_jsonl, read_snapshot, read_text, read_trainer_state
from stages.train.imports.summary import read_summary

FIXTURES = Path(__file__).parents[5] / "shared" / "cases" / "fixtures"


def pairs(log: Log, name: str) -> list[tuple[object, object]]:
    """(index, cell) of a column."""
    index = log.logged(log.index)
    return [(index.get(row), cell) for row, cell in log.logged(name).items()]


def steps(log: Log) -> list[object]:
    """Cells of the index, in order."""
    return list(log.logged(log.index))


def test_cells_keep_their_states_apart():
    assert number("NaN") == NAN and number("-inf") == number("Infinity") == INFINITE and number(" ") is None
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
    log = read_trainer_state(path)
    assert steps(log) == [1, 2, 2] and log.steps_done == 2
    assert pairs(log, "loss") == [(1, 0.5), (2, 0.0)]
    assert list(log.logged("grad_norm").index) == [1], "absent at step 1: nothing is filled in"
    assert "train_loss" not in log.columns and "train_loss" in log.notes[0]
    for broken in ("{", '{"log_history": 1}', '{"log_history": [1]}', '{"log_history": [{"step": 1}], "global_step": "two"}'):
        path.write_text(broken)
        with pytest.raises(Unreadable):
            read_trainer_state(path)


@pytest.mark.skipif(not FIXTURES.exists(), reason="the shared cases are not here")
def test_case_3_bare_nan_and_infinity_of_a_real_trainer_state():
    path = FIXTURES / "trainer_state_with_NaN.json"
    log = read_trainer_state(path)
    expected = json.loads(path.read_text())
    rows = expected["log_history"]
    assert steps(log) == [row["step"] for row in rows] and log.steps_done == expected["global_step"]
    for name in {name for row in rows for name in row} - {"step", "train_loss"}:
        cells = [cell for _, cell in pairs(log, name)]
        assert cells == [number(row[name]) for row in rows if name in row], name
    assert any(isinstance(v, float) and not math.isfinite(v) for row in rows for v in row.values())


def test_jsonl_reads_up_to_a_torn_line_and_refuses_a_broken_one(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"step": 1, "a": {"b": 2}, "list": [1]}\n\n{"step": 2, "a": {"b": NaN}}\n{"step": 3, "a')
    log = read_jsonl(path)
    assert steps(log) == [1, 2] and pairs(log, "a.b") == [(1, 2), (2, NAN)]
    assert log.cut == "line 4 is torn" and pairs(log, "list") == [(1, "a list of 1")]
    path.write_bytes(b'{"step": 1}\n{"st\n{"step": 3}\n')
    with pytest.raises(Unreadable, match="line 2"):
        read_jsonl(path)


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
    log = read_text(path, PATTERN, "epoch")
    assert steps(log) == [0.28, 0.28]
    row = {name: log.logged(name).iloc[0] for name in log.columns}
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
    log = read_text(path, pattern, "epoch")
    assert steps(log) == [epoch for epoch, _ in right]
    for place, name in enumerate(names_):
        cells = log.logged(name)
        assert [repr(cell) for cell in cells] == [repr(number(values[place])) for _, values in right], name
    assert any("wrong encoding" in note for note in log.notes) == (encoding != "utf-8")


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
    (path,) = folder.glob("wandb/offline-run-*/*.wandb")
    return path


def test_wandb_file(wandb_run):
    log = read_wandb_file(wandb_run)
    assert steps(log) == list(range(1, 301)), "rows of other loggers have no step"
    assert pairs(log, "train/loss") == [(step, step / 2) for step in range(1, 301)]
    kl = dict(pairs(log, "train/kl"))
    assert kl[11] is None and kl[8] == 2.0
    assert kl[7] is None or kl[7] in (math.inf, "NaN"), "wandb writes NaN as it likes; it is never a number"
    assert log.failed == "exit code 3" and not log.cut and log.logged("note").iloc[0] == "x" * 300


def test_case_34_a_wandb_file_with_any_byte_wrong_or_missing_is_read_up_to_there_and_never_beyond(wandb_run, tmp_path):
    """Nothing of a torn or changed record, nor of what follows it, is taken as data; what is whole before it is."""
    whole_file, path, ends = wandb_run.read_bytes(), tmp_path / "cut.wandb", set()
    assert len(whole_file) > 3 * 32768, "records run over blocks"
    random_ = random.Random(34)
    for trial in range(120):
        data = bytearray(whole_file)
        at = random_.randrange(7, len(data))
        if trial % 2:
            del data[at:]
        else:
            data[at] ^= 1 << random_.randrange(8)
        path.write_bytes(data)
        log = read_wandb_file(path)
        losses = pairs(log, "train/loss")
        assert losses == [(step, step / 2) for step in range(1, len(losses) + 1)]
        assert log.cut or trial % 2 or len(losses) == 300, "a changed byte is reported"
        assert len(losses) >= 300 * at / len(whole_file) - 75, "a block of 32 KiB holds fewer records"
        assert log.failed in ("", "exit code 3") and (log.failed or any("no exit record" in note for note in log.notes))
        ends.add(len(losses))
    assert len(ends) > 20
    path.write_bytes(whole_file[:7] + bytes(500))
    assert read_wandb_file(path).table.empty
    path.write_bytes(b":W&B")
    with pytest.raises(Unreadable, match=r"no \.wandb file"):
        read_wandb_file(path)


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
    log = read_tensorboard(tmp_path)
    accumulator = reader.EventAccumulator(str(tmp_path), size_guidance={"scalars": 0, "tensors": 0})
    accumulator.Reload()
    for tag in ("train/loss", "train/kl"):
        right = [(event.step, number(event.value)) for event in accumulator.Scalars(tag)]
        assert pairs(log, tag) == right
    assert pairs(log, "new/style") == [(step, float(step)) for step in range(0, 400, 2)]
    assert sorted(log.columns) == ["new/style", "train/kl", "train/loss"] and not log.cut
    path = tmp_path / "events.out.tfevents.1"
    path.write_bytes(b"no events at all, only text")
    with pytest.raises(Unreadable, match="is no event file"):
        read_tensorboard(path)


def test_summary_finds_the_one_object(tmp_path):
    path = tmp_path / "summary.json"
    path.write_text(json.dumps({"runs": [{"name": "a", "seed": 1, "x": 2}, {"name": "a", "seed": 2}], "name": "b"}))
    assert read_summary(path, {"name": "a", "seed": 1})["x"] == 2
    with pytest.raises(Unreadable, match="no object"):
        read_summary(path, {"name": "c"})
    path.write_text(json.dumps({"runs": [{"name": "a", "seed": "1", "x": 2}, {"name": "a", "seed": "11", "x": 3}]}))
    assert read_summary(path, {"name": "a", "seed": 1})["x"] == 2, "a seed may be written as a text"
    path.write_text(json.dumps({"runs": [{"name": "a", "seed": 1}, {"name": "a", "seed": 2}]}))
    with pytest.raises(Unreadable, match="2 objects"):
        read_summary(path, {"name": "a"})


def test_snapshot_must_be_whole_and_made_by_fetch(tmp_path):
    path = tmp_path / "run.jsonl"
    head = {"schema": SNAPSHOT, "entity": "e", "project": "p", "id": "i", "state": "crashed", "rows": 2, "last_history_step": 1}
    rows = [{"train/global_step": 1, "train/loss": 0.5}, {"train/global_step": 2, "train/loss": 0.25}]
    path.write_text("\n".join(map(json.dumps, [head, *rows])) + "\n")
    log = read_snapshot(path)
    assert pairs(log, "train/loss") == [(1, 0.5), (2, 0.25)] and log.failed == "W&B says `crashed`" and "state" not in log.columns
    path.write_text("\n".join(map(json.dumps, [head, rows[0]])) + "\n")
    with pytest.raises(Unreadable, match="says 2 rows and holds 1"):
        read_snapshot(path)
    path.write_text(json.dumps(rows[0]) + "\n")
    with pytest.raises(Unreadable, match="no snapshot"):
        read_snapshot(path)


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
    head = {"schema": SNAPSHOT, "state": "finished", "rows": 2, "config": config}
    lines = [head, *({"train/global_step": step, "r": step / 2} for step in (1, 2))]
    Path("run.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))

    def notes(card):
        return read_run(card, read_log(Path("run.jsonl"), card.read)).history.record["notes"]

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
            notes(card_of_wandb(**wrong))
    assert "config" not in json.loads(card_of_wandb().read.model_dump_json()), "old cards keep their bytes"
