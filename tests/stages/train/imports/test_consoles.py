"""Consoles of trainers: numbers by their names, each at its step, whatever stands between. Shapes are real ones, numbers are not."""

import json
import random

import pytest

from compiler.language.presets import preset_metrics
from stages.contracts.history import METRICS, metric
from stages.contracts.import_card import ColumnCard, ReadCard
from stages.train.imports.files import read_log
from stages.train.imports.log import Unreadable
from stages.train.imports.mapping import Mapped, map_log

FORTY = list(range(10, 400, 10))


def card(preset: str | None = None, form: str = "console", **columns: str) -> ReadCard:
    named = preset_metrics(preset).items() if preset else ()
    cards = [ColumnCard(metric=name, unit="x", **column.model_dump()) for name, column in named if name not in columns]
    cards += [ColumnCard(metric=name, column=column, unit="x") for name, column in columns.items()]
    return ReadCard(format=form, columns=tuple(cards))


def read(tmp_path, text: str | bytes, read: ReadCard, target: int = 400) -> Mapped:
    path = tmp_path / "log"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return map_log(read_log(path, read), read, target, "a")


def values(mapped: Mapped, name: str = "reward") -> list[tuple[int, object]]:
    """(step, value or state) of a metric."""
    return [(row["step"], row["value"] if row["state"] == "value" else row["state"]) for row in mapped.rows if row["metric"] == name]


def bar(done: int, total: int = 405, title: str = "") -> str:
    return f"{title}{100 * done // total:3d}%|███       | {done}/{total} [{done // 3:02d}:{done % 60:02d}<1:00:00, 22.71s/it]"


TRL = {"loss": 0.125, "grad_norm": 0.5, "reward": 0.25, "completions/clipped_ratio": 0.0625, "kl": 0.01, "epoch": 0.02}
"""A row as transformers prints it: `epoch` rounded, no step."""
ROWS = [(step, {**TRL, "reward": step / 1000}) for step in FORTY]
QUOTED = {name: str(cell) for name, cell in TRL.items()}
WRAPPED = ["np.float64({})", "tensor({})", "tensor({}, device='cuda:0')", "np.float32({})"]
SWIFT = {"percentage": "2.47%", "elapsed_time": "1m 9s", "train_speed(s/it)": 68.75}


def swift(step, row):
    return {**row, "global_step/max_steps": f"{step}/405", **SWIFT}


def lines(line) -> str:
    return "".join(line(step, row) + "\n" for step, row in ROWS)


SHAPES = {
    "transformers: the bar is written again below the dict": lines(
        lambda step, row: f"{bar(step - 1)}\r{bar(step)}\r{' ' * 50}\r{row}\n{bar(step)}\r"
    ),
    "only bars above it": lines(lambda step, row: f"{bar(step)}\n\n{row}") + "done\n",
    "glued to the bar, numbers in quotes": lines(
        lambda step, row: f"{bar(step - 1)}\n{bar(step)}{ {**QUOTED, 'reward': str(row['reward'])} }"
    ),
    "bars of other things between": lines(
        lambda step, row: f"{bar(64, 64, 'Processed prompts: ')}\n{bar(step)}\n{row}\n{bar(step)}\n{bar(3, 4, 'Map: ')}"
    ),
    "a colab": lines(lambda step, row: f"[LOG] Avg: 0.0569 | Step {step}\n{row}\n 16% {step}/405 [22:02<1:36:54, 71.79s/it]Both `max_new"),
    "two processes print the same": lines(lambda step, row: f"{bar(step)}\n[rank0]: {row}\n[rank1]: {row}\n{bar(step)}"),
    "a logger with times": lines(
        lambda step, row: f"2026-03-01 10:00:{step % 60:02d},123 - INFO - trainer.py:88 - step={step} reward={row['reward']} lr=1e-06"
    ),
    "JSON behind a prefix": lines(lambda step, row: f"[trainer] {json.dumps({'step': step, **row})}"),
    "JSON in JSON": lines(lambda step, row: json.dumps({"step": step, "data": row})),
    "pprint over lines": lines(lambda step, row: f"Step {step}\n{{'loss': 0.1,\n 'reward': {row['reward']},\n 'step': {step}}}"),
    "ms-swift": lines(lambda step, row: f"Train:   2%|▎   | {step}/405 [01:08<44:41, 68.75s/it]{swift(step, row)}"),
    "ms-swift with numbers in quotes": lines(lambda step, row: str(swift(step, {**QUOTED, "reward": str(row["reward"])}))),
    "numpy and torch": lines(lambda step, row: f"{{'step': {step}, 'reward': {WRAPPED[step % 4].format(row['reward'])}}}"),
    "steps in words": lines(lambda step, row: f"[Step {step:>4}/405] loss: -0.0031 | reward: {row['reward']:.3f} ± 0.1 | lr: 1.0e-06"),
    "words in a line above": lines(lambda step, row: f"INFO:root:iteration {step}\n{{\n  'reward': {row['reward']},\n  'kl': None,\n}}"),
    "logfmt": lines(lambda step, row: f'ts=2026-03-01T10:00:00Z level=info msg="a step" step={step} reward={row["reward"]} kl=1.2e-3'),
    "a table of pipes": lines(lambda step, row: f"| step: {step} | reward: {row['reward']} | kl: 0.1 |"),
    "colours": lines(lambda step, row: f"\x1b[32mstep\x1b[0m: \x1b[1m{step}\x1b[0m, reward: \x1b[31m{row['reward']}\x1b[0m"),
    "separators": lines(lambda step, row: f"step: {step + 1000:,} tokens: {step * 123_456:,} reward: {row['reward']}"),
    "an encoding twice over": lines(
        lambda step, row: f"loss ± one Ã‚Â±\n{bar(step)}\n{row}\n".encode().decode("cp1252", "replace")
    ),
}  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_each_number_stands_at_its_step(tmp_path, shape, ends):
    text = SHAPES[shape].replace("\n", ends)
    shift = 1000 if "separators" in shape else 0
    mapped = read(tmp_path, "loading\n" + text, card(reward="reward"), 2000)
    assert values(mapped) == [(step + shift, row["reward"]) for step, row in ROWS]
    assert len({row["attempt"] for row in mapped.rows}) == 1


def test_a_bar_tells_how_many_steps_were_planned(tmp_path):
    mapped = read(tmp_path, SHAPES["only bars above it"], card("trl"))
    assert "the trainer was told to make 405 steps, and the spec says 400" in mapped.record["notes"]
    assert dict(values(mapped, "truncated")) == dict.fromkeys(FORTY, 0.0625)


def test_case_53_verl_between_other_lines_of_its_workers(tmp_path):
    """A prompt of Ray before each line, answers of the model among them, numpy's way to print, and an evaluation before the first step."""
    lines = ["\x1b[36m(TaskRunner pid=4711)\x1b[0m step:0 - val-core/openai/gsm8k/acc/mean@1:np.float64(0.41)"]
    for step in range(1, 31):
        lines += [
            f"\x1b[36m(TaskRunner pid=4711, ip=10.0.0.3)\x1b[0m step:{step} - global_seqlen/min:10372.000"
            f" - actor/entropy:np.float64({step / 100})"
            f" - actor/kl_loss:-1.5e-05 - actor/grad_norm:{step / 10} - actor/lr(AdamW):1e-06 - critic/score/mean:{step / 50}"
            f" - critic/rewards/mean:0.7 - response_length/mean:239.133 - response_length/clip_ratio:0.25 - timing_s/step:97.6",
            "(WorkerDict pid=4801) WARNING: kernel cache flushed [repeated 7x across cluster]",
            "(TaskRunner pid=4711) I think the reward: 5 is right, so step 9: add 2",
        ]
    mapped = read(tmp_path, "\n".join(lines) + "\n", card("verl"), 30)
    assert values(mapped) == [(step, step / 50) for step in range(1, 31)]
    assert values(mapped, "entropy")[4] == (5, 0.05) and values(mapped, "kl")[0] == (1, -1.5e-05)
    assert values(mapped, "learning_rate")[-1] == (30, 1e-06) and values(mapped, "truncated")[0] == (1, 0.25)


def test_zeros_of_three_digits_are_no_zeros_where_zero_means_that_nothing_is_learned(tmp_path):
    """The first verl printed `actor/lr:0.000` for 1e-6."""
    text = "".join(
        f"step:{step} - actor/grad_norm:{0.0 if step % 2 else 0.31:.3f} - actor/lr:0.000 - critic/score/mean:0.000\n"
        for step in range(1, 9)
    )
    mapped = read(tmp_path, text, card("verl"), 8)
    assert values(mapped, "learning_rate") == [] and values(mapped) == [(step, 0.0) for step in range(1, 9)]
    assert values(mapped, "grad_norm") == [(step, 0.31) for step in (2, 4, 6, 8)]
    assert any(
        "`actor/lr` was printed with 3 digits behind the point, so its 8 zeros may be anything below 0.0005" in note
        for note in mapped.record["notes"]
    )
    exact = read(tmp_path, "".join(f"step: {step} grad_norm: 0.0 reward: 1\n" for step in range(1, 9)), card("trl"), 8)
    assert [value for _, value in values(exact, "grad_norm")] == [0.0] * 8, "`0.0` is what Python prints of zero itself"


def test_openrlhf_by_its_dicts_and_by_its_bar_of_episodes(tmp_path):
    status = {"policy_loss": 0.01, "actor_lr": 5e-07, "reward": 0.5, "response_length": 211.5, "kl": 0.02, "response_clip_ratio": 0.125}
    text = "".join(
        f"(PPOTrainer pid=1) 2026-01-01 INFO ppo_trainer.py:3] ✨ Global step {step}: { {**status, 'reward': step / 8} }\n"
        for step in range(1, 9)
    )
    mapped = read(tmp_path, text, card("openrlhf"), 8)
    assert values(mapped) == [(step, step / 8) for step in range(1, 9)] and values(mapped, "completion_tokens")[0] == (1, 211.5)

    lines = []
    for episode in (1, 2):
        for done in range(4):
            reward = (4 * (episode - 1) + done + 1) / 8
            inner = [f"Train epoch [1/1]: {25 * k:3d}%|# | {k}/4 [00:01<00:02, 2it/s, act_loss=0.3, reward=9, kl=9]" for k in range(1, 5)]
            beside = f"12.1s/it, policy_loss=0.01, reward={reward:.3g}, kl=0.02"
            outer = [f"Episode [{episode}/2]:  10%|#  | {at}/4 [01:00<03:00, {beside}]" for at in (done, done + 1)]
            lines += [*inner, *outer]
    mapped = read(tmp_path, "\r".join(lines) + "\n", card("openrlhf"), 8)
    assert values(mapped) == [(step, step / 8) for step in range(1, 9)], "neither the bar of one update nor its numbers"


def test_spellings_of_what_is_no_number(tmp_path):
    cells = {
        "nan": "nonfinite",
        "inf": "nonfinite",
        "-Infinity": "nonfinite",
        "None": "null",
        "'nan'": "nonfinite",
        "1e-05": 1e-05,
        "-.5": -0.5,
        "1_000.5": 1000.5,
    }
    text = "".join(f"{{'step': {step}, 'kl': {cell}, 'reward': 1}}\n" for step, cell in enumerate(cells, 1))
    assert values(read(tmp_path, text, card(kl="kl")), "kl") == list(enumerate(cells.values(), 1))
    with pytest.raises(Unreadable, match=r"`kl` at step 1 \(row 1 of the log\) is no number: '0,5'; write it as 1234.5"):
        read(tmp_path, "{'step': 1, 'kl': 0,5, 'reward': 1}\n", card(kl="kl"))


def test_what_is_cut_and_what_lacks_a_step_is_told(tmp_path):
    mapped = read(tmp_path, "step: 1 reward: 0.5\nstep: 2 reward: 0.25", card(reward="reward"))
    assert (
        values(mapped) == [(1, 0.5), (2, 0.25)] and "the last line has no line end, so its last number may be cut" in mapped.record["notes"]
    )
    assert values(read(tmp_path, "{'step': 1, 'reward': 0.5}\n{'step': 2, 'rew", card(reward="reward"))) == [(1, 0.5)]
    with pytest.raises(
        Unreadable, match=r"no line of \S+ holds a number named reward beside its step; names in its lines: mean_reward, loss"
    ):
        read(tmp_path, "mean_reward: 0.5 loss: 2\n" * 9, card(reward="reward"))
    with pytest.raises(Unreadable, match="no row of a metric has a step"):
        read(tmp_path, "{'reward': 0.5}\n", card(reward="reward"))


LOGGED = {"trl": "reward", "unsloth": "reward", "ms_swift": "reward", "verl": "critic/score/mean", "openrlhf": "reward"}


@pytest.mark.parametrize("preset", LOGGED)
@pytest.mark.parametrize("form", ["csv", "jsonl", "console", "trainer_state"])
def test_a_preset_reads_each_name_of_each_version_and_metrics_are_known(tmp_path, preset, form):
    """A log a name: every column of the preset under each of its names, alone."""
    table = preset_metrics(preset)
    assert set(table) <= set(METRICS) and all(column.optional and metric(name) for name, column in table.items())
    names = [(name, other) for name, column in table.items() for other in column.names]
    for name, other in names if form == "csv" else random.Random(form + preset).sample(names, 12):
        rows = [{"step": step, other: step / 10} for step in (1, 2, 3)]
        text = {
            "csv": f"step,{other}\n" + "".join(f"{row['step']},{row[other]}\n" for row in rows),
            "jsonl": "".join(json.dumps(row) + "\n" for row in rows),
            "console": "".join(f"{row}\n" for row in rows),
            "trainer_state": json.dumps(rows),
        }[form]
        assert values(read(tmp_path, text, card(preset, form), 3), name) == [(1, 0.1), (2, 0.2), (3, 0.3)], other
    both = "".join(json.dumps({"step": 1, "completions/mean_length": 5.0, "completion_length": 9.0, "reward": 1}) + "\n")
    if preset in ("trl", "ms_swift"):
        assert values(read(tmp_path, both, card(preset, "jsonl"), 1), "completion_tokens") == [(1, 5.0)], "the newest name counts"
