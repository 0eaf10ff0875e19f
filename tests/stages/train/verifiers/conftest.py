"""The tiers that the tests run on: the one this machine chooses, and seccomp alone, which must hold everywhere."""

from pathlib import Path

import pytest

from stages.train.verifiers import ocaml_answers, python_answers, sandbox
from stages.train.verifiers.verifier import Verifier


@pytest.fixture(scope="module")
def fresh():
    """Makes verifiers with nothing in their memory, of Python or of another program; they end with the module."""
    verifiers = []

    def make(tier, workers=None, program=python_answers.program):
        kind, language = (Verifier, python_answers) if program is python_answers.program else (ocaml_answers.Answers, ocaml_answers)
        verifiers.append(kind(program, language.asking, tier, workers))
        return verifiers[-1]

    yield make
    for verifier in verifiers:
        verifier.close()


def pytest_generate_tests(metafunc):
    if "tier" in metafunc.fixturenames:
        metafunc.parametrize("tier", dict.fromkeys([sandbox.tier(), "seccomp"]), scope="module")


@pytest.fixture(scope="module")
def pool(tier, fresh):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OCTAVO_SECRET", "octavo-mark")  # attacks.MARK: what a candidate must not find
        yield fresh(tier)


@pytest.fixture(scope="module")
def ocaml(tier, fresh):
    return fresh(tier, 1, ocaml_answers.runs)


@pytest.fixture
def shared_attacks():
    """Folder of the reviewers' attacks, beside the repository."""
    places = [above / "shared/attacks" for above in Path(__file__).parents[4:7]]
    return next((place for place in places if place.is_dir()), None) or pytest.skip("the reviewers' attacks are not at hand")
