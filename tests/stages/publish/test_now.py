"""`octavo page --now` and `octavo watch`: an experiment of which runs have ended, one trains, one was killed, and others wait."""

import contextlib
import html
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from example_experiment import copy_site, dress, import_card
from test_page_from_analysis import synthetic

from compiler.commands.page import page_file, write_page
from stages.contracts.algorithms import AnyTrainCard
from stages.contracts.analysis_card import ConcludeCard, RunRef
from stages.contracts.artifact import read, write
from stages.contracts.attempt import Outcome, read_attempts
from stages.contracts.expressions import Comparison
from stages.contracts.import_card import CommandCard, ImportCard
from stages.contracts.layout import CHECKPOINTS, ExperimentFolder, RunFolder
from stages.contracts.page_card import PageCard, Remark
from stages.contracts.stage import card_id
from stages.contracts.stops import Expectation, StopRule, StopRules
from stages.publish.page import page
from stages.train.attempts import begin, checkpoints, lock
from stages.train.recorder import Journal
from stages.train.unfinished import write_so_far

HOLD = """
import sys
from pathlib import Path
from stages.contracts.layout import RunFolder
from stages.train.attempts import lock
with lock(RunFolder(Path(sys.argv[1]))):
    print("held", flush=True)
    sys.stdin.read()
"""
STOP = StopRules(rules=(StopRule(id="red_flag-1", when=Comparison(metric="reward", sign="<", value=0.1), window=2),))


@pytest.fixture
def folder(project: Path) -> ExperimentFolder:
    """shaped-s1 has ended, random-s3 has failed; shaped-s2 is at step 8 of 20, shaped-s3 at 12; the others have not begun."""
    copy_site(project)
    (project / "specs").mkdir()
    (project / "specs/synthetic.yaml").write_text("title: synthetic\n")
    made = synthetic()
    folder: ExperimentFolder = made.complete(project)
    expectations = tuple(
        Expectation(id=f"at-{step}", metric="reward", at=f"{step} steps", above=0.1, conditions=("shaped",)) for step in (10, 20)
    )
    made.write_cards(folder, made.runs(), expectations=expectations, stops={"shaped": STOP})
    dress(folder, read(ConcludeCard, folder.conclude_card))
    for ref in read(PageCard, folder.page_card).runs:
        run = folder.run(ref.name)
        if ref.name in ("shaped-s1", "shaped-s2", "shaped-s3", "random-s3"):
            _give_own_card(run)
        else:
            for path in (run.attempts, run.outcome, run.history, run.completions, run.evaluation):
                path.unlink()
    _take_back(folder.run("shaped-s2"), 8)
    _take_back(folder.run("shaped-s3"), 12)
    return folder


@pytest.fixture
def training(folder: ExperimentFolder) -> Iterator[subprocess.Popen[str]]:
    """A process that holds shaped-s2, as one that trains it does."""
    command = [sys.executable, "-c", HOLD, folder.run("shaped-s2").root.as_posix()]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=_environment()) as process:
        assert process.stdout and process.stdout.readline() == "held\n"
        yield process
        process.kill()


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}


def _give_own_card(run: RunFolder) -> None:
    """The identity of the run's card in its files, which the synthetic ones lack."""
    identity = card_id(read(AnyTrainCard, run.card))
    for path in (run.attempts, run.outcome):
        path.write_text(path.read_text().replace(f"card-{run.name}", identity))
    for path in (run.history, run.completions):
        table = pq.read_table(path)
        pq.write_table(table.replace_schema_metadata({**table.schema.metadata, b"octavo.card_id": identity.encode()}), path)


def _take_back(run: RunFolder, steps: int) -> None:
    """What a run that ended had left at one of its steps: a start without an end, and a journal whose last line is torn."""
    journal = Journal(CHECKPOINTS / card_id(read(AnyTrainCard, run.card)))
    rows, texts = (pq.read_table(path).to_pylist() for path in (run.history, run.completions))
    for step, cells in groupby((row for row in rows if row["step"] <= steps), key=lambda row: row["step"]):
        own = list(cells)
        shared = {key: own[0][key] for key in ("attempt", "tokens", "seconds")}
        journal.step(step=step, cells={row["metric"]: row["value"] for row in own}, **shared)
        batch = [{key: value for key, value in row.items() if key not in ("attempt", "step")} for row in texts if row["step"] == step]
        journal.batch(attempt=own[0]["attempt"], step=step, rows=batch)
    with journal.history.open("ab") as torn:
        torn.write(b'{"attempt": "a-shaped')
    run.attempts.write_text("".join(line + "\n" for line in run.attempts.read_text().splitlines()[:-1]))
    for path in (run.outcome, run.history, run.completions, run.evaluation):
        path.unlink()
    shutil.rmtree(run.adapter)


def _words(path: Path) -> str:
    text = re.sub(r"<[^>]*>", " ", path.read_text(encoding="utf-8"))
    return re.sub(r"\s+", " ", html.unescape(text))


def _files() -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in Path().rglob("*") if path.is_file() and path.parts[0] != "build"}


def test_the_page_says_how_far_each_run_is_and_decides_nothing(folder: ExperimentFolder, training: subprocess.Popen[str]) -> None:
    before = _files()
    progress = write_page(folder)
    assert _files() == before, "what trains, what DVC tracks and what git shows stays as it is"

    runs = {run.run: run for run in progress.runs}
    assert {run.state for name, run in runs.items() if not name.startswith("shaped")} == {"waiting", "ended"}
    assert [(run.state, run.step) for name, run in runs.items() if name.startswith("shaped")] == [
        ("ended", 20),
        ("running", 8),
        ("interrupted", 12),
    ]
    assert runs["shaped-s2"].step_seconds == 0.5 and runs["shaped-s2"].seconds_left == 6.0
    # 12 + 8 steps of half a second and 8 waiting runs of 20 steps at the usual pace: an ended run took 3 s a step, a failed one 60 / 7
    usual = (3 + 0.5 + 0.5 + 60 / 7) / 4
    assert progress.seconds_left == pytest.approx(10 + 8 * 20 * usual)

    words = _words(page_file(folder))
    assert "Written while runs go on:" in words and "2 of 12 runs ended; 1 running, 1 interrupted and 8 waiting." in words
    assert "shaped-s2 running 8 of 20" in words and "shaped-s3 interrupted 12 of 20" in words
    assert "the process of shaped-s3 has gone" in words
    assert "Expectations: 2 not yet due; the next is due at step 10" in words and "none has held so far" in words
    assert "due at step 10" in words and "due at step 20" in words and "It has not held so far." in words
    assert words.count("Not decided yet") >= 5
    assert not re.search("Supported|Refuted|Inconclusive|Void|It never held", words)
    assert "Missing runs" not in words and "shaped 3 of 3" in words  # a run that goes on counts so far

    data = json.loads(re.search(r"passports\((.*)\)", page_file(folder).with_name("passports.js").read_text(), re.DOTALL)[1])["passports"]
    last = data["shaped-s2/reward/final"]
    assert last["printed"] == "0.43" and "mean over the last 2 of 8 steps so far" in last["says"]  # 3 of 8 pass, 4 earn a tenth


def test_nothing_takes_it_for_a_page_that_is_published(folder: ExperimentFolder) -> None:
    write_page(folder)
    assert [path.as_posix() for path in Path("build").iterdir()] == ["build/now"] and Path("build/now/.gitignore").read_text() == "*\n"
    assert not folder.page.exists() and not folder.findings.exists()


def test_a_run_that_another_machine_trains_is_neither_here_nor_dead(folder: ExperimentFolder) -> None:
    with lock(folder.run("shaped-s3")):
        pass
    path = Path(".cache/locks/synthetic--shaped-s3.lock")
    path.write_text(path.read_text().split()[0] + " node-7")
    assert {run.run: run.state for run in write_page(folder).runs}["shaped-s3"] == "elsewhere"


def test_what_the_author_says_stays_on_the_page_with_its_day_and_step(folder: ExperimentFolder) -> None:
    status = Remark(text="struggling; `intervene` <b>", on="2026-11-29", step=8)
    write(folder.page_card, read(PageCard, folder.page_card).model_copy(update={"status": status}))
    write_page(folder)
    at_once = _words(page_file(folder))
    assert "Status: struggling; intervene <b> Written by the author on 2026-11-29, at step 8 of 20." in at_once
    assert at_once.index("Written while") < at_once.index("Status:") < at_once.index("Do the pages say")

    whole = synthetic().complete(Path(), "whole")
    dress(whole, read(ConcludeCard, whole.conclude_card))
    write(whole.page_card, read(PageCard, whole.page_card).model_copy(update={"status": status}))
    from stages.analyse.conclude import conclude
    from stages.analyse.draw import draw
    from stages.analyse.screen import screen

    for stage in (screen, conclude, draw, page):
        stage(whole.root)
    words = _words(whole.page / "index.md")
    assert "at step 8 of 20." in words and "Written while runs go on" not in words


@pytest.mark.parametrize("is_program", [False, True])
def test_a_log_that_grows_is_read_up_to_its_last_whole_line(project: Path, is_program: bool) -> None:
    run, ref = RunFolder(Path("runs/grown/random-s2")), RunRef(name="random-s2", condition="random", seed=2, target_steps=60)
    card: ImportCard = import_card()
    if is_program:
        card = card.model_copy(update={"command": CommandCard(arguments=("train",), code=(), log="a.csv", settings={})})
    write(run.import_card, card)
    log = checkpoints(card_id(card)) / "out/a.csv" if is_program else Path("logs/a.csv")
    log.parent.mkdir(parents=True)
    log.write_text("step,r\n1,0.5\n2,0.25\n3,0.1")  # of 0.125
    if is_program:
        begin(run, card_id(card), devices=(), sandbox="", resumed_from=None)
    progress = write_so_far(ref, run)
    assert (progress.state, progress.step) == ("interrupted" if is_program else "growing", 2)
    history = pq.read_table(run.history).to_pydict()
    assert history["value"] == [0.5, 0.25] and read(Outcome, run.outcome).unknown

    if not is_program:
        log.write_text("step,r\n" + "".join(f"{step},0.5\n" for step in range(1, 61)))
        assert write_so_far(ref, run).state == "ended" and read(Outcome, run.outcome).finished
        assert read_attempts(run.attempts)[-1].state == "finished"


def test_watch_renews_the_page_says_what_is_broken_and_ends(folder: ExperimentFolder, training: subprocess.Popen[str]) -> None:
    command = [sys.executable, "-m", "compiler", "watch", "--every", "1", "synthetic"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=_environment()) as watch, contextlib.ExitStack() as at_the_end:
        at_the_end.callback(watch.kill)
        assert watch.stdout
        address = watch.stdout.readline().strip()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/experiments/synthetic/index\.html", address)
        assert "No page has been written yet" in _get(address) or "Written while" in _get(address)
        _wait(address, "1 running, 1 interrupted and 8 waiting")
        with pytest.raises(urllib.error.HTTPError, match="403"):
            _get(address, host="evil.example")

        training.kill()
        _wait(address, "2 interrupted and 8 waiting")
        card = folder.conclude_card.read_text()
        folder.conclude_card.write_text("{")
        _wait(address, "the page could not be renewed, so the last one stays. E495 runs/synthetic/analysis/conclude.card.json")
        assert "2 interrupted and 8 waiting" in _get(address)
        folder.conclude_card.write_text(card)
        _wait(address, "could not be renewed", is_there=False)
        watch.send_signal(signal.SIGINT)
        assert watch.wait(60) == 0 and "ended; the last page stays in build/now/synthetic/" in watch.stdout.read()


def _get(address: str, host: str | None = None) -> str:
    request = urllib.request.Request(address, headers={"Host": host} if host else {})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return re.sub(r"\s+", " ", html.unescape(answer.read().decode()))


def _wait(address: str, words: str, *, is_there: bool = True) -> None:
    until = time.monotonic() + 300  # a loaded machine takes a minute to write a page
    while (words in _get(address)) is not is_there:
        assert time.monotonic() < until, words
        time.sleep(0.5)
