"""What each command does, once its imports are paid for. Each returns its exit code."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from compiler import code_memo, disk, revisions, terminal, waivers
from compiler.compile import Compiled, compile_all, left_over, project
from compiler.diagnostics import Rejected, errors, in_order, render
from compiler.experiment import profiles
from compiler.inputs import Inputs
from compiler.pipeline import LIVE, Reference, every_spec, in_project, live, named
from compiler.snapshots import Renewed
from compiler.source import has_c_parser
from compiler.write import compare, write
from stages.contracts.artifact import ArtifactError
from stages.contracts.diagnostic import Diagnostic
from stages.contracts.layout import RUNS


def run(options: argparse.Namespace) -> int:
    """The command that `options` names; a rejected input is shown and gives 1."""
    disk.forget()
    inputs, kept = Inputs(), code_memo.load()
    if not has_c_parser():
        print("note: ruamel.yaml.clib is not installed, so specs are read ten times slower: pip install ruamel.yaml.clib", file=sys.stderr)
    commands: dict[str, Callable[[argparse.Namespace, Inputs], int]] = {
        "check": check,
        "compile": compile_,
        "plan": plan,
        "explain": explain,
        "new": new,
        "schema": schema,
        "trace": trace,
        "verify": verify,
        "export": export,
        "waive": waive,
        "rescore": rescore,
    }
    try:
        if options.command not in {"new", "schema"}:
            in_project()
        code = commands[options.command](options, inputs)
        code_memo.keep(kept)
        return code
    except Rejected as rejected:
        show(rejected.diagnostics, inputs, rejected.sources)
        return 1


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
        from compiler import examples

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
    fetched = Renewed(inputs.lock())
    if options.update:
        from compiler.update import updated
        from compiler.update_runs import renewed

        new = updated(specs, inputs)
        print("".join(f"{line}\n" for line in new.says), file=sys.stderr, end="")
        only_hub, specs = bool(specs) and not new.specs, new.specs
        fetched = renewed([] if only_hub else [named(text) for text in specs] or live(inputs), inputs)
        pins = replace(new.lock, snapshots=fetched.lock.snapshots)
        inputs.relock(pins)
        extra = revisions.files(pins)
    references = [named(text) for text in specs] or live(inputs)
    compiled = _compiled(references, inputs, fetched)
    made = project(compiled, with_site=not specs)
    gone = list(waivers.expired(made.files, inputs))
    written = (compare if options.check else write)({**made.files, **extra}, made.once)
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
    if options.memory is not None and not options.check and has_c_parser():  # without the parser each command says so
        end = "".join([*left, f"0 files written, {len(made.files) + len(made.once)} unchanged\n"])
        answer = {name: shown(warnings, inputs, colour=colour) + end for name, colour in (("plain", False), ("colour", True))}
        options.memory.keep(made.files, made.once, answer)
    return 0


def _compiled(references: Sequence[Reference], inputs: Inputs, unfetched: Renewed) -> list[Compiled]:
    """All of them. That a run that could not be fetched has no log either is not told twice."""
    try:
        return compile_all(references, inputs)
    except Rejected as rejected:
        told = tuple(f"`{path}`, the log of " for path in unfetched.unfetched)
        again = Rejected([*unfetched.problems, *(found for found in rejected.diagnostics if not found.what.startswith(told))])
        again.sources |= rejected.sources
        raise again from None


def plan(options: argparse.Namespace, inputs: Inputs) -> int:
    """Print what would run. 4 with --exit-code when something would train."""
    from compiler import plan as planning
    from compiler.plan_text import text

    found = planning.plan(options.specs, inputs, options.base)
    if options.json:
        from stages.contracts.artifact import dump

        print(dump(found), end="")
    elif options.markdown:
        from compiler.plan_markdown import markdown

        print(markdown(found), end="")
    else:
        print(text(found), end="")
    return 4 if options.exit_code and found.training else 0


def explain(options: argparse.Namespace, inputs: Inputs) -> int:
    """Print values of a run with their origins."""
    from compiler import explain as explaining

    if options.diff:
        print(explaining.diff(compile_all([named(options.run)], inputs)[0], options.diff, inputs), end="")
        return 0
    experiment, slash, _ = options.run.removeprefix("runs/").rstrip("/").rpartition("/")
    compiled = compile_all([named(experiment)] if slash else live(inputs), inputs)
    one, found = explaining.find(compiled, options.run)
    print(explaining.explain(one, found, options.key), end="")
    return 0


def schema(options: argparse.Namespace, inputs: Inputs) -> int:
    """Print the JSON Schema of specs."""
    from compiler.schema import schema as text

    print(text(), end="")
    return 0


def new(options: argparse.Namespace, inputs: Inputs) -> int:
    """Write a spec from the template and hold it against the project: its data and base model may lie elsewhere."""
    from compiler import new as starting

    for path in starting.new(options.name):
        print(path)
    compiled = compile_all(_with_profiles([named(options.name)], inputs), inputs)
    show([warning for one in compiled for warning in one.warnings], inputs)
    print(starting.commands(options.name), end="")
    return 0


def trace(options: argparse.Namespace, inputs: Inputs) -> int:
    """Print the way back from a finding, a figure, a run or a page."""
    from stages.publish.trace import trace as way_back

    experiment, what = options.experiment, options.what.removeprefix(f"{RUNS}/").rstrip("/")
    if experiment is None and (RUNS / what).is_dir():  # an experiment alone is its page, `quickstart/shaped-s1` a run of it
        experiment, _, what = what.partition("/")
    what = what or "page"
    folders = [RUNS / experiment.removeprefix(f"{RUNS}/").rstrip("/")] if experiment else [RUNS / found.name for found in live(inputs)]
    said: list[str] = []
    for folder in folders:
        try:
            print(way_back(folder, what), end="")
            return 0
        except KeyError as unknown:
            said.append(str(unknown.args[0]) if unknown.args else what)
        except ArtifactError as error:
            said.append(f"{error.what}: {error.path}")
    raise Rejected(
        [
            Diagnostic(
                "E332",
                f"{folder}: {text}",
                why="a finding, claim, run, figure or `page` of an experiment that has been concluded can be traced",
                fix="dvc repro, then octavo trace [experiment] <finding>",
            )
            for folder, text in zip(folders, said, strict=True)
        ]
        or [Diagnostic("E332", "no experiment is live", why=f"{LIVE} lists what is live", fix=f"add a line to {LIVE}")]
    )


def verify(options: argparse.Namespace, inputs: Inputs) -> int:
    """Hold everything that is published against everything it was made from. 1 on any difference."""
    from compiler import verify as verifying

    found = verifying.verify(options.specs, inputs)
    if options.json:
        from stages.contracts.artifact import dump

        print(dump(found), end="")
    else:
        from compiler import verify_text

        print(verify_text.text(found), end="", flush=True)
        print(verify_text.diagnostics(found, terminal.colour()), file=sys.stderr, end="")
    return 1 if found.differences else 0


def export(options: argparse.Namespace, inputs: Inputs) -> int:
    """Write an experiment as an RO-Crate into a new folder or archive."""
    from compiler import export as exporting

    print(exporting.crate(options.experiment, Path(options.output)))
    return 0


def waive(options: argparse.Namespace, inputs: Inputs) -> int:
    """Record that a code change is judged to change no result."""
    from compiler import waive as waiving

    made = waiving.waive(options.what, options.why, inputs)
    for line in made.said:
        print(line)
    print(f"{', '.join(made.files)} written. Commit it, then: octavo compile && dvc repro", file=sys.stderr)
    return 0


def rescore(options: argparse.Namespace, inputs: Inputs) -> int:
    """Print what today's gates say of stored completions. Writes only where `--write` says, and only a new file."""
    from compiler import rescore as again

    found = again.rescore(options.run, spec=options.spec, to=Path(options.write) if options.write else None, inputs=inputs)
    if options.json:
        from stages.contracts.artifact import dump

        print(dump(found), end="")
    else:
        from compiler.rescore_text import text

        print(text(found), end="")
    if options.write:
        print(f"{options.write}: written", file=sys.stderr)
    return 0


def show(problems: Iterable[Diagnostic], inputs: Inputs, broken: Mapping[str, list[str]] | None = None) -> None:
    """Diagnostics on standard error, in colour on a terminal. `broken` holds the lines of files that are no YAML."""
    print(shown(problems, inputs, broken, colour=terminal.colour()), file=sys.stderr, end="")


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
