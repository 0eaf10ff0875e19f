"""`runs: {import: ...}` from spec to page, of small logs made here."""

from __future__ import annotations

import html
import json
import re
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from compiler.build.inputs import Inputs
from compiler.commands.verify import verify
from compiler.problems import Rejected
from stages.analyse.conclude import conclude
from stages.analyse.screen import screen
from stages.contracts.attempt import read_attempts
from stages.contracts.diagnostic import StageError
from stages.contracts.files import file_digest
from stages.contracts.layout import ExperimentFolder
from stages.publish.consistency import imports_again
from stages.publish.passports import read_passports
from stages.publish.trace import trace
from stages.train.collect import collect
from stages.train.imports.files import read_log
from tests.e2e.imported import compiled, findings, health, make, run

SPEC = (Path(__file__).parent / "imported.yaml").read_text(encoding="utf-8")
STEPS = 20
FOLDER = Path("runs/imported")


def rows(seed: int, rise: float, steps: int = STEPS) -> list[dict]:
    """Reward 0.2 + rise x step; half of the completions of each odd step are cut; every fourth group has no signal."""
    fixed = {"frac_reward_zero_std": 0.25, "grad_norm": 0.1}
    return [{"step": step, "reward": 0.2 + rise * step + seed / 1000, "clipped": 50 * (step % 2), **fixed} for step in range(1, steps + 1)]


def write(path: Path, lines: list[dict]) -> None:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def write_logs(spec: str = SPEC) -> None:
    """Six logs and their spec, in the working directory. Seeds differ, by nothing in their mean."""
    Path("logs").mkdir()
    for condition, rise in (("shaped", 0.02), ("zero", 0.0)):
        for seed in (1, 2, 3):
            write(Path(f"logs/{condition}-{seed}.jsonl"), rows(seed, rise * (0.99 + seed / 200)))
    make(Path.cwd(), "imported", spec)


@pytest.fixture(scope="module")
def imported(tmp_path_factory):
    root = tmp_path_factory.mktemp("imported")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        write_logs()
        run(compiled("imported"))
    return root


@pytest.fixture(scope="module")
def odd(tmp_path_factory):
    """The same runs, each with an odd log."""
    root = tmp_path_factory.mktemp("odd")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        write_logs()
        write(Path("logs/shaped-1.jsonl"), rows(1, 0.02, 19))
        write(Path("logs/shaped-2.jsonl"), rows(2, 0.02, 21))
        broken = [{**line, "grad_norm": float("nan")} if line["step"] > 9 else line for line in rows(3, 0.02)]
        write(Path("logs/shaped-3.jsonl"), broken)
        write(Path("logs/zero-1.jsonl"), rows(1, 0.0, 12) + rows(1, 0.02)[10:])
        write(Path("logs/zero-2.jsonl"), [{"grad_nrm" if key == "grad_norm" else key: line[key] for key in line} for line in rows(2, 0.0)])
        # 1e200 is a finite number, and the spread of two of them is none
        write(Path("logs/zero-3.jsonl"), [{**line, "grad_norm": 1e200} if line["step"] > 15 else line for line in rows(3, 0.0)])
        run(compiled("imported"))
    return root


def enter(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Go into a copy; the experiment's folder."""
    shutil.copytree(root, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return FOLDER


@pytest.fixture
def folder(imported, tmp_path, monkeypatch):
    return enter(imported, tmp_path, monkeypatch)


@pytest.fixture
def odd_folder(odd, tmp_path, monkeypatch):
    return enter(odd, tmp_path, monkeypatch)


def page_text(folder: Path) -> str:
    return html.unescape((folder / "page/index.md").read_text(encoding="utf-8"))


def test_imported_runs_get_findings_verdict_and_page(folder):
    values = findings(folder)
    # final window: steps 19 and 20; initial: 1 and 2
    assert values["shaped-s1/reward/final"]["value"] == pytest.approx(0.2 + 0.0199 * 19.5 + 0.001)
    assert values["shaped/reward/change"]["value"] == pytest.approx(0.02 * 18)
    assert values["shaped/truncated/final"]["value"] == pytest.approx(0.25), "50% on one step of two: per cent became shares"
    assert values["shaped-vs-zero/reward/change"]["value"] == pytest.approx(0.36)
    verdicts = json.loads((folder / "analysis/findings.json").read_text())["verdicts"]
    assert [verdict["verdict"] for verdict in verdicts] == ["supported"]
    assert all(health(folder, f"shaped-s{seed}")["included"] for seed in (1, 2, 3))
    text = page_text(folder)
    assert "octavo did not train these runs; it read" in text and "logs/shaped-1.jsonl" in text and ">Imported runs</h2>" in text
    assert "<style" not in text and "figure-claims" not in text, "a single claim's picture is not shown"
    lineage = json.loads((folder / "page/lineage.json").read_text())
    made_by = {file["path"]: file["made_by"] for file in lineage["files"]}
    attempt = read_attempts(folder / "shaped-s1" / "attempts.jsonl")[0]
    assert made_by["logs/shaped-1.jsonl"] == "input" and made_by["runs/imported/shaped-s1/import.card.json"] == "octavo compile"
    assert made_by["runs/imported/shaped-s1/history.parquet"] == f"attempt {attempt.started.attempt}"
    assert attempt.state == "finished"


def test_a_number_is_traced_to_the_rows_of_its_file_and_verify_names_a_changed_digit(folder):
    text = trace(folder, "shaped/truncated/final")
    pin = file_digest(Path("logs/shaped-2.jsonl"))[:16]
    assert f"logs/shaped-2.jsonl; 20 rows, steps 1 to 20, every step; sha256 {pin}" in text
    assert re.search(rf"same +logs/shaped-2.jsonl   sha256 {pin}", text) and re.search("read from +column clipped, in %, times 0.01", text)
    assert "read again\n  dvc repro runs/imported/dvc.yaml:import-shaped-s2" in trace(folder, "shaped-s2")
    record = read_passports(folder / "page/passports.js")["records"]["shaped-s2"]
    assert ["read from", f"logs/shaped-2.jsonl; 20 rows, steps 1 to 20, every step; sha256 {pin}"] in record["rows"]

    log = Path("logs/shaped-2.jsonl")
    log.write_text(log.read_text().replace("0.222", "0.223", 1))
    assert re.search("CHANGED +logs/shaped-2.jsonl", trace(folder, "shaped/truncated/final"))
    differences = verify(["imported"], Inputs()).experiments[0].differences
    assert [each.code for each in differences if each.path == "logs/shaped-2.jsonl"] == ["S495"]


def test_verify_reads_the_sources_again(folder):
    """A history that was edited and put into order again is not what its log gives; a log that is not here is said to be absent."""
    assert imports_again(ExperimentFolder(folder), frozenset()) == ([], 6, [])
    due = {f"import-{name}-s{seed}" for name in ("shaped", "zero") for seed in (1, 2, 3)}
    assert imports_again(ExperimentFolder(folder), due) == ([], 0, [])

    path = folder / "shaped-s2" / "history.parquet"
    table = pq.read_table(path)
    cells = table.column("value").to_pylist()
    at = next(at for at, row in enumerate(table.to_pylist()) if (row["metric"], row["step"]) == ("reward", 7))
    before, cells[at] = cells[at], 0.75
    pq.write_table(table.set_column(table.schema.get_field_index("value"), "value", pa.array(cells, pa.float64())), path)
    record = folder / "zero-s1" / "imported.json"
    record.write_text(record.read_text().replace('\n  "rows": 20', '\n  "rows": 21'))
    differences, _, _ = imports_again(ExperimentFolder(folder), frozenset())
    assert [(each.code, each.path, each.cell, each.expected, each.found) for each in differences] == [
        ("S496", "runs/imported/shaped-s2/history.parquet", "reward at step 7", repr(before), "0.75"),
        ("S496", "runs/imported/zero-s1/imported.json", "rows", "20", "21"),
    ]

    Path("logs/shaped-2.jsonl").unlink()
    experiment = verify(["imported"], Inputs()).experiments[0]
    differing = [each.path for each in experiment.differences if each.code == "S496"]
    assert experiment.checked["sources read again"] == 5 and differing == [record.as_posix()]
    assert "source absent, so not read again: 1 of 6 imported runs (logs/shaped-2.jsonl); fetch it with dvc pull or git" in experiment.notes
    assert not [each for each in experiment.differences if each.code == "E402"], "the card's own hash stands for the log"
    Path(folder / "shaped-s2" / "import.card.json").unlink()
    with pytest.raises(Rejected) as refused:  # no card holds its hash
        verify(["imported"], Inputs())
    assert [each.code for each in refused.value.diagnostics] == ["E389"]


def test_a_log_that_merely_ends_is_unknown_and_one_that_goes_on_is_contaminated(odd_folder):
    unknown, beyond = health(odd_folder, "shaped-s1"), health(odd_folder, "shaped-s2")
    assert unknown["state"] == "unknown" and unknown["reasons"] == ["gate steps: unknown (log ends at 19)"]
    assert beyond["reasons"] == ["gate steps: contaminated: 21 steps of 20, so a finished run was trained on"]
    assert read_attempts(odd_folder / "shaped-s1" / "attempts.jsonl")[0].state == "unknown"
    counted = findings(odd_folder)["shaped/attempts/finished"]
    assert (counted["k"], counted["n"]) == (2, 2)
    collect(odd_folder / "shaped-s2")
    screen(odd_folder)
    conclude(odd_folder)
    assert len(read_attempts(odd_folder / "shaped-s2" / "attempts.jsonl")) == 2
    counted = findings(odd_folder)["shaped/attempts/finished"]
    assert (counted["k"], counted["n"], counted["window"]) == (2, 2, "the newest reading of each log"), "reading it again is no other try"


def test_gradients_that_are_not_finite_end_the_valid_range_and_leave_the_page_to_others(odd_folder):
    """NaN although the loss reads zero, and numbers beyond all squares."""
    assert health(odd_folder, "shaped-s3")["valid_until"] == 9 and not health(odd_folder, "shaped-s3")["included"]
    assert not health(odd_folder, "zero-s3")["included"] and "persistently non-finite from step 16" in page_text(odd_folder)
    imported = json.loads((odd_folder / "zero-s3/imported.json").read_text())
    assert "numbers beyond 1e+150, which count as not finite: `grad_norm` 5" in imported["notes"]


def test_a_resume_inside_a_log_is_merged_and_reported(odd_folder):
    assert any("steps 11-12 of attempt" in note for note in health(odd_folder, "zero-s1")["notes"])
    assert health(odd_folder, "zero-s1")["included"]
    assert findings(odd_folder)["zero-s1/reward/final"]["value"] == pytest.approx(0.2 + 0.02 * 19.5 + 0.001)


def test_a_missing_column_fails_that_run_only_and_says_what_was_meant(odd_folder):
    outcome = json.loads((odd_folder / "zero-s2" / "outcome.json").read_text())
    assert outcome["failure"] == "data" and "did you mean `grad_nrm`" in outcome["error"]
    assert not (odd_folder / "zero-s2" / "retry.json").exists(), "the same source would fail again"


def test_a_source_that_changed_after_the_compile_is_refused(folder):
    before = (folder / "shaped-s1" / "attempts.jsonl").read_bytes()
    write(Path("logs/shaped-1.jsonl"), rows(1, 0.5))
    with pytest.raises(StageError) as refused:
        collect(folder / "shaped-s1")
    assert refused.value.code == "S288" and (folder / "shaped-s1" / "attempts.jsonl").read_bytes() == before


def test_the_page_of_runs_that_all_failed_gives_a_reason_in_each_section(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_logs(SPEC.replace("grad_norm: grad_norm", "grad_norm: gradient_norm"))
    folder = compiled("imported")
    with pytest.raises(StageError, match="all 6 imports of imported failed; of shaped-s1: no column `gradient_norm`") as refused:
        run(folder)
    assert refused.value.code == "S304", "dvc repro ends with an error"
    text = page_text(folder)
    assert "6 of 6 runs failed" in text and text.count("not imported</td>") == 6
    assert "No curve was drawn: none of 6 runs logged a step." in text
    assert "<svg" not in text.partition(">Curves</h2>")[2].partition("</details>")[0]
    assert "No detector could look, so the health of these runs is not known." in text
    assert "There is no shared evaluation" in text and "evaluation columns" not in text
    assert [verdict["verdict"] for verdict in json.loads((folder / "analysis/findings.json").read_text())["verdicts"]] == ["void"]


def test_a_log_that_grows_while_it_is_read_is_not_imported(folder, monkeypatch):
    def growing(path, read):
        with path.open("a") as stream:
            stream.write(json.dumps({"step": 21}) + "\n")
        return read_log(path, read)

    monkeypatch.setattr("stages.train.imports.files.read_log", growing)
    assert collect(folder / "shaped-s1") == 0
    outcome = json.loads((folder / "shaped-s1" / "outcome.json").read_text())
    assert outcome["failure"] == "data" and "changed while it was read" in outcome["error"]


def test_text_of_a_log_does_not_steer_the_terminal(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_logs()
    write(Path("logs/shaped-1.jsonl"), [{"step": 1, "\x1b]0;x\x07\x9b2J": 1}])
    assert collect(compiled("imported") / "shaped-s1") == 0
    printed = "".join(capsys.readouterr())
    assert r"\x1b]0;x\x07\x9b2J" in printed and printed.replace("\n", "").isprintable()
