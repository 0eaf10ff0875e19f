"""`octavo verify` on a real experiment: nothing to say of what was just made, and a word for each thing that was changed since."""

import contextlib
import io
import os
import random
import re
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from compiler.build.inputs import Inputs
from compiler.commands.verify import diagnostics, text, verify
from compiler.problems import Rejected

pytestmark = pytest.mark.e2e
SITE = "build/site/experiments/small"
PUBLISHED = ("runs/small/page/", "runs/small/analysis/figures/", "runs/small/analysis/findings.json", "health.json")
LOCKS = ("dvc.lock", "runs/small/dvc.lock", "runs/_models/small/dvc.lock")
SCRIPT = b"<script>window.hacked=1</script>"


def verified(project, *names):
    """The report, and its differences as (code, path, cell, expected, found)."""
    with contextlib.chdir(project.root):
        verification = verify(names, Inputs())
    differences = [each for experiment in verification.experiments for each in experiment.differences]
    return verification, [(each.code, each.path, each.cell, each.expected, each.found) for each in differences]


def unnamed(project, files, *names):
    """Those of the files that no difference names, as its path or as the part of a lock."""
    _, differences = verified(project, *names)
    named = {path for _, path, *_ in differences} | {word for _, _, cell, *_ in differences for word in cell.split()}
    return sorted(set(files) - named)


def change(project, path, edit):
    """Change a file as an editor does: DVC's cache may be linked to it."""
    place = project.root / path
    old = place.read_bytes()
    place.unlink()
    place.write_bytes(edit(old))
    assert place.read_bytes() != old, path


def one_digit(chance):
    """A change of one random digit of a text, and of one bit of anything else."""

    def edit(old):
        digits = [match.start() for match in re.finditer(rb"\d", old)] if b"\0" not in old else []
        at = chance.choice(digits or range(len(old)))
        return old[:at] + (b"%d" % ((int(old[at : at + 1]) + 1) % 10) if digits else bytes([old[at] ^ 1])) + old[at + 1 :]

    return edit


def files_of(project):
    """All that verify answers for: results, cards, pipelines, locks, the data that was used and the site."""
    kept = ("dvc.yaml", "dvc.lock", "data/quickstart/train.jsonl")
    places = [path for folder in ("runs", "build/site") for path in (project.root / folder).rglob("*") if path.is_file()]
    return sorted({path.relative_to(project.root).as_posix() for path in places if path.name != ".gitignore"} | set(kept))


def group(files, name):
    published = [file for file in files if file.startswith(PUBLISHED[:3]) or file.endswith(PUBLISHED[3])]
    site = [file for file in files if file.startswith("build/site/")]
    groups = {"site": site, "published": published, "locks": LOCKS}
    return groups.get(name) or [file for file in files if file not in {*site, *published, *LOCKS}]


@pytest.mark.parametrize("name", ["site", "published", "inputs", "locks"])
def test_one_digit_of_every_file_is_named(project, name):
    """Seeded: another digit of each file in each run of the tests would be no test that fails twice."""
    files = group(files_of(project), name)
    assert len(files) > {"site": 100, "published": 70, "inputs": 50, "locks": 2}[name], "all kinds of files are there"
    for file in files:
        change(project, file, one_digit(random.Random(file)))
    assert unnamed(project, files) == []


def test_what_was_added_removed_renamed_or_linked_is_named(project):
    site, runs = project.root / "build/site", project.root / "runs/small"
    pages = [file for file in files_of(project) if file.startswith("build/site/") and file.endswith(".html")]
    for page in pages:
        change(project, page, lambda old: old.replace(b"</head>", SCRIPT + b"</head>", 1))
    folders = [site, *(path for path in site.rglob("*") if path.is_dir()), runs, *(path for path in runs.iterdir() if path.is_dir())]
    added = [(folder / "added.html").relative_to(project.root).as_posix() for folder in folders]
    for file in added:
        (project.root / file).write_bytes(SCRIPT)
    (project.root / "runs/other/page").mkdir(parents=True)
    shutil.copytree(runs / "page", project.root / "runs/other/page", dirs_exist_ok=True)
    (site / "linked.html").symlink_to(site / "index.html")
    endless = {"runs/small/page/dangling": "nowhere", "runs/small/zero-s1/dangling": "nowhere", "runs/small/zero-s1/around": ".."}
    for file, target in endless.items():
        (project.root / file).symlink_to(target)
    os.mkfifo(site / "pipe.html")
    gone = ["build/site/search/search_index.json", "runs/small/zero-s1/completions.parquet", "runs/small/zero-s1/health.json"]
    for file in gone:
        (project.root / file).unlink()
    (runs / "zero-s2/evaluation.parquet").rename(runs / "zero-s2/evaluation2.parquet")
    (site / "errors.html").rename(site / "errors2.html")
    renamed = ["runs/small/zero-s2/evaluation.parquet", "runs/small/zero-s2/evaluation2.parquet", "build/site/errors2.html"]
    assert (
        unnamed(project, [*pages, *added, "runs/other/page", "build/site/linked.html", "build/site/pipe.html", *endless, *gone, *renamed])
        == []
    )


def digit(text, after):
    """The text with the last digit of the first number after `after` changed; (text, number before, number after)."""
    at = text.index(after) + len(after)
    number = re.search(r"\d+\.\d+|\d+(?=%|&#37;)", text[at:])
    start, end = at + number.start(), at + number.end()
    changed = [text[start : end - 1] + last for last in "123456789" if last != text[end - 1]]
    other = next(digits for digits in changed if end - start < 15 or repr(float(digits)) == digits)  # a number that a float keeps
    return text[:start] + other + text[end:], text[start:end], other


def test_what_was_just_made_is_verified(built):
    verification, differences = verified(built)
    experiment, site = verification.experiments
    assert differences == [] and experiment.checked["runs"] == 6 and experiment.checked["findings computed again"] > 50
    assert site.checked["files of the site"] > 10
    assert text(verification).startswith("small: verified\n") and "DIFFER" not in text(verification)


def test_one_changed_digit_in_each_published_form_is_named_with_its_place_and_both_values(project):
    finding = "shaped-vs-zero/evaluation.tests.pass_share/final"
    places = {
        "runs/small/page/index.md": f'data-finding="{finding}"',
        f"{SITE}/index.html": 'data-finding="untrained/evaluation.tests.pass_share/final"',
        "runs/small/analysis/findings.json": '"id": "shaped/reward/final"',
        "runs/small/analysis/figures/curves-reward.csv": "shaped-s1,1,1,",
        "runs/small/page/passports.js": f'"{finding}": {{',
    }
    changes = {path: digit((project.root / path).read_text(), after) for path, after in places.items()}
    for path, (content, _, _) in changes.items():
        change(project, path, lambda _, content=content: content.encode())
    verification, differences = verified(project, "small")
    assert {code for code, *_ in differences} == {"E487", "S488", "S489", "S495"}
    named = {path: (cell, expected, now) for code, path, cell, expected, now in differences if code in ("S488", "S489")}
    assert set(named) == set(changes)
    for path, (_, before, now) in changes.items():
        assert before in named[path][1] and now in named[path][2], path
    assert named["runs/small/page/index.md"][0] == finding
    assert named[f"{SITE}/index.html"][0] == "untrained/evaluation.tests.pass_share/final"
    assert named["runs/small/analysis/findings.json"][0].startswith("findings[shaped/reward/final].")
    assert named["runs/small/analysis/figures/curves-reward.csv"][0].startswith("row 2, column ")
    locked = {cell for code, _, cell, *_ in differences if code == "E487"}
    assert locked == {path for path in changes if not path.startswith("build/")}
    assert re.search(rf"{SITE}/index.html:\d+:\d+: S489 .*expected .*, found ", diagnostics(verification, False))


def test_one_value_in_a_history_is_named_with_what_rests_on_it(project):
    def edit(content):
        table = pq.read_table(io.BytesIO(content))
        rows = table.to_pylist()
        next(row for row in rows if (row["metric"], row["step"]) == ("reward", 4))["value"] += 0.01
        changed = io.BytesIO()
        pq.write_table(pa.Table.from_pylist(rows, table.schema), changed)
        return changed.getvalue()

    history = "runs/small/shaped-s2/history.parquet"
    change(project, history, edit)
    _, differences = verified(project, "small")
    assert differences[0][:3] == ("E487", "runs/small/dvc.lock", history)
    assert ("S495", history) in {(code, path) for code, path, *_ in differences}
    cells = [cell for code, path, cell, *_ in differences if path == "runs/small/analysis/findings.json"]
    assert any(cell.startswith(("findings[shaped-s2/reward/final].", "findings[shaped/reward/final].")) for cell in cells)


def test_adapter_lock_card_and_ledger_are_named_apart(project):
    """A byte, a line, a threshold and a step. The lock's record of the changed card is named too."""
    adapter, card = "runs/small/zero-s1/adapter/adapter_model.safetensors", "runs/small/analysis/conclude.card.json"
    ledger, data = "runs/small/zero-s3/attempts.jsonl", "data/quickstart/train.jsonl"
    change(project, adapter, lambda old: old[:-3] + bytes([old[-3] ^ 1]) + old[-2:])
    change(project, card, lambda old: old.replace(b'"above": 0.05', b'"above": 0.06'))
    change(project, ledger, lambda old: re.sub(rb'("last_step": ?)4', rb"\g<1>3", old))
    change(project, "runs/small/dvc.lock", lambda old: re.sub(rb"(train.jsonl\n.*\n.*\n      size: )\d", rb"\g<1>8", old, count=1))
    _, differences = verified(project, "small")
    assert ("E402", card, "claims[shaped-teaches].above", "0.05", "0.06") in differences
    assert {cell for code, _, cell, *_ in differences if code == "E487"} == {adapter, card, f"preflight deps {data} size"}
    assert ("S495", ledger, "last_step", "4", "3") in [(c, p, cell.rpartition(".")[2], e, f) for c, p, cell, e, f in differences]


def test_what_was_compiled_anew_is_due_once_and_real_differences_stand_beside_it(project):
    """A margin: conclude and all after it are due, trained files are held against their locks as ever."""
    project.edit("above: 0.05", "above: 0.04")
    project.octavo("compile")
    history = "runs/small/zero-s1/history.parquet"
    change(project, history, lambda old: old + b"x")
    verification, differences = verified(project, "small")
    experiment = verification.experiments[0]
    assert [(code, cell) for code, _, cell, *_ in differences if code != "S495"] == [
        ("E487", history),
        ("S102", "stages.analyse.screen"),
        ("E410", "conclude"),
        ("E410", "draw"),
        ("E410", "page"),
    ]
    due = next(difference for difference in experiment.differences if difference.code == "E410")
    assert due.what == "conclude is due: runs/small/analysis/conclude.card.json was compiled anew since it ran"
    assert due.fix == "dvc repro runs/small/dvc.yaml"
    assert "not computed again, for it follows what is due: conclude, draw, page" in experiment.notes
    assert "findings computed again" not in experiment.checked
    assert "\n  due     conclude: runs/small/analysis/conclude.card.json was compiled anew since it ran\n" in text(verification)
    shown = diagnostics(verification, False)
    assert "E410 runs/small/dvc.lock: 3 stages are due: conclude, draw, page\n" in shown and shown.count("E410") == 1


def test_a_page_that_is_gone_is_one_thing_and_no_fault_of_octavo(project):
    shutil.rmtree(project.root / "runs/small/page")
    _, differences = verified(project, "small")
    assert [(code, path, cell) for code, path, cell, *_ in differences] == [
        ("E487", "runs/small/dvc.lock", "page outs runs/small/page"),
        ("S488", "runs/small/page", ""),
    ]
    assert "put back by DVC" in project.octavo("plan", "small")
    project.repro("runs/small/dvc.yaml")
    assert verified(project, "small")[1] == []


def test_an_experiment_that_was_never_run_and_one_that_is_none(project):
    spec = (project.root / "specs/small.yaml").read_text()
    (project.root / "specs/other.yaml").write_text(spec.replace("title: Small", "title: Other"))
    project.octavo("compile", "other")
    verification, differences = verified(project, "other")
    assert ("E494", "runs/other") in {(code, path) for code, path, *_ in differences}
    assert "fix: dvc repro runs/other/dvc.yaml" in diagnostics(verification, False)
    with pytest.raises(Rejected):
        verified(project, "smal")


def test_a_stage_that_refuses_is_shown_in_its_own_words(project):
    """The one test of the command itself."""
    change(project, "runs/small/zero-s1/outcome.json", lambda old: old.replace(b'"steps_done": 4', b'"steps_done": "four"'))
    output = project.octavo("verify", "small", ok=False)
    assert re.search(r"runs/small/dvc.lock:\d+:12: E487 runs/small/zero-s1/outcome.json is not the file that train-zero-s1, ", output)
    assert "S102" in output and "steps_done" in output and "Traceback" not in output
    assert "findings" in Path(project.root / "runs/small/analysis/findings.json").read_text()
