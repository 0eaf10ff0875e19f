"""Time and memory of checking a spec of 10,000 lines: `python benchmarks/check_large.py [lines]`. The target is 1 s.

The spec is written the long way, one key a line: conditions with settings of their own, rewards with many examples, claims, and a
comment now and then. It is checked twice, clean and with a misspelt key in every tenth condition, each in a process of its own.
Times are CPU seconds, imports apart; memory is the highest resident set.
"""

from __future__ import annotations

import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROJECT = ROOT / "tests" / "compiler" / "project"


def spec(lines: int, wrong: bool) -> str:
    """A valid spec of about so many lines, or one with a misspelt key in every tenth condition."""
    example = (PROJECT / "specs" / "example.yaml").read_text(encoding="utf-8")
    head, rest = example.split("conditions:\n")
    head = head.replace("    unknown: {limit: 5%}\n", "")
    _, tail = rest.split("\npreflight", 1)
    tail, profiles = ("\npreflight" + tail).split("\nprofiles:", 1)
    examples = lines // 10
    text = [head.rstrip("\n")]
    for number in range(examples):
        text += [
            "      - completion: |",
            f"          (x*2)+{number}",
            "        row: row-3",
            "        expect: 0.5",
            "        because: it is close",
        ]
    text += ["", "conditions:", "  shaped:", "    reward: shaped", "    role: treatment", "  zero:", "    reward:", "      constant: 0.0"]
    text += ["    role: null_control"]
    number = 0
    while len(text) < lines - 60:
        number += 1
        rate = "learning_rat" if wrong and number % 10 == 0 else "learning_rate"
        text += [
            f"  c{number}:",
            "    reward: shaped",
            "    role: control",
            "    train:",
            f"      {rate}: {number}e-6",
            f"      beta: 0.{number:04}",
        ]
        text += ["      top_p: 0.9", "    # the adapter of this one is smaller", "    model:", "      adapter:", "        r: 4"]
    return "\n".join([*text, tail, "", f"profiles:{profiles}"])


def one(lines: int, wrong: bool) -> dict[str, float]:
    """Check one spec in this process; the working directory is a project of its own."""
    from compiler.build.inputs import Inputs
    from compiler.build.pipeline import named
    from compiler.compile import compile_all
    from compiler.problems import Rejected, render

    text = spec(lines, wrong)
    Path("specs/example.yaml").write_text(text, encoding="utf-8")
    inputs = Inputs()
    began = time.process_time()
    errors = 0
    try:
        compile_all([named("example")], inputs)
    except Rejected as rejected:
        errors = len(rejected.diagnostics)
        render(rejected.diagnostics, {file: document.lines for file, document in inputs.documents.items()})
    seconds = time.process_time() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"lines": text.count("\n") + 1, "seconds": round(seconds, 3), "errors": errors, "peak_MiB": round(peak)}


def main() -> None:
    """Both specs, each in a fresh process."""
    lines = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    for wrong in (False, True):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(PROJECT, folder, dirs_exist_ok=True)
            code = f"import sys, json; sys.path[:0] = {[str(ROOT), str(ROOT / 'benchmarks')]!r}; import check_large; "
            code += f"print(json.dumps(check_large.one({lines}, {wrong})))"
            said = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True).stdout
            print(json.dumps({"spec": "with errors" if wrong else "clean", **json.loads(said)}))


if __name__ == "__main__":
    main()
