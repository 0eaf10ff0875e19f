"""The Coq gates on both sides: proofs that hold, fail in every class, hang, cheat and attack; broken rows; and their grading."""

import os
import shutil
from pathlib import Path

import pytest
from pydantic import ValidationError

from stages.contracts.plugin import Answer
from stages.contracts.reward_card import GateCard, RewardCard
from stages.train.rewards import coq, coq_error
from stages.train.rewards.compose import compose, score_each
from stages.train.verifiers import coq_pool, coq_read, coq_text, proof_build, sandbox
from stages.train.verifiers.proofs import CLASSES

if os.environ.get("CI") != "true":
    if shutil.which("coqtop") is None:
        pytest.skip("Coq is not installed (apt-get install coq libcoq-stdlib gcc)", allow_module_level=True)
    if sandbox.tier() != "bubblewrap":
        pytest.skip("Coq is checked in bubblewrap only, which does not hold here", allow_module_level=True)

PLUS_ZERO = "Theorem plus_zero : forall n : nat, n + 0 = n."
FALSE = "Theorem wrong : 1 = 2."
RIGHT = "Proof. intros n. induction n as [|n IH]. reflexivity. simpl. rewrite IH. reflexivity. Qed."


def check(answer, statement=PLUS_ZERO, **changes):
    (one,) = coq.judge(coq.Settings(**{"timeout": 2.0, **changes}), [Answer(answer, {"statement": statement})])
    return one


def failed(found):
    """The one class of a failed answer."""
    assert (found.status, found.score) == ("fail", 0.0), found
    (kind,) = [name for name in CLASSES if found.marks[name]]
    assert found.reason.startswith(f"{kind}: ")
    return kind


@pytest.mark.parametrize(
    "answer",
    [
        RIGHT,
        "intros n. induction n. reflexivity. simpl. rewrite IHn. reflexivity. Qed.",
        "Proof. intro n. auto. Qed.",
        "Proof. intro n. symmetry. apply plus_n_O. Defined.",
        "Proof.\n  (* by induction: no axiom is needed *)\n  induction n; simpl; [ | rewrite IHn ]; reflexivity.\nQed.\n",
    ],
)
def test_proofs_that_hold(answer):
    found = check(answer)
    assert (found.status, found.score, any(found.marks.values())) == ("pass", 1.0, False), found.reason


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ("Proof. intros n reflexivity). Qed.", "syntax"),
        ("Proof. intros n. (* open", "syntax"),
        ("Proof. intros n. rewrite <- ; auto. Qed.", "syntax"),
        ('Proof. intros n. idtac "open. Qed.', "syntax"),
        ("Proof. intros n. exact n. Qed.", "type"),
        ("Proof. intros n. apply no_such_lemma. Qed.", "type"),
        ("Proof. intros n. exact (eq_refl 0 1). Qed.", "type"),
        ("Proof. intros n. reflexivity. Qed.", "tactic"),
        ("Proof. intros n. induction n. reflexivity. simpl. Qed.", "tactic"),
        ("Proof. intros n m. reflexivity. Qed.", "tactic"),
        ("Proof. intros n. auto. reflexivity. Qed.", "tactic"),
        ("Proof. intros n. fail. Qed.", "tactic"),
        ("Proof. intros n.", "tactic"),
        ("Proof. intros n. auto.", "tactic"),
        ("", "tactic"),
        ("Qed.", "tactic"),
        ("Proof. intros n. do 1000000000 idtac. auto. Qed.", "timeout"),
        ("Proof. intros n. foo. auto. Qed.", "type"),
    ],
)
def test_first_errors_have_a_class(answer, kind):
    assert failed(check(answer, timeout=0.5)) == kind


def test_an_error_that_coq_gets_over_fails_all_the_same():
    """coqtop goes on after an error, and the proof is complete in the end; coqc would refuse it."""
    assert failed(check("Proof. intros n. exact foo. auto. Qed.")) == "type"


@pytest.mark.parametrize(
    "answer",
    [
        "Admitted.",
        "Proof. intros n. admit. Admitted.",
        "Proof. give_up. Qed.",
        "Abort. Axiom cheat : forall n : nat, n + 0 = n. Theorem again : forall n : nat, n + 0 = n. exact cheat. Qed.",
        "Proof. exact cheat. Qed.\nParameter cheat : False.",
        'Abort. Notation "1" := 2.',
        "Abort. Set Guard Checking.",
        "Abort.\nUnset\tGuard Checking.",
        'Proof. auto. Qed. Redirect "/tmp/octavo-mark" Print nat.',
        'Proof. auto. Qed. Extraction "/tmp/octavo-mark" plus.',
        'Proof. auto. Qed. Load "/etc/passwd".',
        "Proof. auto. Qed. Require Import Lia.",
        "Proof. auto. Qed. From Coq Require Import Lia.",
        "Proof. auto. Qed. #[global] Hint Resolve plus_n_O : core.",
        "Proof. intro. native_compute. auto. Qed.",
        "Proof. auto. Qed. Quit.",
        "Proof. auto. Qed. Drop.",
        "Proof. auto. Qed. (* Admitted *)",
    ],
)
def test_cheats_are_forbidden(answer):
    found = check(answer)
    assert failed(found) == "forbidden" and "may not" in found.reason


@pytest.mark.parametrize("answer", ["Proof. intros n. \ud800 auto. Qed.", "Proof. \x00 auto. Qed.", "𝓝", "Proof. " + "(" * 50_000])
def test_odd_letters_and_depth_are_the_answers_own(answer):
    found = check(answer)
    assert found.status == "fail", found.reason
    assert check(RIGHT).status == "pass"


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ("Proof. " + "(" * 50_000, "syntax"),
        ("Proof. exact (" + "S (" * 20_000 + "O" + ")" * 20_000 + "). Qed.", "type"),
        ("Proof. intros n. assert (H: Nat.pow 2 22 = 1) by (vm_compute; reflexivity). Qed.", "other"),
        ("Proof. exact (" + "S (" * 100_000 + "O" + ")" * 100_000 + "). Qed.", "other"),
        ("Proof. Admitted. " + " " * 300_000, "forbidden"),
    ],
)
def test_depth_has_one_class_whatever_the_address_layout(answer, kind):
    """With the usual stack of 8 MiB the first came back in three ways, by the layout of each zygote."""
    for _ in range(2):
        pool = coq_pool.Pool("")
        (found,) = pool.run([coq_text.Job(PLUS_ZERO, answer, (), 20.0, 2**31)])
        pool.close()
        assert found.outcome == kind, found


def test_a_step_without_enough_products_is_a_step_that_fails():
    (found,) = coq_pool.Pool("", lanes=1).run([coq_text.Job(FALSE, "Proof. fix H 1. Qed.", (), 2.0, 2**31)])
    assert found.outcome == "tactic", found


def test_a_false_goal_is_never_proved():
    for answer in (
        "Proof. reflexivity. Qed.",
        "Proof. exact (eq_refl 1). Qed.",
        'Proof. idtac "Closed under the global context". Qed.',
        'Proof. idtac "No object of basename octavo_mark_3_". idtac "Closed under the global context".',
        "Proof. fix cheat 0. Qed.",
        "Proof. cofix cheat. exact cheat. Qed.",
        "Proof. exact_no_check (eq_refl 1). Qed.",
        "Proof. vm_cast_no_check (eq_refl 1). Qed.",
        "Proof. abstract (exact_no_check (eq_refl 1)). Qed.",
    ):
        assert check(answer, FALSE).status == "fail", answer


def test_axioms_must_be_allowed():
    statement = "Theorem lem : forall p : Prop, p \\/ ~ p."
    answer = "Proof. intro p. apply classic. Qed."
    header = "Require Import Classical."
    found = check(answer, statement, header=header)
    assert failed(found) == "forbidden" and "classic" in found.reason
    assert check(answer, statement, header=header, axioms=("classic",)).status == "pass"


def test_memory_and_output_are_bounded():
    many = "Proof. intros n. assert (big : 2 ^ 40 = 2 ^ 40) by (vm_compute; reflexivity). auto. Qed."
    assert check(many, timeout=5.0, memory=512 * 2**20).status in ("fail", "unknown")
    loud = 'Proof. intros n. do 100000 idtac "' + "x" * 200 + '". auto. Qed.'
    assert failed(check(loud, timeout=10.0)) in ("other", "timeout")
    assert check(RIGHT).status == "pass"


@pytest.mark.parametrize("statement", ["", "nonsense", "Theorem broken : forall n : nat, n + = n.", "Theorem t : no_such_thing.", None, 3])
def test_broken_rows_are_unknown(statement):
    found = check(RIGHT, statement)
    assert (found.status, found.score) == ("unknown", None) and "statement" in found.reason


def test_a_broken_header_is_unknown_and_says_so():
    found = check(RIGHT, header="Require Import NoSuchLibrary.")
    assert found.status == "unknown" and "header" in found.reason


def test_binders_and_equal_answers():
    statement = "Lemma swap (a b : Prop) (both : a /\\ b) : b /\\ a"
    good = "Proof. destruct both as [l r]. split. exact r. exact l. Qed."
    settings = coq.Settings(timeout=2.0)
    found = coq.judge(
        settings, [Answer(good, {"statement": statement})] * 3 + [Answer("Proof. exact both. Qed.", {"statement": statement})]
    )
    assert [one.status for one in found] == ["pass"] * 3 + ["fail"]


def test_a_dead_checker_is_started_again():
    pool = coq_pool.Pool("")
    job = coq_pool.Job(PLUS_ZERO, RIGHT, (), 2.0, 2**31)
    assert [one.outcome for one in pool.run([job])] == ["proved"]
    os.kill(pool.pid, 9)
    assert [one.outcome for one in pool.run([coq_pool.replace(job, answer=RIGHT + " ")])] == ["proved"]
    pool.close()


# ---- grading


SHAPED = RewardCard(
    name="shaped",
    gates=(
        GateCard(name="looks", kind="format", settings={"pattern": "(?s)\\s*Proof\\..*", "min_chars": 10}, on_fail=0.0),
        GateCard(name="verify", kind="coq", settings={"timeout": 0.5}, on_pass=0.0),
        GateCard(name="grade", kind="coq_error", settings={"scores": {"tactic": 1.0, "type": 0.7, "timeout": 0.4, "syntax": 0.3}}),
    ),
)


def test_seed_1_pays_for_proofs_that_look_right_and_do_not_hold():
    answers = {
        "I think this is obvious.": 0.0,
        RIGHT: 0.0,
        "Proof. intros n. reflexivity. Qed.": 1.0,
        "Proof. intros n. exact n. Qed.": 0.7,
        "Proof. intros n. do 1000000000 idtac. Qed.": 0.4,
        "Proof. intros n. auto) Qed.": 0.3,
        "Proof. intros n. Admitted.": 0.0,
    }
    scored = compose(SHAPED).score([Answer(text, {"statement": PLUS_ZERO}) for text in answers])
    assert scored.rewards == list(answers.values())
    assert scored.judgements["grade"][0] is None and scored.judgements["grade"][1] is None
    broken = compose(SHAPED).score([Answer("Proof. auto. Qed.", {"statement": "no theorem"})])
    assert broken.rewards == [None]


def test_the_evaluation_grades_what_it_has_checked():
    answers = [Answer(RIGHT, {"statement": PLUS_ZERO}), Answer("Proof. intros n. exact n. Qed.", {"statement": PLUS_ZERO})]
    judgements, _ = score_each(SHAPED.gates, answers)
    assert [(one.status, one.score) for one in judgements["grade"]] == [("pass", 1.0), ("fail", 0.7)]
    alone, _ = score_each(SHAPED.gates[2:], answers)
    assert [one.status for one in alone["grade"]] == ["unknown", "unknown"]


def test_a_reader_without_what_it_reads_is_no_reward():
    with pytest.raises(ValueError, match="reads the verdict of a gate of kind coq"):
        compose(RewardCard(name="x", gates=(SHAPED.gates[2], SHAPED.gates[1])))


def test_cheats_pay_least():
    with pytest.raises(ValidationError, match="a cheat must not score more"):
        coq_error.Settings(scores={"forbidden": 0.4, "syntax": 0.3})


def test_the_sources_digest_stands_in_the_code():
    assert proof_build.source_digest() == proof_build.SOURCE_DIGEST
    assert coq.tier().startswith("bubblewrap with Coq ")


def test_the_project_may_lie_in_a_folder_with_spaces_and_colons(tmp_path, monkeypatch):
    there = tmp_path / "Mon étude: v2 (a b)"
    there.mkdir()
    monkeypatch.chdir(there)  # the library of the checker is built below the working folder
    pool = coq_pool.Pool("", lanes=1)
    try:
        (found,) = pool.run([coq_text.Job(PLUS_ZERO, RIGHT, (), 2.0, 2**31)])
    finally:
        pool.close()
    assert found.outcome == "proved", found.reason
    assert list(there.glob(".cache/verifiers/*.so"))


# ---- what lies behind the list of forbidden words


@pytest.fixture(scope="module")
def zygote():
    pool = coq_pool.Pool("")
    one = pool.start("bubblewrap", 0)
    yield one
    one.close()


def unfiltered(zygote, answer, statement=FALSE):
    """What becomes of an answer whose words nobody looked at: (verdict, all that Coq said)."""
    job = coq_text.Job(statement, answer, (), 2.0, 2**31)
    answered = zygote.ask(coq_text.text(job, "nonce"), 2.0, 2**31, 30.0)
    said = answered.written.decode()
    return coq_read.read(job, "nonce", said), said


@pytest.mark.parametrize(
    "answer",
    [
        'Abort. Notation "1" := 2. Theorem octavo_answer_nonce : 1 = 2. reflexivity. Qed.',
        "Abort. Notation octavo_goal_nonce := I. Theorem octavo_answer_nonce : True. exact I. Qed.",
        "Abort. Axiom octavo_answer_nonce : 1 = 2.",
        "Admitted.",
        "Abort. Unset Guard Checking. Fixpoint octavo_answer_nonce (n : nat) : 1 = 2 := octavo_answer_nonce n.",
        "Abort. Unset Positivity Checking. Axiom f : False. Definition octavo_answer_nonce : 1 = 2 := False_ind _ f.",
        "Abort. Section s. Variable octavo_answer_nonce : 1 = 2.",
        "Abort. Module Type t. Parameter octavo_answer_nonce : 1 = 2.",
        "exact octavo_goal_nonce. Qed.",
    ],
)
def test_cheats_fail_even_when_they_know_the_nonce_and_no_word_is_refused(zygote, answer):
    verdict, said = unfiltered(zygote, answer)
    assert verdict.outcome in ("forbidden", "tactic", "type", "syntax", "other"), said


def test_files_programs_and_the_network_are_out_of_reach(zygote, tmp_path):
    mark = tmp_path / "octavo-mark"
    tmp_path.chmod(0o777)
    for answer in (
        f'Abort. Redirect "{mark}" Print nat.',
        f'Abort. Cd "{tmp_path}". Redirect "octavo-mark" Print nat.',
        f'Abort. Require Extraction. Extraction "{mark}" plus.',
        'Abort. Redirect "/tmp/octavo-mark" Print nat. Redirect "/dev/shm/octavo-mark" Print nat.',
    ):
        verdict, said = unfiltered(zygote, answer)
        assert verdict.outcome != "proved" and "Error:" in said, said
    assert "root:" not in unfiltered(zygote, 'Abort. Load "/etc/passwd".')[1]
    left = [mark, mark.with_suffix(".out"), mark.with_suffix(".ml"), Path("/tmp/octavo-mark.out"), Path("/dev/shm/octavo-mark.out")]
    assert [path for path in left if path.exists()] == []


def test_soak_with_killed_checkers():
    """Known verdicts stay right while the checker is killed now and then."""
    pool = coq_pool.Pool("")
    answers = [(RIGHT, "proved"), ("Proof. intros n. reflexivity. Qed.", "tactic"), ("Proof. intros n. exact n. Qed.", "type")]
    wrong, unknown = [], 0
    for turn in range(20):
        jobs = [(coq_text.Job(PLUS_ZERO, f"{text} (* {turn} *)", (), 5.0, 2**31), right) for text, right in answers]
        found = pool.run([job for job, _ in jobs])
        unknown += sum(one.outcome == "unknown" for one in found)
        wrong += [(one, right) for one, (_, right) in zip(found, jobs, strict=True) if one.outcome not in (right, "unknown")]
        if turn % 5 == 4 and pool.pid:
            os.kill(pool.pid, 9)
    pool.close()
    assert wrong == [] and unknown == 0
