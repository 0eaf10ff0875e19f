from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from ruamel.yaml import YAML
from safetensors.numpy import save_file
from synthetic import Run, complete, runs, write_cards, write_run

from stages.analyse.conclude import conclude
from stages.analyse.screen import adapter_state, screen
from stages.contracts.analysis_card import Bound, ConditionProfile, ScreenCard
from stages.contracts.artifact import read, write
from stages.contracts.attempt import FailureClass
from stages.contracts.finding import Findings
from stages.contracts.health import Health
from stages.contracts.layout import ExperimentFolder
from stages.contracts.retries import Retry
from stages.contracts.stage import ROOT

EXPECTED = YAML(typ="safe").load(Path(__file__).with_name("synthetic.yaml"))


def health(folder: ExperimentFolder, run: str) -> Health:
    return read(Health, folder.run(run).health)


def test_runs_in_and_out_with_reasons(finished: ExperimentFolder) -> None:
    answers = {run.name: health(finished, run.name) for run in runs()}
    assert {name: list(own.reasons) for name, own in answers.items() if not own.included} == EXPECTED["left_out"]
    [exclusion] = answers["inverted-s2"].exclusions
    assert (exclusion.gate, exclusion.says) == ("truncated", "truncated share is 0.875 in steps 19-20, not below 0.5")
    assert exclusion.rule == "truncated share below 0.5 in steps 19-20"
    failed, first = answers["random-s3"], answers["shaped-s1"]
    assert (failed.state, failed.steps_done, failed.failure) == ("failed", 7, "verifier")
    assert [(gate.gate, gate.passed) for gate in failed.gates] == [("nonfinite", True), ("steps", False), ("truncated", None)]
    assert (first.card_id, first.attempt) == ("card-shaped-s1", "a-shaped-s1-2")
    detections = answers["zero-s1"].detections
    assert {own.detector: own.state for own in detections} == {kind: state for state, own in EXPECTED["detectors"].items() for kind in own}
    (signal,) = [signal for own in detections if own.detector == "zero_signal" for signal in own.signals]
    assert (signal.severity, signal.value) == ("info", 1.0)


@pytest.mark.parametrize("steps", [0, 1, 7, 19])
def test_case_9_a_failed_run_says_its_class_and_the_steps_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int) -> None:
    monkeypatch.chdir(tmp_path)
    classes = get_args(FailureClass)
    chosen_runs = [Run("shaped", seed, steps=steps, finished=False, failure=failure) for seed, failure in enumerate(classes, 1)]
    folder = complete(tmp_path, chosen_runs=[*chosen_runs, Run("zero", 1)])
    screen(folder.root)
    conclude(folder.root)
    counted = {finding.id: finding for finding in read(Findings, folder.findings).findings}
    for run in chosen_runs:
        answer = health(folder, run.name)
        assert (answer.state, answer.included, answer.failure, answer.steps_done) == ("failed", False, run.failure, steps)
        assert answer.reasons == (f"the last attempt failed ({run.failure}) after {steps} steps",), "what follows from it is not repeated"
        assert (counted[f"{run.name}/steps/done"].k, counted[f"{run.name}/steps/done"].n) == (steps, 20)
        assert (read(Retry, folder.run(run.name).retry).after is None) == (run.failure == "refused")
    rate = counted["shaped/attempts/finished"]
    assert (rate.k, rate.n) == (0, len(classes)) and counted["experiment/attempts/finished"].k == 1


def test_the_same_input_gives_the_same_bytes_and_a_failed_run_becomes_due_only_once(again: ExperimentFolder) -> None:
    assert read(Retry, again.run("random-s3").retry).after == "a-random-s3-1"
    assert all(read(Retry, again.run(run.name).retry).after is None for run in runs() if run.name != "random-s3")
    first = {run.name: again.run(run.name).health.read_bytes() for run in runs()}
    stamp = again.run("random-s3").retry.stat().st_mtime_ns
    screen(again.root)
    assert first == {run.name: again.run(run.name).health.read_bytes() for run in runs()}
    assert again.run("random-s3").retry.stat().st_mtime_ns == stamp


def test_a_run_that_finished_after_a_failure_keeps_its_retry(folder: ExperimentFolder) -> None:
    """Rewriting it would train the run again."""
    write_run(folder.run("random-s3"), Run("random", 3, passed=7, attempt="a-random-s3-2"))
    write(folder.run("random-s3").retry, Retry(after="a-random-s3-1"))
    screen(folder.root)
    assert read(Retry, folder.run("random-s3").retry).after == "a-random-s3-1"
    assert health(folder, "random-s3").included


def test_a_missing_run_is_a_hole_with_a_reason(folder: ExperimentFolder) -> None:
    for name in ("history.parquet", "completions.parquet", "outcome.json"):
        (folder.run("zero-s2").root / name).unlink()
    screen(folder.root)
    answer = health(folder, "zero-s2")
    assert (answer.state, answer.included, answer.card_id, answer.steps_done) == ("missing", False, None, None)
    assert answer.reasons == ("not trained: no outcome was recorded",)
    assert not answer.detections[0].signals


def test_persistent_non_finite_gates_a_run_out(folder: ExperimentFolder) -> None:
    bad = replace(runs()[0], nonfinite=tuple(range(5, 21)))
    write_run(folder.run(bad.name), bad)
    screen(folder.root)
    answer = health(folder, bad.name)
    assert (answer.included, answer.valid_until) == (False, 4)
    assert answer.reasons[0] == "gate nonfinite: gradient is persistently non-finite from step 5"


def test_case_17_a_duplicate_seed_drops_n_loudly(folder: ExperimentFolder, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(folder.run("shaped-s3"), replace(runs()[2], seed=1, attempt="a-shaped-s3-1"))  # seed 3 repeats what seed 1 does
    screen(folder.root)
    answer = health(folder, "shaped-s3")
    says = "DUPLICATE: its series are identical to those of shaped-s1, so it is no run of its own and n drops by one"
    assert (answer.included, answer.reasons) == (False, (says,))
    assert [d.detector for d in answer.detections if d.signals and d.signals[0].evidence.get("of") == "shaped-s1"] == ["duplicates"]
    assert health(folder, "shaped-s1").included
    assert f"shaped-s3 is left out: {says}" in capsys.readouterr().out


def test_the_null_controls_are_what_others_are_held_against(folder: ExperimentFolder) -> None:
    for run in runs():
        if run.name in ("shaped-s1", "zero-s1", "zero-s2", "zero-s3"):
            write_run(folder.run(run.name), replace(run, cells={"kl": dict.fromkeys(range(1, 21), 0.01 * run.seed)}))
    screen(folder.root)
    answer = {d.detector: d for d in health(folder, "shaped-s1").detections}["kl_reference"]
    assert answer.signals[0].evidence["null_controls"] == [0.01, 0.02, 0.03]
    assert "it has not moved further than without a reward" in answer.signals[0].says


def test_an_adapter_of_zeros_is_seen_on_the_disk(folder: ExperimentFolder) -> None:
    place = folder.run("shaped-s1").adapter / "adapter_model.safetensors"

    def signals(factor: float) -> list[str]:
        save_file({"base.q.lora_A.weight": np.ones((2, 3), np.float32), "base.q.lora_B.weight": np.full((3, 2), factor, np.float32)}, place)
        screen(folder.root)
        answer = {d.detector: d for d in health(folder, "shaped-s1").detections}["gradient"]
        return [signal.metric for signal in answer.signals]

    assert signals(0.0) == ["adapter"]
    assert signals(1e-8) == []


@pytest.mark.parametrize("data", [b"", b"\x05\x00\x00\x00\x00\x00\x00\x00{}   ", b"\xff" * 40, b"\x02\x00\x00\x00\x00\x00\x00\x00[]"])
def test_a_broken_adapter_is_unknown(tmp_path: Path, data: bytes) -> None:
    assert adapter_state(tmp_path) == "unknown"
    (tmp_path / "adapter_model.safetensors").write_bytes(data)
    assert adapter_state(tmp_path) == "unknown"


def test_gates_can_leave_null_controls_alone(folder: ExperimentFolder) -> None:
    write_cards(folder, runs(), gates={"zero_signal_share": Bound(below=0.9)})
    screen(folder.root)
    assert not health(folder, "zero-s1").included
    write_cards(folder, runs(), gates={"zero_signal_share": Bound(below=0.9, except_null_controls=True)})
    screen(folder.root)
    (answer,) = health(folder, "zero-s1").gates
    assert answer.passed is True
    assert answer.says == "not applied to null controls (zero_signal_share is 1 in steps 19-20, not below 0.9)"


def test_a_metric_that_stays_nan_hides_no_gate_that_has_nothing_to_do_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    chosen_runs = [Run("shaped", 1, target=20, steps=20, passed=10)]
    chosen_runs[0].cells = {"kl": {step: 0.1 if step < 10 else float("nan") for step in range(1, 21)}}
    folder = complete(tmp_path, chosen_runs=chosen_runs)
    write_cards(folder, chosen_runs, gates={"nonfinite": "not persistent", "value.explained_variance": Bound(above=0.0)})
    screen(folder.root)
    seen = health(folder, "shaped-s1")
    assert [reason.partition(":")[0] for reason in seen.reasons] == ["gate value.explained_variance"]
    assert "kl is persistently non-finite from step 10, and no claim rests on it" in seen.gates[0].says
    write_cards(folder, chosen_runs, gates={"nonfinite": "not persistent"}, claimed=("kl",))
    screen(folder.root)
    assert health(folder, "shaped-s1").reasons[0].startswith("gate nonfinite: kl is persistently non-finite")


def test_a_stale_card_is_refused(folder: ExperimentFolder) -> None:
    write_cards(folder, runs(), code={"some.stage": "0" * 16})
    command = [sys.executable, "-m", "stages.analyse.screen", str(folder.root)]
    done = subprocess.run(command, capture_output=True, text=True, env={"PYTHONPATH": str(ROOT), "PATH": ""}, check=False)
    assert done.returncode == 1
    assert "S101" in done.stderr
    assert "octavo compile && dvc repro" in done.stderr
    assert not folder.run("shaped-s1").health.exists()


def test_what_needs_completions_does_not_apply_to_gold_answers(folder: ExperimentFolder) -> None:
    """The detectors of another profile are asked of the other conditions only; a gate on completions leaves gold answers alone, one on
    another metric that nobody logged still cannot be decided."""
    card = read(ScreenCard, folder.screen_card)
    shaped = next(condition for condition in card.conditions if condition.name == "shaped")
    gates = {"truncated": Bound(below=0.5), "mean_token_accuracy": Bound(below=1.0)}
    conditions = tuple(condition.model_copy(update={"supervised": condition == shaped}) for condition in card.conditions)
    write(folder.screen_card, card.model_copy(update={"conditions": conditions, "gates": gates}))
    run = next(run.name for run in card.runs if run.condition == "shaped")
    history = folder.run(run).history
    table = pq.read_table(history)
    kept = table.filter(pc.is_in(table["metric"], pa.array(["loss", "grad_norm", "entropy"])))
    pq.write_table(kept, history)
    folder.run(run).completions.unlink()
    screen(folder.root)
    answer = health(folder, run)
    answers = {detection.detector: detection for detection in answer.detections}
    for kind in ("zero_signal", "collapse", "truncation", "atoms"):
        assert answers[kind].state == "not_applicable"
        assert answers[kind].reason == "supervised fine-tuning samples no completions and has no rewards"
    assert answers["nonfinite"].state == "looked"
    gate_answers = {gate.gate: (gate.passed, gate.says) for gate in answer.gates}
    assert gate_answers["truncated"][0] is True and gate_answers["truncated"][1].startswith(
        "not applied to supervised fine-tuning, which samples nothing"
    )
    assert gate_answers["mean_token_accuracy"][0] is None and not answer.included

    own = ConditionProfile(condition="shaped", profile="sft-default", detectors=card.detectors[:1])
    write(folder.screen_card, card.model_copy(update={"conditions": conditions, "gates": {}, "others": (own,)}))
    screen(folder.root)
    assert [detection.detector for detection in health(folder, run).detections] == [card.detectors[0].kind]
    other = next(run.name for run in card.runs if run.condition != "shaped")
    assert len(health(folder, other).detections) >= len(card.detectors)
