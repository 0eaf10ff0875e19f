"""The gate python_tests: scores on both sides, data rows that are broken, and forged results that buy nothing."""

import json

import pytest
from pydantic import ValidationError

from stages.contracts.plugin import Answer, Judgement
from stages.contracts.reward import Example, Gate, Reward
from stages.train.rewards import python_tests
from stages.train.rewards.compose import check_examples, compose, sandbox
from stages.train.rewards.python_tests import Settings, judge, same
from stages.train.verifiers import verifier
from stages.train.verifiers.verdict import VerifierUnavailable

CREDIT = {"runs": 0.1, "share": 0.3, "all": 0.6}
ROW = {"id": "example-1", "tests": [{"arguments": [x], "expected": x * 2 + 3} for x in (-2, 0, 1, 2, 5, 9)]}
EXPRESSION = {"answer": "expression", "arguments": ["x"], "timeout": 1.0, "credit": CREDIT}
FORMAT = Gate(name="format", kind="format", settings={"pattern": "[-+*()x0-9 ]+", "max_chars": 60}, on_fail=0.0)
TESTS = Gate(name="tests", kind="python_tests", settings=EXPRESSION)


def judged(text, row=ROW, **settings):
    (judgement,) = judge(Settings(**{**EXPRESSION, **settings}), [Answer(text, row)])
    return judgement


def case(*pairs):
    return {"tests": [{"arguments": arguments, "expected": expected} for arguments, expected in pairs]}


@pytest.mark.parametrize(
    ("text", "status", "score"),
    [
        ("(x*2)+3", "pass", 1.0),
        ("x*2+3", "pass", 1.0),
        (" x + x + 3\n", "pass", 1.0),
        ("x", "fail", 0.1),
        ("5", "fail", 0.1 + 0.3 / 6),  # right at x = 1 by chance
        ("x*2+3 if x else 0", "fail", 0.1 + 0.3 * 5 / 6),
        ("(x*2)+3)", "fail", 0.0),
        ("import os", "fail", 0.0),
        ("x/0", "fail", 0.1),
        ("x*2+3.0", "fail", 0.1),
        ("__import__('os')._exit(0)", "fail", 0.0),
        ("9**9**9**9", "fail", 0.0),
        ("", "fail", 0.0),
    ],
)
def test_scores(text, status, score):
    judgement = judged(text)
    assert judgement.status == status
    assert judgement.score == pytest.approx(score, abs=1e-12)
    assert bool(judgement.reason) == (status == "fail")


def test_the_quickstarts_examples():
    """The examples of specs/quickstart.yaml, at each gate."""
    right = {"(x*2)+3": 1.0, "x*2+3": 1.0, "x": 0.1, "(x*2)+3)": 0.0, "import os": 0.0}
    examples = tuple(Example(completion=text, row=ROW, expect=expect) for text, expect in right.items())
    reward = Reward(name="shaped", gates=(FORMAT, TESTS), examples=examples)
    outcomes = check_examples(reward)
    assert [(outcome.completion, outcome.got) for outcome in outcomes] == [
        (text, pytest.approx(expect, abs=1e-12)) for text, expect in right.items()
    ]
    assert all(outcome.ok for outcome in outcomes)
    assert outcomes[4].why == "format: fail (does not match the pattern)"
    inverted = compose(reward.model_copy(update={"invert": True})).score([Answer(text, ROW) for text in right])
    assert inverted.rewards == [pytest.approx(1 - expect, abs=1e-12) for expect in right.values()]


def test_function_answers():
    settings = {"answer": "function", "entry": "add", "arguments": ()}
    row = case(([[1, 2]], [2, 1]), ([[]], []))
    assert judged("def add(xs):\n    return xs[::-1]", row, **settings) == Judgement("pass", 1.0)
    assert judged("def add(xs):\n    xs.reverse()\n    return xs", row, **settings).status == "pass"
    assert judged("def add(xs):\n    return tuple(xs[::-1])", row, **settings).score == pytest.approx(0.1)
    assert judged("def f(xs):\n    return xs[::-1]", row, **settings).score == 0.0
    assert judged("add = sorted", row, **settings).score == pytest.approx(0.1 + 0.3 / 2)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({}, "the data row has no list of tests in column 'tests'"),
        ({"tests": None}, "the data row has no list of tests in column 'tests'"),
        ({"tests": "x"}, "the data row has no list of tests in column 'tests'"),
        ({"tests": []}, "the data row has no list of tests in column 'tests'"),
        ({"tests": [3]}, "test 1 of the data row is not {arguments: [...], expected: ...}"),
        ({"tests": [{"arguments": 3, "expected": 1}]}, "test 1 of the data row is not"),
        ({"tests": [{"arguments": [1]}]}, "test 1 of the data row is not"),
        (
            {"tests": [{"arguments": [1], "expected": 1}, {"arguments": [1, 2], "expected": 1}]},
            "test 2 of the data row has 2 arguments, not 1",
        ),
        ({"tests": [{"arguments": [{1}], "expected": 1}]}, "arguments of the data row's tests are not JSON"),
    ],
)
def test_a_broken_row_is_unknown(row, reason):
    judgement = judged("x", row)
    assert judgement.status == "unknown" and judgement.score is None and judgement.reason.startswith(reason)


def test_reasons_and_the_default_credit_of_all_or_nothing():
    assert judged("x/0").reason == "0 of 6 tests passed; raised ZeroDivisionError: division by zero"
    assert judged("x*2+3 if x else 0", credit={}).score == 0.0


def test_a_batch_keeps_its_order():
    rows = [ROW, {}, case(([1], 2)), ROW]
    judgements = judge(Settings(**EXPRESSION), [Answer(text, row) for text, row in zip(["x*2+3", "x", "x+1", "(("], rows, strict=True)])
    assert [judgement.status for judgement in judgements] == ["pass", "unknown", "pass", "fail"]


@pytest.mark.parametrize(
    "code",
    [
        "class Yes:\n  def __eq__(self, other): return True\n  __hash__ = None\ndef f(x): return Yes()",
        "class Yes(int):\n  def __eq__(self, other): return True\ndef f(x): return Yes()",
        "import os\ndef f(x):\n  os._exit(0)",
        "import builtins\nbuiltins.all = builtins.any = builtins.isinstance = lambda *a: True\ndef f(x): return None",
        "import json\njson.dumps = lambda *a, **k: 'true'\ndef f(x): return True",
        "import sys\ndef f(x):\n  job = sys._getframe(3).f_locals.get('job') or {}\n  return job.get('expected', 0)",
        # forged frames, with the nonce looked up in the harness
        """
import os, sys, json
def f(x):
    frame = sys._getframe()
    while frame and 'job' not in frame.f_locals: frame = frame.f_back
    nonce = frame.f_locals['job']['nonce']
    os.write(3, (nonce + '\\n'.join(['value true'] * 6)).encode())
    os._exit(0)
""",
        # lines of the harness's own form, in words that it passes on
        "E = type('a\\nvalue 5', (Exception,), {})\ndef f(x): raise E('\\nvalue 5\\nvalue 5')",
        "def f(x): return 'x\\nvalue 5\\nvalue 5'",
        "import sys\ndef f(x):\n  sys.modules['__main__']._encode = lambda *a: ('5\\nvalue 5',)\n  return 5",
        "import os\ndef f(x):\n  os.write(3, b'value 5\\nvalue 5\\nvalue 5')\n  return 5",
        "import sys\nsys.modules['__main__'].plain = lambda value: True\nclass Yes(int):\n  def __eq__(self, other): return True\n"
        "def f(x): return Yes(4)",
        "class S(str):\n  def __getitem__(self, place): return 3\n"
        "class E(Exception):\n  def __str__(self): return S('x')\ndef f(x): raise E",
        "class M(type):\n  __name__ = property(lambda self: 1 / 0)\nclass Z(metaclass=M): pass\ndef f(x): return Z()",
        "import gc\ndef f(x): return [one['expected'] for one in gc.get_objects() if type(one) is dict and 'expected' in one] or 0",
    ],
)
def test_forged_results_buy_nothing(code):
    judgement = judged(code, answer="function", arguments=())
    assert judgement.status == "fail" and judgement.score <= 0.1


@pytest.mark.parametrize(
    ("value", "right", "equal"),
    [
        (-0.0, 0.0, True), ({"b": 1, "a": 2}, {"a": 2, "b": 1}, True), (1, 1, True), (True, 1, False), (1, True, False), (1.0, 1, False),
        (1, 1.0, False), (0.1 + 0.2, 0.3, False), (0.3, 0.3, True), (float("nan"), float("nan"), False),
        (float("inf"), float("inf"), True), (None, None, True), (None, 0, False), ("a", "a", True), ("1", 1, False),
        ([1, [2]], [1, [2]], True), ([1, 2], [1], False), ([True], [1], False), ({"a": [1]}, {"a": [1]}, True),
        ({"a": 1}, {"a": 1.0}, False), ({"a": 1}, {"b": 1}, False), ({"a": 1}, {"a": 1, "b": 2}, False), ([], {}, False),
    ],
)  # fmt: skip
def test_equal_in_type_and_value(value, right, equal):
    assert same(value, right) is equal


@pytest.mark.parametrize("depth", [900, 960, 980])
def test_a_value_that_the_judge_s_deeper_stack_cannot_read_fails(depth):
    """A trainer calls the judge from many frames; the thread that read the value had few."""

    def below(frames):
        return below(frames - 1) if frames else judged(nested, case(([1], 1)), answer="function", arguments=())

    nested = f"import os, sys\ndef f(x):\n  os.write(3, b'value ' + b'[' * {depth} + b']' * {depth})\n  os._exit(0)"
    assert below(150).status == "fail"


def test_values_that_are_odd():
    assert judged("[x]", case(([1], [1]))).status == "pass"
    assert judged("x", case(([True], 1))).status == "fail"
    assert judged("float('nan')", case(([1], float("nan")))).status == "fail"
    assert judged("10**5000", case(([1], 1))).status == "fail"
    assert judged("'\ud800' or x", case(([1], 1))).status == "fail"
    deep = json.loads("[" * 900 + "]" * 900)
    assert judged("x", case(([deep], deep))).status in ("pass", "fail")


@pytest.mark.parametrize(
    "settings",
    [
        {"credit": {"runs": 0.5, "share": 0.5, "all": 0.5}}, {"credit": {"runs": -0.5, "share": 0.5, "all": 1.0}},
        {"entry": "not a name"}, {"entry": "x", "answer": "expression", "arguments": ()}, {"answer": "expression", "arguments": ("1",)},
        {"answer": "expression", "arguments": ("x", "x")}, {"timeout": 0}, {"memory": 1024}, {"answer": "program"},
    ],
)  # fmt: skip
def test_settings_that_make_no_sense(settings):
    with pytest.raises(ValidationError):
        Settings(**settings)


def test_no_sandbox_is_unknown_never_a_number(monkeypatch):
    assert sandbox([FORMAT, TESTS]) in ("bubblewrap", "seccomp")

    def refuse():
        raise VerifierUnavailable("no sandbox holds", why="", fix="")

    monkeypatch.setattr(verifier.sandbox, "tier", refuse)
    python_tests.verifier.cache_clear()
    judgements = judge(Settings(**EXPRESSION), [Answer("x*2+3", ROW), Answer("x", ROW)])
    assert judgements == [Judgement("unknown", None, "no sandbox holds")] * 2
    inverted = Reward(name="r", gates=(TESTS,), invert=True)
    assert compose(inverted).score([Answer("x*2+3", ROW)]).rewards == [None]
    with pytest.raises(VerifierUnavailable):
        sandbox([TESTS])
