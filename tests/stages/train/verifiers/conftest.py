"""The tiers that the tests run on: the one this machine chooses, and seccomp alone, which must hold everywhere."""

from pathlib import Path

import pytest

from stages.train.verifiers import ocaml_answers, python_answers, sandbox
from stages.train.verifiers.verifier import Verifier


def python_verifier(tier, workers=None):
    """A verifier of Python with nothing in its memory."""
    return Verifier(python_answers.program, python_answers.order, python_answers.read, tier, workers)


def ocaml_verifier(tier, program=ocaml_answers.runs):
    return Verifier(program, ocaml_answers.order, ocaml_answers.read, tier, 1)


def pytest_generate_tests(metafunc):
    if "tier" in metafunc.fixturenames:
        metafunc.parametrize("tier", dict.fromkeys([sandbox.tier(), "seccomp"]), scope="module")


@pytest.fixture
def fresh():
    """Makes verifiers with nothing in their memory, which end with the test."""
    verifiers = []

    def make(tier, workers=None):
        verifiers.append(python_verifier(tier, workers))
        return verifiers[-1]

    yield make
    for verifier in verifiers:
        verifier.close()


@pytest.fixture(scope="module")
def pool(tier):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OCTAVO_SECRET", "octavo-mark")  # attacks.MARK: what a candidate must not find
        verifier = python_verifier(tier)
        yield verifier
        verifier.close()


@pytest.fixture(scope="module")
def ocaml(tier):
    verifier = ocaml_verifier(tier)
    yield verifier
    verifier.close()


@pytest.fixture
def shared_attacks():
    """Folder of the reviewers' attacks, beside the repository."""
    places = [above / "shared/attacks" for above in Path(__file__).parents[4:7]]
    return next((place for place in places if place.is_dir()), None) or pytest.skip("the reviewers' attacks are not at hand")
