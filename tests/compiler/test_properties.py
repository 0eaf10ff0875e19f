"""What must not change when something else does. Specs are rewritten at random and compiled for real."""

import functools
import json
import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compiler.build.inputs import Inputs
from compiler.build.pipeline import Reference
from compiler.compile import compile_experiment, project
from compiler.document.read import parse

SPEC = (Path(__file__).parents[1] / "golden" / "small" / "spec.yaml").read_text(encoding="utf-8")
VALUE = parse(SPEC.encode(), "specs/example.yaml").root.plain()
PATH = Path("specs/example.yaml")
INPUTS = Inputs()
"""Data files, models and code hashes are the same for every example, so they are read once."""

many = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(autouse=True)
def folder(work):
    return work


def cards(value: object, profile: str | None = None) -> dict[str, str]:
    """Texts of all cards and pipelines; JSON is YAML."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1)
    INPUTS.documents.pop(PATH.as_posix(), None)
    INPUTS.documents[PATH.as_posix()] = parse(text.encode(), PATH.as_posix())
    experiment = compile_experiment(Reference("example", profile, PATH), INPUTS)
    return {path: content for path, content in project([experiment], True).files.items() if not path.endswith("origins.json")}


@functools.cache
def unchanged() -> dict[str, str]:
    return cards(VALUE)


def shuffled(value, rng, keep=("conditions",), key=None):
    if isinstance(value, dict):
        names = list(value)
        if key not in keep:
            rng.shuffle(names)
        return {name: shuffled(value[name], rng, keep, name) for name in names}
    return [shuffled(item, rng, keep) for item in value] if isinstance(value, list) else value


@many
@given(st.integers(0, 10**6))
def test_the_order_of_keys_changes_no_file(seed):
    assert cards(shuffled(VALUE, random.Random(seed))) == unchanged()


@many
@given(st.integers(0, 10**6))
def test_the_order_of_conditions_changes_no_train_card(seed):
    mixed = cards(shuffled(VALUE, random.Random(seed), keep=()))
    assert train_cards(mixed) == train_cards(unchanged())


def train_cards(files: dict[str, str]) -> dict[str, str]:
    return {path: text for path, text in files.items() if path.endswith("train.card.json")}


@many
@given(st.sampled_from(["control", "treatment"]), st.floats(1e-6, 1e-2), st.integers(0, 6))
def test_another_condition_changes_no_other_run(role, rate, place):
    conditions = list(VALUE["conditions"].items())
    conditions.insert(place, ("another", {"reward": "tests", "role": role, "train": {"learning_rate": rate}}))
    before, after = train_cards(unchanged()), train_cards(cards({**VALUE, "conditions": dict(conditions)}))
    assert {path: after[path] for path in before} == before
    assert sorted(path.split("/")[2] for path in set(after) - set(before)) == ["another-s42", "another-s7", "another-s99"]


@many
@given(st.lists(st.integers(100, 10**6), unique=True, min_size=1, max_size=3))
def test_more_seeds_change_no_other_run(seeds):
    before, after = train_cards(unchanged()), train_cards(cards({**VALUE, "seeds": [*VALUE["seeds"], *seeds]}))
    assert {path: after[path] for path in before} == before
    assert len(after) == len(before) + 6 * len(seeds)


WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc", "Cn", "Zl", "Zp"]), min_size=1, max_size=60).filter(str.strip)


@many
@given(WORDS, WORDS, WORDS)
def test_words_change_only_the_page(title, question, says):
    value = {**VALUE, "title": title, "question": question, "claims": [{**claim, "says": says} for claim in VALUE["claims"]]}
    before, after = unchanged(), cards(value)
    assert {path for path in before if before[path] != after[path]} <= {"runs/example/page.card.json"}


SLOW = {f"slow-s{seed}/train.card.json" for seed in (7, 42, 99)}


@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [
        ("\nseeds:", "\n\n\n# why these\nseeds:", set()),
        ("because: right", "because: another reason", {"page.card.json"}),
        ("learning_rate: 2e-5", "learning_rate: 3e-5", SLOW),
        ("expect: 1, because: right", "expect: 0.9, because: right", {"preflight/preflight.card.json"}),
        ("below: 10%", "below: 20%", {"analysis/conclude.card.json"}),
        ("below: 0.95", "below: 0.9", {"analysis/screen.card.json"}),
    ],
    ids=["comment", "reason of an example", "learning rate", "example", "claim", "health"],
)
def test_what_a_change_reaches(work, old, new, changed):
    before, after = cards(SPEC), cards(SPEC.replace(old, new))
    assert old in SPEC and {path for path in before if before[path] != after[path]} == {f"runs/example/{path}" for path in changed}
    assert all(str(work) not in text and str(Path.home()) not in text for text in after.values()), "no card holds a path of this machine"
