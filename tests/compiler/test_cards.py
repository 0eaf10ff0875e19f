"""What a compile writes: golden files, what cards hold where the goldens do not show it, and where each value came from.

`tests/golden/<case>/` holds a spec and files made of it. Hashes of code change with the code and are left out.
"""

import re
import shutil
from pathlib import Path

import pytest

from compiler.build.inputs import Inputs
from compiler.build.pipeline import named
from compiler.compile import compile_all, project
from compiler.language.health_profiles import PROFILES
from stages.contracts.artifact import dump, read
from stages.contracts.lineage import Origins
from stages.contracts.plugin import DETECTORS, kinds

GOLDEN = Path(__file__).parents[1] / "golden"
ROOT = Path(__file__).parents[2]
DRAW, SCREEN, EVALUATE = (f"analysis/{stage}.card.json" for stage in ("draw", "screen", "evaluate"))
CASES = {
    "small": ("example", r"plain-s7/train|/dvc\.yaml|analysis/|page\.card|preflight\.card"),
    "weighted": ("example", r"shaped-s1/train|evaluate\.card"),
    "ppo": ("example", r"shaped-s1/train"),
    "sft": ("example", r"gold-s1/train"),
}
"""Case -> name of the experiment, and what is kept of its files: one run card an algorithm, one pipeline, cards of single stages."""


def compare(case: str, files: dict[str, str], kept: str, update: bool) -> None:
    folder = GOLDEN / case / "expected"
    chosen = {path: text for path, text in files.items() if re.search(kept, path)}
    hashes = re.compile(r'"(revision|analyse.draw|publish.page)": "[0-9a-f]{12,16}"')
    texts = {path: hashes.sub(r'"\1": "(hex digits)"', text) for path, text in chosen.items()}
    if update:
        shutil.rmtree(folder, ignore_errors=True)
        for path, text in texts.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")
    expected = {path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8") for path in folder.rglob("*") if path.is_file()}
    assert sorted(texts) == sorted(expected)
    for path, text in texts.items():
        assert text == expected[path], path


@pytest.mark.parametrize("case", CASES)
def test_golden_files(case, work, files, update_golden):
    name, kept = CASES[case]
    text = (GOLDEN / case / "spec.yaml").read_text(encoding="utf-8")
    written = files(text, name)
    assert files(text, name) == written, "two compiles are equal"
    compare(case, written.files, kept, update_golden)


def test_golden_quickstart(monkeypatch, update_golden):
    """Of the real quickstart: the first seed of each condition, its pipeline, and how bases are made."""
    monkeypatch.chdir(ROOT)
    written = project(compile_all([named("quickstart")], Inputs()), with_site=True).files
    compare("quickstart", written, r"-s1/train|/dvc\.yaml|^dvc\.yaml|pretrain\.card|page\.card", update_golden)


def test_every_emitted_file_is_what_the_contract_writes(compiled, spec, work):
    example = compiled(spec)
    written = project([example], with_site=False)
    for run in example.expansion.runs:
        card = example.cards.train[run.setup.name].model_copy(update={"seed": run.seed})
        assert written.files[f"runs/example/{run.name}/train.card.json"] == dump(card)
    for path, card in example.cards.single.items():
        assert written.files[f"runs/example/{path}"] == dump(card)
    (work / "origins.json").write_text(written.ignored["runs/example/origins.json"], encoding="utf-8")
    origins = read(Origins, work / "origins.json")
    assert origins == example.origins
    assert origins.seeds["2"].position == "specs/example.yaml:23:12"
    assert origins.claims["shaped-teaches"].position == "specs/example.yaml:50:5"
    assert origins.conditions["zero"].position == "specs/example.yaml:37:3"
    assert str(origins.conditions["zero"]) == "specs/example.yaml: conditions.zero"
    gate = origins.cards["shaped/train.card.json"]["/reward/gates/0/on_fail"]
    assert str(gate) == "specs/example.yaml: rewards.shaped.gates.format.on_fail"


def test_every_leaf_of_a_train_card_has_an_origin(compiled, spec):
    def leaves(pointer, value):
        if isinstance(value, dict):
            return [deep for key, inner in value.items() for deep in leaves(f"{pointer}/{key}", inner)]
        if isinstance(value, list) and value and isinstance(value[0], dict):
            return [deep for index, inner in enumerate(value) for deep in leaves(f"{pointer}/{index}", inner)]
        return [pointer]

    example = compiled(spec)
    for name, card in example.cards.train.items():
        values = leaves("", card.model_dump(mode="json", exclude={"code", "experiment", "seed"}))
        assert set(values) - set(example.origins.cards[f"{name}/train.card.json"]) <= {"/reward/examples"}, name


@pytest.mark.parametrize(("gpus", "device"), [("", "cpu"), ("gpus: 1, ", "cuda")])
def test_device_and_planning_numbers(compiled, spec, gpus, device):
    cards = compiled(spec + f"resources: {{{gpus}gpu_memory: 30GB, hours: 5.5}}\n").cards
    assert cards.train["zero"].device == cards.single["preflight/preflight.card.json"].device == device
    assert cards.single[EVALUATE].device == device
    plain = compiled(spec).cards
    assert gpus or (cards.train, cards.single) == (plain.train, plain.single), "planning numbers enter no card"


def test_detectors_are_those_of_the_profile_and_of_the_spec(compiled, spec):
    cards = compiled(spec).cards
    assert [detector.kind for detector in cards.single[SCREEN].detectors] == list(PROFILES["grpo-default"])
    assert {kind for profile in PROFILES.values() for kind in profile} == set(kinds(DETECTORS)), "every detector is in some profile"
    assert all(detector.settings or detector.kind in ("nonfinite", "duplicates") for detector in cards.single[SCREEN].detectors)
    assert cards.page.health_profile == "grpo-default"
    cards = compiled(spec.replace("health:\n", "health:\n  detectors: {collapse: {patience: 30}, kl_sign: {}}\n", 1)).cards
    settings = {card.kind: card.settings for card in cards.single[SCREEN].detectors}
    assert list(settings) == [*PROFILES["grpo-default"], "kl_sign"]
    assert (settings["collapse"]["patience"], settings["collapse"]["at_least"]) == (30, 1.0)
    assert cards.page.health_profile == "grpo-default, changed: collapse, kl_sign"


def test_equal_rewards_have_equal_names(compiled, spec):
    extra = "  half: {reward: {random: bernoulli, p: 0.5}, role: control}\n  other: {reward: {random: bernoulli, p: 25%}, role: control}\n"
    text = spec.replace("conditions:\n", f"conditions:\n{extra}  again: {{reward: shaped, role: control}}\n", 1)
    names = {condition.name: condition.reward for condition in compiled(text).cards.single[DRAW].conditions}
    assert names["shaped"] == names["again"] == "shaped"
    assert names["half"] == "random(bernoulli, 0.5)" and names["other"] == "random(bernoulli, 0.25)"


def test_a_gate_as_a_score_decides_nothing(compiled, spec):
    card = compiled(spec.replace("scores: [tests]", "scores: [tests, format]")).cards.single[EVALUATE]
    assert [(score.name, score.on_pass, score.on_fail) for score in card.scores] == [("tests", None, None), ("format", None, None)]


def test_scores_judge_what_their_gates_judge_in_training(compiled, spec):
    marked = spec.replace("  shaped:\n    gates:", "  shaped:\n    answer: {from: tag}\n    gates:", 1)
    example = compiled(marked)
    train, evaluate = example.cards.train["shaped"], example.cards.single[EVALUATE]
    assert train.reward.answer == evaluate.answer and evaluate.answer.source == "tag"
    place = example.origins.cards["shaped/train.card.json"]["/reward/answer/from"]
    assert str(place) == "specs/example.yaml: rewards.shaped.answer.from"
    plain = "  plain: {gates: [{brief: {kind: length, max_words: 9}}], examples: [{completion: a, row: row-3, expect: 1}]}\n\nconditions:"
    both = marked.replace("\nconditions:", plain, 1).replace("scores: [tests]", "scores: [tests, brief]")
    both = both.replace("  zero:", "  plain: {reward: plain, role: control}\n  zero:", 1)
    scores = compiled(both).cards.single[EVALUATE].scores
    assert [(score.name, score.judges) for score in scores] == [("tests", "answer"), ("brief", "completion")]
