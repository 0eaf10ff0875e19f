"""What `octavo compile --update` and the reader of W&B runs say to each other, a line of JSON each, and the name of what is made.

The compiler asks a process of its own (stages.train.imports.wandb_api) for runs and moves what that has written into its place; the
stage that imports a run reads the file and never the network.
"""

from __future__ import annotations

from typing import Literal

from stages.contracts.artifact import Frozen

SNAPSHOT = "octavo.wandb_snapshot/1"
RUNNING = ("running", "pending", "preempting")
"""States of W&B in which a run may still grow."""
ENDED_BADLY = ("crashed", "failed", "killed")

Fault = Literal["away", "unknown", "unclear"]
"""away: W&B cannot be asked or does not answer; unknown: this account sees no such run; unclear: an answer that is not whole."""


class Ask(Frozen):
    """Fetch a run into a file."""

    run: str
    """`entity/project/id`."""
    file: str


class Answer(Frozen):
    """What became of one question: a snapshot that lies in the file, or a fault and why."""

    run: str
    rows: int = 0
    state: str = ""
    fault: Fault | None = None
    text: str = ""
    """Of a fault: one plain sentence that holds nothing of what the server said."""
