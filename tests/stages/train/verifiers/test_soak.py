"""Jobs with zygotes killed on purpose: no wrong verdict, few unknown, no growth. `pytest -m soak` runs ten thousand of each."""

import os
import shutil

import pytest

from tests.stages.train.verifiers.soak import MIB, soak

KINDS = ["python", "ocaml", "checks"]


def held(what, jobs, tier=None):
    if what != "python" and shutil.which("ocamlc") is None and os.environ.get("CI") != "true":
        pytest.skip("OCaml is not installed (apt-get install ocaml-nox)")
    found = soak(what, jobs, tier)
    assert found.jobs == jobs and found.wrong == []
    assert found.unknown <= jobs / 1000, "one retry is enough when a zygote dies once"
    assert found.killed >= jobs / 20 * 0.3
    assert found.descriptors[0] == found.descriptors[1] and found.zombies == 0
    assert found.memory[1] < found.memory[0] + 64 * MIB, "memory does not grow with the number of jobs"


@pytest.mark.parametrize(("what", "jobs"), [("python", 1000), ("ocaml", 200), ("checks", 400)])
def test_a_small_soak(what, jobs, tier):
    held(what, jobs, tier)


@pytest.mark.soak
@pytest.mark.parametrize("what", KINDS)
def test_ten_thousand_jobs(what):
    held(what, 10_000)
