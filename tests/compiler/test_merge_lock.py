"""The merge of dvc.lock: each stage is one side's, whole; what neither side ran is due; only a real contradiction is a conflict."""

import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from compiler.__main__ import main
from compiler.commands.merge_lock import merge
from stages.contracts.dvc_lock import parse_lock

HEAD = "schema: '2.0'\nstages:\n"


def md5(text):
    return hashlib.md5(text.encode()).hexdigest()


def stage(name, out, **deps):
    lines = [f"  {name}:", f"    cmd: python -m stages.x runs/e/{name}", "    deps:"]
    for path, content in deps.items():
        lines += [f"    - path: {path}", "      hash: md5", f"      md5: {md5(content)}", "      size: 1"]
    lines += ["    outs:", f"    - path: {name}.out", "      hash: md5", f"      md5: {md5(out)}", "      size: 1"]
    return "\n".join(lines) + "\n"


def lock(*stages):
    return HEAD + "".join(stages)


A1, A2 = stage("train-a", "oa1", card="ca1"), stage("train-a", "oa2", card="ca2")
B1, B2 = stage("train-b", "ob1", card="cb1"), stage("train-b", "ob2", card="cb2")


def page(a, b, out):
    return stage("page", out, **{"train-a.out": a, "train-b.out": b})


A3 = stage("train-a", "oa3", card="ca3")
OTHER = stage("train-a", "oa3", card="ca2")
RENAMED = A1.replace("stages.x", "stages.y")
C, D = stage("train-c", "oc", card="cc"), stage("train-d", "od", card="cd")
BASE, FIRST = page("oa1", "ob1", "p1"), page("oa2", "ob1", "p2")
SECOND, BOTH = page("oa1", "ob2", "p3"), page("oa2", "ob2", "p4")


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "text", "due"),
    [
        (lock(A1, B1), lock(A2, B1), lock(A1, B2), lock(A2, B2), []),  # each side trained another run
        (lock(A1), lock(A1, C), lock(A1, D), lock(A1, C, D), []),  # each side added one
        ("", lock(C), lock(D), lock(C, D), []),
        # a stage that reads both runs: ours stays, DVC sees that train-b.out is another file
        (lock(A1, B1, BASE), lock(A2, B1, FIRST), lock(A1, B2, SECOND), lock(A2, B2, FIRST), ["page"]),
        # one branch has both changes already, the other one of them: the side that ran with the merged inputs is right
        (lock(BASE), lock(BOTH), lock(SECOND), lock(BOTH), []),
        (lock(BASE), lock(SECOND), lock(BOTH), lock(BOTH), []),
        (lock(A1), lock(A2), lock(A2), lock(A2), []),  # equal changes are one
        # both changed the inputs: the card is in git, which shows the conflict; DVC holds the entry against whichever is chosen
        (lock(A1), lock(A2), lock(A3), lock(A2), ["train-a"]),
        (lock(A1), lock(RENAMED), lock(A2), lock(RENAMED), ["train-a"]),  # neither ran the new command with the new card
        (lock(A1, B1), lock(A1), lock(A1, B1), lock(A1), []),  # removed stages stay removed ...
        (lock(A1, B1), lock(A1, B1), lock(B1), lock(B1), []),
        (lock(A1, B1), lock(A1), lock(A1, B2), lock(A1, B2), []),  # ... unless the other side ran them again
        (lock(A1, B1), lock(A1, B2), lock(A1), lock(A1, B2), []),
        ("", HEAD, lock(A1), lock(A1), []),  # a lock without stages is one
    ],
)
def test_merges(base, ours, theirs, text, due):
    merged = merge(base, ours, theirs)
    assert (merged.text, merged.conflicts, merged.due) == (text, [], due)


def test_equal_inputs_and_other_outputs_are_a_conflict():
    merged = merge(lock(A1, B1), lock(A2, B1), lock(OTHER, B2))
    assert merged.conflicts == ["train-a"] and merged.due == []
    assert merged.text == f"{HEAD}<<<<<<< ours\n{A2}=======\n{OTHER}>>>>>>> theirs\n{B2}"


VERSIONS = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 2), max_size=8)


@settings(deadline=None, max_examples=60)
@given(VERSIONS, VERSIONS, VERSIONS)
def test_every_stage_of_a_merge_is_one_sides_whole(old, mine, other):
    def text(versions):
        return lock(*(stage(f"s-{name}", f"o{version}", dep=f"d{version}") for name, version in versions.items()))

    base, ours, theirs = (parse_lock(text(versions)) for versions in (old, mine, other))
    merged = merge(text(old), text(mine), text(other))
    assert merged.conflicts == []  # other outputs here always come from other inputs
    records = parse_lock(merged.text)
    for name in {*base, *ours, *theirs}:
        sides = [side.get(name) for side in (ours, theirs)]
        if sides[0] == sides[1]:
            assert records.get(name) == sides[0]
        elif base.get(name) in sides:
            assert records.get(name) == next(side for side in sides if side != base.get(name))
        else:
            assert records[name] in sides
    assert list(YAML(typ="safe", pure=True).load(merged.text)["stages"] or {}) == list(records)


def test_the_command_writes_ours_and_says_what_is_due(tmp_path, capsys):
    texts = (lock(BASE), lock(FIRST), lock(SECOND))
    paths = [tmp_path / name for name in ("base", "ours", "theirs")]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text)
    assert main(["merge-lock", *map(str, paths), "runs/e/dvc.lock"]) == 0
    assert paths[1].read_text() == texts[1] and paths[0].read_text() == texts[0]
    assert capsys.readouterr().err == "runs/e/dvc.lock: due with the next dvc repro: page\n"


def test_the_command_leaves_what_is_no_lock_to_git(tmp_path, capsys):
    paths = [tmp_path / name for name in ("base", "ours", "theirs")]
    middle = "".join(f"line {number}\n" for number in range(9))
    for path, text in zip(paths, (f"a\n{middle}b\n", f"A\n{middle}b\n", f"a\n{middle}B\n"), strict=True):
        path.write_text(text)
    assert main(["merge-lock", *map(str, paths)]) == 0
    assert paths[1].read_text() == f"A\n{middle}B\n"
    paths[2].write_text(f"C\n{middle}b\n")
    paths[1].write_text(f"A\n{middle}b\n")
    assert main(["merge-lock", *map(str, paths)]) == 1
    assert "<<<<<<< ours" in paths[1].read_text()
    assert "its lines are merged" in capsys.readouterr().err


@pytest.mark.timeout(60)  # a time that grows with the square of the stages was minutes here
def test_a_lock_of_very_many_stages_is_merged():
    text = HEAD + "".join(f"  s{number}:\n    cmd: x\n" for number in range(400_000))
    assert merge(text, text, text).text == text
