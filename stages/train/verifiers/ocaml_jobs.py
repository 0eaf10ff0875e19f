"""From completions and data rows to jobs of the OCaml verifier: what the three gates that use it share."""

from __future__ import annotations

from collections.abc import Sequence

from stages.contracts.plugin import Answer, Judgement
from stages.train.verifiers import ocaml_attacks, ocaml_build, sandbox
from stages.train.verifiers.ocaml_pool import Checked, Job, check_pool, pool


def tier() -> str:
    """The sandbox that answers are checked in. Raises VerifierUnavailable when none holds on this machine or OCaml is missing."""
    ocaml_build.program()
    found = sandbox.tier()
    ocaml_attacks.contained(found)
    return found


def checked(answers: Sequence[Answer], before: str | None, tests: str | None, cpu: float, memory: int) -> list[Checked]:
    """One result an answer. `before` and `tests` are columns of the data row; a row without their text gives the outcome `broken`."""
    found: list[Checked | None] = [None] * len(answers)
    jobs: dict[int, Job] = {}
    for index, answer in enumerate(answers):
        texts = []
        for column in (before, tests):
            text = "" if column is None else answer.row.get(column)
            if not isinstance(text, str) or (column is not None and column == tests and not text.strip()):
                found[index] = Checked("broken", f"the data row has no text in column {column!r}")
                break
            texts.append(text)
        else:
            jobs[index] = Job(texts[0], answer.text, texts[1], cpu, memory)
    for index, one in zip(jobs, (check_pool() if tests is None else pool()).run(list(jobs.values())) if jobs else [], strict=True):
        found[index] = one
    return [one or Checked("unknown", "the verifier gave no result") for one in found]


def unknown(one: Checked) -> Judgement | None:
    """The judgement of a result that is nobody's fault but ours or the data's; None for all others."""
    return Judgement("unknown", None, one.reason) if one.outcome in ("unknown", "broken") else None
