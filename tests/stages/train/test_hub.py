"""Models and datasets of the hub from a cache laid out here, offline, through the code that stages run, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from random_model import random_model
from tokenizers.processors import TemplateProcessing
from transformers import AutoTokenizer

from stages.contracts.model import Adapter, DatasetRef, ModelRef

ROOT = Path(__file__).parents[3]
ONE, TWO = "1" * 40, "2" * 40
TEMPLATE = "{% for message in messages %}{{ bos_token }}{{ message.role }}: {{ message.content }}\n{% endfor %}{{ 'assistant:\\n' }}"

LOAD = """
import json, sys
from types import SimpleNamespace
from stages.contracts.diagnostic import StageError
from stages.contracts.model import DatasetRef, ModelRef
from stages.train.data import read_rows
from stages.train.model import load_base, prompt_texts, sample
for text in sys.argv[1:]:
    card = json.loads(text)
    try:
        if "adapter" in card:
            card = ModelRef.model_validate(card)
            model, tokenizer = load_base(card, "cpu")
            prompts = prompt_texts(card, DatasetRef(path="rows"), tokenizer, [{"prompt": "what"}])
            how = SimpleNamespace(data=DatasetRef(path="rows"), max_completion_length=2, temperature=1.0, top_p=1.0)
            made = sample(model, tokenizer, prompts, how, per_prompt=1, seed=0)
            weight = float(model.get_input_embeddings().weight[5, 0])
            print(json.dumps({"prompts": prompts, "ids": tokenizer(prompts)["input_ids"], "weight": weight, "tokens": made[0][0].tokens}))
        else:
            print(json.dumps(read_rows(DatasetRef.model_validate(card))))
    except StageError as error:
        print(json.dumps({"code": error.code, "what": error.what, "fix": error.fix}))
"""


def run(script: str, *arguments: str, home: Path, **environment: str) -> list:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "HUGGING"))}
    own = {"HF_HOME": str(home), "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "TRANSFORMERS_VERBOSITY": "error"}
    ran = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, env={**kept, **own, **environment})
    assert ran.returncode == 0, ran.stderr
    return [json.loads(line) for line in ran.stdout.splitlines()]


def snapshot(home: Path, kind: str, name: str, commit: str) -> Path:
    """The folder of a commit in a cache, which `main` points to."""
    repository = home / "hub" / f"{kind}--{name.replace('/', '--')}"
    (repository / "refs").mkdir(parents=True, exist_ok=True)
    (repository / "refs/main").write_text(commit)
    folder = repository / "snapshots" / commit
    folder.mkdir(parents=True)
    return folder


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("hf")
    for name, commit in (("owner/chat", ONE), ("owner/chat", TWO), ("owner/plain", ONE)):
        saved = random_model(snapshot(folder, "models", name, commit), seed=int(commit[0]))
        tokenizer = AutoTokenizer.from_pretrained(saved)
        tokenizer.bos_token = tokenizer.eos_token  # token 1, which begins each text
        tokenizer.backend_tokenizer.post_processor = TemplateProcessing(single="<eos> $A", special_tokens=[("<eos>", 1)])
        tokenizer.chat_template = TEMPLATE if name == "owner/chat" else None
        tokenizer.save_pretrained(saved)
    rows = [
        {"name": f"q{number}", "question": f"{number} plus 1\n", "answer": number + 1, "tests": [{"arguments": [number]}]}
        for number in range(5)
    ]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    jsonl = snapshot(folder, "datasets", "owner/lines", ONE)
    (jsonl / "train.jsonl").write_text(lines)
    (jsonl / "test.jsonl").write_text(json.dumps(rows[4]) + "\n")
    columns = snapshot(folder, "datasets", "owner/columns", TWO)
    for config in ("easy", "hard"):
        (columns / config).mkdir()
        chosen = rows[:2] if config == "easy" else rows[2:]
        pq.write_table(pa.Table.from_pylist([{**row, "id": "theirs"} for row in chosen]), columns / config / "train-00000-of-00001.parquet")
    configs = "".join(f"- config_name: {config}\n  data_files: {config}/*.parquet\n" for config in ("easy", "hard"))
    (columns / "README.md").write_text(f"---\nconfigs:\n{configs}---\n")
    return folder


def model(name: str, commit: str, **more) -> str:
    return ModelRef(base=name, path=name, revision=commit, hub=True, adapter=Adapter(), **more).model_dump_json()


def rows_of(name: str, commit: str, prompt: str = "question", rows: int | None = None, **split) -> str:
    return DatasetRef(hub=name, revision=commit, prompt=prompt, rows=rows, **{"split": "train", **split}).model_dump_json()


FETCH = "hf download owner/lines --repo-type dataset --revision"
WRONG = [
    (model("owner/plain", ONE, apply_chat_template=True), "S277", "has no chat template", "apply_chat_template: false"),
    (model("owner/plain", TWO), "S275", "the model owner/plain at 222222222222", f"hf download owner/plain --revision {TWO}"),
    (rows_of("owner/lines", TWO), "S275", "owner/lines at 222222222222", f"{FETCH} {TWO}"),
    (rows_of("owner/lines", ONE, split="validation"), "S276", "has no split `validation`", "`split`"),
    (rows_of("owner/columns", TWO, config="middling"), "S276", "has no split `train` of `middling`", "`config`"),
    (rows_of("owner/lines", ONE, prompt="prompt"), "S276", "no text `prompt` in row 1 of `train`; columns with text: `name`", "`prompt`"),
    (rows_of("owner/lines", ONE, id="key"), "S276", "has no `key` in row 1", "`id`"),
    (rows_of("owner/columns", TWO, config="easy", id="id"), "S276", "repeats the id 'theirs' in row 2", "`id`"),
    (rows_of("owner/lines", ONE, rows=6), "S276", "has 5 rows in `train`, fewer than 6", "`rows`"),
]


RIGHT = {
    "first": model("owner/chat", ONE),
    "second": model("owner/chat", TWO),
    "template": model("owner/chat", ONE, apply_chat_template=True),
    "lines": rows_of("owner/lines", ONE, id="name"),
    "test": rows_of("owner/lines", ONE, split="test"),
    "columns": rows_of("owner/columns", TWO, config="hard", rows=2),
}


@pytest.fixture(scope="module")
def answers(home) -> dict:
    """What each card gives, all in one process."""
    cards = {**RIGHT, **{card: card for card, *_ in WRONG}}
    return dict(zip(cards, run(LOAD, *cards.values(), home=home), strict=True))


@pytest.mark.parametrize(("card", "code", "part", "fix"), WRONG)
def test_says_what_is_wrong(answers, card, code, part, fix):
    assert answers[card]["code"] == code and part in answers[card]["what"] and fix in answers[card]["fix"]


def test_the_pinned_commit_is_loaded_and_not_the_newest(answers):
    """`main` points to the second commit; the first one has other weights. Its template writes the first token, as the tokenizer does."""
    first, second, template = answers["first"], answers["second"], answers["template"]
    assert first["weight"] != second["weight"]
    assert first["prompts"] == ["what"] and first["tokens"] in (1, 2)
    assert template["prompts"] == ["user: what\nassistant:\n"]
    assert template["ids"][0][0] == 1 and template["ids"][0].count(1) == 1


def test_rows_of_lines_and_of_parquet_are_rows_like_those_of_a_file(answers):
    lines = answers["lines"]
    assert [row["id"] for row in lines] == ["q0", "q1", "q2", "q3", "q4"]
    assert lines[1] == {"id": "q1", "name": "q1", "question": "1 plus 1\n", "answer": 2, "tests": [{"arguments": [1]}]}
    assert answers["test"] == [{"id": "test-1", "name": "q4", "question": "4 plus 1\n", "answer": 5, "tests": [{"arguments": [4]}]}]
    assert [(row["id"], row["name"], row["tests"]) for row in answers["columns"]] == [
        ("train-1", "q2", [{"arguments": [2]}]),
        ("train-2", "q3", [{"arguments": [3]}]),
    ]


def test_online_without_a_hub_says_so(home):
    impatient = "import time; time.sleep = lambda seconds: None"  # between the retries of the hub's library
    (error,) = run(f"{impatient}\n{LOAD}", model("owner/nowhere", ONE), home=home, HF_HUB_OFFLINE="0", HF_ENDPOINT="http://127.0.0.1:9")
    assert error["code"] == "S275" and "cannot be had" in error["what"]
