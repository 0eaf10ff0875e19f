"""`octavo run`: train what is due side by side, then leave the rest to `dvc repro`."""

from __future__ import annotations

import argparse

from compiler.build.inputs import Inputs
from compiler.running.launch import launch


def run(options: argparse.Namespace, inputs: Inputs) -> int:
    """See `launch`. Raises Rejected."""
    return launch(options.specs, options.on, inputs, wait=options.wait)
