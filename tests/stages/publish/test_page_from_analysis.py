"""The page of an experiment that the analysis stages themselves have worked out."""

import html
import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
from example_experiment import dress

from stages.analyse.conclude import conclude
from stages.analyse.draw import draw
from stages.analyse.screen import screen
from stages.contracts.analysis_card import ConcludeCard
from stages.contracts.artifact import read
from stages.contracts.finding import Findings
from stages.contracts.layout import ExperimentFolder
from stages.publish.page import page
from stages.publish.trace import trace


def synthetic() -> ModuleType:
    """`tests/stages/analyse/synthetic.py`, whose folder is not on the path here."""
    path = Path(__file__).parents[1] / "analyse" / "synthetic.py"
    spec = importlib.util.spec_from_file_location("synthetic", path)
    assert spec and spec.loader
    module = sys.modules.setdefault("synthetic", importlib.util.module_from_spec(spec))
    if not hasattr(module, "complete"):
        spec.loader.exec_module(module)
    return module


def analysed_in(root: Path) -> ExperimentFolder:
    """An experiment of 12 runs below a folder, analysed, with the rest that its page reads."""
    folder: ExperimentFolder = synthetic().complete(root)
    for stage in (screen, conclude, draw):
        stage(folder.root)
    dress(folder, read(ConcludeCard, folder.conclude_card))
    return folder


@pytest.fixture
def analysed(project: Path) -> ExperimentFolder:
    return analysed_in(project)


def test_verdicts_intervals_holes_and_figures_are_on_the_page(analysed: ExperimentFolder) -> None:
    page(analysed.root)
    text = (analysed.page / "index.md").read_text(encoding="utf-8")
    words = html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", text)))
    assert "+0.35 [+0.23, +0.46]" in words  # 0.85 - 0.50, Welch's interval on the logit scale
    assert "1 of 12 runs failed" in words and "1 of 12 runs does not count" in words
    assert text.count("<svg xmlns") == 5 + 1 + 4 and not re.search("<script|<style| style=", text)
    assert "11 of 13" in words  # one killed attempt

    of_each_kind = {(finding.statistic, finding.unit): finding for finding in read(Findings, analysed.findings).findings}
    for finding in of_each_kind.values():
        text = trace(analysed.root, finding.id)
        assert text.startswith(finding.id + "\n") and "CHANGED" not in text and "missing  " not in text, finding.id

    assert "88% of completions hit the length limit: the reward is judged on cut answers; raise max_completion_length" in words
    assert "To check: Do the texts stop in the middle of an answer" in words
