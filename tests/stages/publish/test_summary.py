import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from example_experiment import build

from stages.contracts.health import Signal
from stages.publish.anomalies import Anomaly
from stages.publish.claims import ClaimView, claim_views
from stages.publish.experiment import RunFiles, load
from stages.publish.facts import Facts
from stages.publish.header import answer, banners


def claims(*verdicts: str) -> tuple[ClaimView, ...]:
    fields: dict[str, Any] = dict.fromkeys(ClaimView.__dataclass_fields__, "")
    return tuple(ClaimView(**{**fields, "decided": SimpleNamespace(verdict=verdict)}) for verdict in verdicts)


@pytest.mark.parametrize(
    ("verdicts", "said"),
    [
        ((), "No claim was declared, so nothing is decided."),
        (("void",), "The one declared claim is void."),
        (("supported", "supported"), "Both declared claims are supported."),
        (("refuted",) * 3, "All three declared claims are refuted."),
        (("void", "supported"), "Of two declared claims, one is supported and one is void."),
        (("supported", "inconclusive", "void"), "Of three declared claims, one is supported, one is inconclusive and one is void."),
        (("void", "supported", "void", "supported"), "Of four declared claims, two are supported and two are void."),
    ],
)
def test_the_answer_reads_as_a_sentence(verdicts: tuple[str, ...], said: str) -> None:
    assert answer(claims(*verdicts)) == said


def test_a_warning_is_said_in_plain_words() -> None:
    seen = Signal(detector="zero_signal", metric="zero_signal_share", severity="severe", says="", onset=21)
    found = Anomaly("inverted", (("inverted-s1", seen), ("inverted-s2", seen)), 3, None)
    assert found.phrase == "groups lose their reward signal in 2 of 3 runs (step 21)"


def test_rules_that_are_younger_than_the_data_are_said_before_the_first_number(project: Path) -> None:
    experiment = load(build(project))
    views = claim_views(experiment, Facts(experiment.findings))
    assert "Rules changed" not in str(banners(experiment, views))
    late = tuple(dataclasses.replace(view, late=index == 0, written="2026-11-28, after the first data") for index, view in enumerate(views))
    found = [banner for banner in banners(experiment, late) if "Rules" in banner.title]
    assert [(banner.tone, banner.title, banner.text) for banner in found] == [
        ("hole", "Rules changed after the data: 1 claim", "shaped-teaches: 2026-11-28, after the first data.")
    ]


def test_failed_runs_are_told_by_what_failed_and_what_helps(project: Path) -> None:
    experiment = load(build(project, hostile="x" * 300))
    [failed] = [banner for banner in banners(experiment) if banner.title.startswith("Failed")]
    assert failed.title == "Failed runs: 1 of 12"
    assert failed.text == f"Verifier (random-s2): the sandbox died {'x' * 183} \u2026"

    def broken(run: RunFiles) -> RunFiles:
        assert run.outcome
        said = {"finished": False, "failure": "out_of_memory", "error": "CUDA out of memory."}
        return dataclasses.replace(run, outcome=run.outcome.model_copy(update=said))

    all_of_them = dataclasses.replace(experiment, runs=tuple(map(broken, experiment.runs)))
    [failed] = [banner for banner in banners(all_of_them) if banner.title.startswith("Failed")]
    assert failed.text.startswith("Out of memory (all runs): CUDA out of memory. What helps: a smaller `per_device_train_batch_size`")


def test_missing_runs_are_told_with_the_command_that_runs_them(project: Path) -> None:
    experiment = load(build(project))
    gone = dataclasses.replace(experiment.runs[0], outcome=None, attempts=())
    found = banners(dataclasses.replace(experiment, runs=(gone, *experiment.runs[1:])))
    [missing] = [banner for banner in found if banner.title.startswith("Missing")]
    assert (missing.tone, missing.title) == ("hole", "Missing runs: 1 of 12")
    assert missing.text == "shaped-s1. No attempt has ended; dvc repro runs/quickstart/dvc.yaml runs them."
