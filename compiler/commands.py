"""What each command does, once its imports are paid for."""

from __future__ import annotations

import argparse
import sys

from compiler.compile import compile_all, project
from compiler.diagnostics import Rejected, render
from compiler.inputs import Inputs
from compiler.pipeline import live, named
from compiler.write import compare, write


def compile(options: argparse.Namespace) -> int:
    """Write what differs, or with --check say what would."""
    inputs = Inputs()
    try:
        references = [named(text) for text in options.specs] or live(inputs)
        made = project(compile_all(references, inputs), with_site=not options.specs)
        written = (compare if options.check else write)(made.files, made.once)
    except Rejected as rejected:
        print(render(rejected.diagnostics, {file: document.lines for file, document in inputs.documents.items()}), file=sys.stderr, end="")
        return 1
    for path in written.differing:
        print(path)
    return 1 if options.check and written.differing else 0
