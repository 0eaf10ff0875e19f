"""What each command does, once its imports are paid for: those of specs, and below them all others. Each returns its exit code."""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence

from compiler.build import revisions, waivers
from compiler.build.imports import NoLog
from compiler.build.inputs import Inputs
from compiler.build.pipeline import LIVE, Reference, every_spec, in_project, live, named
from compiler.build.write import compare, write
from compiler.commands import verbs_of_results as commands_of_results
from compiler.commands.fetch import Fetched, fetch
from compiler.compile import Compiled, compile_all, left_over, project
from compiler.language.experiment import profiles
from compiler.problems import Rejected, errors, in_order
from compiler.render import colour, render
from stages.contracts.diagnostic import Diagnostic
from stages.contracts.layout import RUNS


def run(options: argparse.Namespace) -> int:
    """The command that `options` names; a rejected input is shown and gives 1."""
    inputs = Inputs()
    commands: dict[str, Callable[[argparse.Namespace, Inputs], int]] = {
        "check": check,
        "compile": compile_,
        "plan": plan,
        "explain": commands_of_results.explain,
        "new": new,
        "schema": schema,
        "trace": commands_of_results.trace,
        "verify": commands_of_results.verify,
        "export": commands_of_results.export,
        "waive": commands_of_results.waive,
        "rescore": commands_of_results.rescore,
    }
    try:
        if options.command not in {"new", "schema"}:
            in_project()
        return commands[options.command](options, inputs)
    except Rejected as rejected:
        show(rejected.diagnostics, inputs, rejected.sources)
        return 1
    except OSError as error:
        if (said := _no_right_to_write(error)) is None:
            raise
        show([said], inputs)
        return 1


def _no_right_to_write(error: OSError) -> Diagnostic | None:
    """Of a place where this person may not write; None for all else, such as a file that cannot be read."""
    place = error.filename2 or error.filename
    if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS) or not isinstance(place, str):
        return None
    if os.path.exists(place) and not os.access(place, os.R_OK):
        return None
    return Diagnostic(
        "E401",
        f"cannot write {place}: {error.strerror}",
        why="what a command makes is written where it says",
        fix=f"give yourself the right to write, or name another place: ls -ld {os.path.dirname(place) or '.'}",
    )


def check(options: argparse.Namespace, inputs: Inputs) -> int:
    """Say what is wrong with specs and all their profiles. Writes nothing."""
    inputs.only_checks = True
    references = _with_profiles([named(text) for text in options.specs] or every_spec(), inputs)
    if not options.specs and LIVE.exists():
        live(inputs)
    compiled = compile_all(references, inputs)
    problems = [warning for one in compiled for warning in one.warnings]
    problems += revisions.unused(inputs.lock(), inputs.document)
    tried: list[int] = []
    if options.rewards:
        from compiler.commands import examples

        problems += [found for one in compiled for found in examples.check(one, inputs, tried)]
    show(problems, inputs)
    if errors(problems):
        return 1
    runs = sum(len(one.expansion.runs) for one in compiled)
    rewards = f"; examples of rewards that score what they should: {sum(tried)}" if options.rewards else ""
    print(f"{', '.join(one.experiment.name for one in compiled)}: {runs} runs, no errors{rewards}", file=sys.stderr)
    return 0


def compile_(options: argparse.Namespace, inputs: Inputs) -> int:
    """Write what differs, or with --check say what would."""
    specs, extra = options.specs, {}
    fetched = Fetched(inputs.lock())
    if options.update:
        fetched = fetch(specs, inputs)
        specs = fetched.specs
        inputs.relock(fetched.lock)
        extra = revisions.files(fetched.lock)
    references = [named(text) for text in specs] or live(inputs)
    compiled = _compiled(references, inputs, fetched)
    made = project(compiled, with_site=not specs)
    gone = list(waivers.expired(made.files, inputs))
    written = (compare if options.check else write)({**made.files, **extra}, made.once)
    if not options.check:
        write(made.ignored, {})
    warnings = [*made.warnings, *([] if options.update else revisions.unused(inputs.lock(), inputs.document))]
    show([*fetched.problems, *warnings], inputs)
    print("".join(f"{path}\n" for path in written.differing), end="")
    print("".join(f"{said}\n" for said in gone), file=sys.stderr, end="")
    left = [f"{folder}: no longer in the spec; nothing runs it and nothing deletes it\n" for folder in _left_over(compiled)]
    print("".join(left), file=sys.stderr, end="")
    if options.check and written.differing:
        show([_differs(len(written.differing))], inputs)
        return 1
    print(f"{len(written.differing)} files written, {written.unchanged} unchanged", file=sys.stderr)
    if fetched.problems:
        return 1
    return 0


def _compiled(references: Sequence[Reference], inputs: Inputs, fetched: Fetched) -> list[Compiled]:
    """All of them. That a run that could not be fetched has no log either is not told twice."""
    try:
        return compile_all(references, inputs)
    except Rejected as rejected:
        new = [found for found in rejected.diagnostics if not (isinstance(found, NoLog) and found.log in fetched.unfetched)]
        again = Rejected([*fetched.problems, *new])
        again.sources |= rejected.sources
        raise again from None


def plan(options: argparse.Namespace, inputs: Inputs) -> int:
    """Print what would run. 4 with --exit-code when something would train."""
    from compiler.commands import plan as planning
    from compiler.commands.plan_text import text

    found = planning.plan(options.specs, inputs, options.base)
    if options.json:
        from stages.contracts.artifact import dump

        print(dump(found), end="")
    elif options.markdown:
        from compiler.commands.plan_markdown import markdown

        print(markdown(found), end="")
    else:
        print(text(found), end="")
    return 4 if options.exit_code and found.training else 0


def schema(options: argparse.Namespace, inputs: Inputs) -> int:
    """Print the JSON Schema of specs."""
    from compiler.commands.schema import schema as text

    print(text(), end="")
    return 0


def new(options: argparse.Namespace, inputs: Inputs) -> int:
    """Write a spec from the template and hold it against the project: its data and base model may lie elsewhere."""
    from compiler.commands import new as starting

    for path in starting.new(options.name):
        print(path)
    compiled = compile_all(_with_profiles([named(options.name)], inputs), inputs)
    show([warning for one in compiled for warning in one.warnings], inputs)
    print(starting.commands(options.name), end="")
    return 0


def show(problems: Iterable[Diagnostic], inputs: Inputs, broken: Mapping[str, list[str]] | None = None) -> None:
    """Diagnostics on standard error, in colour on a terminal. `broken` holds the lines of files that are no YAML."""
    print(shown(problems, inputs, broken, colour=colour()), file=sys.stderr, end="")


def shown(problems: Iterable[Diagnostic], inputs: Inputs, broken: Mapping[str, list[str]] | None = None, *, colour: bool) -> str:
    """The same as text."""
    sources = {**{file: document.lines for file, document in inputs.documents.items()}, **(broken or {})}
    return render(in_order(problems), sources, colour=colour)


def _with_profiles(references: list[Reference], inputs: Inputs) -> list[Reference]:
    """Each experiment, followed by each of its profiles. A broken spec is left as it is: compiling it says what is wrong."""
    found: list[Reference] = []
    for reference in references:
        found.append(reference)
        if reference.profile is not None:
            continue
        try:
            names = profiles(inputs.document(reference.path), reference.stem, inputs.document)
        except Rejected:
            continue
        found += [Reference(reference.stem, name, reference.path) for name in names]
    return found


def _left_over(compiled: list[Compiled]) -> list[str]:
    """Run folders of no run, as paths."""
    return sorted(f"{RUNS.as_posix()}/{one.experiment.name}/{name}" for one in compiled for name in left_over(one))


def _differs(count: int) -> Diagnostic:
    return Diagnostic(
        "E402",
        f"{count} generated file{'s' if count > 1 else ''} differ from the specs",
        why="what runs must be what the specs say",
        fix="octavo compile, and commit the files",
    )
