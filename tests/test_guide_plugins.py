"""The gate and the detector that the guide shows are whole files that do what the guide says."""

import importlib
import re
import types
from pathlib import Path

import pandas as pd
import pytest

from stages.analyse.frames import Run
from stages.analyse.signals import ask
from stages.contracts.plugin import Answer
from tests.attribute_texts import attribute_texts

GUIDE = Path(__file__).parents[1] / "site/docs/guide"


def shown(page: str, name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """The Python file of a page, as a module."""
    (code,) = re.findall(r"^```python\n(.*?)^```", (GUIDE / page).read_text(encoding="utf-8"), re.S | re.M)
    (folder / f"{name}.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(folder)
    return importlib.import_module(name)


def test_the_gate_judges_endings_and_never_raises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = shown("add-a-gate.md", "ends_with", tmp_path, monkeypatch)
    settings = gate.Settings(ending=")")
    judgements = gate.judge(settings, [Answer("(x)", {}), Answer("(x", {}), Answer("", {}), Answer("\x00\u202e)", {"row": None})])
    assert [(judgement.status, judgement.score) for judgement in judgements] == [("pass", 1.0), ("fail", 0.0), ("fail", 0.0), ("pass", 1.0)]
    with pytest.raises(ValueError, match="ending"):
        gate.Settings(ending="")


def test_the_detector_warns_below_its_threshold_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    detector = shown("add-a-detector.md", "short_answers", tmp_path, monkeypatch)

    def detected(*lengths: float) -> object:
        steps = pd.DataFrame({"completion_tokens": lengths} if lengths else {}, index=range(1, len(lengths) + 1))
        return ask("short_answers", detector, {}, Run("a-s1", "a", "treatment", 40, steps))

    quiet, loud, blind = detected(*[2.0] * 10, *[3.0] * 10), detected(*[9.0] * 10, *[2.9] * 10), detected()
    assert (quiet.state, quiet.signals) == ("looked", ())
    [signal] = loud.signals
    assert (signal.severity, signal.last, signal.says) == (
        "warning",
        20,
        "completions had 2.9 tokens on average in the last 10 steps, fewer than 3",
    )
    assert (blind.state, blind.reason) == ("not_observable", "completion_tokens was not logged")
    for name, field in detector.Settings.model_fields.items():
        assert attribute_texts(detector.Settings)[name] and {"unit", "source"} <= set(field.json_schema_extra)
