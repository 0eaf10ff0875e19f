"""Whatever happens to a spec, the compiler answers with files or with diagnostics, never with an exception of its own."""

import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compiler.build.inputs import Inputs
from compiler.build.pipeline import Reference
from compiler.compile import compile_experiment, project
from compiler.document.read import parse
from compiler.language.experiment import Experiment
from compiler.problems import Rejected
from compiler.render import render

PATH = Path("specs/example.yaml")
GOLDEN = Path(__file__).parents[1] / "golden"
SPEC = (GOLDEN / "small" / "spec.yaml").read_text(encoding="utf-8")
WEIGHTED = (GOLDEN / "weighted" / "spec.yaml").read_text(encoding="utf-8")
CHILD = """title: A child
parent: other
use: [block]
changes:
  train.learning_rate: 1.0e-4
  rewards.shaped.gates.format.min_chars: 2
  conditions.zero.train: {beta: 0.1}
  health.gates.gate.tests.pass_share: {above: 0.1}
hypothesis: It learns.
owner: me
profiles:
  smoke: {train: {max_steps: 2}, seeds: [1]}
"""
BLOCK = "train: {top_p: 0.9}\nhealth: {gates: {steps: complete}}\ntags: [shared]\n"
INPUTS = Inputs()
TOKENS = ["null", "true", "-1", "0", "1e300", "99999999999", "[]", "{}", "''", "'../x'", "con", "*train", "~", "5%", "60s", "0.5"]
TOKENS += ["constant", "python_tests", "format", "shaped", "tests", '"\\u202e"', "\u00e9", "[1, 1]", "-", "a b", "x: y"]
TOKENS += ["{a: {b: c}}", "{invert: tests}", "{kind: format}", "other", "[block]", "weighted", "50%", "not (", "truncated or empty"]

many = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(autouse=True)
def folder(work):
    return work


def compile_text(text: str, profile: str | None) -> Experiment | None:
    """Compile; hold every diagnostic to its form."""
    INPUTS.documents.pop(PATH.as_posix(), None)
    lines = text.split("\n")
    try:
        INPUTS.documents[PATH.as_posix()] = document = parse(text.encode(), PATH.as_posix())
        lines = document.lines
        example = compile_experiment(Reference("example", profile, PATH), INPUTS)
        project([example], True)
        return example.experiment
    except Rejected as rejected:
        assert rejected.diagnostics
        lines = rejected.sources.get(PATH.as_posix(), lines)
        for problem in rejected.diagnostics:
            assert problem.what and problem.why and problem.fix
            if problem.place is not None and problem.place.file == PATH.as_posix():
                assert 1 <= problem.place.line <= len(lines)
                assert 1 <= problem.place.column <= len(lines[problem.place.line - 1]) + 1
        text = render(rejected.diagnostics, {PATH.as_posix(): lines})
        assert "pydantic" not in text and "Traceback" not in text and "NoneType" not in text and "Input should" not in text
        return None


def with_values(text: str, rng: random.Random) -> str:
    """Up to three values of a text replaced."""
    lines = text.split("\n")
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(lines))
        parts = lines[at].split(": ")
        if len(parts) > 1:
            index = rng.randrange(1, len(parts))
            parts[index] = rng.choice(TOKENS) + (parts[index][-1] if parts[index][-1:] in "}]" else "")
            lines[at] = ": ".join(parts)
    return "\n".join(lines)


@many
@given(st.integers(0, 10**9), st.sampled_from([None, "smoke"]), st.sampled_from([SPEC, WEIGHTED]))
def test_values_replaced_at_random(seed, profile, text):
    compile_text(with_values(text, random.Random(seed)), profile)
