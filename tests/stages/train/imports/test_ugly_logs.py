"""Logs as they lie around: other encodings, packed and torn files, mixed types, steps given twice. Nothing is lost without a word."""

import contextlib
import gzip
import json
import math
import random
import time

import numpy as np
import pytest

from stages.contracts.import_card import ColumnCard, ReadCard
from stages.train.imports.files import read_log
from stages.train.imports.log import Unreadable
from stages.train.imports.mapping import Mapped, map_log

ROWS = [{"step": 1, "r": 1.5}, {"step": 2, "r": 2.5}]
LINES = "".join(json.dumps(row) + "\n" for row in ROWS)
TEXTS = {
    "jsonl": LINES,
    "csv": "step,r\n1,1.5\n2,2.5\n",
    "trainer_state": json.dumps({"log_history": ROWS, "global_step": 2}),
    "text": "step 1 r 1.5\nstep 2 r 2.5\n",
}
FORMATS = sorted(TEXTS)


def card(form: str, pattern: str = "step {step} r {r}") -> ReadCard:
    extra = {"pattern": pattern} if form == "text" else {}
    return ReadCard(format=form, columns=(ColumnCard(metric="reward", column="r", unit="reward"),), **extra)


def history(tmp_path, form: str, content: bytes | str, pattern: str = "step {step} r {r}") -> Mapped:
    path = tmp_path / "log"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return map_log(read_log(path, card(form, pattern)), card(form, pattern), 10, "a")


def values(mapped: Mapped) -> list[tuple[int, object]]:
    """(step, value or state) of each row of history."""
    return [(row["step"], row["value"] if row["state"] == "value" else row["state"]) for row in mapped.rows]


BOTH = [(1, 1.5), (2, 2.5)]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.encode("utf-8-sig"),
        lambda text: text.replace("\n", "\r\n").encode(),
        lambda text: text.encode("utf-16"),
        lambda text: text.encode("utf-16-be").join([b"\xfe\xff", b""]),
    ],
)
def test_marks_line_ends_and_wide_encodings_change_nothing(tmp_path, form, change):
    assert values(history(tmp_path, form, change(TEXTS[form]))) == BOTH


@pytest.mark.parametrize("form", FORMATS)
def test_what_is_no_log_says_what_it_is(tmp_path, form):
    junk = random.Random(1).randbytes(3_000)
    for content, says in ((b"", "is empty"), (gzip.compress(TEXTS[form].encode()), "is packed"), (b"\xff" + junk, "log")):
        with pytest.raises(Unreadable, match=says):
            history(tmp_path, form, content)
    with pytest.raises(Unreadable, match="is a folder"):
        read_log(tmp_path, card(form))
    for content in {"jsonl": ["\n \n"], "csv": ["step,r\n", "step,r"], "trainer_state": ['{"log_history": []}'], "text": []}[form]:
        with pytest.raises(Unreadable, match="holds no row"):
            history(tmp_path, form, content)


def test_cells_of_mixed_types_keep_their_meaning(tmp_path):
    cells = ['"0.5"', '"nan"', "null", "true", "1e999", "NaN", "-Infinity", '"None"', "9" * 400, "123456789012345678901234567890"]
    mapped = history(tmp_path, "jsonl", "".join(f'{{"step": {step}, "r": {cell}}}\n' for step, cell in enumerate(cells, 1)))
    others = ["nonfinite", "null", 1.0, "nonfinite", "nonfinite", "nonfinite", "null", "nonfinite", 123456789012345678901234567890.0]
    assert [value for _, value in values(mapped)] == [0.5, *others]


def test_a_number_whose_square_is_not_finite_counts_as_not_finite(tmp_path):
    mapped = history(tmp_path, "csv", "step,r\n1,1e150\n2,-1e151\n3,inf\n4,nan\n5,1e308\n")
    assert values(mapped) == [(1, 1e150), *((step, "nonfinite") for step in range(2, 6))]
    assert mapped.record["notes"] == ("numbers beyond 1e+150, which count as not finite: `r` 2",)
    read = ReadCard(format="csv", columns=(ColumnCard(metric="reward", column="r", unit="%", factor=1e10),))
    assert values(map_log(read_log(tmp_path / "log", read), read, 10, "a"))[0] == (1, "nonfinite")


@pytest.mark.parametrize(
    ("form", "content", "says"),
    [
        ("jsonl", '{"step": 1, "r": 1}\n{"step": 2, "r": [1, 2]}\n', r"`r` at step 2 \(row 2 of the log\) is no number: 'a list of 2'"),
        ("jsonl", '{"step": 1' + "[" * 100_000 + "\n", "nested too deep|not JSON"),
        ("csv", "step;r\n1;0,5\n", "'0,5'; write it as 1234.5"),
        ("csv", "step,r\n1,12.5%\n", r"'12.5%'; write it .* a unit goes into|is no number"),
        ("csv", "1,0.5\n2,0.25\n", "line 1 .* must name the columns"),
        ("csv", b"step,r\n1,2\n2,\xe9\n", "is not UTF-8 .*iconv"),
        ("csv", 'step,r\n1,"a"b\n', "line 2 .* is not CSV: .*; a quote inside a text is written twice"),
        ("csv", "sep=;\nstep;r\n1;2\n", "no row of a metric has a step|no column"),
        ("csv", "step,r,t\n1,2\n1,2,3\n", "line 2 .* has 2 cells under 3 columns"),
        ("csv", "step,r\n1,2,3\n", "line 2 .* has 3 cells under 2 columns"),
        ("csv", "step,r, r\n1,1,2\n", "column `r` 2 times"),
        ("csv", "# a log\nstep,r\n1,1\n", "line 1 .* must name the columns"),
        ("trainer_state", TEXTS["trainer_state"][:-5], "not JSON"),
        ("jsonl", json.dumps({"log_history": ROWS}, indent=1), "line 1 .* is not JSON: .*; the format has one object a line"),
        ("jsonl", json.dumps(ROWS), "line 1 .* is not a JSON object; the format has one object a line"),
        ("jsonl", b'{"step": 1, "t": "\xe9"}\n', r"line 1 .* is not JSON: invalid unicode"),
        ("text", "step 1 r 1,000.5\n", "no line .*; its first line is 'step 1 r 1,000.5'"),
        (
            "jsonl",
            '{"Step": 1, "r": 2}\n',
            r"no row of a metric has a step \(column `step`\): name the log's own .* Columns of the log: Step, r",
        ),
        ("jsonl", '{"step": 0.25, "r": 2}\n', "0.25; an epoch is declared as `epoch`, with `steps_per_epoch`"),
        ("jsonl", '{"step": -1, "r": 2}\n', "no whole number from 0: -1"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place(tmp_path, form, content, says):
    with pytest.raises(Unreadable, match=says):
        history(tmp_path, form, content)


TABLES = {
    "pandas with its index": ',step,r,note\n0,1,1.5,\n1,2,2.5,"a, ""b"""\n',
    "an export of W&B": '"step","r","r__MIN","r__MAX"\n"1","1.5","1.5","1.5"\n"2","2.5","",""\n',
    "Excel of Europe": "\ufeffstep;r;\r\n1;1.5;\r\n2;2.5;\r\n",
    "write.csv of R": '"","step","r"\n"1",1,1.5\n"2",2,2.5\n',
    "a header in quotes": '"step","r"\n1,1.5\n2,2.5\n',
    "a name with a separator": '"step","r","a,b"\n1,1.5,0\n2,2.5,0\n',
    "tabs, and an empty line": "step\tr\n1\t1.5\n\n2\t2.5\n",
    "line ends written twice": "step,r\r\r\n1,1.5\r\r\n2,2.5\r\r\n",
    "old line ends": "step,r\r1,1.5\r2,2.5\r",
}


@pytest.mark.parametrize("name", sorted(TABLES))
def test_tables_as_programs_write_them_have_the_same_numbers(tmp_path, name):
    mapped = history(tmp_path, "csv", TABLES[name])
    assert values(mapped) == BOTH and mapped.record["notes"] == ()


def test_a_header_that_stands_again_after_a_resume_is_reported_and_is_no_row(tmp_path):
    mapped = history(tmp_path, "csv", "step,r\n1,7\n2,2.5\nstep,r\n1,1.5\nstep,r\n2,2.5\n")
    assert [(row["attempt"], row["step"], row["value"]) for row in mapped.rows] == [
        ("a-part1", 1, 7.0), ("a-part1", 2, 2.5), ("a-part2", 1, 1.5), ("a-part2", 2, 2.5),
    ]  # fmt: skip
    assert mapped.record["notes"][0] == "the header stands again in line 4, as after a resume; such lines, left out: 2"
    assert mapped.record["notes"][1] == (
        "resumed: logged to step 2, then again from step 1, the first one: started anew, or another run in the same log; "
        "the later rows count"
    )


def test_a_step_that_is_logged_twice_has_its_later_value_and_a_sparse_column_is_reported(tmp_path):
    rows = [(1, 1.0), (1, 5.0), (2, 2.0)]
    mapped = history(tmp_path, "csv", "step,r\n" + "".join(f"{step},{value}\n" for step, value in rows))
    assert values(mapped) == [(1, 5.0), (2, 2.0)] and mapped.record["notes"] == (
        "logged again at a step that it held already, so many times: `r` 1; the later value counts",
    )
    cards = tuple(ColumnCard(metric=name, column=name, unit="x") for name in ("reward", "kl"))
    path = tmp_path / "log"
    path.write_text("step,reward,kl\n1,1,\n2,1,0.5\n3,1,\n")
    read = ReadCard(format="csv", columns=cards)
    assert map_log(read_log(path, read), read, 3, "a").record["notes"] == ("not logged at every step of the log: `kl` at 1 of 3",)


def test_torn_ends_are_reported(tmp_path):
    for torn in ("2", "2,2", "2,2.5"):  # of 2,2.51,0: a number that was cut is another number
        mapped = history(tmp_path, "csv", f"step,r,t\n1,1.5,0\n{torn}")
        assert values(mapped) == BOTH[:1] and mapped.record["notes"] == ("cut: line 3 is torn; everything before it was read",)
    with pytest.raises(Unreadable, match=r"holds no row .*line 2 is torn"):
        history(tmp_path, "csv", "step,r,t\n1,1.5")
    for form in ("csv", "text"):
        mapped = history(tmp_path, form, TEXTS[form].rstrip("\n"))
        assert values(mapped) == BOTH and mapped.record["notes"] == ("the last line has no line end, so its last number may be cut",)
    assert values(history(tmp_path, "csv", "step,r,,\n1,1.5,,\n2,2.5,,\n")) == BOTH, "columns without a name are none"


def test_two_rows_on_one_line_of_text_are_two(tmp_path):
    mapped = history(tmp_path, "text", "step 1 r 1.5 step 2 r 2.5\nstep 3 r 5. \n\x1b[32mstep 4 r -.5\x1b[0m\n")
    assert values(mapped) == [*BOTH, (3, 5.0), (4, -0.5)]
    assert values(history(tmp_path, "text", "3-5 2\n1 7.\n", "{step} {r}.")) == [(1, 7.0)]


def test_what_a_terminal_shows_is_read(tmp_path):
    mapped = history(tmp_path, "text", "\x1b[1mstep\x1b[0m 1 r \x1b[32m1.5\x1b[0m\nstep 2 r None\n")
    assert values(mapped) == [(1, 1.5), (2, "null")]
    assert values(history(tmp_path, "text", "step 1 r 1.5\nstep 2 r -None\nstep 3 r -nan\nstep 4 r -.5\n")) == [
        (1, 1.5), (3, "nonfinite"), (4, -0.5),
    ]  # fmt: skip
    mapped = history(tmp_path, "text", "step 1 r 7\rstep 1 r 8\rstep 1 r 1.5\r\n10%\rstep 2 r 2.5\n")
    assert values(mapped) == BOTH


@pytest.mark.parametrize(
    ("pattern", "line"),
    [
        ("{step}{r}", "1" * 20_000),
        ("{step} {r}", "1" * 20_000),
        ("a {step} b {r}", "a" + " " * 19_000),
        (" {step} b {r}", " " * 20_000),
        ("{step} {r} {c} {d}!", "1 " * 10_000),
        ("{step}.{r}.{c}.{d}!", "1." * 10_000),
        ("x{step}e{r}e{c}", "x" + "1e" * 9_000),
    ],
)
def test_no_search_goes_back(tmp_path, pattern, line):
    """They take milliseconds; going back, the first would take hours, and the limit of time of a test ends it."""
    path = tmp_path / "log"
    path.write_text((line + "\n") * 10 + "\n")
    before = time.process_time()
    with contextlib.suppress(Unreadable):
        read_log(path, card("text", pattern))
    assert time.process_time() - before < 20


def test_a_line_beyond_all_length_is_left_out_and_told(tmp_path):
    mapped = history(tmp_path, "text", "x" * 30_000_000 + "\n" + TEXTS["text"])
    assert values(mapped) == BOTH and mapped.record["notes"] == ("1 of 3 lines do not follow the pattern and were left out",)
    assert values(history(tmp_path, "jsonl", '{"step": 1, "r": 1.5, "t": "' + "x" * 30_000_000 + '"}\n{"step": 2, "r": 2.5}\n')) == BOTH


def test_event_files_follow_each_other_in_time_and_never_run_at_once(tmp_path):
    """A resumed run writes a file of its own, in a folder that may come first in the alphabet; an evaluation writes beside the training."""
    writers = pytest.importorskip("torch.utils.tensorboard")
    read = card("tensorboard")
    for folder, steps in (("Nov28", (1, 2, 3)), ("Dec01", (3, 4))):
        with writers.SummaryWriter(tmp_path / "resumed" / folder) as writer:
            for step in steps:
                writer.add_scalar("r", step + (folder == "Dec01"), step)
    mapped = map_log(read_log(tmp_path / "resumed", read), read, 4, "a")
    assert values(mapped) == [(1, 1.0), (2, 2.0), (3, 4.0), (4, 5.0)] and "event files of 2 folders" in mapped.record["notes"][0]

    train, other = writers.SummaryWriter(tmp_path / "both" / "train"), writers.SummaryWriter(tmp_path / "both" / "eval")
    for step in (1, 2, 3):
        for writer in (train, other):
            writer.add_scalar("r", step, step)
            writer.add_histogram("h", np.array([1.0, 2.0]), step)
    train.close(), other.close()
    with pytest.raises(Unreadable, match=r"`r` was written to \S+both/\S+ and to \S+both/\S+ at the same time, so they are two series"):
        map_log(read_log(tmp_path / "both", read), read, 3, "a")
    log = read_log(tmp_path / "both" / "train", read)
    assert values(map_log(log, read, 3, "a")) == [(1, 1.0), (2, 2.0), (3, 3.0)]
    of_histogram = ReadCard(format="tensorboard", columns=(ColumnCard(metric="reward", column="h", unit="reward"),))
    with pytest.raises(Unreadable, match="`h` is in the log and holds no numbers"):
        map_log(log, of_histogram, 3, "a")


def test_event_files_of_a_run_that_was_resumed_between_two_logged_steps(tmp_path):
    """Logged every 20 steps, killed after 160, resumed from a checkpoint of step 100 that counts its 20 from there; a restart that died at
    once left a file without an event."""
    writers = pytest.importorskip("torch.utils.tensorboard")
    read = card("tensorboard")
    for first in (20, 110):
        with writers.SummaryWriter(tmp_path / "tb") as writer:
            for step in range(first, first + 141, 20):
                writer.add_scalar("r", float(first), step)
    (tmp_path / "tb" / "events.out.tfevents.9").write_bytes(bytes(64))
    mapped = map_log(read_log(tmp_path / "tb", read), read, 300, "a")
    parts = dict.fromkeys(row["attempt"] for row in mapped.rows)
    assert list(parts) == ["a-part1", "a-part2"] and mapped.last == 250
    assert sum(row["attempt"] == "a-part1" for row in mapped.rows) == 8
    assert any("events.out.tfevents.9" in note for note in mapped.record["notes"])


@pytest.fixture(scope="module")
def binary_logs(tmp_path_factory):
    """A whole event file and a whole offline file, as bytes."""
    writers = pytest.importorskip("torch.utils.tensorboard")
    folder = tmp_path_factory.mktemp("binary")
    with writers.SummaryWriter(folder) as writer:
        for step in range(1, 30):
            writer.add_scalar("r", math.nan if step == 3 else step / 2, step)
            writer.add_scalar("new", step, step, new_style=True)
    return next(folder.iterdir()).read_bytes()


def test_an_event_file_with_any_byte_wrong_or_missing_is_read_up_to_there_and_never_beyond(tmp_path, binary_logs):
    """One byte changed anywhere fails a checksum: nothing of its frame or behind it is taken as data, and how much that is is told."""
    random_ = random.Random(7)
    path, read = tmp_path / "events.out.tfevents.1", card("tensorboard")
    right = [(step, "nonfinite" if step == 3 else step / 2) for step in range(1, 30)]
    path.write_bytes(binary_logs)
    assert values(whole := map_log(read_log(path, read), read, 30, "a")) == right and not any(
        "cut" in note for note in whole.record["notes"]
    )
    lengths = set()
    for trial in range(160):
        data = bytearray(binary_logs)
        at = random_.randrange(len(data))
        if trial % 2:
            data = data[:at]
        else:
            data[at] ^= 1 << random_.randrange(8)
        path.write_bytes(data)
        try:
            mapped = map_log(read_log(path, read), read, 30, "a")
        except Unreadable:
            assert at < 200
            continue
        assert values(mapped) == right[: len(mapped.rows)]
        lengths.add(len(mapped.rows))
        is_cut = any(note.startswith("cut: events.out.tfevents.1 is torn or damaged") for note in mapped.record["notes"][:1])
        assert is_cut or trial % 2, "only a file that ends between two frames looks whole"
    assert len(lengths) > 20
