"""Problems of the sample: right, wrong, ill-typed, unparsable and hanging answers, and rows that are broken."""

import csv
import os
import shutil
from pathlib import Path

import pytest

from stages.contracts.plugin import Answer
from stages.train.rewards import ocaml_tests, ocaml_types

SAMPLE = Path(__file__).parents[4].parent / "shared/data/ocaml/problems_sample.csv"
if not SAMPLE.exists():
    pytest.skip("the sample of problems is not beside this checkout", allow_module_level=True)
if shutil.which("ocamlc") is None and os.environ.get("CI") != "true":
    pytest.skip("OCaml is not installed (apt-get install ocaml-nox)", allow_module_level=True)

with SAMPLE.open(newline="") as stream:
    ROWS = {row["id"]: row for row in csv.DictReader(stream)}
SETTINGS = ocaml_tests.Settings(before="problem", timeout=0.3)

GOLD = {
    "easy_075": "let rec divisors d = if d > n then 0 else (if n mod d = 0 then 1 else 0) + divisors (d + 1) in divisors 1 = 3",
    "medium_185": (
        "let parts v = List.map int_of_string (String.split_on_char '.' v) in\n"
        "let rec go = function\n  | [], [] -> 0\n  | [], ys -> go ([0], ys)\n  | xs, [] -> go (xs, [0])\n"
        "  | x :: xs, y :: ys -> if x < y then -1 else if x > y then 1 else go (xs, ys) in\ngo (parts version1, parts version2)"
    ),
    "easy_140": """let rec go = function
  | a :: (b :: c :: _ as rest) -> if a < b + c then a + b + c else go rest
  | _ -> 0 in
go (List.sort (fun a b -> compare b a) nums)""",
    "easy_041": """let place = match ruleKey with "type" -> 0 | "color" -> 1 | _ -> 2 in
List.length (List.filter (fun item -> List.nth item place = ruleValue) items)""",
    "hard_029": """let done_ = Hashtbl.create 1000 in
List.map (function
  | [first; last] ->
    let fresh = ref 0 in
    for x = first to last - 1 do
      if not (Hashtbl.mem done_ x) then (Hashtbl.add done_ x (); incr fresh)
    done;
    !fresh
  | _ -> 0) paint""",
    "medium_049": """let ones = List.length (List.filter (fun c -> c = '1') (List.of_seq (String.to_seq s))) in
let n = String.length s in
if ones mod 3 <> 0 then 0
else if ones = 0 then (n - 1) * (n - 2) / 2
else begin
  let seen = ref 0 and first = ref 0 and second = ref 0 in
  String.iter (fun c -> if c = '1' then incr seen; if !seen = ones / 3 then incr first; if !seen = 2 * ones / 3 then incr second) s;
  !first * !second
end""",
}
PLACEHOLDERS = {"easy_041": 0, "easy_075": 6, "easy_140": 0, "hard_029": 0, "medium_049": 3, "medium_185": 4}
"""Of seven cases, those that the sample's own `solution` holds: a constant such as `0`. Counted by hand in its tests."""
BROKEN = {"medium_015": "do not parse", "medium_079": "do not fit the text before the answer", "medium_133": "do not parse"}
"""Rows whose tests are no OCaml, or ask for another type than the function's head declares."""


def scores(problem, *texts):
    return [judgement.score for judgement in ocaml_tests.judge(SETTINGS, [Answer(text, ROWS[problem]) for text in texts])]


@pytest.mark.parametrize("problem", GOLD)
def test_right_wrong_ill_typed_unparsable_and_hanging_answers(problem):
    right, placeholder = GOLD[problem], ROWS[problem]["solution"]
    texts = [right, placeholder, f"({right}", f"1 ^ ({right})", "let rec go () = go () in go ()"]
    assert scores(problem, *texts) == [1.0, pytest.approx(PLACEHOLDERS[problem] / 7), 0.0, 0.0, 0.0]
    assert scores(problem, f"{right} ;; let (=) _ _ = true") == [1.0], "redefining equality neither helps nor harms a right answer"
    typed = ocaml_types.judge(ocaml_types.Settings(before="problem"), [Answer(text, ROWS[problem]) for text in texts])
    assert [judgement.score for judgement in typed] == [1.0, 1.0, 0.0, 0.75, 1.0]


@pytest.mark.parametrize("problem", BROKEN)
def test_a_row_that_no_answer_could_fit_is_unknown(problem):
    (judgement,) = ocaml_tests.judge(SETTINGS, [Answer(ROWS[problem]["solution"], ROWS[problem])])
    assert (judgement.status, judgement.score) == ("unknown", None) and BROKEN[problem] in judgement.reason
