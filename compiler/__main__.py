"""The `octavo` command: its options, its exit codes, and what may go wrong with its streams. A command is a file in compiler/commands."""

from __future__ import annotations

import argparse
import errno
import gc
import importlib
import io
import os
import re
import sys
import tomllib
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

COMMANDS = Path(__file__).parent / "commands.toml"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; _EXIT_CODES says what it gives."""
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
    gc.set_threshold(50_000)  # models and cards stay until the end: to search them for garbage takes a tenth of a command's time
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # looking for plug-ins reads the metadata of every library
    command = importlib.import_module(f"compiler.commands.{options.command.replace('-', '_')}")
    if options.command in ("doctor", "merge-lock"):  # these read no specs, and work where half of octavo's libraries are missing
        return int(command.run(options))
    from compiler.build.inputs import Inputs
    from compiler.build.pipeline import in_project
    from compiler.commands.check import show
    from compiler.problems import Rejected, problem, refused_file
    from stages.contracts.files import FileRefused

    inputs = Inputs()
    try:
        if options.command not in ("new", "schema"):
            in_project()
        # what these say rests on the project's files
        if options.command in ("check", "compile", "plan", "run", "verify", "rescore", "replay"):
            from compiler.commands import stand_ins

            stand_ins.reject()
        return int(command.run(options, inputs))
    except Rejected as rejected:
        show(rejected.diagnostics, inputs, rejected.sources)
    except FileRefused as refused:
        show([refused_file(refused)], inputs)
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
  5  check --rewards: no error, but this machine may not call the address of a gate, so a reward was not tried
"""


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="octavo",
        description="Specs to reproducible, published evidence.",
        epilog=_EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="store_true", help="print octavo's version")
    commands = parser.add_subparsers(dest="command", metavar="command")
    for name, arguments in tomllib.loads(COMMANDS.read_text(encoding="utf-8")).items():
        what = arguments.pop("help")
        command = commands.add_parser(name, help=what, description=f"{what[0].upper()}{what[1:]}.".replace("%%", "%"))
        groups: dict[str, Any] = defaultdict(command.add_mutually_exclusive_group)
        for argument, options in arguments.items():
            group, flags = options.pop("group", None), [*options.pop("short", "").split(), argument]
            if "type" in options:
                options["type"] = {"positive": _positive}[options["type"]]
            (groups[group] if group else command).add_argument(*flags, **options)
    return parser


class _Parser(argparse.ArgumentParser):
    """Suggests the command that was meant."""

    def error(self, message: str) -> NoReturn:
        if unknown := re.search(r"argument command: invalid choice: '([^']*)'", message):
            from compiler.problems import nearest

            meant = nearest(unknown[1], tomllib.loads(COMMANDS.read_text(encoding="utf-8")))
            message = f"no command {unknown[1]!r}{f', did you mean `octavo {meant}`?' if meant else ';'} `octavo --help` lists the commands"
        super().error(message)


def _positive(text: str) -> int:
    number = int(text) if text.isdecimal() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 up")
    return number


if __name__ == "__main__":
    entry()
