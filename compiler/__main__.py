"""The `octavo` command: its options, its exit codes, and what may go wrong with its streams. A command is a file in compiler/commands."""

from __future__ import annotations

import argparse
import errno
import importlib
import io
import os
import sys
from collections.abc import Sequence
from typing import NoReturn


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. 0 fine, 1 the author's error, 2 usage, 3 a mistake of octavo's own; 4 from `plan --exit-code`."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.command is None and not options.version:
        parser.print_help(sys.stderr)
        return 2
    if sys.stderr is None:  # closed
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    if sys.stdout is None:  # before anything opens a file, which would take its number
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
        print("octavo: its output cannot be written: standard output is closed", file=sys.stderr)
        return 1
    _set_encodings(options)
    try:
        code = _run(options)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader, such as `head`, has read enough
        _discard_output()
        return 0
    except Exception as error:
        if isinstance(error, OSError) and error.filename is None and error.errno in (errno.ENOSPC, errno.EDQUOT):
            _discard_output()
            print(f"octavo: its output cannot be written: {error.strerror}", file=sys.stderr)
            return 1
        from compiler.render import report

        return report(error)


def entry() -> NoReturn:
    """The installed command."""
    sys.exit(main())


def _discard_output() -> None:
    """What is still buffered cannot be written, and would be tried again at the end of the process."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _set_encodings(options: argparse.Namespace) -> None:
    """No terminal or pipe whose encoding lacks a character ends a command. What programs read is UTF-8 in any locale."""
    is_for_programs = options.command == "schema" or getattr(options, "json", False) or getattr(options, "markdown", False)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8" if is_for_programs and stream is sys.stdout else None, errors="backslashreplace")


def _run(options: argparse.Namespace) -> int:
    """The command that `options` names; a rejected input is shown and gives 1."""
    if options.version:
        from importlib.metadata import version

        print(f"octavo {version('octavo')}")
        return 0
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # looking for plug-ins reads the metadata of every library
    command = importlib.import_module(f"compiler.commands.{options.command.replace('-', '_')}")
    if options.command in ("doctor", "merge-lock"):  # these read no specs, and work where half of octavo's libraries are missing
        return int(command.run(options))
    from compiler.build.inputs import Inputs
    from compiler.build.pipeline import in_project
    from compiler.commands.check import show
    from compiler.problems import Rejected, problem

    inputs = Inputs()
    try:
        if options.command not in ("new", "schema"):
            in_project()
        return int(command.run(options, inputs))
    except Rejected as rejected:
        show(rejected.diagnostics, inputs, rejected.sources)
    except OSError as error:
        place = error.filename2 or error.filename
        is_forbidden = error.errno in (errno.EACCES, errno.EPERM, errno.EROFS) and isinstance(place, str)
        if not is_forbidden or (os.path.exists(place) and not os.access(place, os.R_OK)):
            raise
        show([problem("E401.place", where=place, reason=error.strerror, folder=os.path.dirname(place) or ".")], inputs)
    return 1


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

    code = add("code", "record whether a change of octavo's code changes results: `same` runs nothing again, `new` does")
    code.add_argument("results", choices=["same", "new"], help="whether results stay the same or may be new")
    code.add_argument("--why", required=True, metavar="reason", help="why, for reviewers and for readers of the page")

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
