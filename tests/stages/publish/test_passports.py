"""Numbers, verdicts and figures have passports, written once: for the script of the pages, for `octavo trace`, and for programs."""

import html
import json
import re
from pathlib import Path
from typing import Any

from example_experiment import HOSTILE, build

from stages.contracts.artifact import read, write
from stages.contracts.figure import Figure, Mark
from stages.contracts.files import file_digest
from stages.contracts.finding import Findings, Source
from stages.contracts.layout import ExperimentFolder
from stages.publish.experiment import load
from stages.publish.page import page
from stages.publish.passports import finding_of, read_passports
from stages.publish.text import reveal_hidden


def written(folder: Path) -> dict[str, Any]:
    page(folder)
    return read_passports(folder / "page/passports.js")


def test_every_link_of_the_page_has_a_passport_and_every_passport_a_link(project: Path) -> None:
    folder = build(project)
    content = written(folder)
    text = (folder / "page/index.md").read_text(encoding="utf-8")
    links = {html.unescape(link) for link in re.findall(r'<a class="fact[^"]*" href="numbers.html[^"]*" data-finding="([^"]*)"', text)}
    assert links == set(content["passports"]) and len(links) > 100
    named = {seed["run"] for entry in content["passports"].values() for seed in entry.get("seeds", ())}
    named |= {run for entry in content["passports"].values() for part in entry.get("behind", ()) for run in part["runs"]}
    assert named <= set(content["records"]) and len(content["records"]) >= 12


def test_programs_get_the_finding_in_full_precision(project: Path) -> None:
    folder = build(project)
    content, findings = written(folder), load(folder).findings
    lines = (folder / "page/passports.js").read_text(encoding="utf-8").splitlines()
    assert (lines[0], lines[-1]) == ("octavo.passports(", ")") and json.loads("\n".join(lines[1:-1])) == content
    for id_, entry in content["passports"].items():
        if id_ in findings:
            assert finding_of(entry) == findings[id_].model_copy(update={"seeds": (), "sources": ()})
            assert [(s["run"], s["value"], s["included"]) for s in entry.get("seeds", ())] == [
                (s.run, s.value, s.included) for s in findings[id_].seeds
            ]
    digests = {file["path"]: file["sha256"] for record in content["records"].values() for file in record["files"]}
    shown = [source for id_ in content["passports"] if id_ in findings for source in findings[id_].sources]
    assert all(digests[source.path] == source.sha256 for source in shown)


def test_text_from_outside_ends_no_script_and_hides_nothing(project: Path) -> None:
    folder = build(project)
    path = ExperimentFolder(folder).findings
    findings = read(Findings, path)
    write(path, findings.model_copy(update={"findings": tuple(f.model_copy(update={"says": HOSTILE}) for f in findings.findings)}))
    content = written(folder)
    text = (folder / "page/passports.js").read_text(encoding="utf-8")
    assert "<" not in text and text.isascii()
    content_text = json.dumps(content, ensure_ascii=False)
    assert (
        content["passports"]["shaped/reward/final"]["says"] == reveal_hidden(HOSTILE)
        and "\u202e" not in content_text
        and "\\u0000" not in content_text
    )


def test_a_figure_leads_to_its_numbers_files_and_table(project: Path) -> None:
    folder = ExperimentFolder(build(project))
    figure = read(Figure, folder.figures / "reward.json")
    histories = [folder.run(name).history for name in ("shaped-s1", "shaped-s2")]
    sources = tuple(Source(path=path.as_posix(), sha256=file_digest(path), attempt=None) for path in histories)
    mark = Mark(run="shaped-s1", kind="stopped", first=3, last=3, says="shaped-s1: stopped at step 3")
    write(folder.figures / "reward.json", figure.model_copy(update={"sources": sources, "marks": (mark,)}))
    entry = written(folder.root)["passports"]["figure/reward"]
    assert entry["says"] == "Reward rises from 0.62 to 0.87." and ["marked", "shaped-s1: stopped at step 3"] in entry["rows"]
    assert [id_ for id_, _ in entry["numbers"]] == ["shaped/reward/final"] and entry["numbers"][0][1].startswith("0.87")
    assert entry["behind"] == [{"files": "history.parquet", "runs": ["shaped-s1", "shaped-s2"]}]
    assert ["table", "figures/reward.csv"] in entry["links"]
    assert ["drawn by", "dvc repro --force --single-item runs/quickstart/dvc.yaml:draw"] in entry["rows"]
    assert entry["values"]["files"] == {name: file_digest(folder.page / "figures" / name) for name in ("reward.svg", "reward.csv")}


def test_a_verdict_leads_to_its_rule_its_number_and_its_seeds(project: Path) -> None:
    content = written(build(project))
    entry = content["passports"]["verdict/shaped-teaches"]
    rows = dict(map(tuple, entry["rows"]))
    assert (entry["printed"], rows["why"]) == ("Supported", "The whole interval lies above the margin 0.05.")
    assert "(evaluation.tests.pass_share), final, shaped minus zero, above 0.05, 3 seeds a condition" in rows["rule"]
    assert entry["numbers"] == [["shaped-vs-zero/evaluation.tests.pass_share/difference", "+0.36 [+0.30, +0.42]"]]
    assert "shaped-s1" in {seed["run"] for seed in entry["seeds"]} and entry["spec"] == ["specs/quickstart.yaml:10:5 claim shaped-teaches"]
    assert entry["values"]["verdict"]["verdict"] == "supported" and 0.05 in entry["values"]["rule"].values()
    void = content["passports"]["verdict/inverted-lengthens"]
    assert void["printed"] == "Void" and "numbers" not in void and "rule" in dict(map(tuple, void["rows"]))
