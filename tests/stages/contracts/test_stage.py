"""How every stage ends: exit codes, plain messages, whatever the encoding of the terminal."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from stages.contracts.stage import main

ROOT = Path(__file__).parents[3]
BODY = """
import sys
from pathlib import Path
from stages.contracts.diagnostic import StageError
from stages.contracts.artifact import ArtifactError
from stages.contracts.stage import main
def stage(folder):
{body}
main(stage, "python -m stages.x <folder>")
"""


def ran(tmp_path, body, *arguments, **environment):
    code = BODY.format(body="\n".join(f"    {line}" for line in body.splitlines()))
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
    )


@pytest.mark.parametrize(("body", "code"), [("return None", 0), ("return 0", 0), ("return 7", 7), ("raise KeyboardInterrupt", 130)])
def test_exit_codes(tmp_path, body, code):
    assert ran(tmp_path, body, "runs/x").returncode == code


@pytest.mark.parametrize("arguments", [(), ("a", "b"), ("--help",)])
def test_one_folder_and_nothing_else(tmp_path, arguments):
    process = ran(tmp_path, "raise RuntimeError", *arguments)
    assert (process.returncode, process.stderr) == (2, b"usage: python -m stages.x <folder>\n")


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (
            'raise StageError("S999", "it broke", why="a reason", fix="a repair")',
            "error S999: it broke\n  why: a reason\n  fix: a repair\n",
        ),
        (
            r'raise StageError("S999", "\x1b]0;x\x07 \u202e", why="\x9b2J", fix="\r")',  # no text of a stranger steers the terminal
            "error S999: \\x1b]0;x\\x07 \\u202e\n  why: \\x9b2J\n  fix: \\r\n",
        ),
        ('open("nowhere/at/all")', "error S103: No such file or directory: nowhere/at/all\n"),
        (
            'raise OSError(28, "No space left on device", "from/a", None, "to/b")',  # of a copy
            "error S103: No space left on device: to/b\n  why: the stage could not read or write a file (full disk, missing permission?)\n"
            "  fix: df -h to && ls -ld to\n",
        ),
    ],
)
def test_errors_are_messages_and_no_tracebacks(tmp_path, body, says):
    process = ran(tmp_path, body, "runs/x")
    assert process.returncode == 1 and process.stderr.decode().startswith(says) and b"Traceback" not in process.stderr


@pytest.mark.parametrize(("encoding", "shown"), [("ascii", b"caf\\xe9 \\u2192"), ("utf-8", "café →".encode())])
def test_an_encoding_without_a_character_ends_no_stage(tmp_path, encoding, shown):
    """What specs, models and logs say is printed on whatever terminal or log file there is."""
    process = ran(
        tmp_path, 'print("caf\\u00e9 \\u2192")\nprint("caf\\u00e9 \\u2192", file=sys.stderr)', "runs/x", PYTHONIOENCODING=encoding
    )
    assert (process.returncode, process.stdout.strip(), process.stderr.strip()) == (0, shown, shown)


CARD = """
import os
from typing import ClassVar
from stages.contracts.artifact import Artifact, dump
from stages.contracts.code import code_versions
from stages.contracts.code_tree import CodeTree
from stages.contracts.stage import ROOT, open_card
class Card(Artifact):
    SCHEMA: ClassVar[str] = "octavo.test/1"
    code: dict[str, int | str]
    rate: float
def compiled(rate):
    path.write_text(dump(Card(code=code_versions(CodeTree(ROOT), ["stages.publish.text"]), rate=rate)))
path, log = folder / "card.json", folder / "log"
if not log.exists():
    compiled(0.1)
rate = open_card(Card, path, ["stages.publish.text"]).rate
with log.open("a") as out:
    print(rate, *([os.environ["OCTAVO_TRIED"]] if "OCTAVO_TRIED" in os.environ else []), file=out)
"""


@pytest.mark.parametrize(
    ("meanwhile", "code", "rates"),
    [
        ("compiled(0.1)", 0, "0.1\n"),  # equal bytes are no other card
        ("compiled(0.2)", 0, "0.1\n0.2\n"),
        ("compiled(0.2); return 1", 1, "0.1\n"),  # dvc records nothing of a stage that failed
        ("path.unlink()", 0, "0.1\n"),
    ],
)
def test_a_stage_whose_card_is_compiled_anew_meanwhile_runs_again(tmp_path, meanwhile, code, rates):
    """dvc hashes what a stage depends on when it ends: files of the older card would pass for those of the new one."""
    process = ran(tmp_path, f"{CARD}{meanwhile}", ".")
    assert (process.returncode, (tmp_path / "log").read_text()) == (code, rates), process.stderr.decode()
    assert (b"card.json was compiled anew while this stage ran" in process.stdout) == (rates.count("\n") == 2)


def test_the_new_card_begins_to_count_attempts_anew(tmp_path):
    assert ran(tmp_path, f"{CARD}compiled(0.2)", ".", OCTAVO_TRIED="2").returncode == 0
    assert (tmp_path / "log").read_text() == "0.1 2\n0.2\n"


@pytest.mark.parametrize("place", ["runs/x", "runs/x/a-s1", "runs/x/a-s1/outcome.json", ".cache/checkpoints", ".cache/locks/x.lock"])
def test_a_stage_begins_with_no_link_where_it_reads_or_writes(tmp_path, monkeypatch, capsys, place):
    """Libraries that write by themselves, such as transformers, would write through it."""
    (tmp_path / "outside").mkdir()
    (tmp_path / place).parent.mkdir(parents=True)
    (tmp_path / place).symlink_to(tmp_path / "outside")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["stage", "runs/x"])
    with pytest.raises(SystemExit, match="1"):
        main(lambda folder: pytest.fail("it began"), "python -m stages.x runs/<experiment>")
    assert f"error S103: {place} is not read or written: it is a symbolic link" in capsys.readouterr().err
