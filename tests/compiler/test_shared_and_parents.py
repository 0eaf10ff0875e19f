"""Shared blocks, parents and their changes: what ends up in the cards, and where it came from."""

import random

import pytest

from compiler.__main__ import main
from compiler.build.inputs import Inputs
from compiler.build.pipeline import named
from compiler.compile import compile_all, project
from compiler.problems import Rejected

LATE = {"late": {"when": "truncated", "set": 0.0}}
CHILD = """title: Does a lower learning rate do it too?
parent: example
changes: {%s}
hypothesis: >
  A ten times lower learning rate
  learns the same.
"""


def compile_named(name="child"):
    return compile_all([named(name)], Inputs())[0]


@pytest.fixture
def child(work):
    def write(changes: str, more: str = "", name: str = "child"):
        (work / f"specs/{name}.yaml").write_text(CHILD % changes + more)
        return compile_named(name)

    return write


@pytest.fixture
def shared(work):
    (work / "specs/_shared").mkdir()

    def write(name: str, text: str) -> None:
        (work / f"specs/_shared/{name}.yaml").write_text(text)

    return write


def test_a_block_lies_below_the_experiment_and_later_blocks_above_earlier_ones(compiled, spec, shared):
    shared("first", "train: {beta: 0.1, top_p: 0.5, epsilon: 0.3}\n")
    shared("second", "train: {beta: 0.2, epsilon: 0.4, max_steps: 99}\nowner: team\n")
    example = compiled(spec.replace("train:\n  max", "use: [first, second]\ntrain:\n  epsilon: 0.5\n  max").replace("owner: octavo\n", ""))
    train, origins = example.cards.train["zero"].train, example.origins.cards["zero/train.card.json"]
    assert (train.beta, train.top_p, train.epsilon, train.max_steps) == (0.2, 0.5, 0.5, 12)
    assert example.cards.page.owner == "team"
    places = {key: (origins[f"/train/{key}"].position, origins[f"/train/{key}"].layer) for key in ("beta", "top_p", "epsilon")}
    assert places["beta"] == ("specs/_shared/second.yaml:1:15", "shared")
    assert places["top_p"] == ("specs/_shared/first.yaml:1:27", "shared")
    assert places["epsilon"][1] == "experiment"


def test_status_and_decision_are_of_one_experiment_and_train_nothing_again(compiled, spec, child, work):
    plain = compiled(spec)
    said = compiled(spec + "status: {text: it is flat, on: 2026-11-29, step: 6}\n")
    assert (said.cards.page.status.on, said.cards.page.status.step, said.cards.page.decision) == ("2026-11-29", 6, None)
    assert [path for path in plain.cards.single if plain.cards.single[path] != said.cards.single[path]] == ["page.card.json"]
    assert plain.cards.train == said.cards.train
    assert child("train.learning_rate: 1.0e-4").cards.page.status is None
    (work / "specs/example.yaml").write_text(spec + "status: {text: it is flat, on: 2026-11-29, step: 6}\n")
    assert compile_named("example@smoke").cards.page.status is None


def test_conditions_and_profiles_outrank_a_block(compiled, spec, shared):
    shared("quick", "conditions: {zero: {train: {beta: 0.3}}}\ntrain: {beta: 0.1}\nprofiles: {wide: {train: {epsilon: 0.4}}}\n")
    text = spec.replace("train:\n  max", "use: [quick]\ntrain:\n  max")
    assert compiled(text).cards.train["zero"].train.beta == 0.3
    assert compiled(text).cards.train["shaped"].train.beta == 0.1
    assert compiled(text, "example@wide").cards.train["zero"].train.epsilon == 0.4


def test_a_child_is_its_parent_with_its_changes(child):
    example, parent = child("train.learning_rate: 1.0e-4"), compile_named("example")
    for name, card in example.cards.train.items():
        theirs = parent.cards.train[name].model_dump()
        theirs["train"]["learning_rate"] = 1e-4
        assert card.model_dump() == theirs | {"experiment": "child"}
    page = example.cards.page
    assert (page.title, page.question, page.claims) == ("Does a lower learning rate do it too?", parent.cards.page.question, ())
    assert (page.parent, page.hypothesis) == ("example", "A ten times lower learning rate learns the same.")
    assert "runs/child/dvc.yaml" in project([example], with_site=False).files
    origins = example.origins.cards["zero/train.card.json"]
    assert (origins["/train/learning_rate"].position, origins["/train/learning_rate"].layer) == ("specs/child.yaml:3:32", "experiment")
    assert (origins["/train/max_steps"].position, origins["/train/max_steps"].layer) == ("specs/example.yaml:15:14", "parent")


@pytest.mark.parametrize(
    ("change", "path", "expected"),
    [
        ("rewards.shaped.gates.format.max_chars: 9", "rewards.shaped.gates.format.max_chars", 9),
        ("rewards.shaped.gates.tests.timeout: 2s", "rewards.shaped.gates.tests.timeout", 2.0),
        ("rewards.shaped.unknown.limit: 10%", "rewards.shaped.unknown.limit", 0.1),
        ("conditions.zero.train.beta: 0.5", "conditions.zero.train.beta", 0.5),
        ("conditions.zero.reward: {constant: 0.5}", "conditions.zero.reward.constant", 0.5),
        ("model.adapter.r: 4", "model.adapter.r", 4),
        ("health.gates.gate.tests.pass_share: {above: 0.1}", "health.gates.gate.tests.pass_share.above", 0.1),
        ("evaluation.samples: 7", "evaluation.samples", 7),
        ("data.evaluation.rows: 3", "data.evaluation.rows", 3),
        ("train: {beta: 0.25}", "train.beta", 0.25),
        ("seeds: [4, 5, 6]", "seeds", [4, 5, 6]),
        (
            "rewards.shaped.penalties: [{late: {when: truncated, set: 0.0}}]",
            "rewards.shaped.penalties",
            [{"late": {"when": "truncated", "set": 0.0}}],
        ),
        ("conditions.slow: {reward: shaped, role: control, train: {learning_rate: 1e-5}}", "conditions.slow.train.learning_rate", 1e-5),
    ],
)
def test_any_setting_can_change(child, change, path, expected):
    from compiler.build.difference import differences

    example = child(change)
    changes = {change.key: change.after for change in differences(example.experiment.parent, example.experiment)}
    assert changes[path] == expected
    written = change.partition(": ")[0]
    assert all(key.startswith(written) or written.startswith(key) for key in changes), changes


def test_null_removes_what_the_parent_has(child):
    example = child("conditions.shaped: null, rewards.shaped: null, evaluation: null, train.gradient_accumulation_steps: null")
    assert list(example.cards.train) == ["zero"]
    assert example.cards.train["zero"].train.gradient_accumulation_steps == 1
    assert "analysis/evaluate.card.json" not in example.cards.single
    example = child("rewards.shaped.gates.format: null", "rewards: {shaped: {examples: null}}\n")
    assert [gate.name for gate in example.cards.train["shaped"].reward.gates] == ["tests"]


def test_a_default_written_out_is_no_difference_and_a_profiles_page_has_its_own(child):
    more = "train: {beta: 0.0, temperature: 1}\nseeds: [1, 2, 3]\ntags: [more]\nowner: me\nprofiles: {smoke: {train: {max_steps: 3}}}\n"
    example, smoke = child("train.learning_rate: 1.0e-4", more), compile_named("child@smoke")
    assert smoke.cards.train["zero"].train.max_steps == 3
    assert [change.key for change in example.cards.page.changes] == ["train.learning_rate"]
    changes = [(change.key, change.before, change.after) for change in smoke.cards.page.changes]
    assert (
        changes == [("train.max_steps", "2", "3"), ("train.learning_rate", "0.001", "0.0001")]
        and smoke.cards.page.changed_from == "example@smoke"
    )


def test_a_thousand_generations_neither_hang_nor_recurse(work):
    for number in range(1000):
        parent = "example" if number == 0 else f"child-{number - 1}"
        (work / f"specs/child-{number}.yaml").write_text(
            (CHILD % f"train.beta: 0.{number + 1:04}").replace("parent: example", f"parent: {parent}")
        )
    assert compile_named("child-999").cards.train["zero"].train.beta == 0.1


def test_explain_diff(child, work, capsys):
    child("train.learning_rate: 1.0e-4, train.beta: 0.1")
    assert main(["explain", "child", "--diff", "parent"]) == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["train.learning_rate", "0.001", "->", "0.0001", "specs/example.yaml:16:18", "->", "specs/child.yaml:3:32"],
        ["train.beta", "0", "->", "0.1", "default", "->", "specs/child.yaml:3:52"],
    ]
    assert main(["explain", "example@smoke", "--diff", "example"]) == 0
    keys = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert keys == ["train.max_steps", "train.save_steps", "seeds"]
    assert main(["explain", "example", "--diff", "example"]) == 0
    assert capsys.readouterr().out == "no difference\n"


IMPORTED = """title: Runs that exist already
question: Did it teach?
runs: {import: {format: csv, path: 'logs/{condition}-{seed}.csv', steps: 20, metrics: {reward: %s}, unavailable: [truncated]}}
seeds: [1, 2, 3]
conditions:
  shaped: {reward: by tests, role: treatment}
"""


def test_explain_diff_of_imported_runs(work, capsys):
    (work / "logs").mkdir()
    for seed in (1, 2, 3):
        (work / f"logs/shaped-{seed}.csv").write_text("step,reward,score\n1,0.1,0.2\n")
    (work / "specs/one.yaml").write_text(IMPORTED % "reward")
    (work / "specs/two.yaml").write_text(IMPORTED % "score")
    assert main(["explain", "two", "--diff", "one"]) == 0
    assert [line.split()[:4] for line in capsys.readouterr().out.splitlines()] == [["runs.import.metrics.reward", "reward", "->", "score"]]
    assert main(["explain", "one", "--diff", "example"]) == 0
    keys = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert "runs.import.path" in keys and "train.learning_rate" in keys and "conditions.zero.role" in keys


KEYS = {
    "train.learning_rate": "2e-4",
    "train.beta": "0.25",
    "seeds": "[7, 8, 9]",
    "model.adapter.r": "4",
    "evaluation.samples": "3",
    "conditions.shaped.train.top_p": "0.5",
    "rewards.shaped.gates.format.max_chars": "40",
    "rewards.shaped.unknown.limit": "0.1",
    "preflight.completions": "32",
    "data.train.rows": "5",
}


def test_the_page_tells_exactly_the_declared_changes(child):
    for seed in range(6):
        chosen = random.Random(seed).sample(sorted(KEYS), seed + 2)
        page = child(", ".join(f"{key}: {KEYS[key]}" for key in chosen)).cards.page
        assert sorted(change.key for change in page.changes) == sorted(chosen)


@pytest.mark.parametrize("key", sorted(KEYS))
def test_each_undeclared_difference_is_refused(child, key):
    """The same settings, written beside the declared change instead of in it."""
    text = KEYS[key]
    for part in reversed(key.split(".")[1:]):
        text = f"{{{part}: {text}}}"
    if "gates" in key:
        text = "{shaped: {gates: [{format: {kind: format, pattern: '[-+*()x0-9 ]+', on_fail: 0.0, max_chars: 40}}, {tests: "
        text += "{kind: python_tests, answer: expression, arguments: [x], timeout: 1s}}]}}"
    with pytest.raises(Rejected) as caught:
        child("train.epsilon: 0.3", f"{key.split('.')[0]}: {text}\n")
    errors = [problem for problem in caught.value.diagnostics if problem.severity == "error"]
    assert [(problem.code, problem.what.split("`")[1], problem.place.file) for problem in errors] == [("E339", key, "specs/child.yaml")]
