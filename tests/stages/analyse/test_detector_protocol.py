"""Every detector keeps its protocol and is documented; a new one is one file."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import numpy as np
import pytest
from detectors_reference import ALARMS, PAGE, page
from healthy import alarms, healthy
from pydantic import ValidationError
from run_from import ask, run_from

from compiler.language.health_profiles import PROFILES, detectors
from stages.contracts.artifact import Frozen, canonical_json
from stages.contracts.health import Detection
from stages.contracts.plugin import DETECTORS, kinds, load
from stages.contracts.wilson import wilson
from tests.attribute_texts import attribute_texts

KINDS = kinds(DETECTORS)
EMPTY = run_from({})
ALLOWED = ("stages.contracts", "stages.rules", "stages.analyse.signals")
"""What a detector imports when it is imported: the compiler reads its settings, and pandas is not to be paid for then."""


def test_the_detectors_of_this_version() -> None:
    assert [
        *("atoms", "collapse", "degenerate", "duplicates", "entropy_change", "gradient", "kl_reference", "kl_sign", "nonfinite"),
        *("resume_faults", "spikes", "throughput", "true_objective", "truncation", "update_size", "value_fit", "zero_signal"),
    ] == KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_settings_are_closed_frozen_and_say_unit_and_source(kind: str) -> None:
    settings = load(DETECTORS, kind).Settings
    assert issubclass(settings, Frozen)
    with pytest.raises(ValidationError):
        settings.model_validate({"no_such_setting": 1})
    for name, field in settings.model_fields.items():
        assert attribute_texts(settings)[name]
        assert set(field.json_schema_extra) == {"unit", "source"}, name


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_logged_is_not_observable_and_never_healthy(kind: str) -> None:
    detection = ask(load(DETECTORS, kind), EMPTY)
    assert isinstance(detection, Detection)
    assert (detection.detector, detection.state, detection.signals) == (kind, "not_observable", ())
    assert detection.reason
    assert canonical_json(detection.model_dump(mode="json"))


@pytest.mark.parametrize("kind", KINDS)
def test_detectors_import_neither_pandas_nor_other_detectors(kind: str) -> None:
    tree = ast.parse(Path(load(DETECTORS, kind).__file__ or "").read_text(encoding="utf-8"))
    names = {node.module or "" for node in tree.body if isinstance(node, ast.ImportFrom)}
    names |= {alias.name for node in tree.body if isinstance(node, ast.Import) for alias in node.names}
    for name in names:
        assert name.startswith(ALLOWED) or name.split(".")[0] in sys.stdlib_module_names, name


@pytest.mark.parametrize("profile", sorted(PROFILES))
def test_healthy_runs_raise_no_alarm(profile: str) -> None:
    """A small part of benchmarks/false_alarms.py, whose rates the reference page states: each of these seeds is quiet."""
    for index in range(6):
        run = healthy(np.random.default_rng([index, 7]), profile == "ppo-default")
        for card in detectors(profile):
            detection = ask(load(DETECTORS, card.kind), run, **card.settings)
            assert [s.says for s in detection.signals if s.severity != "info"] == [], (card.kind, index)
            assert detection.state == "looked" or card.kind == "update_size", (card.kind, detection.reason)


def test_the_stated_false_alarm_rates_hold() -> None:
    """The first 60 of the 1000 runs a profile whose alarms the reference page states: no more, at a rate that allows it."""
    detection = alarms(60)
    assert set(detection) == set(ALARMS) == set(KINDS)
    for kind, (k, n) in detection.items():
        stated, looked = ALARMS[kind]
        low, high = wilson(k, n, 0.99)
        assert n and k <= stated and low <= stated / looked <= high, (kind, k, n)


def test_the_reference_page_is_made_from_the_detectors() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python tests/stages/analyse/detectors_reference.py"
