"""Specs that nobody writes by hand: each is answered with diagnostics, within limits on CPU time and memory of its process."""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from compiler.problems import nearest

ROOT = Path(__file__).parents[2]
SECONDS = 40
"""A hang, not a benchmark: the slowest takes about 5 s."""
MEBIBYTES = 300
CODE = """
import json, pathlib, sys
from compiler.__main__ import main
code = main(["check", sys.argv[1]])
peak = next(line for line in pathlib.Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
print(json.dumps([code, int(peak.split()[1]) // 1024]))
"""
"""VmHWM and not ru_maxrss: a child's ru_maxrss begins at the size of the process that it was forked from, here pytest with torch in it."""


def many(line: str, count: int) -> str:
    return "".join(line.replace("#", str(number)) for number in range(count))


def replaced(spec: str, old: str, new: str) -> str:
    assert old in spec
    return spec.replace(old, new, 1)


CASES = {
    "misspelt keys": lambda spec: spec + many("titel#: 0\n", 50_000),
    "unknown conditions": lambda spec: replaced(
        replaced(spec, "conditions:\n", "conditions:\n" + many("  cond-number-#: {reward: {constant: 0.0}, role: control}\n", 900)),
        "claims:\n",
        "claims:\n" + many("  - {id: k#, says: x, metric: reward, condition: cond-nomber-#x, above: 0}\n", 900),
    ),
    "gates": lambda spec: replaced(
        spec, "      - tests:", many("      - gate-#: {kind: format, min_chars: 1}\n", 14_000) + "      - tests:"
    ),
    "runs": lambda spec: replaced(
        replaced(spec, "seeds: [1, 2, 3]", f"seeds: [{many('#, ', 9_000)}]"),
        "conditions:\n",
        "conditions:\n" + many("  c#: {reward: shaped, role: control}\n", 900),
    ),
    "profiles": lambda spec: spec + many("  p#: {seeds: [#]}\n", 20_000),
    "penalties": lambda spec: replaced(
        replaced(spec, "      - tests:", many("      - gate-#: {kind: format, min_chars: 1, on_fail: 0}\n", 50) + "      - tests:"),
        "    unknown: {limit: 5%}",
        "    penalties:\n"
        + many("      - p#: {when: gate-1.pass and gate-2.pass and gate-3.pass and gate-4.pass and empty, set: 0}\n", 20),
    ),
    "changes": lambda spec: (
        "title: x\nparent: other\nhypothesis: y\nchanges:\n" + many("  conditions.a#: {reward: shaped, role: control}\n", 500)
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_no_hang_and_no_flood(name, work, spec):
    (work / "specs/other.yaml").write_text(spec)
    (work / "specs/example.yaml").write_text(CASES[name](spec))

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))

    result = subprocess.run(
        [sys.executable, "-c", CODE, "example"],
        cwd=work,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        preexec_fn=limit,
        capture_output=True,
        text=True,
    )
    code, peak = json.loads(result.stdout)
    assert code in (0, 1) and "Traceback" not in result.stderr
    assert result.stderr.count("\n  why: ") <= 20
    assert peak < MEBIBYTES


def test_no_word_is_suggested_among_very_many():
    assert nearest("shapd", ["zero", "shaped"]) == "shaped"
    assert nearest("shapd", [*map(str, range(1_000)), "shaped"]) is None
