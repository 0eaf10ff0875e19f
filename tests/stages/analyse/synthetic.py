"""A complete synthetic `runs/<experiment>/` folder with numbers that can be worked out by hand.

`complete(root)` writes 4 conditions x 3 seeds, 20 steps, 8 completions a step: `random-s3` failed at step 8, `inverted-s2` is left out
because nine tenths of its completions are truncated at the end. Run the stages with the working directory at `root`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from stages.contracts import analysis_card as cards
from stages.contracts.artifact import write
from stages.contracts.attempt import Ended, Outcome, Started
from stages.contracts.claim import ClaimRule, Contrast
from stages.contracts.code import code_versions
from stages.contracts.code_tree import CodeTree
from stages.contracts.files import write_text
from stages.contracts.history import COMPLETIONS_SCHEMA, EVALUATION_SCHEMA, HISTORY_SCHEMA, gate_columns
from stages.contracts.layout import ExperimentFolder, RunFolder
from stages.contracts.plugin import DETECTORS, kinds
from stages.contracts.preflight_card import Atom, GateShares, Permission, Preflight, PreflightResult
from stages.contracts.retries import Retry
from stages.contracts.stage import ROOT

STEPS = 20
GATES = {"shaped": ("format", "tests"), "inverted": ("format", "tests"), "random": ("random",), "zero": ("constant",)}
ROLES = {"shaped": "treatment", "inverted": "control", "random": "control", "zero": "null_control"}
PASSED = {  # of 20 evaluation completions
    "shaped": (18, 17, 16),
    "inverted": (0, 1, 0),
    "random": (8, 9, 7),
    "zero": (10, 11, 9),
}
UNTRAINED = 10
CONDITIONS = tuple(cards.ConditionCard(name=name, role=ROLES[name], reward=name, gates=GATES[name]) for name in GATES)


@dataclass
class Run:
    """What one synthetic run holds. Texts stay untrusted on purpose: one of them is a script tag."""

    condition: str
    seed: int
    target: int = STEPS
    steps: int = STEPS
    finished: bool = True
    failure: str | None = None
    truncated_from: int | None = None
    """From this step on nine tenths of the completions are truncated (7 of 8)."""
    nonfinite: tuple[int, ...] = ()
    passed: int | None = None
    """Of 20 evaluation completions; None: not evaluated."""
    attempt: str = ""
    killed_before: int = 0
    """So many killed attempts come before, in the ledger only."""
    cells: dict[str, dict[int, float | None]] = field(default_factory=dict)
    """Metrics that replace or add to the derived ones: metric -> step -> value."""

    @property
    def name(self) -> str:
        return f"{self.condition}-s{self.seed}"


def runs() -> list[Run]:
    """The 12 runs of `complete`."""
    all_runs = [Run(name, seed, passed=PASSED[name][seed - 1]) for name in GATES for seed in (1, 2, 3)]
    for run in all_runs:
        run.attempt = f"a-{run.name}-1"
        if run.name == "random-s3":
            run.finished, run.failure, run.steps, run.passed = False, "verifier", 7, None
        if run.name == "inverted-s2":
            run.truncated_from = 11
        if run.name == "shaped-s1":
            run.killed_before, run.attempt = 1, "a-shaped-s1-2"
    return all_runs


def claim_rule(*, direction: str, margin: float, seeds: int = 3, included_only: bool = True, **fields: Any) -> ClaimRule:
    """A claim's rule with its bound by direction."""
    needs = {"seeds": seeds, "health": "included" if included_only else "any"}
    return ClaimRule(**{direction: margin, "needs": needs, **fields})


def claims() -> tuple[ClaimRule, ...]:
    """One claim a verdict. Margins are made for PASSED."""

    def contrast(id_: str, left: str, metric: str, direction: str, margin: float, seeds: int = 3) -> ClaimRule:
        pair = Contrast(condition=left, against="zero")
        return claim_rule(id=id_, metric=metric, contrast=pair, direction=direction, margin=margin, seeds=seeds)

    share = "evaluation.tests.pass_share"
    return (
        contrast("shaped-teaches", "shaped", share, "above", 0.05),
        contrast("shaped-teaches-a-lot", "shaped", share, "above", 0.4),
        contrast("inverted-teaches", "inverted", share, "above", 0.0, seeds=2),
        contrast("random-harms", "random", share, "below", 0.0),
        contrast("shaped-earns-more", "shaped", "reward", "above", 0.0),
    )


def complete(root: Path, name: str = "synthetic", chosen_runs: Iterable[Run] | None = None) -> ExperimentFolder:
    """Write everything that the analysis stages read. Returns the folder, relative to `root`."""
    chosen_runs = list(runs() if chosen_runs is None else chosen_runs)
    folder = ExperimentFolder(Path("runs") / name)
    real = ExperimentFolder(root / folder.root)
    for run in chosen_runs:
        write_run(real.run(run.name), run)
    write_evaluation(real.untrained.evaluation, UNTRAINED, attempt="")
    write_preflight(real)
    write_cards(real, chosen_runs)
    return folder


def write_cards(folder: ExperimentFolder, chosen_runs: Iterable[Run], **changes: Any) -> None:
    """screen, conclude and draw cards for today's code. `changes` replaces fields of every card that has them."""
    refs = tuple(cards.RunRef(name=run.name, condition=run.condition, seed=run.seed, target_steps=run.target) for run in chosen_runs)
    present = {ref.condition for ref in refs}
    detectors, tree = kinds(DETECTORS), CodeTree(ROOT)
    whole = {
        "experiment": folder.name,
        "conditions": tuple(condition for condition in CONDITIONS if condition.name in present),
        "runs": refs,
        "windows": cards.Windows(),
        "evaluation": ("tests",),
        "profile": "grpo-default",
        "detectors": tuple(cards.DetectorCard(kind=kind, settings={}) for kind in detectors),
        "gates": {"nonfinite": "not persistent", "truncated": cards.Bound(below=0.5), "steps": "complete"},
        "metrics": ("reward", "completion_tokens"),
        "claims": claims(),
        "expectations": (),
        "stops": {},
        "curves": ("reward", "zero_signal_share", "truncated", "completion_tokens", "grad_norm"),
        **changes,
    }
    stages = {folder.screen_card: cards.ScreenCard, folder.conclude_card: cards.ConcludeCard, folder.draw_card: cards.DrawCard}
    for path, kind in stages.items():
        stage = f"stages.analyse.{path.name.split('.')[0]}"
        plugins = [f"{DETECTORS}.{detector}" for detector in detectors] if kind is cards.ScreenCard else []
        fields = {"code": code_versions(tree, [stage, *plugins]), **whole}
        write(path, kind(**{name: value for name, value in fields.items() if name in kind.model_fields}))  # type: ignore[arg-type]


def write_run(place: RunFolder, run: Run) -> None:
    """History, completions, outcome, ledger, retry, adapter and evaluation of one run."""
    card, attempt = f"card-{run.name}", run.attempt or f"a-{run.name}-1"
    completions = [row for step in range(1, run.steps + 1) for row in _completions(run, step, attempt)]
    write_history(place.history, history_rows(run, completions, attempt), card_id=card, attempt=attempt)
    write_completions(place.completions, completions, GATES[run.condition], card_id=card, attempt=attempt)
    if run.passed is not None:
        write_evaluation(place.evaluation, run.passed, attempt=attempt)
    end: dict[str, Any] = {"failure": run.failure, "error": None if run.finished else "the verifier crashed: <b>no pool</b>"}
    steps = {"steps_done": run.steps, "target_steps": run.target}
    write(place.outcome, Outcome(card_id=card, attempt=attempt, finished=run.finished, **steps, **end))
    write(place.retry, Retry())
    place.adapter.mkdir(parents=True, exist_ok=True)
    if run.finished:
        write_text(place.adapter / "adapter_config.json", "{}\n")
    lines: list[Started | Ended] = []
    machine = {
        "commit": "0123abc",
        "host": "linux-x86_64-2cpu",
        "devices": ("cpu",),
        "versions": {"trl": "1.16.0"},
        "sandbox": "none needed",
    }
    for number in range(1, run.killed_before + 2):
        name = attempt if number == run.killed_before + 1 else f"a-{run.name}-{number}"
        at = f"2026-01-0{number}T00:00:00Z"
        lines.append(Started(attempt=name, number=number, at=at, card_id=card, resumed_from=None, **machine))  # type: ignore[arg-type]
    outcome: Any = "finished" if run.finished else "failed"
    lines.append(Ended(attempt=attempt, at=at.replace("00:00Z", "01:00Z"), outcome=outcome, last_step=run.steps, seconds=60.0, **end))
    write_text(place.attempts, "\n".join(line.model_dump_json() for line in lines) + "\n")


def passes(run: Run, step: int) -> int:
    """Completions of 8 that pass the tests at a step. Seed s starts s - 1 lower."""
    rising = 3 + step // 5 - (run.seed - 1)
    falling = 5 - step // 5 - (run.seed - 1)
    return {"shaped": rising, "inverted": max(0, falling), "random": 4, "zero": 4}[run.condition]


def _completions(run: Run, step: int, attempt: str) -> list[dict[str, Any]]:
    """8 completions in 2 groups: the first `passes` pass the tests, the last one has a bad format, those between fail."""
    rows = []
    for index in range(8):
        good, malformed = index < passes(run, step), index == 7
        shaped = 0.0 if malformed else 1.0 if good else 0.1
        reward = {"shaped": shaped, "inverted": 1 - shaped, "random": float((index // 2 + step + run.seed) % 2), "zero": 0.0}[run.condition]
        row: dict[str, Any] = {"attempt": attempt, "step": step, "prompt_id": f"p{step}-{index % 2}", "group": index % 2}
        row |= {"text": "<script>alert(1)</script>" if malformed else f"x*{index}+{step}", "reward": reward}
        row |= {"tokens": 5 + (index * step + run.seed) % 7}
        row |= {"truncated": bool(run.truncated_from and step >= run.truncated_from and index)}
        for gate in GATES[run.condition]:
            status, score, reason = gate_columns(gate)
            answer = {
                "format": "fail" if malformed else "pass",
                "tests": "not_reached" if malformed else "pass" if good else "fail",
                "random": "pass" if reward else "fail",
                "constant": "pass",
            }[gate]
            says = ("" if gate != "tests" or answer != "fail" else "wrong: 3 for 4") if index % 2 else "<i>no</i> name; line 2"
            row |= {status: answer, score: {"pass": 1.0, "fail": 0.0}.get(answer), reason: says if answer == "fail" else ""}
        rows.append(row)
    return rows


def history_rows(run: Run, completions: list[dict[str, Any]], attempt: str) -> list[dict[str, Any]]:
    """Cells per step, derived from the completions; non-finite steps have loss 0.0, as trainers log it."""
    rows = []
    for step in range(1, run.steps + 1):
        own = [row for row in completions if row["step"] == step]
        ranges = [max(r) - min(r) for r in ([row["reward"] for row in own if row["group"] == group] for group in (0, 1))]
        bad = step in run.nonfinite
        cells: dict[str, float | None] = {
            "reward": sum(row["reward"] for row in own) / 8,
            "group_range": sum(ranges) / 2,
            "zero_signal_share": sum(spread == 0 for spread in ranges) / 2,
            "truncated": sum(row["truncated"] for row in own) / 8,
            "completion_tokens": sum(row["tokens"] for row in own) / 8,
            "entropy": 1.0 - step / 100 + run.seed / 1000,
            "loss": 0.0 if bad else 0.01 * run.seed,
            "grad_norm": float("nan") if bad else 0.0 if run.condition == "zero" else 1.0 + (step * 7 + run.seed * 3) % 5 / 10,
            "skipped": float(bad),
        }
        for gate in GATES[run.condition]:
            answers = [row[gate_columns(gate)[0]] for row in own]
            answered = answers.count("pass") + answers.count("fail")
            cells[f"gate.{gate}.pass_share"] = answers.count("pass") / answered if answered else None
        for metric, values in run.cells.items():
            cells.pop(metric, None)
            if step in values:
                cells[metric] = values[step]
        rows += [_cell(attempt, step, metric, value) for metric, value in cells.items()]
    return rows


def _cell(attempt: str, step: int, metric: str, value: float | None) -> dict[str, Any]:
    state = "null" if value is None else "nonfinite" if value != value or value in (float("inf"), float("-inf")) else "value"
    kept = value if state == "value" else None
    return {"attempt": attempt, "step": step, "tokens": step * 40, "seconds": step * 0.5, "metric": metric, "value": kept, "state": state}


def write_history(path: Path, rows: list[dict[str, Any]], *, card_id: str = "card", attempt: str = "a1") -> None:
    """history.parquet of the rows, which hold HISTORY_COLUMNS."""
    types = (pa.string(), pa.int64(), pa.int64(), pa.float64(), pa.string(), pa.float64(), pa.string())
    names = ("attempt", "step", "tokens", "seconds", "metric", "value", "state")
    _parquet(path, rows, pa.schema(list(zip(names, types, strict=True))), HISTORY_SCHEMA, card_id, attempt)


def write_completions(path: Path, rows: list[dict[str, Any]], gates: Iterable[str], *, card_id: str = "card", attempt: str = "a1") -> None:
    """completions.parquet of the rows, which hold COMPLETIONS_COLUMNS and three columns a gate."""
    names = ("attempt", "step", "prompt_id", "group", "text", "reward", "tokens", "truncated")
    types = (pa.string(), pa.int64(), pa.string(), pa.int64(), pa.string(), pa.float64(), pa.int64(), pa.bool_())
    fields = [*zip(names, types, strict=True), *_gate_fields(gates)]
    _parquet(path, rows, pa.schema(fields), COMPLETIONS_SCHEMA, card_id, attempt)


def write_evaluation(path: Path, passed: int, *, attempt: str, judged: int = 20, unknown: int = 0, score: str = "tests") -> None:
    """evaluation.parquet with one score: `passed` of `judged` ones pass, then come `unknown` more."""
    status, value, reason = gate_columns(score)
    rows = [
        {"prompt_id": f"h{index // 2}", "sample": index % 2, "text": f"x+{index}", "tokens": 3, "truncated": False, reason: ""}
        | {status: "unknown" if index >= judged else "pass" if index < passed else "fail"}
        | {value: None if index >= judged else float(index < passed)}
        for index in range(judged + unknown)
    ]
    names = ("prompt_id", "sample", "text", "tokens", "truncated")
    types = (pa.string(), pa.int64(), pa.string(), pa.int64(), pa.bool_())
    _parquet(path, rows, pa.schema([*zip(names, types, strict=True), *_gate_fields([score])]), EVALUATION_SCHEMA, "card", attempt)


def _gate_fields(gates: Iterable[str]) -> list[tuple[str, Any]]:
    return [(name, kind) for gate in gates for name, kind in zip(gate_columns(gate), (pa.string(), pa.float64(), pa.string()), strict=True)]


def _parquet(path: Path, rows: list[dict[str, Any]], schema: pa.Schema, name: str, card_id: str, attempt: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    metadata = {"octavo.schema": name, "octavo.card_id": card_id, "octavo.attempt": attempt}
    pq.write_table(pa.Table.from_pylist(rows, schema=schema.with_metadata(metadata)), path)


def write_preflight(folder: ExperimentFolder) -> None:
    """preflight.json and permissions: 40 completions in 10 groups a condition; of shaped 36 reach the tests and 20 pass them."""
    funnels = {
        "tests": (
            GateShares(gate="format", reached=40, passed=36, failed=4, unknown=0),
            GateShares(gate="tests", reached=36, passed=20, failed=15, unknown=1),
        ),
        "random": (GateShares(gate="random", reached=40, passed=20, failed=20, unknown=0),),
        "constant": (GateShares(gate="constant", reached=40, passed=40, failed=0, unknown=0),),
    }
    results = tuple(
        PreflightResult(
            condition=condition.name,
            verdict="warn" if condition.name == "zero" else "pass",
            reasons=("every group is without signal, as expected of a null control",) if condition.name == "zero" else (),
            completions=40,
            groups=10,
            zero_signal_groups=10 if condition.name == "zero" else 2,
            truncated=1,
            unknown=1 if "tests" in condition.gates else 0,
            reward_mean=0.0 if condition.name == "zero" else 0.5,
            funnel=funnels[condition.gates[-1]],
            atoms=(Atom(reward=0.0, completions=40 if condition.name == "zero" else 20),),
            seconds=1.5,
        )
        for condition in CONDITIONS
    )
    write(folder.preflight, Preflight(card_id="card-preflight", sandbox="none needed", results=results))
    for condition in CONDITIONS:
        write(folder.permission(condition.name), Permission(condition=condition.name, train=True))
