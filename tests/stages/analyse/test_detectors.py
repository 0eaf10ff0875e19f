"""Every detector on both sides of its thresholds (`detector_cases.yaml`), on series that no healthy run has, and on healthy runs."""

from __future__ import annotations

import ast
import math
import random
import re
import string
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from detectors_reference import ALARMS, PAGE, page
from healthy import WORDS, alarms, healthy
from pydantic import ValidationError
from ruamel.yaml import YAML
from run_from import STEPS, CompletionsSummary, RewardCount, Share, ask, ramp, run_from, seen

from compiler.language.health_profiles import PROFILES, detectors
from stages.analyse.frames import Resume
from stages.contracts.artifact import Frozen, canonical_json
from stages.contracts.plugin import DETECTORS, kinds, load
from stages.contracts.wilson import wilson
from tests.attribute_texts import attribute_texts

KINDS = kinds(DETECTORS)
CASES: dict[str, list[dict[str, Any]]] = YAML(typ="safe").load(Path(__file__).with_name("detector_cases.yaml"))


def wiggle(step: int) -> float:
    return 0.01 * (step * 7 % 5 - 2)


def formula(text: str, step: int) -> Any:
    """The value of a named series at a step."""
    name, *numbers = text.split()
    if name == "ramp":
        return ramp(float(numbers[0]), float(numbers[1]))[step] + (wiggle(step) if "wave" in numbers else 0.0)
    if name == "level":
        return float(numbers[0]) * (1 + wiggle(step)) if len(numbers) < 2 else float(numbers[0])
    if name == "scattered":  # so many zeros, with a one in each five or so steps: no streak of them is a tenth of the run
        return float(step not in sorted(STEPS, key=lambda s: (s % 5 == 0, s % 5 == 1, s))[: int(numbers[0])])
    if name == "stair":  # elsewhere every jump of five rows is 5/64
        return step / 64 + (float(numbers[0]) if step >= 31 else 0.0)
    if name == "growing":  # from step 17 on each second value is ten times the one before: the rolling median never catches up
        return 10.0 ** ((step - 13) // 2) if step % 2 and step >= 17 else 0.001 * (step * 7 % 5)
    drift = wiggle(step) + (0.5 if step >= 31 else 0.0) + 0.002 * step
    named = {"nan": "nan", "wave": 100.0 + step % 7, "zigzag": 98.0 if step % 2 else 102.0, "wiggle": wiggle(step), "drift": drift}
    return named[name]


def by_step(course: Any) -> dict[int, Any]:
    """Values by step of a series as the table writes it."""
    parts = course.items() if isinstance(course, dict) else [("1-60", course)]
    ends = [(*map(int, str(steps).split("-")), value) for steps, value in parts]
    values = {step: value for first, *last, value in ends for step in range(first, (last or [first])[0] + 1)}
    return {step: formula(value, step) if isinstance(value, str) else value for step, value in values.items()}


def shares(counts: Any) -> tuple[Share, ...]:
    return tuple(Share(step, *pair) for step, pair in by_step(counts or {}).items())


@pytest.mark.parametrize(("kind", "case"), [(kind, case) for kind, own in CASES.items() for case in own])
def test_a_detector_on_both_sides_of_its_thresholds(kind: str, case: dict[str, Any]) -> None:
    around: dict[str, Any] = dict(case.get("around", {}))
    around |= {"resumes": tuple(Resume(*resume) for resume in around.get("resumes", ())), "same_text": shares(case.get("same_text"))}
    counts = None
    if {"groups", "cut", "rewards"} & case.keys():
        rewards = tuple(RewardCount(step, value, n) for step in STEPS for value, n in case.get("rewards", {}).items())
        counts = CompletionsSummary(1, 0, shares(case.get("groups")), shares(case.get("cut")), rewards)
    run = seen(case.get("role", "treatment"), counts, around, **{name: by_step(own) for name, own in case.get("metrics", {}).items()})
    detection = ask(load(DETECTORS, kind), run, **case.get("settings", {}))
    assert detection.state == case.get("state", "looked") and case.get("reason", "") in detection.reason, detection
    for signal, wanted in zip(detection.signals, case.get("signals", []), strict=True):
        assert signal.says.endswith(wanted.get("ends", "")) and wanted.get("says", "") in signal.says
        evidence = {name: pytest.approx(own) if isinstance(own, float) else own for name, own in wanted.get("evidence", {}).items()}
        assert {name: signal.evidence[name] for name in evidence} == evidence
        assert "near" not in wanted or signal.value == pytest.approx(wanted["near"], abs=0.01)
        for name in wanted.keys() - {"says", "ends", "near", "evidence"}:
            assert getattr(signal, name) == (pytest.approx(wanted[name]) if name == "value" else wanted[name]), name


@pytest.mark.parametrize("metric", ["zero_signal_share", "kl", "grad_norm", "entropy", "truncated", "step_seconds", "policy.ratio"])
@pytest.mark.parametrize(("cell", "words"), [("nan", "is a number"), (None, "is a number"), (0.5, "has no value at a step that counts")])
def test_a_metric_that_was_logged_is_never_said_to_be_missing(metric: str, cell: Any, words: str) -> None:
    asked = {
        "zero_signal_share": ("zero_signal", "collapse"), "kl": ("kl_reference",), "grad_norm": ("spikes", "gradient"),
        "entropy": ("spikes",), "truncated": ("truncation",), "step_seconds": ("throughput",), "policy.ratio": ("update_size",),
    }  # fmt: skip
    run = seen(**{"loss": "nan", metric: "nan" if metric == "grad_norm" else cell})
    for kind in asked[metric]:
        detection = ask(load(DETECTORS, kind), run)
        assert detection.state == "not_observable" and not detection.signals, kind
        assert ("is a number" if metric == "grad_norm" else words) in detection.reason and "not logged" not in detection.reason


RANDOM = random.Random(3)
TEXTS: dict[str, Callable[[], str]] = {
    "prose": lambda: " ".join(WORDS[(start := RANDOM.randrange(len(WORDS) - 60)) : start + 60]),
    "ocaml": lambda: "".join(
        f"let rec f{RANDOM.randrange(99)} x = match x with [] -> {RANDOM.random():.3f} | h :: t -> h + f t\n" for _ in "1234"
    ),
    "lean": lambda: "theorem t (h : a ≤ b) : a + {0} ≤ b + {0} := by\n  have h₁ := h\n  omega\n".format(RANDOM.randrange(9999)) * 2,
    "digits": lambda: " ".join(str(RANDOM.randrange(10**6)) for _ in range(40)),
    "loop": lambda: "so the answer is " * 20,
    "letters": lambda: "".join(RANDOM.choice(string.ascii_letters + " ") for _ in range(300)),
    "scripts": lambda: "".join(chr(RANDOM.randrange(0x400, 0xD7A4)) for _ in range(200)),
    "short": lambda: RANDOM.choice(("yes", "no no no no no no")),
}


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        *(
            ((first,), (last,), [])
            for first in ("prose", "ocaml", "lean", "digits")
            for last in ("prose", "ocaml", "lean", "digits", "short")
        ),
        *(((first,), ("loop",), ["loops"]) for first in ("prose", "ocaml", "lean", "digits", "short")),
        *(((first,), (last,), ["noise"]) for first in ("prose", "ocaml", "lean", "digits") for last in ("letters", "scripts")),
        (("prose",) * 10, ("loop",) * 3 + ("prose",) * 7, []),
        (("prose",) * 10, ("loop",) * 4 + ("prose",) * 6, ["loops"]),
        (("loop",) * 2 + ("prose",) * 8, ("loop",) * 5 + ("prose",) * 5, []),
        (("loop",), ("loop",), []),
        (("letters",), ("letters",), []),
    ],
)
def test_loops_and_noise_are_told_from_any_language(first: tuple[str, ...], last: tuple[str, ...], expected: list[str]) -> None:
    rows = [(step, TEXTS[names[at % len(names)]]()) for step in STEPS for names in [first if step < 31 else last] for at in range(10)]
    run = seen(reward=0.5)
    run.completions = pd.DataFrame(rows, columns=["step", "text"])
    detection = ask(load(DETECTORS, "gibberish"), run)
    assert [signal.kind for signal in detection.signals] == expected and detection.state == "looked"
    assert ("8,000 are needed" in detection.reason) == ("short" in (*first, *last))
    for signal in detection.signals:
        assert (signal.severity, signal.onset, signal.last) == ("warning", 55, 60) and len(signal.evidence["examples"]) == 3


def test_detectors_of_groups_do_not_judge_single_completions() -> None:
    run = seen(reward=1.0)
    run.completions = pd.DataFrame({"step": [1, 1, 2, 2], "group": [0, 1, 0, 1], "reward": 1.0, "truncated": False, "text": "x"})
    detection = ask(load(DETECTORS, "zero_signal"), run)
    assert run.silent.empty and detection.state == "not_applicable" and "one completion a prompt" in detection.reason
    assert ask(load(DETECTORS, "collapse"), run).state == "not_observable"


# series that no healthy run has ------------------------------------------------------------------------------------------------

NAMES = (
    "reward", "reward_std", "group_range", "zero_signal_share", "truncated", "completion_tokens", "entropy", "kl", "grad_norm",
    "policy.clipfrac", "clip_ratio/region_mean", "policy.ratio", "policy.first_ratio", "policy.approxkl", "objective.kl",
    "objective.scores", "objective.rlhf_reward", "loss.value", "value.explained_variance", "step_seconds", "reward_seconds",
    "unknown_share", "gate.format.score", "gate.tests.score", "optimizer_steps_share", "left_out.target_kl",
)  # fmt: skip
ODD: dict[str, Any] = {
    "zeros": lambda step: 0.0,
    "minus three": lambda step: -3.0,
    "two values": lambda step: float(step % 2),
    "nan": lambda step: "nan",
    "null": lambda step: None,
    "huge": lambda step: 1e150 if step % 2 else -1e150,
    "smallest": lambda step: 5e-324,
    "signed": lambda step: math.sin(step * 7.0),
    "nan every second": lambda step: "nan" if step % 2 else 0.5,
    "nan at last": lambda step: "nan" if step >= 59 else 0.5,
}
LOGGED = {"one": [1], "late": range(40, 61), "sparse": [1, 17, 18, 55], "every fifth": range(5, 61, 5), "all": STEPS}
_ONE = re.compile(r"(?<![\d.])1 (?:steps|rows|values|groups|completions|gaps|such steps)\b|steps (\d+)-\1\b|the last 1 ")


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("logged", LOGGED)
def test_no_series_breaks_a_detector_or_its_words(odd: str, logged: str) -> None:
    steps = LOGGED[logged]
    courses = {name: {step: ODD[odd](step) for step in steps} for name in NAMES}
    counts = CompletionsSummary(
        8 * len(steps),
        0,
        zero_signal=tuple(Share(step, step % 3 == 0, 2) for step in steps),
        truncated=tuple(Share(step, step % 5, 8) for step in steps),
        rewards=tuple(RewardCount(step, reward, 4) for step in steps for reward in (0.2, 1.0)),
    )
    around = {"resumes": (Resume(30, 29), Resume(steps[-1], steps[0], 1)), "repeated": 1, "adapter": "zero", "siblings": 2}
    around |= {"same_text": tuple(Share(step, 7, 8) for step in steps), "null_finals": {"kl": (0.1,)}}
    for target, completions in ((target, completions) for target in (1, 60) for completions in (None, counts)):
        run = seen(completions=completions, around={**around, "target_steps": target}, **courses)
        for kind in KINDS:
            detection = ask(load(DETECTORS, kind), run)
            assert detection.state == "looked" or (detection.reason and not detection.signals), kind
            if odd in ("nan", "null") and completions is None and kind != "nonfinite":  # null is finite, or does not apply
                assert detection.state != "looked" or detection.reason or detection.signals, kind
            assert not _ONE.search(detection.reason), detection.reason
            for signal in detection.signals:
                numbers = [n for n in (signal.value, *signal.evidence.values()) if isinstance(n, float)]
                assert all(map(math.isfinite, numbers)) and not _ONE.search(signal.says), (kind, signal.says)
                dates = [step for step in (signal.onset, signal.detected) if step is not None]
                assert dates == sorted(dates) and (signal.last is None or not dates or dates[0] <= signal.last), (kind, signal.says)


# the protocol, and healthy runs ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_settings_say_unit_and_source_and_nothing_logged_is_never_healthy(kind: str) -> None:
    plugin = load(DETECTORS, kind)
    assert issubclass(plugin.Settings, Frozen)
    with pytest.raises(ValidationError):
        plugin.Settings.model_validate({"no_such_setting": 1})
    for name, field in plugin.Settings.model_fields.items():
        assert attribute_texts(plugin.Settings)[name] and set(field.json_schema_extra) == {"unit", "source"}, name
    detection = ask(plugin, run_from({}))
    assert (detection.detector, detection.state, detection.signals) == (kind, "not_observable", ()) and detection.reason
    assert canonical_json(detection.model_dump(mode="json"))
    # the compiler reads settings: pandas is not to be paid for then
    tree = ast.parse(Path(plugin.__file__ or "").read_text(encoding="utf-8"))
    names = {node.module or "" for node in tree.body if isinstance(node, ast.ImportFrom)}
    names |= {alias.name for node in tree.body if isinstance(node, ast.Import) for alias in node.names}
    for name in names:
        assert name.startswith(("stages.contracts", "stages.rules", "stages.analyse.signals")) or name in sys.stdlib_module_names, name


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
    counted = alarms(60)
    assert set(counted) == set(ALARMS) == set(KINDS) == set(CASES)
    for kind, (k, n) in counted.items():
        stated, looked = ALARMS[kind]
        low, high = wilson(k, n, 0.99)
        assert n and k <= stated and low <= stated / looked <= high, (kind, k, n)


def test_the_reference_page_is_made_from_the_detectors() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run: make fix"
