from pathlib import Path

import pytest

from compiler.language.presets import preset_metrics
from stages.contracts.history import TRL_NAMES, metric, metric_of_trl
from stages.contracts.plugin import DETECTORS, GATES, Judgement, kinds, load
from tests.attribute_texts import attribute_texts
from tests.compiler.preset_reference import rows as preset_rows

GUIDE = Path(__file__).parents[3] / "site/docs/guide/import-runs.md"


@pytest.mark.parametrize(
    "name",
    [
        "rewards",
        "gate.tests",
        "gate.tests.passshare",
        "evaluation.tests.seconds",
        "gate..pass_share",
        "penalty.runaway",
        "penalty.a.score",
        "",
    ],
)
def test_unknown_metrics_are_none(name):
    assert metric(name) is None


@pytest.mark.parametrize("status", ["pass", "fail"])
def test_a_decided_judgement_needs_a_score(status):
    with pytest.raises(ValueError):
        Judgement(status=status, score=None)


@pytest.mark.parametrize(("package", "function"), [(GATES, "judge"), (DETECTORS, "detect")])
def test_every_plug_in_keeps_its_protocol(package, function):
    assert kinds(package)
    for kind in kinds(package):
        module = load(package, kind)
        assert callable(getattr(module, function)), kind
        assert module.Settings.model_config["frozen"] and module.Settings.model_config["extra"] == "forbid", kind
        fields, texts = module.Settings.model_fields, attribute_texts(module.Settings)
        assert all(field.description or texts[name] for name, field in fields.items()), kind


def test_only_plug_ins_are_loaded():
    with pytest.raises(KeyError):
        load(GATES, "compose")
    with pytest.raises(KeyError):
        load(GATES, "..recorder")


def test_each_name_of_trl_is_a_metric_of_octavo_and_in_the_guide() -> None:
    guide = GUIDE.read_text(encoding="utf-8")
    assert "\n".join(preset_rows()) in guide, "python tests/compiler/preset_reference.py"
    assert "TRL's `rewards/<function>/mean` is `gate.<function>.score`" in guide
    assert all(name in preset_metrics("trl")[octavo].names for name, octavo in TRL_NAMES.items())


def test_a_name_of_trl_is_told_from_any_other() -> None:
    assert metric_of_trl("train/frac_reward_zero_std") == "zero_signal_share"
    assert metric_of_trl("rewards/Unit-Tests/mean") == "gate.unit_tests.score"
    assert metric_of_trl("rewards/Ä b/mean") == "gate.__b.score" and metric_of_trl("rewards//mean") is None
    assert all(metric(name) is not None for name in ("gate.unit_tests.score", "gate.__b.score"))
    assert metric_of_trl("num_tokens") is None and metric_of_trl("rewards/tests/std") is None
