"""The `octavo` command. Every import that costs time happens in the command that needs it."""

from __future__ import annotations

import argparse
import errno
import gc
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn, TextIO


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. 0 fine, 1 the author's error, 2 usage, 3 ours; 4 from `plan --exit-code`."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.command is None and not options.version:
        parser.print_help(sys.stderr)
        return 2
    if sys.stderr is None:  # closed: what is said there goes nowhere
        sys.stderr = _nowhere()
    if sys.stdout is None:  # before anything opens a file, which would take its number
        sys.stdout = _nowhere()
        print("octavo: its output cannot be written: standard output is closed", file=sys.stderr)
        return 1
    _say_anything(options)
    gc.disable()  # much is built and little thrown away: looking for garbage is a tenth of a command's time
    try:
        code = _run(options)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        _say_no_more()
        return 0
    except Exception as error:
        if isinstance(error, OSError) and error.filename is None and error.errno in (errno.ENOSPC, errno.EDQUOT):
            _say_no_more()
            print(f"octavo: its output cannot be written: {error.strerror}", file=sys.stderr)
            return 1
        from compiler.render import report

        return report(error)
    finally:
        gc.enable()


def _nowhere() -> TextIO:
    return os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")


def _say_no_more() -> None:
    """What is still to be written out goes nowhere: it cannot be written, and would be tried again at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _say_anything(options: argparse.Namespace) -> None:
    """No terminal or pipe whose encoding lacks a character ends a command; what programs read is UTF-8 whatever the locale."""
    is_for_programs = options.command == "schema" or getattr(options, "json", False) or getattr(options, "markdown", False)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8" if is_for_programs and stream is sys.stdout else None, errors="backslashreplace")


def entry() -> NoReturn:
    """The command as a process: it ends without taking down, piece by piece, all that it has built."""
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _run(options: argparse.Namespace) -> int:
    if options.version:
        from importlib.metadata import version

        print(f"octavo {version('octavo')}")
        return 0
    if options.command == "merge-lock":
        from compiler.commands import merge_lock

        return merge_lock.main(Path(options.base), Path(options.ours), Path(options.theirs), options.path)
    if options.command == "doctor":  # works where half of octavo's libraries are missing
        from compiler.commands import doctor

        return doctor.main(options.json)
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # looking for plug-ins reads the metadata of every library
    from compiler.commands import verbs as commands

    return commands.run(options)


_EXIT_CODES = """\
exit codes:
  0  fine
  1  something is wrong with what people wrote, ran or published; the message says what, where and how to repair it
  2  the command line is no command of octavo's
  3  a mistake of octavo's own; the message names its report
  4  plan --exit-code: something would train
"""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="octavo",
        description="Specs to reproducible, published evidence.",
        epilog=_EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="store_true", help="print octavo's version")
    commands = parser.add_subparsers(dest="command", metavar="command")

    def add(name: str, what: str) -> argparse.ArgumentParser:
        """A command that says in its own help what it does, too."""
        return commands.add_parser(name, help=what, description=f"{what[0].upper()}{what[1:]}.".replace("%%", "%"))

    check = add("check", "say what is wrong with specs; write nothing")
    check.add_argument("specs", nargs="*", metavar="spec", help="experiment, experiment@profile or path; default: every spec and profile")
    check.add_argument("--rewards", action="store_true", help="also run the examples of every reward")

    compile_ = add("compile", "write cards and pipelines of the live experiments")
    compile_.add_argument("specs", nargs="*", metavar="spec", help="only these experiments; default: all of specs/pipeline.yaml")
    how = compile_.add_mutually_exclusive_group()
    how.add_argument("--check", action="store_true", help="write nothing; fail when a generated file differs")
    how.add_argument(
        "--update",
        action="store_true",
        help="ask the hub for commits that specs/revisions.lock.yaml lacks; with names of experiments or `owner/name`: for newer ones; "
        "and fetch again the runs that are imported from W&B",
    )

    plan = add("plan", "what would run, why, what it costs, and which claims it touches")
    plan.add_argument("specs", nargs="*", metavar="spec", help="only these experiments; default: all of specs/pipeline.yaml")
    plan.add_argument("--base", metavar="revision", help="compare with this git revision instead of with what is on disk")
    form = plan.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print the plan as JSON")
    form.add_argument("--markdown", action="store_true", help="print a comment for a pull request")
    plan.add_argument("--exit-code", action="store_true", help="exit with 4 when something would train")

    explain = add("explain", "values of a run with the place in the spec that each came from")
    explain.add_argument("run", help="such as shaped-s1 or quickstart@smoke/shaped-s1; with --diff an experiment, such as quickstart")
    explain.add_argument("key", nargs="?", help="such as train.learning_rate; default: all")
    explain.add_argument(
        "--diff", metavar="other", help="what the experiment does differently from its `parent`, or from another experiment"
    )

    new = add("new", "start a spec, and its interpretation, from a commented template")
    new.add_argument("name", help="such as reward-shaping: names specs/<name>.yaml, its folder and its page")

    add("schema", "print the JSON Schema of specs, for editors")

    trace = add("trace", "the way back from a number on a page")
    trace.add_argument("experiment", nargs="?", help="such as quickstart; default: every live experiment")
    trace.add_argument("what", help="id of a finding or claim, name of a run or figure, an experiment, or `page`")

    verify = add("verify", "hold cards, locks, files, findings, pages and the site against each other")
    verify.add_argument("specs", nargs="*", metavar="experiment", help="only these experiments; default: all of specs/pipeline.yaml")
    verify.add_argument("--json", action="store_true", help="print every difference as JSON")

    export = add("export", "an experiment for other tools: as an RO-Crate (Provenance Run Crate)")
    export.add_argument("form", choices=["crate"], help="crate: files, stages and attempts as linked data")
    export.add_argument("experiment", help="such as quickstart")
    export.add_argument("-o", "--output", required=True, metavar="target", help="a new folder, or a new file that ends with .zip")

    waive = add("waive", "record that a code change is judged to change no result: nothing trains again for it")
    waive.add_argument("what", help="run, experiment or base model, such as shaped-s1, quickstart or octavo/tiny")
    waive.add_argument("--why", required=True, metavar="reason", help="why the results stay the same, for readers of the page")

    rescore = add("rescore", "score the stored completions of a run again with today's gates; say what changes")
    rescore.add_argument("run", help="such as shaped-s1, quickstart/shaped-s1 or runs/quickstart/shaped-s1")
    rescore.add_argument("--spec", action="store_true", help="with the reward and data that the spec declares now, not those of the card")
    rescore.add_argument("--json", action="store_true", help="print the whole report as JSON")
    rescore.add_argument("--write", metavar="file", help="also write the completions with today's scores to a new Parquet file")

    doctor = add("doctor", "what the live experiments need and this machine has, with what to type for the rest")
    doctor.add_argument("--json", action="store_true", help="print it as JSON")

    merge_lock = add("merge-lock", "git's merge driver for dvc.lock: %%O %%A %%B %%P")
    for name, what in (("base", "common ancestor"), ("ours", "our version; the merge is written here"), ("theirs", "their version")):
        merge_lock.add_argument(name, help=what)
    merge_lock.add_argument("path", nargs="?", default="dvc.lock", help="path of the lock, for messages")
    return parser


if __name__ == "__main__":
    entry()
