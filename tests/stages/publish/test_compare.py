"""Experiments side by side: what moved by the interval of the difference, settings, claims, curves; and verify with a family."""

import html
import json
import re
from pathlib import Path

import pytest
from example_experiment import build, copy_site, plain

from stages.analyse.compare import compare
from stages.analyse.statistics import estimate
from stages.contracts.artifact import read, write
from stages.contracts.comparison import Comparison, Row
from stages.contracts.evaluation import EvaluateCard
from stages.contracts.finding import Findings
from stages.contracts.layout import ExperimentFolder
from stages.contracts.model import DatasetRef, ModelRef
from stages.contracts.page_card import ChangeWords, ComparedWith, PageCard
from stages.contracts.reward import Gate
from stages.publish.page import page
from stages.publish.site import site
from stages.publish.verify import verify_site

SHARE = "shaped/evaluation.tests.pass_share/final"
GATES = tuple(Gate(name=name, kind="format", settings={}) for name in ("format", "tests"))
EVALUATE = EvaluateCard(
    experiment="",
    model=ModelRef(base="m", path="m", revision="r"),
    data=DatasetRef(path="data/train.jsonl", sha256="0"),
    scores=GATES,
    max_completion_length=8,
    device="cpu",
    versions={},
    code={},
)
RATE = ChangeWords(key="train.learning_rate", before="1e-3", after="1e-4 <b>")


def publish(
    project: Path, name: str, parent: str | None, *, values: tuple[float, ...] = (), profile: str | None = None, **card: object
) -> None:
    """An experiment with its page; `values`: the three seeds of SHARE."""
    folder = ExperimentFolder(build(project, name=name, profile=profile))
    words = {"parent": parent, "changes": (RATE,) if parent else (), "hypothesis": "less drift", **card}
    write(folder.page_card, read(PageCard, folder.page_card).model_copy(update=words))
    write(folder.evaluate_card, EVALUATE.model_copy(update={"experiment": name}))
    for path in folder.root.glob("*/train.card.json") if parent else ():
        path.write_text(path.read_text().replace('"max_steps": 60', '"max_steps": 61'))
    if values:
        findings = read(Findings, folder.findings)
        changed = []
        for finding in findings.findings:
            if finding.id == SHARE:
                seeds = tuple(seed.model_copy(update={"value": value}) for seed, value in zip(finding.seeds, values, strict=True))
                finding = finding.model_copy(update={"seeds": seeds, "value": sum(values) / 3})
            changed.append(finding)
        write(folder.findings, findings.model_copy(update={"findings": tuple(changed)}))
    curves = folder.figures / "curves-reward.csv"
    rows = [f"reward,reward,{run},{run}-s1,1,{step},{step / 10},value,true,0" for run in ("shaped", "zero") for step in (1, 2, 3)]
    curves.write_text("\n".join(["metric,unit,condition,run,seed,step,value,state,counts,part", *rows]) + "\n")
    page(folder.root)


def rows_of(name: str, other: str) -> dict[str, Row]:
    comparison = read(Comparison, Path("build/comparisons") / name / other / "comparison.json")
    return {f"{row.condition}/{row.metric}": row for row in comparison.rows}


def text_of(project: Path, name: str, file: str = "index.html") -> str:
    return (project / f"build/site/experiments/{name}/{file}").read_text(encoding="utf-8")


def test_what_moved_is_decided_by_the_interval_of_the_difference(project: Path) -> None:
    """Welch decides, and equal numbers are not counted."""
    copy_site(project)
    before, after = (0.50, 0.54, 0.58), (0.62, 0.66, 0.70)  # the two t intervals overlap
    publish(project, "first", None, values=before)
    publish(project, "better", "first", values=after)
    publish(project, "worse", "first", values=(0.30, 0.31, 0.32))
    publish(project, "unclear", "first", values=(0.50, 0.60, 0.70))
    compare(Path("runs"))
    row = rows_of("better", "first")[SHARE.rpartition("/")[0]]
    welch = estimate([after, before], 0.95, bounds=(-1.0, 1.0))  # as a claim's; scipy's is in test_verdicts.py
    assert (row.difference.low, row.difference.high) == (
        pytest.approx(welch.low),
        pytest.approx(welch.high),
    ) and row.difference.value == pytest.approx(0.12)
    assert {seed.run for seed in row.difference.seeds} >= {"shaped-s1", "first:shaped-s1"}
    assert {source.path.split("/")[1] for source in row.difference.sources} == {"better", "first"}
    moved = {name: rows_of(name, "first")["shaped/evaluation.tests.pass_share"].moved for name in ("better", "worse", "unclear")}
    assert moved == {"better": "gained", "worse": "lost", "unclear": "undecided"}
    assert rows_of("worse", "first")["untrained/evaluation.tests.pass_share"].moved == "same"
    site(Path("runs"))
    text = text_of(project, "worse", "compare-first.html")
    words = plain(text)
    assert re.search(r"From first to worse: 0 gained, 1 lost, \d+ undecided", words)
    assert "lost: share that passes tests, shared evaluation of shaped, 0.54 → 0.31 , −0.23 [−0.32, −0.14]" in words
    assert "1e-4 <b>" in html.unescape(words) and "<b>1e-4" not in text and "<title>worse beside first - octavo</title>" in text
    assert (
        f'data-finding="shaped-vs-first:{SHARE}"' in html.unescape(text)
        and f'"shaped-vs-first:{SHARE}"' in text.split("octavo-passports")[1]
    )
    files = project / "build/site/experiments/worse/comparisons/first"
    assert 'id="figure-curves-reward" data-plot="comparisons/first/curves-reward.js"' in text and (files / "curves-reward.csv").exists()
    script = re.fullmatch(r"octavo\.figure\((.*)\);\n", (files / "curves-reward.js").read_text())
    plot = json.loads(script[1]) if script else {}
    assert plot["panels"] == [["first shaped", "worse shaped"], ["first zero", "worse zero"]] and plot["titles"] == ["shaped", "zero"]
    assert [(line["name"], line["colour"], line["values"]) for line in plot["lines"][:3:2]] == [
        ("first shaped-s1", 0, [0.1, 0.2, 0.3]),
        ("worse shaped-s1", 1, [0.1, 0.2, 0.3]),
    ]
    assert (files / "curves-reward.svg").read_text().startswith("<svg ")


def test_direction_is_that_of_a_claim_or_not_known(project: Path) -> None:
    """The example's claims want more of tests from `shaped`; nobody says whether a longer completion is better."""
    publish(project, "first", None, values=(0.50, 0.51, 0.52))
    publish(project, "second", "first", values=(0.80, 0.81, 0.82))
    compare(Path("runs"))
    rows = rows_of("second", "first")
    assert (rows["shaped/evaluation.tests.pass_share"].better, rows["shaped/evaluation.tests.pass_share"].moved) == ("higher", "gained")
    assert rows["shaped/truncated"].better == "lower"


def test_pages_of_any_pair_and_of_the_family_are_linked(project: Path) -> None:
    """A profile is compared with the parent's profile; `compare` names an experiment that is no parent."""
    copy_site(project)
    publish(project, "first", None)
    publish(project, "second", "first")
    publish(project, "alone", None, compared=(ComparedWith(experiment="second", changes=()), ComparedWith(experiment="gone", changes=())))
    publish(project, "first@smoke", None, profile="smoke")
    publish(project, "second@smoke", "first", profile="smoke")
    compare(Path("runs"))
    site(Path("runs"))
    folder = Path("build/comparisons")
    pairs = sorted(path.relative_to(folder).parent.as_posix() for path in folder.glob("*/*/comparison.json"))
    assert pairs == ["alone/second", "second/first", "second@smoke/first@smoke"]
    assert 'href="compare-first.html"' in text_of(project, "second") and 'href="../alone/compare-second.html"' in text_of(project, "second")
    assert 'href="../second/compare-first.html"' in text_of(project, "first")
    for name in ("first", "second"):
        assert 'href="../first/family.html"' in text_of(project, name)
    assert "family.html" not in text_of(project, "alone") and "octavo: compare" not in text_of(project, "alone")
    home = (project / "build/site/index.html").read_text(encoding="utf-8")
    assert 'href="experiments/first/family.html"' in home and 'href="experiments/second/compare-first.html"' in home
    family = text_of(project, "first", "family.html")
    assert "train.learning_rate 1e-3 → 1e-4 <b>" in plain(family) and re.search(r"0 gained, 0 lost, \d+ undecided", plain(family))
    assert "2 experiments: first and 1 change of it." in plain(family) and "<b>1e-4 <b>" not in family


def test_verify_holds_for_a_family(project: Path) -> None:
    """The built site is what its pages give, with comparisons that are computed again; a number that was edited in one is a difference."""
    copy_site(project)
    publish(project, "first", None, values=(0.50, 0.51, 0.52))
    publish(project, "second", "first", values=(0.80, 0.81, 0.82))
    compare(Path("runs"))
    site(Path("runs"))
    verified = verify_site({}, due=set())
    assert verified is not None and verified.differences == ()
    place = project / "build/site/experiments/second/compare-first.html"
    place.write_text(place.read_text().replace("0.81", "0.91"))
    verified = verify_site({}, due=set())
    assert verified is not None and [difference.path for difference in verified.differences] == [place.relative_to(project).as_posix()]
