"""The tiers that the tests run on: the one this machine chooses, and seccomp alone, which must hold everywhere."""

import pytest

from stages.train.verifiers import sandbox
from stages.train.verifiers.python_pool import Pool


def pytest_generate_tests(metafunc):
    if "tier" in metafunc.fixturenames:
        metafunc.parametrize("tier", dict.fromkeys([sandbox.tier(), "seccomp"]), scope="module")


@pytest.fixture(scope="module")
def pool(tier):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OCTAVO_SECRET", "octavo-mark")  # attacks.MARK: what a candidate must not find
        one = Pool(tier)
        yield one
        one.close()
