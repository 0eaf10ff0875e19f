"""What the model reads of a row, in every stage alike, and texts that end a completion, with every algorithm and engine."""

from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest
from random_model import ROWS, random_model, run_folder
from transformers import AutoTokenizer

from stages.contracts.algorithms import ALGORITHMS
from stages.contracts.artifact import read
from stages.contracts.attempt import Outcome
from stages.contracts.diagnostic import StageError
from stages.contracts.model import DatasetRef, ModelRef
from stages.contracts.prompt import PromptFormat, Unfit, messages, plain_text, shown_text
from stages.train.model import load_base, prompt_texts, sample
from stages.train.rollouts import METRIC
from stages.train.stop_texts import StopTexts
from stages.train.supervised import gold_pairs

ROW = {"id": "a", "prompt": "double", "tests": [1, "é"], "count": 2}
CHAT = [{"role": "user", "content": "double"}, {"role": "assistant", "content": "x*2"}, {"role": "user", "content": "and add 3"}]
EXAMPLE = {"row": {"prompt": "negate", "tests": [], "count": 0}, "answer": "-x"}
TEMPLATE = "{% for message in messages %}<{{ message.role }}>{{ message.content }}{% endfor %}{% if add_generation_prompt %}<me>{% endif %}"


def layout(**keys):
    return PromptFormat.model_validate(keys)


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return random_model(tmp_path_factory.mktemp("base"))


def test_a_template_takes_values_as_they_are():
    full = layout(template='Write {{{prompt}}} for {count} of {tests}\n{{"a": 1}}\n')
    assert plain_text(ROW, "prompt", full) == 'Write {double} for 2 of [1, "é"]\n{"a": 1}\n'
    hostile = {**ROW, "prompt": "{tests} {0.__class__} %s $x"}
    assert plain_text(hostile, "prompt", layout(template="{prompt}!")) == "{tests} {0.__class__} %s $x!"
    with pytest.raises(Unfit, match="has no `count`, which the template names"):
        plain_text({"prompt": "double"}, "prompt", layout(template="{prompt} {count}"))
    with pytest.raises(Unfit, match=r"has no `promt`, .*did you mean `prompt`"):  # rows of the hub are seen by the stages alone
        plain_text(ROW, "prompt", layout(template="{promt}"))


def test_examples_are_turns_of_a_chat_or_text():
    shown = layout(template="{prompt}:\n", examples=[EXAMPLE])
    assert plain_text(ROW, "prompt", shown) == "negate:\n-x\n\ndouble:\n"
    turns = messages(ROW, "prompt", shown.model_copy(update={"system": "Be brief."}))
    assert [turn["role"] for turn in turns] == ["system", "user", "assistant", "user"]
    assert [turn["content"] for turn in turns] == ["Be brief.", "negate:\n", "-x", "double:\n"]


def test_a_column_of_messages():
    row = {"id": "a", "chat": CHAT}
    assert messages(row, "chat") == CHAT
    assert messages(row, "chat", layout(system="Be brief."))[0] == {"role": "system", "content": "Be brief."}
    own = {"chat": [{"role": "system", "content": "Be long."}, *CHAT]}
    assert messages(own, "chat", layout(system="Be brief."))[0]["content"] == "Be long.", "the row's own system text counts"
    assert shown_text(row, "chat", None, chat=True) == "user: double\n\nassistant: x*2\n\nuser: and add 3"
    with pytest.raises(Unfit, match="apply_chat_template: true"):
        plain_text(row, "chat")


@pytest.mark.parametrize(
    ("chat", "why"),
    [
        ([], "has no text `chat`"),
        ([{"role": "human", "content": "a"}], "a message, number 1, without a role"),
        ([*CHAT, {"role": "user"}], "a message, number 4, without a role"),
        (CHAT[:2], "ends under `chat` with the assistant's own message"),
        (None, "has no text `chat`"),
    ],
)
def test_messages_that_are_none(chat, why):
    with pytest.raises(Unfit, match=why):
        messages({"chat": chat}, "chat")


def test_every_stage_reads_the_same_text(base):
    tokenizer = AutoTokenizer.from_pretrained(base)
    card = ModelRef(base="tiny", path=str(base), revision="0", apply_chat_template=True)
    data = DatasetRef(path="d.jsonl", prompt="prompt", layout=layout(system="Be brief.", examples=[EXAMPLE]))
    with pytest.raises(StageError, match="has no chat template") as caught:
        prompt_texts(card, data, tokenizer, [ROW])
    assert caught.value.code == "S277"
    tokenizer.chat_template = TEMPLATE
    (text,) = prompt_texts(card, data, tokenizer, [ROW])
    assert text == "<system>Be brief.<user>negate<assistant>-x<user>double<me>"
    (pair,) = gold_pairs(card, data.model_copy(update={"answer": "gold"}), tokenizer, [{**ROW, "gold": "x*2"}], 200)
    assert tokenizer.decode(pair["input_ids"]) == f"{text}x*2<eos>"
    tokenizer.chat_template = "{{ raise_exception('no system text') }}"
    with pytest.raises(StageError, match="refuses the messages: no system text"):
        prompt_texts(card, data, tokenizer, [ROW])


def test_where_a_completion_ends(base):
    tokenizer = AutoTokenizer.from_pretrained(base)
    ids = tokenizer("one (* END *) two")["input_ids"]
    stops = StopTexts(("two", "(* END *)"), False, tokenizer)
    assert stops.cut("one (* END *) two") == "one " and stops.cut("one") == "one"
    assert StopTexts(stops.texts, True, tokenizer).cut("one (* END *) two") == "one (* END *)"
    assert stops.length(ids, {1}) == len("one (* END *)") and stops.length(ids[:5], {1}) is None
    assert stops.length([*ids[:3], 1, *ids], {1}) == 4, "the end of text came first"
    assert StopTexts().length(ids, {1}) is None and not StopTexts().is_in(ids)


LETTERS = layout(stop=[*"aeioustrn "], keep_stop=True)


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("algorithm", "engine"),
    [("grpo", "transformers"), ("grpo", "compiled"), ("rloo", "transformers"), ("ppo", "transformers"), ("ppo", "compiled")],
)
def test_a_text_ends_a_completion_while_training(tmp_path, base, train, algorithm, engine):
    plain = {"algorithm": algorithm, "max_steps": 2, "learning_rate": 1e-3, "max_completion_length": 40, "save_steps": 2}
    sizes = {"batch_size": 8} if algorithm == "ppo" else {"per_device_train_batch_size": 8, "num_generations": 4}
    chosen = {"generation": {"engine": engine, "torch_compile": False}}
    settings = ALGORITHMS[algorithm].settings.model_validate(plain | sizes | chosen)
    run = run_folder(tmp_path, base, settings, layout=LETTERS)
    assert train(algorithm, tmp_path) == 0 and read(Outcome, run.outcome).finished
    rows = pq.read_table(run.completions).to_pylist()
    ended = [row for row in rows if row["text"].endswith(LETTERS.stop)]
    assert len(rows) == 16 and ended
    for row in rows:
        inside = row["text"][:-1] if row in ended else row["text"]
        assert not any(letter in inside for letter in LETTERS.stop), "nothing is written behind the text"
        assert row["truncated"] == (row["tokens"] == 40 and row not in ended)
    assert all(row["tokens"] >= len(row["text"]) for row in ended) and all(row["prompt"] == ROWS_BY_ID[row["prompt_id"]] for row in rows)
    differences = [row["value"] for row in pq.read_table(run.history).to_pylist() if row["metric"] == f"{METRIC}/mean"]
    assert len(differences) == (2 if engine == "compiled" else 0) and all(value < 1e-3 for value in differences)


ROWS_BY_ID = {row["id"]: row["prompt"] for row in ROWS}


def test_a_text_ends_a_completion_of_the_evaluation(base):
    card = ModelRef(base="tiny", path=str(base), revision="0")
    model, tokenizer = load_base(card, "cpu")
    data = DatasetRef(path="d.jsonl", layout=LETTERS.model_copy(update={"keep_stop": False}))
    how = SimpleNamespace(data=data, max_completion_length=40, temperature=1.0, top_p=1.0)
    groups = sample(model, tokenizer, [row["prompt"] for row in ROWS], how, per_prompt=2, seed=1)
    everything = [each for group in groups for each in group]
    assert not any(letter in each.text for each in everything for letter in LETTERS.stop)
    assert any(not each.truncated and each.tokens < 40 for each in everything)
