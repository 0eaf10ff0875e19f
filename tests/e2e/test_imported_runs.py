"""`runs: {import: ...}` from spec to page: small logs made here, and the summaries of a real study when they are at hand."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from compiler.build.inputs import Inputs
from compiler.commands.verify import verify
from compiler.problems import Rejected
from stages.contracts.artifact import file_digest
from stages.contracts.attempt import read_attempts
from stages.contracts.diagnostic import StageError
from stages.contracts.layout import ExperimentFolder
from stages.publish.consistency import imports_again
from stages.publish.passports import read_passports
from stages.publish.trace import trace
from stages.train.collect import collect
from stages.train.imports.files import read_log
from tests.e2e.imported import compiled, findings, health, make, run

SUMMARY = Path(__file__).parents[3] / "shared" / "data" / "wu17-v3" / "wandb_summary.json"
SPEC = (Path(__file__).parent / "imported.yaml").read_text(encoding="utf-8")
STEPS = 20


def rows(seed: int, rise: float, steps: int = STEPS) -> list[dict]:
    """Reward 0.2 + rise x step; half of the completions of each odd step are cut; every fourth group has no signal."""
    return [
        {
            "step": step,
            "reward": 0.2 + rise * step + seed / 1000,
            "clipped": 50 * (step % 2),
            "frac_reward_zero_std": 0.25,
            "grad_norm": 0.1,
        }
        for step in range(1, steps + 1)
    ]


@pytest.fixture
def logs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "logs"
    folder.mkdir()
    for condition, rise in (("shaped", 0.02), ("zero", 0.0)):
        for seed in (1, 2, 3):
            write(folder / f"{condition}-{seed}.jsonl", rows(seed, rise * (0.99 + seed / 200)))  # seeds differ, by nothing in their mean
    make(tmp_path, "imported", SPEC)
    return folder


def write(path: Path, lines: list[dict]) -> None:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def test_imported_runs_get_findings_verdict_and_page(logs):
    folder = compiled("imported")
    page = run(folder)
    found = findings(folder)
    # final window: steps 19 and 20; initial: 1 and 2
    assert found["shaped-s1/reward/final"]["value"] == pytest.approx(0.2 + 0.0199 * 19.5 + 0.001)
    assert found["shaped/reward/change"]["value"] == pytest.approx(0.02 * 18)
    assert found["shaped/truncated/final"]["value"] == pytest.approx(0.25), "50% on one step of two: per cent became shares"
    assert found["shaped-vs-zero/reward/change"]["value"] == pytest.approx(0.36)
    verdicts = json.loads((folder / "analysis/findings.json").read_text())["verdicts"]
    assert [verdict["verdict"] for verdict in verdicts] == ["supported"]
    assert all(health(folder, f"shaped-s{seed}")["included"] for seed in (1, 2, 3))
    text = html.unescape((page / "index.md").read_text(encoding="utf-8"))
    assert "Imported: 6 runs" in text and "logs/shaped-1.jsonl" in text and "## Imported runs" in text
    assert text.count("<style>") == 1, "a single claim's picture is not shown, so the curves carry the style"
    lineage = json.loads((page / "lineage.json").read_text())
    made = {file["path"]: file["made_by"] for file in lineage["files"]}
    attempt = read_attempts(folder / "shaped-s1" / "attempts.jsonl")[0]
    assert made["logs/shaped-1.jsonl"] == "input" and made["runs/imported/shaped-s1/import.card.json"] == "octavo compile"
    assert made["runs/imported/shaped-s1/history.parquet"] == f"attempt {attempt.started.attempt}"
    assert attempt.state == "finished"


def test_a_number_is_traced_to_the_rows_of_its_file_and_verify_names_a_changed_digit(logs, capsys):
    folder = compiled("imported")
    page = run(folder)
    said = trace(folder, "shaped/truncated/final")
    pin = file_digest(Path("logs/shaped-2.jsonl"))[:16]
    assert f"logs/shaped-2.jsonl; 20 rows, steps 1 to 20, every step; sha256 {pin}" in said
    assert re.search(rf"same +logs/shaped-2.jsonl   sha256 {pin}", said) and re.search("read from +column clipped, in %, times 0.01", said)
    assert "read again\n  dvc repro runs/imported/dvc.yaml:import-shaped-s2" in trace(folder, "shaped-s2")
    record = read_passports(page / "passports.js")["records"]["shaped-s2"]
    assert ["read from", f"logs/shaped-2.jsonl; 20 rows, steps 1 to 20, every step; sha256 {pin}"] in record["rows"]

    text = Path("logs/shaped-2.jsonl").read_text()
    Path("logs/shaped-2.jsonl").write_text(text.replace("0.222", "0.223", 1))
    assert re.search("CHANGED +logs/shaped-2.jsonl", trace(folder, "shaped/truncated/final"))
    named_here = [one for one in verify(["imported"], Inputs()).experiments[0].differences if one.path == "logs/shaped-2.jsonl"]
    assert [one.code for one in named_here] == ["S495"]


def test_verify_reads_the_sources_again(logs):
    """A history that was edited and put into order again is not what its log gives; a log that is not here is said to be absent."""
    folder = compiled("imported")
    run(folder)
    assert imports_again(ExperimentFolder(folder), frozenset()) == ([], 6, [])
    due = {f"import-{name}-s{seed}" for name in ("shaped", "zero") for seed in (1, 2, 3)}
    assert imports_again(ExperimentFolder(folder), due) == ([], 0, [])

    path = folder / "shaped-s2" / "history.parquet"
    table = pq.read_table(path)
    cells = table.column("value").to_pylist()
    at = next(at for at, row in enumerate(table.to_pylist()) if (row["metric"], row["step"]) == ("reward", 7))
    was = cells[at]
    cells[at] = 0.75
    pq.write_table(table.set_column(table.schema.get_field_index("value"), "value", pa.array(cells, pa.float64())), path)
    imported = folder / "zero-s1" / "imported.json"
    imported.write_text(imported.read_text().replace('\n  "rows": 20', '\n  "rows": 21'))
    found, _, _ = imports_again(ExperimentFolder(folder), frozenset())
    assert {one.code for one in found} == {"S496"} and [(one.path, one.cell, one.expected, one.found) for one in found] == [
        ("runs/imported/shaped-s2/history.parquet", "reward at step 7", repr(was), "0.75"),
        ("runs/imported/zero-s1/imported.json", "rows", "20", "21"),
    ]

    Path("logs/shaped-2.jsonl").unlink()
    one = verify(["imported"], Inputs()).experiments[0]
    assert one.checked["sources read again"] == 5 and [each.path for each in one.differences if each.code == "S496"] == [
        imported.as_posix()
    ]
    assert "source absent, so not read again: 1 of 6 imported runs (logs/shaped-2.jsonl); fetch it with dvc pull or git" in one.notes
    assert not [each for each in one.differences if each.code == "E402"], "the card's own hash stands for the log"
    Path(folder / "shaped-s2" / "import.card.json").unlink()
    with pytest.raises(Rejected) as refused:  # a hash that nobody knows
        verify(["imported"], Inputs())
    assert [each.code for each in refused.value.diagnostics] == ["E389"]


def _dicts(value):
    """All maps of a JSON value."""
    if isinstance(value, dict):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _dicts(inner)


def test_a_log_that_merely_ends_is_unknown_and_one_that_goes_on_is_contaminated(logs):
    write(logs / "shaped-1.jsonl", rows(1, 0.02, 19))
    write(logs / "shaped-2.jsonl", rows(2, 0.02, 21))
    folder = compiled("imported")
    run(folder)
    unknown, beyond = health(folder, "shaped-s1"), health(folder, "shaped-s2")
    assert unknown["state"] == "unknown" and unknown["reasons"] == ["gate steps: unknown (log ends at 19)"]
    assert beyond["reasons"] == ["gate steps: contaminated: 21 steps of 20, so a finished run was trained on"]
    assert read_attempts(folder / "shaped-s1" / "attempts.jsonl")[0].state == "unknown"
    assert (findings(folder)["shaped/attempts/finished"]["k"], findings(folder)["shaped/attempts/finished"]["n"]) == (2, 2)
    run(folder)
    assert len(read_attempts(folder / "shaped-s2" / "attempts.jsonl")) == 2
    counted = findings(folder)["shaped/attempts/finished"]
    assert (counted["k"], counted["n"], counted["window"]) == (2, 2, "the newest reading of each log"), "reading it again is no other try"


def test_nan_gradients_end_the_valid_range_although_the_loss_reads_zero(logs):
    lines = rows(1, 0.02)
    for line in lines[9:]:
        line["grad_norm"] = float("nan")
    write(logs / "shaped-1.jsonl", lines)
    folder = compiled("imported")
    run(folder)
    assert health(folder, "shaped-s1")["valid_until"] == 9 and not health(folder, "shaped-s1")["included"]


def test_a_resume_inside_a_log_is_merged_and_told(logs):
    write(logs / "shaped-1.jsonl", rows(1, 0.0, 12) + rows(1, 0.02)[10:])
    folder = compiled("imported")
    run(folder)
    notes = health(folder, "shaped-s1")["notes"]
    assert any("steps 11-12 of attempt" in note for note in notes)
    assert findings(folder)["shaped-s1/reward/final"]["value"] == pytest.approx(0.2 + 0.02 * 19.5 + 0.001)


def test_a_missing_column_fails_that_run_only_and_says_what_was_meant(logs):
    write(
        logs / "shaped-1.jsonl", [{"grad_nrm" if key == "grad_norm" else key: cell for key, cell in line.items()} for line in rows(1, 0.02)]
    )
    folder = compiled("imported")
    run(folder)
    outcome = json.loads((folder / "shaped-s1" / "outcome.json").read_text())
    assert outcome["failure"] == "data" and "did you mean `grad_nrm`" in outcome["error"]
    assert not (folder / "shaped-s1" / "retry.json").exists(), "the same source would fail again"
    assert health(folder, "shaped-s2")["included"]


def test_a_source_that_changed_after_the_compile_is_refused(logs):
    folder = compiled("imported")
    write(logs / "shaped-1.jsonl", rows(1, 0.5))
    with pytest.raises(StageError) as refused:
        collect(folder / "shaped-s1")
    assert refused.value.code == "S288" and not (folder / "shaped-s1" / "attempts.jsonl").exists()


def test_the_page_of_runs_that_all_failed_gives_a_reason_in_each_section(logs):
    make(logs.parent, "imported", SPEC.replace("grad_norm: grad_norm", "grad_norm: gradient_norm"))
    folder = compiled("imported")
    text = html.unescape((run(folder) / "index.md").read_text(encoding="utf-8"))
    assert "Failed runs: 6 of 6" in text and text.count("not imported</td>") == 6
    assert "No curve was drawn: none of 6 runs logged a step." in text
    assert "<svg" not in text.partition("## Curves")[2].partition("## Attempts")[0]
    assert "No detector could look, so the health of these runs is not known." in text
    assert "There is no shared evaluation" in text and "evaluation columns" not in text
    assert [one["verdict"] for one in json.loads((folder / "analysis/findings.json").read_text())["verdicts"]] == ["void"]


def test_a_run_that_diverged_beyond_all_squares_does_not_keep_the_others_from_their_page(logs):
    """1e200 is a finite number, and the spread of two of them is none."""
    for seed in (1, 2):
        path = logs / f"shaped-{seed}.jsonl"
        found = [json.loads(line) for line in path.read_text().splitlines()]
        write(path, [{**row, "grad_norm": 1e200 * seed} if row["step"] > 15 else row for row in found])
    folder = compiled("imported")
    assert "persistently non-finite from step 16" in (run(folder) / "index.md").read_text(encoding="utf-8")
    imported = json.loads((folder / "shaped-s1/imported.json").read_text())
    assert "numbers beyond 1e+150, which count as not finite: `grad_norm` 5" in imported["notes"]
    assert [health(folder, f"shaped-s{seed}")["included"] for seed in (1, 2, 3)] == [False, False, True]


def test_a_log_that_grows_while_it_is_read_is_not_imported(logs, monkeypatch):
    folder = compiled("imported")
    path = logs / "shaped-1.jsonl"

    def growing(*of):
        with path.open("a") as stream:
            stream.write(json.dumps({"step": 21}) + "\n")
        return read_log(*of)

    monkeypatch.setattr("stages.train.imports.files.read_log", growing)
    assert collect(folder / "shaped-s1") == 0
    outcome = json.loads((folder / "shaped-s1" / "outcome.json").read_text())
    assert outcome["failure"] == "data" and "changed while it was read" in outcome["error"]


WU17 = (Path(__file__).parent / "summaries.yaml").read_text(encoding="utf-8")


@pytest.mark.skipif(not SUMMARY.exists(), reason="the shared summaries are not here")
def test_case_45_summaries_of_a_real_study(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "summary.json").write_bytes(SUMMARY.read_bytes())
    make(tmp_path, "wu17", WU17)
    folder = compiled("wu17")
    page = run(folder)
    source, found = json.loads(SUMMARY.read_text())["conditions"], findings(folder)
    for name, condition in source.items():
        slug = name.replace("_", "-")
        final, initial = found[f"{slug}/reward/final"], found[f"{slug}/reward/initial"]
        assert (final["with_all"] or final["value"]) == pytest.approx(condition["avg_final_reward"])
        assert (initial["with_all"] or initial["value"]) == pytest.approx(condition["avg_initial_reward"])
    change = found["fv-shaped/reward/change"]
    assert change["with_all"] == pytest.approx(-0.0016667, abs=1e-6), "case 16: never +11.6%"
    assert found["fv-shaped-s42/truncated/final"]["value"] == pytest.approx(0.9495833)
    assert "mean over the whole run" in found["fv-shaped-s42/truncated/final"]["method"]
    assert "no window" in found["fv-shaped-s42/truncated/final"]["window"]
    gated = health(folder, "fv-shaped-s42")
    assert not gated["included"] and "grad_norm is persistently non-finite from step 21" in gated["reasons"][0]
    assert all(health(folder, name)["included"] for name in ("fv-shaped-s123", "zero-reward-s42")), "their last values are finite"
    states = {one["detector"]: (one["state"], one["reason"]) for one in gated["detections"]}
    assert states["collapse"] == ("not_observable", "only a summary was imported: there is no series to look at")
    first_screen = html.unescape((page / "index.md").read_text(encoding="utf-8").partition("## Claims")[0])
    whole = html.unescape((page / "index.md").read_text(encoding="utf-8"))
    assert "No curve was drawn: only summaries were imported" in whole
    assert "truncated share 0.95" in first_screen and "zero-signal share 0.53" in first_screen
