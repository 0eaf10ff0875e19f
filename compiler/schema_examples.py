"""Examples that editors offer as values: `<Model>.<key>`, or `Gate.<kind>.<key>`. A test holds each against the schema."""

from __future__ import annotations

from typing import Any

EXAMPLES: dict[str, list[Any]] = {
    "Spec.title": ["Does a verifiable reward teach a small model to write right expressions?"],
    "Spec.owner": ["rl-team"],
    "Spec.tags": [["grpo", "verifiable-rewards"]],
    "Spec.question": ["Does a reward from unit tests make the model right more often than a random and a zero reward do?"],
    "Spec.seeds": [[1, 2, 3]],
    "Spec.rewards": [{"shaped": {"gates": [{"tests": {"kind": "exact_match", "column": "answer"}}]}}],
    "Spec.conditions": [
        {"shaped": {"reward": "shaped", "role": "treatment"}, "zero": {"reward": {"constant": 0.0}, "role": "null_control"}}
    ],
    "Model.base": ["octavo/tiny", "models/my-base-model"],
    "Adapter.target_modules": ["all-linear", ["q_proj", "k_proj", "v_proj", "o_proj"]],
    "TrainData.path": ["data/quickstart/train.jsonl"],
    "EvaluationData.path": ["data/quickstart/heldout.jsonl"],
    "EvaluationData.rows": [128],
    "TrainGrpo.learning_rate": [1.0e-6, 1.0e-3],
    "TrainGrpo.max_steps": [300],
    "TrainGrpo.max_completion_length": [1024],
    "TrainGrpo.num_generations": [8, 16],
    "TrainGrpo.beta": [0.0, 0.001],
    "Condition.reward": ["shaped", {"invert": "shaped"}, {"random": "bernoulli", "p": 0.5}, {"constant": 0.0}],
    "Condition.train": [{"learning_rate": 1.0e-6}],
    "Health.gates": [{"nonfinite": "not persistent", "truncated": {"below": 0.5}, "steps": "complete"}],
    "Reward.gates": [[{"format": {"kind": "format", "max_chars": 60, "on_fail": 0.0}}]],
    "Reward.examples": [[{"completion": "(x*2)+3", "row": "example-1", "expect": 1.0, "because": "right"}]],
    "Reward.unknown": [{"limit": "5%"}],
    "Unknown.limit": ["5%", 0.05],
    "Evaluation.scores": [
        ["format", "tests"],
        [{"canonical": {"kind": "exact_match", "column": "answer"}}],
        ["format", "verify", {"looks-right": {"when": "format.pass and not verify.pass"}}],
    ],
    "Claim.id": ["shaped-teaches"],
    "Claim.says": ["Training on the unit-test reward raises the share of completions that pass all tests."],
    "Claim.metric": ["evaluation.tests.pass_share", "zero_signal_share", "reward"],
    "Claim.contrast": [{"condition": "shaped", "against": "zero"}],
    "Claim.above": [0.05],
    "Claim.needs": [{"seeds": 3, "health": "included"}],
    "Preflight.zero_signal_share": [{"below": 0.6}],
    "Resources.gpu_memory": ["30GB"],
    "Resources.hours": [5.5],
    "Gate.format.pattern": ["[-+*()x0-9 ]+"],
    "Gate.python_tests.timeout": ["1s", "500ms"],
    "Gate.exact_match.column": ["answer"],
}
