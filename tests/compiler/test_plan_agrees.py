"""`octavo plan` against DVC: what it says runs is what `dvc status` calls changed and what `dvc repro` then starts."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from plan_project import compiles, edit, judge_code, planned, repro, states, status

SPEC = "specs/example.yaml"
ALL = {f"{condition}-s{seed}" for condition in ("shaped", "zero") for seed in (1, 2, 3)}
EVALUATED = {"evaluate-untrained", *(f"evaluate-{run}" for run in ALL)}
SHAPED = {"shaped-s1", "shaped-s2", "shaped-s3"}
TRAIN = "runs/example/dvc.yaml:train-"


@pytest.fixture
def work(at_work: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    return at_work


def spec(old: str, new: str, count: int = 1) -> Callable[[], None]:
    return lambda: edit(SPEC, old, new, count)


def other(path: str, old: str, new: str) -> Callable[[], None]:
    return lambda: edit(path, old, new)


def touch() -> None:
    os.utime("data/train.jsonl", (1, 1))


def delete(*paths: str) -> Callable[[], None]:
    def run() -> None:
        for path in paths:
            shutil.rmtree(path) if Path(path).is_dir() else Path(path).unlink()

    return run


def by_hand() -> None:
    Path("runs/example/zero-s2/health.json").write_text("mine\n")


def forget(path: str, keep: bool = False) -> Callable[[], None]:
    """Delete what DVC's cache holds of a file, and the file unless it is kept."""

    def run() -> None:
        from compiler.lock.files import Files

        md5 = Files(Path(), {}).md5(path)
        assert md5
        Path(f".dvc/cache/files/md5/{md5[:2]}/{md5[2:]}").unlink()
        if not keep:
            delete(path)()

    return run


def retry() -> None:
    edit("runs/example/shaped-s1/retry.json", "null", '"shaped-s1-a1"')


def code(path: str) -> Callable[[], None]:
    def change() -> None:
        append(path, "LATER = 1\n")
        judge_code()

    return change


def no_lock() -> None:
    Path("runs/example/dvc.lock").unlink()


GATE = "stages/train/rewards/format.py"
EDITS: dict[str, tuple[Callable[[], None], set[str], set[str]]] = {
    # what is edited: (how, runs that certainly train, other stages that certainly run)
    "nothing": (lambda: None, set(), set()),
    "comment at the end": (lambda: Path(SPEC).write_text(Path(SPEC).read_text() + "# words\n"), set(), set()),
    "comment at the top": (spec("title:", "# words\ntitle:"), set(), set()),
    "title": (spec("teach right", "teach only right"), set(), {"page"}),
    "claim's words": (spec("says: The shaped", "says: A shaped"), set(), {"page"}),
    "claim's margin": (spec("above: 0.05", "above: 0.10"), set(), {"conclude", "page"}),
    "actions": (spec("profiles:", "actions: [{id: a, do: x, change: {train.beta: 0.1}}]\n\nprofiles:"), set(), {"page"}),
    "a child that makes the change of an action": (lambda: child(), set(), {"page"}),
    "question": (spec("profiles:", "questions: [{ask: 'Which claims hold?', show: claims}]\n\nprofiles:"), set(), {"page"}),
    "question with numbers of its own": (
        spec("profiles:", "questions: [{ask: 'Any NaN?', show: anomalies}]\n\nprofiles:"),
        set(),
        {"conclude", "page"},
    ),
    "prose": (other("specs/example.md", "think", "believe"), set(), {"page"}),
    "prose deleted": (delete("specs/example.md"), set(), {"page"}),
    "learning rate of one condition": (
        spec("role: null_control}", "role: null_control, train: {learning_rate: 2e-3}}"),
        {"zero-s1", "zero-s2", "zero-s3"},
        {"page"},
    ),
    "a setting spelled out as its default": (spec("save_steps: 4", "save_steps: 4\n  top_p: 1.0"), set(), {"page"}),
    "new seed": (
        spec("seeds: [1, 2, 3]", "seeds: [1, 2, 3, 4]"),
        {"shaped-s4", "zero-s4"},
        {"evaluate-shaped-s4", "evaluate-zero-s4", "screen", "conclude", "draw", "page", "complete"},
    ),
    "removed seed": (lambda: fewer_seeds(), set(), {"screen", "conclude", "draw", "page"}),
    "new condition": (
        spec("  zero: {", "  half: {reward: {constant: 0.5}, role: control}\n  zero: {"),
        {"half-s1", "half-s2", "half-s3"},
        {"preflight", "evaluate-half-s1", "evaluate-half-s3", "screen", "conclude", "draw", "page", "complete"},
    ),
    "a row of the training data": (other("data/train.jsonl", '"row-2"', '"row-two"'), ALL, {"preflight"}),
    "data touched": (touch, set(), set()),
    "a row of the evaluation data": (other("data/heldout.jsonl", '"row-22"', '"row-b"'), set(), EVALUATED),
    "rows of the evaluation": (spec("rows: 4", "rows: 3"), set(), EVALUATED | {"page"}),
    "samples of the evaluation": (spec("samples: 2", "samples: 3"), set(), EVALUATED | {"page"}),
    "health bound": (spec("below: 50%", "below: 40%"), set(), {"screen"}),
    "preflight bound": (spec("preflight: {completions: 16}", "preflight: {completions: 32}"), set(), {"preflight", "page"}),
    "a reward's example": (spec('"import os", row: row-3', '"import sys", row: row-3'), set(), {"preflight", "page"}),
    "base model": (other("specs/_models/tiny.yaml", "max_steps: 2", "max_steps: 3"), ALL, {"pretrain", "preflight", "evaluate-untrained"}),
    "version of a library": (other("constraints.txt", "trl==1.16.0", "trl==1.16.1"), ALL, {"pretrain"}),
    "code of one condition's gate": (code(GATE), SHAPED, {"preflight"}),
    "comment in a stage": (other("stages/train/trl.py", "from __future__", "# words\nfrom __future__"), set(), set()),
    "docstring of a stage": (lambda: docstring(), set(), set()),
    "code of analysis": (code("stages/analyse/conclude.py"), set(), {"conclude", "page"}),
    "page template": (lambda: append(template(), "<!-- later -->\n"), set(), {"page", "site"}),
    "site": (other("site/docs/index.md", "Site", "Our site"), set(), {"site"}),
    "deleted output of analysis": (delete("runs/example/zero-s2/health.json"), set(), set()),
    "deleted output of training": (delete("runs/example/zero-s2/adapter"), set(), set()),
    "output edited by hand": (by_hand, set(), set()),
    "output deleted and gone from the cache": (forget("runs/example/zero-s2/history.parquet"), {"zero-s2"}, set()),
    "output gone from the cache only": (forget("runs/example/zero-s2/history.parquet", keep=True), {"zero-s2"}, set()),
    "deleted output without a run cache": (delete("runs/example/zero-s2/adapter", ".dvc/cache/runs"), set(), set()),
    "command in the lock": (other("runs/example/dvc.lock", "stages.publish.page ", "stages.publish.pages "), set(), set()),
    "retry due": (retry, {"shaped-s1"}, set()),
    "lock lost": (no_lock, set(), set()),
    "profile instead": (lambda: Path("specs/pipeline.yaml").write_text("- example@smoke\n"), {"shaped-s1", "zero-s1"}, set()),
}


def child() -> None:
    edit(
        SPEC, "profiles:", "contingency:\n  - {id: a, if: {claim: shaped-teaches, is: void}, do: x, change: {train.beta: 0.1}}\n\nprofiles:"
    )
    Path("specs/second.yaml").write_text("title: x\nparent: example\nchanges: {train.beta: 0.1}\nhypothesis: x\n")


def fewer_seeds() -> None:
    """Without its claim, which needs three."""
    edit(SPEC, "seeds: [1, 2, 3]", "seeds: [1, 2]")
    text = Path(SPEC).read_text()
    Path(SPEC).write_text(text[: text.index("claims:")] + text[text.index("profiles:") :])


def docstring() -> None:
    text = Path("stages/train/trl.py").read_text()
    assert text.startswith('"""')
    Path("stages/train/trl.py").write_text(text.replace('"""', '"""Other words. ', 1))


def append(path: str, text: str) -> None:
    with open(path, "a") as stream:
        stream.write(text)


def template() -> str:
    return min(map(str, Path("stages/publish/templates").glob("*.j2")))


CHECKS = {f"runs/{name}/dvc.yaml:complete" for name in ("example", "example@smoke")}
"""They write nothing, and the one at the top level does the same: no plan names them."""


@pytest.mark.parametrize("what", EDITS)
def test_the_plan_is_what_dvc_does(work: pytest.MonkeyPatch, what: str) -> None:
    how, training, others = EDITS[what]
    how()

    plan = planned()

    stage_states = states(plan)
    certain = {stage for stage, state in stage_states.items() if state == "runs"}
    back = {stage for stage, state in stage_states.items() if state == "restored"}
    possible = {stage for stage, state in stage_states.items() if state == "may_run"}
    assert {stage.run or stage.stage for stage in plan.training} - {"pretrain"} == training
    assert others <= {stage.rpartition(":")[2] for stage in certain}
    if not training and not others:
        assert not certain

    compiles()
    changed = status() - CHECKS
    assert certain | back <= changed
    assert back or changed - certain <= possible, "dvc status also names stages that read what DVC is about to put back"
    if not possible & changed and not back:
        assert changed == certain | back

    if not changed:
        return

    started = repro(work) - CHECKS
    assert certain <= started
    assert started <= certain | possible
    assert set(states(planned()).values()) == {"stays"}, "after dvc repro nothing is left to plan"
