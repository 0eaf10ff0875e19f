import pytest

from stages.contracts.history import METRICS, metric
from stages.contracts.plugin import DETECTORS, GATES, Judgement, kinds, load


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("reward", "reward"),
        ("entropy", "nats per token"),
        ("gate.tests.pass_share", "share"),
        ("gate.my-gate.seconds", "s"),
        ("penalty.runaway.share", "share"),
        ("evaluation.tests.pass_share", "share"),
        ("evaluation.tests.score", "score"),
    ],
)
def test_known_metrics_have_units(name, unit):
    assert metric(name).unit == unit


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


def test_shares_are_marked():
    shares = {"zero_signal_share", "unknown_share", "truncated", "policy.clipfrac", "value.clipfrac", "mean_token_accuracy"}
    assert {name for name, found in METRICS.items() if found.share} == shares


@pytest.mark.parametrize("status", ["pass", "fail"])
def test_a_decided_judgement_needs_a_score(status):
    with pytest.raises(ValueError):
        Judgement(status=status, score=None)


def test_unknown_is_never_a_number():
    with pytest.raises(ValueError):
        Judgement(status="unknown", score=0.0)


@pytest.mark.parametrize(("package", "function"), [(GATES, "judge"), (DETECTORS, "detect")])
def test_every_plug_in_keeps_its_protocol(package, function):
    assert kinds(package)
    for kind in kinds(package):
        module = load(package, kind)
        assert callable(getattr(module, function)), kind
        assert module.Settings.model_config["frozen"] and module.Settings.model_config["extra"] == "forbid", kind
        assert all(field.description for field in module.Settings.model_fields.values()), kind


def test_only_plug_ins_are_loaded():
    with pytest.raises(KeyError):
        load(GATES, "compose")
    with pytest.raises(KeyError):
        load(GATES, "..recorder")
