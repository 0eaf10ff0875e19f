"""A whole experiment folder made of contract objects: four conditions x three seeds, one failed run, one gated out, one killed attempt."""

from __future__ import annotations

import html
import itertools
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from ruamel.yaml import YAML

from stages.contracts.analysis_card import ConcludeCard, ConditionCard, RunRef, Windows
from stages.contracts.artifact import write
from stages.contracts.attempt import Ended, Outcome, Started
from stages.contracts.claim import Claim
from stages.contracts.code import code_versions
from stages.contracts.code_tree import CodeTree
from stages.contracts.evaluation import EvaluateCard
from stages.contracts.figure import Figure
from stages.contracts.files import file_digest, write_text
from stages.contracts.finding import Finding, Findings, SeedValue, Source
from stages.contracts.health import Detection, GateResult, Health, Signal
from stages.contracts.history import gate_columns
from stages.contracts.import_card import ColumnCard, ImportCard, ReadCard, SourceCard
from stages.contracts.layout import ExperimentFolder
from stages.contracts.lineage import Origin, Origins
from stages.contracts.model import Adapter, DatasetRef, ModelRef
from stages.contracts.page_card import ClaimText, PageCard
from stages.contracts.preflight_card import (
    Below,
    GateShares,
    Preflight,
    PreflightCard,
    PreflightCondition,
    PreflightResult,
    ProbeReward,
    StepTime,
)
from stages.contracts.reward import Example, Gate, Reward
from stages.contracts.run_card import TrainCard
from stages.contracts.stage import ROOT, card_id
from stages.contracts.training import GrpoSettings
from stages.publish.anomalies import anomalies
from stages.publish.care import Sources, cautions
from stages.publish.claims import claim_views
from stages.publish.experiment import ExperimentFiles
from stages.publish.facts import Facts

HOSTILE = (
    "<script>window.hacked=1</script><img src=x onerror=window.hacked=1>|{{ 7*7 }}{: onclick=a}"
    "[x](javascript:window.hacked=1)\u202egnp\x00`*b*`</code>"
)
SEEDS, STEPS = (1, 2, 3), 60
SPEC = "specs/quickstart.yaml"
DATA = YAML(typ="safe").load(Path(__file__).with_suffix(".yaml"))
CONDITIONS = tuple(map(ConditionCard.model_validate, DATA["conditions"]))
FAILED, GATED = "random-s2", "inverted-s3"
LEVELS = {
    "shaped": (0.6231, 0.8702, 0.8712),
    "inverted": (0.5981, 0.9991, 0.0031),
    "random": (0.5012, 0.5094, 0.2312),
    "zero": (0.0, 0.0, 0.5121),
}
"""Initial and final reward, final pass share on the evaluation."""


def build(project: Path, *, name: str = "quickstart", hostile: str = HOSTILE, profile: str | None = None, prose: str | None = None) -> Path:
    """Write the experiment under `project` (the working directory must be `project`, as in every stage) and return its folder."""
    folder = ExperimentFolder(Path("runs") / name)
    refs = tuple(RunRef(name=f"{c.name}-s{s}", condition=c.name, seed=s, target_steps=STEPS) for c in CONDITIONS for s in SEEDS)
    write_text(project / SPEC, "title: Does a verifiable reward teach a small model?\n")
    asked = [{"id": f"p{number}", "prompt": f"Add {number}. {hostile}" if number % 2 else "Write x twice."} for number in range(6)]
    for name_ in ("train", "heldout"):
        write_text(project / f"data/{name_}.jsonl", "".join(f"{json.dumps(row)}\n" for row in asked))
    for number, ref in enumerate(refs):
        _run(folder, ref, number, hostile)
    _evaluation(folder, refs, hostile)
    _preflight(folder, hostile)
    claims = tuple(Claim.model_validate(claim) for claim in DATA["claims"])
    conclude = ConcludeCard(
        experiment=name,
        conditions=CONDITIONS,
        runs=refs,
        evaluation=("format", "tests"),
        metrics=("reward",),
        claims=tuple(claim.rule for claim in claims),
        windows=Windows(),
        code={"some.stage": "c0ffee00c0ffee00"},
    )
    write(folder.conclude_card, conclude)
    write(folder.findings, _findings(folder, name, refs, card_id(conclude)))
    _figure(folder, hostile)
    if prose is not None:
        write_text(project / "specs/quickstart.md", prose)
    words = {"claims": tuple(ClaimText(id=claim.id, says=claim.says) for claim in claims), "conditions": CONDITIONS, "runs": refs}
    words |= {"prose": "specs/quickstart.md" if prose is not None else None, "profile": profile, **DATA["page"]}
    write(
        folder.page_card,
        PageCard(
            experiment=name,
            because={"shaped": ("not an expression",)},
            code=code_versions(CodeTree(ROOT), ["stages.publish.page"]),
            **words,
        ),
    )
    place = itertools.count(10)
    write(
        folder.origins,
        Origins(
            spec=SPEC,
            cards={f"{condition.name}/train.card.json": DATA["origins"] for condition in CONDITIONS},
            claims={claim.id: Origin(file=SPEC, line=next(place), column=5, layer="experiment") for claim in claims},
            conditions={c.name: Origin(file=SPEC, line=next(place), column=3, layer="condition") for c in CONDITIONS},
        ),
    )
    return folder.root


def plain(markup: str) -> str:
    """The words that a reader sees."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", markup)).split())


def section(folder: ExperimentFolder, title: str) -> str:
    """The markup of a section of the page that was built."""
    return section_of((folder.page / "index.md").read_text(encoding="utf-8"), title)


def section_of(page: str, title: str) -> str:
    """The markup of one section of the evidence, from its heading on."""
    return page.split(f">{title}</h2>")[1].split('<details class="part')[0]


def copy_site(project: Path) -> None:
    """The repository's `site/` in a project."""
    shutil.copytree(ROOT / "site", project / "site")


def _findings(folder: ExperimentFolder, name: str, refs: tuple[RunRef, ...], card: str) -> Findings:
    findings: list[Finding] = []

    def source(ref: RunRef) -> Source:
        path = folder.run(ref.name).history
        return Source(path=path.as_posix(), sha256=file_digest(path), attempt=f"{ref.name}-2" if ref.name == FAILED else f"{ref.name}-1")

    def add(subject: str, metric: str, statistic: str, value: float | None, **more: object) -> None:
        unit = "share" if "share" in metric or metric == "truncated" else "reward"
        findings.append(
            Finding(
                id=f"{subject}/{metric}/{statistic}",
                says=f"{metric}, {statistic}, of {subject}",
                subject=subject,
                metric=metric,
                statistic=statistic,
                unit=unit,
                value=value,
                **more,
            )
        )  # type: ignore[arg-type]

    for metric, value in (("format", 0.981), ("tests", 0.521)):
        add(
            "untrained",
            f"evaluation.{metric}.pass_share",
            "final",
            value,
            low=value - 0.03,
            high=value + 0.02,
            level=0.95,
            k=int(value * 512),
            n=512,
            method="Wilson interval over completions",
        )
    for condition in CONDITIONS:
        initial, final, right = LEVELS[condition.name]
        mine = [ref for ref in refs if ref.condition == condition.name]
        for ref in mine:
            jitter = (ref.seed - 2) * 0.0123 * (final > 0)
            broken = ref.name == FAILED
            reason = {"reason": "training failed at step 31: no final window"} if broken else {}
            add(ref.name, "reward", "initial", initial + jitter / 3, window="steps 1-6", sources=(source(ref),))
            add(ref.name, "reward", "final", None if broken else final + jitter, window="steps 55-60", sources=(source(ref),), **reason)
            add(ref.name, "reward", "change", None if broken else final + jitter - initial - jitter / 3, **reason)
            add(ref.name, "zero_signal_share", "final", None if broken else 0.21 if final else 1.0, **reason)
            add(ref.name, "truncated", "final", None if broken else 0.0, **reason)
            add(ref.name, "evaluation.format.pass_share", "final", None if broken else 0.99, **reason)
            add(ref.name, "evaluation.tests.pass_share", "final", None if broken else right + jitter, **reason)
        seeds = tuple(
            SeedValue(
                run=ref.name,
                seed=ref.seed,
                value=None if ref.name == FAILED else right + (ref.seed - 2) * 0.0123,
                included=ref.name not in (FAILED, GATED),
                why={FAILED: "failed", GATED: "not finite from step 41"}.get(ref.name, ""),
            )
            for ref in mine
        )
        n = sum(seed.included for seed in seeds)
        interval = {"level": 0.95, "method": "t interval over seeds", "n": n, "seeds": seeds, "sources": tuple(source(ref) for ref in mine)}
        add(condition.name, "reward", "initial", initial, low=initial - 0.02, high=initial + 0.02, **interval)
        add(condition.name, "reward", "final", final, low=final - 0.03, high=min(1.0, final + 0.03), **interval)
        add(condition.name, "reward", "change", final - initial, low=final - initial - 0.04, high=final - initial + 0.04, **interval)
        add(condition.name, "zero_signal_share", "final", 0.21 if final else 1.0, **interval)
        add(condition.name, "truncated", "final", 0.0, **interval)
        add(condition.name, "evaluation.format.pass_share", "final", 0.99, low=0.985, high=0.995, **interval)
        add(condition.name, "evaluation.tests.pass_share", "final", right, low=right - 0.04, high=right + 0.04, **interval)
        for gate in condition.gates:
            add(condition.name, f"gate.{gate}.pass_share", "final", 0.97, low=0.95, high=0.99, **interval)
    both = [ref for ref in refs if ref.condition in ("shaped", "zero")]
    more = {"level": 0.95, "method": "Welch t interval over seeds", "n": 6, "sources": tuple(source(ref) for ref in both)}
    seeds = tuple(SeedValue(run=ref.name, seed=ref.seed, value=0.87 if ref.condition == "shaped" else 0.51, included=True) for ref in both)
    add("shaped-vs-zero", "evaluation.tests.pass_share", "difference", 0.3591, low=0.3012, high=0.4171, seeds=seeds, **more)
    add(
        "random-vs-zero",
        "evaluation.tests.pass_share",
        "difference",
        -0.2809,
        low=-0.3712,
        high=-0.1902,
        with_all=-0.2511,
        seeds=tuple(
            SeedValue(
                run=r.name,
                seed=r.seed,
                value=None if r.name == FAILED else 0.2,
                included=r.name != FAILED,
                why="failed at step 31" if r.name == FAILED else "",
            )
            for r in refs
            if r.condition in ("random", "zero")
        ),
        **more,
    )
    add("shaped-vs-zero", "evaluation.format.pass_share", "difference", 0.008, low=-0.012, high=0.028, seeds=seeds, **more)
    return Findings(card_id=card, experiment=name, claims_tested=4, findings=tuple(findings), verdicts=DATA["verdicts"])


def _run(folder: ExperimentFolder, ref: RunRef, number: int, hostile: str) -> None:
    run, failed, gated = folder.run(ref.name), ref.name == FAILED, ref.name == GATED
    condition = next(c for c in CONDITIONS if c.name == ref.condition)
    card = _train_card(folder, ref, condition)
    write(run.card, card)
    last = 31 if failed else STEPS
    attempts = [(1, "killed")] if ref.name == "shaped-s2" else []
    attempts += [(len(attempts) + 1, "failed"), (len(attempts) + 2, "failed")] if failed else [(len(attempts) + 1, "finished")]
    lines = []
    for n, state in attempts:
        at = f"2026-11-27T{10 + number // 6:02d}:{(number * 7 + n * 3) % 60:02d}:00Z"
        lines.append(
            Started(
                attempt=f"{ref.name}-{n}",
                number=n,
                at=at,
                card_id=card_id(card),
                commit="1f2e3d4c5b6a79880123",
                host="linux-x86_64-2cpu",
                devices=("cpu",),
                versions={"trl": "1.16.0", "torch": "2.13.0"},
                sandbox="bubblewrap",
                resumed_from=20 if n > 1 else None,
            )
        )
        if state != "killed":
            lines.append(
                Ended(
                    attempt=f"{ref.name}-{n}",
                    at=at.replace(":00Z", ":48Z"),
                    outcome=state,
                    failure="verifier" if failed else None,
                    last_step=last,
                    seconds=17.2,
                    error=f"the sandbox died {hostile}" if failed else None,
                )
            )
    write_text(run.attempts, "".join(line.model_dump_json() + "\n" for line in lines))
    name = f"{ref.name}-{attempts[-1][0]}"
    write(
        run.outcome,
        Outcome(
            card_id=card_id(card),
            attempt=name,
            finished=not failed,
            steps_done=last,
            target_steps=STEPS,
            failure="verifier" if failed else None,
            error=f"the sandbox died {hostile}" if failed else None,
        ),
    )
    pq.write_table(pa.table({"step": [1], "metric": ["reward"], "value": [0.1 * number]}), run.history)
    _completions(folder, ref, condition, hostile)
    seen = {"nonfinite": gated, "collapse": ref.condition == "zero", "reward_atoms": ref.condition == "shaped"}
    detections = [
        Detection(detector=name, state="looked", signals=(_signal(name, hostile),) if there else ()) for name, there in seen.items()
    ]
    detections.append(Detection(detector="kl", state="not_applicable", reason="beta is 0, so no KL is computed"))
    reasons = ("failed at step 31 (verifier)",) if failed else ("nonfinite: gradient norms are not finite from step 41",) if gated else ()
    write(
        run.health,
        Health(
            run=ref.name,
            condition=ref.condition,
            seed=ref.seed,
            card_id=card_id(card),
            attempt=name,
            state="failed" if failed else "finished",
            steps_done=last,
            target_steps=STEPS,
            failure="verifier" if failed else None,
            detections=tuple(detections),
            included=not reasons,
            reasons=reasons,
            gates=(
                GateResult(gate="steps", rule="steps complete", passed=not failed, says=f"{last} of {STEPS} steps"),
                GateResult(
                    gate="nonfinite", rule="not finite: not persistent", passed=not gated, says="class persistent" if gated else "none"
                ),
                GateResult(
                    gate="truncated",
                    rule="truncated below 0.5 in the final window",
                    passed=None if failed else True,
                    says="no final window" if failed else "0.00",
                ),
            ),
        ),
    )


def _signal(name: str, hostile: str) -> Signal:
    """A signal of the data, with hostile text in place of its mark."""
    return Signal.model_validate(json.loads(json.dumps(DATA["signals"][name]).replace("HOSTILE", json.dumps(hostile)[1:-1])))


def _train_card(folder: ExperimentFolder, ref: RunRef, condition: ConditionCard) -> TrainCard:
    gates = tuple(
        Gate(
            name=gate,
            kind={"tests": "python_tests"}.get(gate, gate),
            settings={"pattern": "[-+*()x0-9 ]+", "max_chars": 60} if gate == "format" else {"timeout": 1.0},
            on_fail=0.0 if gate == "format" else None,
        )
        for gate in condition.gates
    )
    return TrainCard(
        experiment=folder.name,
        condition=ref.condition,
        seed=ref.seed,
        null_control=ref.condition == "zero",
        model=ModelRef(base="octavo/tiny", path="runs/_models/tiny/model", revision="ab" * 8, adapter=Adapter()),
        data=DatasetRef(path="data/train.jsonl", sha256=file_digest(Path("data/train.jsonl"))),
        reward=Reward(name=condition.reward, gates=gates, invert=ref.condition == "inverted"),
        train=GrpoSettings(max_steps=STEPS, learning_rate=1e-3 if ref.condition != "zero" else 5e-4, max_completion_length=24),
        device="cpu",
        versions={"trl": "1.16.0", "torch": "2.13.0"},
        code={"some.stage": "feedbeefcafe0001"},
    )


def _completions(folder: ExperimentFolder, ref: RunRef, condition: ConditionCard, hostile: str) -> None:
    texts = [
        ("(x*2)+3", "pass", "pass", 1.0),
        ("(x*2)+3", "pass", "pass", 1.0),
        ("x*2+", "pass", "fail", 0.1),
        (hostile, "fail", "not_reached", 0.0),
        ("x\nx", "pass", "unknown", None),
    ]
    rows = [(1, *texts[2]), *((60, *texts[i % len(texts)]) for i in range(50))]
    columns = {
        "attempt": ["a"] * len(rows),
        "step": [row[0] for row in rows],
        "prompt_id": [f"p{i % 6}" for i in range(-1, 50)],
        "text": [row[1].replace("\x00", "\x00") for row in rows],
        "reward": [row[4] for row in rows],
    }
    for index, gate in enumerate(condition.gates):
        status, score, reason = gate_columns(gate)
        columns[status] = [row[2 + min(index, 1)] for row in rows]
        columns[score] = [{"pass": 1.0, "fail": 0.25}.get(said) for said in columns[status]]
        columns[reason] = [hostile if said == "fail" else "" for said in columns[status]]
    pq.write_table(pa.table(columns), folder.run(ref.name).completions)


def _evaluation(folder: ExperimentFolder, refs: tuple[RunRef, ...], hostile: str) -> None:
    """The shared evaluation: two samples of each of six prompts. Odd prompts are right after training on `shaped`, none elsewhere."""
    card = _train_card(folder, refs[0], CONDITIONS[0])
    path, scores = Path("data/heldout.jsonl"), ("format", "tests")
    data = DatasetRef(path=path.as_posix(), sha256=file_digest(path))
    own = {"model": card.model, "scores": card.reward.gates, "code": {"some.stage": "0" * 16}}
    write(folder.evaluate_card, EvaluateCard(experiment=folder.name, data=data, max_completion_length=24, device="cpu", versions={}, **own))
    for subject, place in {"untrained": folder.untrained, **{ref.name: folder.run(ref.name) for ref in refs if ref.name != FAILED}}.items():
        cells = [(f"p{n // 2}", n % 2, "pass" if subject.startswith("shaped") and n // 2 % 2 else "fail") for n in range(12)]
        columns = {"prompt_id": [i for i, _, _ in cells], "sample": [n for _, n, _ in cells]}
        columns["text"] = [f"{subject} says {n} {hostile}" for _, n, _ in cells]
        for name in scores:
            said = ["pass" if name == "format" else tests for _, _, tests in cells]
            scored, reasons = [float(word == "pass") for word in said], [hostile if word == "fail" else "" for word in said]
            columns |= dict(zip(gate_columns(name), (said, scored, reasons), strict=True))
        place.root.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(columns), place.evaluation)


def _preflight_card(folder: ExperimentFolder, hostile: str) -> PreflightCard:
    example = Example(completion=hostile, row={}, expect=0.0)
    card = _train_card(folder, RunRef(name="shaped-s1", condition="shaped", seed=1, target_steps=STEPS), CONDITIONS[0])
    shaped = PreflightCondition(
        name="shaped",
        null_control=False,
        reward=card.reward.model_copy(update={"examples": (example,)}),
        data=card.data,
        num_generations=8,
        max_completion_length=24,
        temperature=1.0,
        top_p=1.0,
    )
    return PreflightCard(
        experiment=folder.name,
        model=card.model,
        conditions=(shaped,),
        completions=256,
        zero_signal_share=Below(below=0.6),
        truncated=Below(below=0.3),
        device="cpu",
        versions={},
        code={"some.stage": "0" * 16},
    )


def _preflight(folder: ExperimentFolder, hostile: str) -> None:
    write(folder.preflight_card, _preflight_card(folder, hostile))
    results = tuple(
        PreflightResult(
            condition=c.name,
            verdict="warn" if c.name == "random" else "pass",
            reasons=("half of the groups carry no signal (16 of 32)",) if c.name == "random" else (),
            zero_signal_groups=16 if c.name == "random" else 3,
            funnel=tuple(
                GateShares(gate=gate, reached=256 - 6 * i, passed=250 - 110 * i, failed=6 + 104 * i, unknown=0)
                for i, gate in enumerate(c.gates)
            ),
            probes=(
                ProbeReward(name="empty", text="", reward=0.0, best=False),
                ProbeReward(name="one word", text="x", reward=1.0 if c.name == "shaped" else 0.1, best=c.name == "shaped"),
            ),
            step=StepTime(completions=64, sampling=2.5, scoring=0.52, slowest_gate="tests") if c.name == "shaped" else None,
            **DATA["preflight"],
        )
        for c in CONDITIONS
    )
    write(folder.preflight, Preflight(card_id="0123456789abcdef", sandbox="bubblewrap", results=results))


def _figure(folder: ExperimentFolder, hostile: str) -> None:
    svg = (
        '<?xml version="1.0"?>\n<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 600 180" width="600" height="180">\n\n'
        '<path d="M40 150 C200 120 300 60 580 40" fill="none" stroke="#0072b2" stroke-width="2"/>\n'
        '<text x="40" y="170" fill="currentColor">step</text></svg>\n'
    )
    write_text(folder.figures / "reward.svg", svg)
    write_text(folder.figures / "reward.csv", "step,value\n1,0.6\n")
    write(
        folder.figures / "reward.json",
        Figure(
            name="reward",
            title="Reward",
            caption=f"Mean reward of each seed. {hostile}",
            alternative="Reward rises from 0.62 to 0.87.",
            findings=("shaped/reward/final",),
        ),
    )


def dress(folder: ExperimentFolder, conclude: ConcludeCard) -> None:
    """Add what a page needs to a folder that the analysis stages have filled: train cards, origins and the page's card."""
    write_text(Path("data/train.jsonl"), "{}\n")
    for ref in conclude.runs:
        condition = next(c for c in conclude.conditions if c.name == ref.condition)
        write(folder.run(ref.name).card, _train_card(folder, ref, condition))
    claims = {claim.id: Origin(file=SPEC, line=10 + n, column=5, layer="experiment") for n, claim in enumerate(conclude.claims)}
    places = {c.name: Origin(file=SPEC, line=30 + n, column=3, layer="condition") for n, c in enumerate(conclude.conditions)}
    write(folder.origins, Origins(spec=SPEC, cards={}, claims=claims, conditions=places))
    words = tuple(ClaimText(id=claim.id, says=f"The claim {claim.id} holds.") for claim in conclude.claims)
    card = PageCard(
        experiment=folder.name,
        title="What a synthetic experiment looks like",
        question="Do the pages say what the numbers say?",
        owner="octavo",
        tags=(),
        spec=SPEC,
        prose=None,
        profile=None,
        health_profile="grpo-default",
        conditions=conclude.conditions,
        runs=conclude.runs,
        claims=words,
        evaluation=conclude.evaluation,
        curves=("reward",),
        code=code_versions(CodeTree(ROOT), ["stages.publish.page"]),
    )
    write(folder.page_card, card)


def import_card(condition: str = "random", seed: int = 2, *, column: ColumnCard | None = None, source: str = "logs/a.csv") -> ImportCard:
    """The card of a run that octavo did not train, of the example or of one like it."""
    read = ReadCard(format="csv", columns=(column or ColumnCard(metric="reward", column="r", unit="reward"),))
    pinned = SourceCard(path=source, sha256="0" * 64)
    names = {"experiment": "quickstart", "condition": condition, "seed": seed, "null_control": False}
    return ImportCard(**names, source=pinned, read=read, target_steps=STEPS, code={"some.stage": "0" * 16})


def read_with_care(experiment: ExperimentFiles, **changes: Any) -> list[str]:
    """The sentences beside the answers. `changes`: of the claims' views."""
    facts = Facts(experiment.findings)
    claims = [claim._replace(**changes.get(claim.id.replace("-", "_"), {})) for claim in claim_views(experiment, facts)]
    return [plain(caution.says) for caution in cautions(Sources(experiment, facts, claims, anomalies(experiment)))]
