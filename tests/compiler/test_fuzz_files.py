"""Whatever is done to a file that a user writes or merges, a command answers with output or diagnostics, never with a fault of ours.

`test_fuzz.py` holds specs to more than that; here the whole command runs on a project with every kind of file: specs that train, import,
run a program, have a parent and shared blocks, their prose, models, data, logs, lists, locks, ledgers. Within this process, so that a few
hundred files are tried in seconds; `OCTAVO_FUZZ=20000 pytest tests/compiler/test_fuzz_files.py -k broken` goes on for longer.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compiler.__main__ import main
from tests.compiler.test_fuzz import BLOCK, CHILD, WEIGHTED, with_values

ROOT = Path(__file__).parents[2]
MODEL = "0123456789abcdef0123456789abcdef01234567"
HUB = """title: From the hub
question: Does it learn?
model: {base: owner/model}
data: {train: {hub: owner/rows, split: train, prompt: prompt}}
train: {max_steps: 8, learning_rate: 1.0e-5, per_device_train_batch_size: 4, num_generations: 4, max_completion_length: 16}
seeds: [1, 2, 3]
rewards:
  short:
    gates: [{words: {kind: length, formula: 2 - words/16, low: -2.0, high: 2.0}}]
    examples: [{completion: a b, row: {prompt: x}, expect: 0.96875}]
conditions:
  short: {reward: short, role: treatment}
  zero: {reward: {constant: 0.0}, role: null_control}
"""
LOCK = f"models:\n  owner/model: '{MODEL}'\ndatasets:\n  owner/rows: '{MODEL}'\n"
ATTEMPT = (
    '{"attempt": "shaped-s1-a1-0f3c", "card": "0123456789abcdef", "commit": "0123abc", "devices": ["cpu"], "event": "started", '
    '"host": "cpu", "schema": "octavo.attempt/1", "time": "2026-11-28T09:00:00Z", "versions": {}}\n'
)
COMMANDS = (
    ["check"],
    ["compile", "--check"],
    ["plan"],
    ["plan", "--json"],
    ["explain", "example/shaped-s1"],
    ["explain", "--diff", "parent", "child"],
)
SECONDS = 30
"""Of CPU, for one command: a hang, not a benchmark."""
WILD = ["\0", "\ufeff", "\ufffe", "\u202e", "\x85", "\u2028", "\ud7ff", "é" * 300, "9" * 400, "-1e400", "0x7f", "1_000", "{" * 60, "[" * 60]
WILD += [
    "&a [*a]",
    "*a",
    "<<: {a: b}",
    "!!python/object/apply:os.system [id]",
    "? [a]\n: b",
    "---\n",
    "...\n",
    "%YAML 9.9\n",
    "\t",
    "'",
    '"',
]
WILD += ["|\n", ">-\n", "kl\u00e9: 1\n", "\U0001f600: {}\n", "nan", ".inf", "12345678901234567890123", "2026-11-28", "null", "~"]
WILD += ["{a: 1, a: 2}", '{"a": NaN}\n', "[]\n", "1\n"]

many = settings(max_examples=int(os.environ.get("OCTAVO_FUZZ", "150")), deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """A project that compiles, with every kind of file."""
    root = tmp_path_factory.mktemp("fuzz") / "project"
    shutil.copytree(Path(__file__).parent / "project", root)
    (root / "specs/_shared").mkdir()
    (root / "specs/other.yaml").write_text(WEIGHTED, encoding="utf-8")
    (root / "specs/child.yaml").write_text(CHILD, encoding="utf-8")
    (root / "specs/_shared/block.yaml").write_text("tags: [shared]\n", encoding="utf-8")
    assert BLOCK.endswith("tags: [shared]\n")
    (root / "specs/hub.yaml").write_text(HUB, encoding="utf-8")
    (root / "specs/revisions.lock.yaml").write_text(LOCK, encoding="utf-8")
    (root / "specs/example.md").write_text("The share is {{ shaped-vs-zero/reward/final }}.\n", encoding="utf-8")
    for name, path in (("imported", "tests/e2e/imported.yaml"), ("own", "tests/e2e/program/spec.yaml")):
        (root / f"specs/{name}.yaml").write_bytes((ROOT / path).read_bytes())
    (root / "train.py").write_bytes((ROOT / "tests/e2e/program/train.py").read_bytes())
    (root / "logs").mkdir()
    for condition in ("shaped", "zero"):
        for seed in (1, 2, 3):
            rows = [{"step": step, "reward": 0.1 * step, "clipped": 1, "frac_reward_zero_std": 0, "grad_norm": 1} for step in range(1, 21)]
            (root / f"logs/{condition}-{seed}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    live = ("example", "other", "child", "hub", "imported", "own")
    (root / "specs/pipeline.yaml").write_text("".join(f"- {name}\n" for name in live), encoding="utf-8")
    (root / ".dvc").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        assert main(["compile"]) == 0
    (root / "runs/example/shaped-s1/attempts.jsonl").write_text(ATTEMPT, encoding="utf-8")
    (root / "runs/example/dvc.lock").write_text(
        "schema: '2.0'\nstages:\n  train-shaped-s1:\n    cmd: python -m stages.train.trl runs/example/shaped-s1\n    deps:\n"
        f"    - path: data/train.jsonl\n      hash: md5\n      md5: {MODEL[:32]}\n      size: 7\n",
        encoding="utf-8",
    )
    return root


@pytest.fixture(scope="module")
def hangs():
    """A command that needs too long ends as a fault of ours."""

    def fail(number: int, frame: object) -> None:
        raise AssertionError("a hang")

    before = signal.signal(signal.SIGVTALRM, fail)
    yield
    signal.signal(signal.SIGVTALRM, before)


FILES = (
    *(f"specs/{name}.yaml" for name in ("example", "other", "child", "hub", "imported", "own", "pipeline", "revisions.lock")),
    *("specs/_shared/block.yaml", "specs/_models/tiny.yaml", "specs/example.md", "data/train.jsonl", "data/heldout.jsonl", "train.py"),
    *("logs/shaped-1.jsonl", "constraints.txt", "runs/example/dvc.lock", ".dvcignore", ".dvc/config"),
    *(f"runs/example/shaped-s1/{name}" for name in ("attempts.jsonl", "train.card.json", "retry.json")),
)


def broken(content: bytes, rng: random.Random) -> bytes:
    """One way to break a file."""
    how = rng.choice(["values", "wild", "wild", "lines", "lines", "bytes", "cut", "encoding", "empty", "long", "deep", "twice"])
    text = content.decode("utf-8", "replace")
    lines = text.splitlines(keepends=True) or [""]
    at = rng.randrange(len(lines))
    if how == "values":
        return with_values(text, rng).encode("utf-8", "replace")
    if how == "wild":
        place = rng.randrange(len(text) + 1)
        return (text[:place] + rng.choice(WILD) + text[place + rng.choice([0, 0, 1, 20]) :]).encode("utf-8", "surrogatepass")
    if how == "lines":
        lines[at : at + 1] = rng.choice([[], [lines[at], rng.choice(lines)], ["  " + lines[at]], [rng.choice(WILD) + "\n"]])
        return "".join(lines).encode("utf-8", "surrogatepass")
    if how == "bytes":
        changed = bytearray(content or b" ")
        for _ in range(rng.randint(1, 4)):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
        return bytes(changed)
    if how == "cut":
        return content[: rng.randrange(len(content) + 1)]
    if how == "encoding":
        return text.encode(rng.choice(["utf-16", "utf-16-le", "utf-32", "utf-8-sig", "utf-7"]), "replace")
    if how == "empty":
        return rng.choice([b"", b"\n", b"#\n", b"{}\n", b"[]\n", b"null\n", b"-\n", b"\xff\xfe", b"a"])
    if how == "long":
        return content + (rng.choice(WILD) + "\n").encode("utf-8", "surrogatepass") * rng.choice([50, 3_000])
    if how == "deep":
        return content + b"x: " + rng.choice([b"[", b"{a: ", b"- "]) * rng.choice([50, 5_000])
    return content + content


@many
@given(st.integers(0, 10**9))
def test_whatever_is_broken_no_command_breaks(whole, hangs, seed):
    rng = random.Random(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(whole)
        before = {}
        try:
            for name in rng.sample(FILES, rng.choice([1, 1, 1, 2])):
                path = Path(name)
                before[path] = path.read_bytes() if path.exists() else None
                path.parent.mkdir(parents=True, exist_ok=True)
                if rng.random() < 0.04:  # something else lies there
                    path.unlink(missing_ok=True)
                    rng.choice([path.mkdir, lambda path=path: path.symlink_to(path.name), lambda: None])()
                else:
                    path.write_bytes(broken(before[path] or b"", rng))
            command = rng.choice(COMMANDS)
            signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
            assert main(command) in (0, 1), (command, list(before))
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            restored(before)


def restored(before: dict[Path, bytes | None]) -> None:
    for path, content in before.items():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
        if content is not None:
            path.write_bytes(content)


def test_the_project_of_the_fuzz_is_whole(whole, monkeypatch, capsys):
    monkeypatch.chdir(whole)
    for command in COMMANDS:
        assert main(command) == 0, (command, capsys.readouterr().err)
