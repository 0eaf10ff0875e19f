"""A small project of its own for end-to-end tests: this repository's code with a tiny base model and one small experiment."""

from __future__ import annotations

import html
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from stages.contracts.attempt import Attempt, read_attempts
from stages.contracts.layout import ExperimentFolder, RunFolder

ROOT = Path(__file__).parents[2]

MODEL = """\
corpus: {kind: expressions, rows: 1500, faulty: 0.5, seed: 1}
architecture: {hidden_size: 32, num_hidden_layers: 2, num_attention_heads: 2, intermediate_size: 64, vocab_size: 300}
pretrain: {max_steps: 60, per_device_train_batch_size: 32, learning_rate: 5.0e-3, warmup_steps: 5, seed: 0}
"""

SPEC = """\
title: Small
owner: tests
tags: [small]
question: Does anything happen?
model:
  base: octavo/small
  adapter: {kind: lora, r: 4, lora_alpha: 8, lora_dropout: 0.0, target_modules: all-linear}
data:
  train: {path: data/quickstart/train.jsonl, prompt: prompt}
  evaluation: {path: data/quickstart/heldout.jsonl, prompt: prompt, rows: 8}
train:
  algorithm: grpo
  max_steps: 4
  learning_rate: 1.0e-3
  per_device_train_batch_size: 16
  num_generations: 4
  max_completion_length: 12
  save_steps: 2
seeds: [1, 2, 3]
rewards:
  shaped:
    gates:
      - format: {kind: format, pattern: '[-+*()x0-9 ]+', on_fail: 0.0}
      - tests: {kind: python_tests, answer: expression, arguments: [x], timeout: 1s, credit: {runs: 0.1, share: 0.3, all: 0.6}}
    examples:
      - {completion: "x*2+3", row: example-1, expect: 1.0}
      - {completion: "x", row: example-1, expect: 0.1}
    unknown: {limit: 5%}
conditions:
  shaped: {reward: shaped, role: treatment}
  zero: {reward: {constant: 0.0}, role: null_control}
preflight: {completions: 32, zero_signal_share: {below: 1.0}, truncated: {below: 1.0}}
health:
  profile: grpo-default
  gates: {nonfinite: not persistent, steps: complete}
evaluation:
  every: end
  scores: [tests]
  samples: 1
  temperature: 1.0
claims:
  - id: shaped-teaches
    says: The shaped reward raises the pass share.
    metric: evaluation.tests.pass_share
    contrast: {condition: shaped, against: zero}
    statistic: final
    above: 0.05
    needs: {seeds: 3, health: included}
resources: {gpus: 0}
"""


@dataclass(frozen=True)
class Project:
    """A project folder and what a user does in it."""

    root: Path

    @property
    def experiment(self) -> ExperimentFolder:
        return ExperimentFolder(self.root / "runs/small")

    @property
    def spec(self) -> Path:
        return self.root / "specs/small.yaml"

    def environment(self, **more: str) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("WANDB_", "PYTEST_", "DVC_"))}
        path = f"{Path(sys.executable).parent}{os.pathsep}{kept['PATH']}"
        return {**kept, "PATH": path, "HF_HUB_OFFLINE": "1", "DVC_NO_ANALYTICS": "1", "COLUMNS": "200", **more}

    def call(self, *words: str, ok: bool | None = True, **environment: str) -> str:
        """Run a command in the project; its output. `ok` states the exit code that is expected (None: any)."""
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        ran = subprocess.run(words, cwd=self.root, env=self.environment(**environment), text=True, **pipes)
        assert ok is None or (ran.returncode == 0) == ok, f"{' '.join(words)} -> {ran.returncode}\n{ran.stdout}"
        return ran.stdout

    def octavo(self, *words: str, ok: bool | None = True) -> str:
        return self.call(sys.executable, "-m", "compiler", *words, ok=ok)

    def repro(self, *words: str, ok: bool | None = True, **environment: str) -> str:
        return self.call(sys.executable, "-m", "dvc", "repro", *words, ok=ok, **environment)

    def edit(self, old: str, new: str) -> None:
        text = self.spec.read_text()
        assert text.count(old) == 1, f"{old!r} occurs {text.count(old)} times"
        self.spec.write_text(text.replace(old, new))

    def runs(self) -> list[str]:
        return sorted(path.parent.name for path in self.experiment.root.glob("*/train.card.json"))

    def run(self, name: str) -> RunFolder:
        return self.experiment.run(name)

    def attempts(self, name: str) -> tuple[Attempt, ...]:
        return read_attempts(self.run(name).attempts)

    def counts(self) -> dict[str, int]:
        """Attempts of every run."""
        return {name: len(self.attempts(name)) for name in self.runs()}

    def page(self) -> str:
        """The page's source with its character references resolved: what a reader sees, tags included."""
        return html.unescape((self.experiment.page / "index.md").read_text())

    def copy(self, to: Path) -> Project:
        shutil.copytree(self.root, to, symlinks=True)
        return Project(to)


def make(root: Path) -> Project:
    """Lay out a project: the code of this checkout, a git repository, DVC."""
    for name in ("compiler", "stages", "site", "data", ".dvc"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__", "cache", "tmp"))
    for name in ("constraints.txt", ".gitignore", ".dvcignore"):
        shutil.copy2(ROOT / name, root / name)
    (root / "specs/_models").mkdir(parents=True)
    (root / "specs/_models/small.yaml").write_text(MODEL)
    (root / "specs/small.yaml").write_text(SPEC)
    (root / "specs/pipeline.yaml").write_text("- small\n")
    project = Project(root)
    project.call("git", "init", "--quiet", "--initial-branch=main")
    project.call("git", "add", "--all")
    project.call("git", "-c", "user.name=t", "-c", "user.email=t@example.invalid", "commit", "--quiet", "--message", "start")
    return project
