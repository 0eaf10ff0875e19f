"""The `octavo` command: exit codes, what it imports, what it prints."""

import contextlib
import functools
import json
import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from compiler.__main__ import main
from compiler.commands.schema import schema

ROOT = Path(__file__).parents[2]
COMMANDS = [
    "check",
    "compile",
    "plan",
    "explain",
    "new",
    "schema",
    "trace",
    "verify",
    "export",
    "code",
    "rescore",
    "replay",
    "doctor",
    "merge-lock",
]
HEAVY = ("pydantic", "numpy", "pandas", "dvc", "torch", "trl", "transformers", "ruamel", "compiler.commands.check")


def octavo(*command, cwd, text=False, **environment):
    """A process of its own that finds octavo's packages."""
    return subprocess.run(command, cwd=cwd, env={**os.environ, "PYTHONPATH": str(ROOT), **environment}, capture_output=True, text=text)


def test_help_imports_nothing_heavy():
    code = (
        "import sys\nfrom compiler.__main__ import main\ntry:\n    main(['--help'])\nexcept SystemExit as end:\n    assert end.code == 0\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    output = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert output.splitlines()[-1] == "[]"
    assert "compile" in output and "explain" in output


def test_check_and_compile_import_neither_torch_nor_pandas(work):
    code = (
        "import sys\nfrom compiler.__main__ import main\nassert main(['compile']) == 0\n"
        "print([name for name in ('torch', 'pandas', 'trl', 'transformers', 'dvc', 'numpy') if name in sys.modules])"
    )
    output = octavo(sys.executable, "-c", code, cwd=work, text=True).stdout
    assert output.splitlines()[-1] == "[]"


def test_without_a_command_it_says_what_there_is_and_what_exit_codes_mean(capsys):
    assert main([]) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and "usage: octavo" in printed.err
    assert all(f"    {name}" in printed.err for name in COMMANDS) and "exit codes:" in printed.err


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_says_in_its_own_help_what_it_does(command, capsys):
    with pytest.raises(SystemExit) as end:
        main([command, "--help"])
    assert end.value.code == 0
    usage, says, *_ = capsys.readouterr().out.split("\n\n")
    assert usage.startswith(f"usage: octavo {command} ") and says[0].isupper() and says.endswith(".") and "%%" not in says


@pytest.mark.parametrize(
    "arguments",
    [
        ["check"],
        ["check", "example"],
        ["compile"],
        ["plan"],
        ["explain", "a-s1"],
        ["trace", "page"],
        ["verify"],
        ["export", "crate", "example", "-o", "x.zip"],
        ["code", "same", "--why", "x"],
        ["rescore", "example/a-s1"],
        ["replay", "example/a-s1"],
    ],
)
def test_outside_a_project_every_command_says_so_and_below_one_how_to_get_there(arguments, work, tmp_path_factory, monkeypatch, capsys):
    below = work / "runs" / "example"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    assert main(arguments) == 1
    assert capsys.readouterr().err == "E113 no specs/ in this folder\n  why: octavo runs in the project's root\n  fix: cd ../..\n"
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    assert main(arguments) == 1
    assert capsys.readouterr().err.endswith("  fix: cd to the folder that holds specs/, or: mkdir specs\n")


def test_colours_are_for_terminals_and_for_people_who_want_them(work, spec):
    """The same command at the end of a pseudo terminal, with and without NO_COLOR, and into a pipe."""
    (work / "specs/example.yaml").write_text(spec.replace("seeds: [1, 2, 3]", "seeds: [1, 1]"))
    command = [sys.executable, "-m", "compiler", "check", "example"]
    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    environment |= {"PYTHONPATH": str(ROOT), "TERM": "xterm"}

    def on_a_terminal(**more):
        master, slave = pty.openpty()
        process = subprocess.Popen(command, cwd=work, stderr=slave, env={**environment, **more})
        os.close(slave)
        output = b""
        with contextlib.suppress(OSError):  # the end of a pseudo terminal is an error
            while chunk := os.read(master, 65536):
                output += chunk
        os.close(master)
        assert process.wait() == 1
        return output

    assert b"\x1b[31m" in on_a_terminal()
    plain = [on_a_terminal(NO_COLOR="1"), on_a_terminal(TERM="dumb"), subprocess.run(command, cwd=work, stderr=-1, env=environment).stderr]
    assert len({text.replace(b"\r\n", b"\n") for text in plain}) == 1 and b"\x1b" not in plain[0] and b"E319" in plain[0]


@pytest.mark.parametrize(("encoding", "shown"), [("ascii", "caf\\xe9 \\u2192"), ("latin-1", "café \\u2192"), ("utf-8", "café →")])
def test_an_encoding_without_a_character_ends_no_command(work, spec, encoding, shown):
    run = functools.partial(octavo, sys.executable, "-m", "compiler", cwd=work, PYTHONIOENCODING=encoding)
    (work / "specs/example.yaml").write_text(spec.replace("answer: expression", "answer: expression, tests: 'café →'"), encoding="utf-8")
    ended = run("check", "example")
    assert ended.returncode == 1 and shown in ended.stderr.decode(encoding)
    (work / "specs/example.yaml").write_text(spec.replace("pattern: '[-+*()x0-9 ]+'", "pattern: 'café →'"), encoding="utf-8")
    ended = run("explain", "shaped-s1", "reward.gates")
    assert ended.returncode == 0 and shown in ended.stdout.decode(encoding)
    assert json.loads(run("schema").stdout.decode("utf-8")) == json.loads(schema()), "what programs read is UTF-8 whatever the locale"


def test_our_own_fault_is_3_with_a_report_and_no_traceback(work, tmp_path_factory):
    """A gate module that breaks on import is nothing an author can repair in a spec."""
    copy = tmp_path_factory.mktemp("copy")
    for package in ("compiler", "stages"):
        shutil.copytree(ROOT / package, copy / package, ignore=shutil.ignore_patterns("__pycache__"))
    (copy / "stages/train/rewards/format.py").write_text("raise RuntimeError('hf_' + 'A' * 30)\n")
    result = octavo(sys.executable, "-B", "-m", "compiler", "compile", cwd=work, text=True, PYTHONPATH=str(copy))
    assert result.returncode == 3
    assert "Traceback" not in result.stderr and "RuntimeError" in result.stderr and ".cache/octavo-reports/" in result.stderr
    report = next((work / ".cache/octavo-reports").iterdir()).read_text()
    assert "Traceback" in report and "hf_A" not in report
    assert not (work / "runs").exists()


def test_compile_writes_and_then_finds_nothing_to_write(work, capsys):
    assert main(["compile"]) == 0
    first = capsys.readouterr().out.split()
    assert "dvc.yaml" in first and "runs/example/shaped-s1/train.card.json" in first and "runs/_models/tiny/dvc.yaml" in first
    assert main(["compile"]) == 0
    assert capsys.readouterr().out == ""
    assert main(["compile", "--check"]) == 0


def test_compile_check_names_what_differs(work, capsys):
    main(["compile"])
    (work / "runs/example/page.card.json").write_text("{}\n")
    capsys.readouterr()
    assert main(["compile", "--check"]) == 1
    printed = capsys.readouterr()
    assert printed.out.split() == ["runs/example/page.card.json"]
    assert (work / "runs/example/page.card.json").read_text() == "{}\n"


def test_runs_that_left_the_spec_are_named_and_kept(work, spec, capsys):
    main(["compile"])
    (work / "specs/example.yaml").write_text(spec.replace("seeds: [1, 2, 3]", "seeds: [4, 2, 3]"))
    capsys.readouterr()
    assert main(["compile"]) == 0
    errors = capsys.readouterr().err
    assert "runs/example/shaped-s1: no longer in the spec" in errors and "runs/example/zero-s1: no longer in the spec" in errors
    assert "shaped-s2: no longer" not in errors
    assert (work / "runs/example/shaped-s1/train.card.json").exists()


@pytest.mark.parametrize(
    ("run", "value", "place"), [("example@smoke/zero-s1", "2", "57:30  (profile)"), ("zero-s1", "20", "37:74  (condition)")]
)
def test_explain_shows_what_a_layer_replaced(work, spec, capsys, run, value, place):
    (work / "specs/example.yaml").write_text(spec.replace("role: null_control}", "role: null_control, train: {max_steps: 20}}"))
    assert main(["explain", run, "train.max_steps"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.split(maxsplit=2) == ["train.max_steps", value, f"specs/example.yaml:{place}"]
    assert second.split(maxsplit=1) == ["12", "specs/example.yaml:15:14  (experiment, replaced)"]


def test_explain_everything(work, capsys):
    assert main(["explain", "zero-s3"]) == 0
    rows = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line}
    assert "0.0" in rows["reward.gates.0.settings.score"] and "specs/example.yaml:37:29" in rows["reward.gates.0.settings.score"]
    assert rows["train.top_p"].endswith("default")
    assert "specs/example.yaml:23:15" in rows["seed"]
    assert "constraints.txt:2:1" in rows["versions.torch"]


def test_explain_shows_a_prompt_as_the_model_reads_it_and_answers_of_examples(work, spec, capsys):
    prompt = "prompt:\n  template: 'Write {prompt}: '\n  examples: [{row: {prompt: negate}, answer: -x}]\n"
    text = spec.replace("  shaped:\n    gates:", "  shaped:\n    answer: {from: boxed}\n    gates:", 1) + prompt
    text = text.replace('"(x*2)+3"', "'So \\boxed{(x*2)+3}.'", 1)
    (work / "specs/example.yaml").write_text(text)
    assert main(["explain", "shaped-s1", "prompt"]) == 0
    printed = capsys.readouterr().out
    assert printed == (
        "\nprompt of `row-1`:\n  | Write negate: -x\n  | \n  | Write double then add 1\n  | : \n"
        "\nanswer of example 1:\n  | (x*2)+3\n"
        "\nanswer of example 2: none, no \\boxed{...}\n"
    )
    (work / "specs/example.yaml").write_text(text.replace("base: octavo/tiny", "base: octavo/tiny\n  apply_chat_template: true", 1))
    assert main(["explain", "shaped-s1"]) == 0
    printed = capsys.readouterr().out
    assert "its tokenizer is not on this machine, so these are the messages" in printed and "  | assistant: -x\n" in printed
    rows = {line.split()[0]: line for line in printed.splitlines() if line}
    assert "specs/example.yaml:28:20" in rows["reward.answer.from"] and "(experiment)" in rows["data.layout.template"]


def test_explain_prefers_the_experiment_to_its_profile(work, capsys):
    (work / "specs/pipeline.yaml").write_text("- example\n- example@smoke\n")
    assert main(["explain", "shaped-s1", "train.max_steps"]) == 0
    assert capsys.readouterr().out.split()[1] == "12"


def test_rewards_are_checked(work, capsys):
    assert main(["check", "--rewards"]) == 0
    assert "example, example@smoke: 8 runs, no errors; examples of rewards that score what they should: 4\n" in capsys.readouterr().err
    assert main(["check"]) == 0
    assert "example, example@smoke: 8 runs, no errors\n" in capsys.readouterr().err


FULL, CLOSED = (f"octavo: its output cannot be written: {why}\n" for why in ("No space left on device", "standard output is closed"))


@pytest.mark.parametrize(
    ("words", "code", "out", "err"),
    [
        ("schema | head -1", 0, "{\n", ""),
        ("--version > /dev/full", 1, "", FULL),
        ("schema > /dev/full", 1, "", FULL),
        ("schema >&-", 1, "", CLOSED),
        ("compile >&-", 1, "", CLOSED),
        ("compile >&- 2>&-", 1, "", ""),
        ("compile <&- >&-", 1, "", CLOSED),
        ("check nowhere 2>&-", 1, "", ""),
    ],
)
def test_an_output_that_takes_nothing_is_one_plain_line_and_no_fault_of_octavo(work, words, code, out, err):
    before = sorted(work.rglob("*"))
    ended = octavo("bash", "-c", f"{sys.executable} -m compiler {words}; exit ${{PIPESTATUS[0]}}", cwd=work, text=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (code, out, err)
    assert sorted(work.rglob("*")) == before


AS_ANYBODY = ["setpriv", "--bounding-set=-dac_override", "--inh-caps=-dac_override"] if os.geteuid() == 0 else []
"""Root may write everywhere, but for this right."""


@pytest.mark.skipif(bool(AS_ANYBODY) and shutil.which("setpriv") is None, reason="root, and no setpriv")
@pytest.mark.parametrize("arguments, place", [(["new", "mine"], "specs/mine.yaml"), (["compile"], "dvc.yaml")])
def test_a_place_where_one_may_not_write_is_no_fault_of_octavo(work, arguments, place):
    """Nothing is written, and commands that only read work as ever:"""
    shutil.rmtree(work / "runs", ignore_errors=True)
    folders = [work, work / "specs"]

    run = functools.partial(octavo, *AS_ANYBODY, sys.executable, "-m", "compiler", cwd=work, text=True)
    try:
        for folder in folders:
            folder.chmod(0o555)
        ran, checked, planned = run(*arguments), run("check"), run("plan")
    finally:
        for folder in folders:
            folder.chmod(0o755)
    assert ran.returncode == 1 and ran.stderr.startswith(f"E401 cannot write {place}"), ran.stderr
    assert "Permission denied" in ran.stderr and "\n  fix: " in ran.stderr
    assert (checked.returncode, planned.returncode) == (0, 0) and checked.stderr.endswith(" runs, no errors\n")
    assert not (work / "runs").exists() and not (work / "specs/mine.yaml").exists()
