"""What a reader must know before the first number: what is missing, what failed and why, what is left out, what changed after the data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from stages.publish import carried, imported
from stages.publish.claims import ClaimView
from stages.publish.complete import HELP
from stages.publish.exclusions import causes
from stages.publish.experiment import ExperimentFiles, RunFiles
from stages.publish.numbers import listed, plural

_LETTERS = 200
"""Of an attempt's error; the whole is in the table of attempts."""


@dataclass(frozen=True)
class Banner:
    tone: str
    title: str
    text: str


def banners(experiment: ExperimentFiles, claims: tuple[ClaimView, ...] = ()) -> tuple[Banner, ...]:
    """The worst first, after what kind of page it is."""
    found = []
    if experiment.card.profile:
        found.append(
            Banner(
                "smoke",
                f"Profile {experiment.card.profile}: machinery, not evidence",
                "Built from a shortened profile of the experiment. It shows that every part works; its numbers decide nothing.",
            )
        )
    found += [Banner(*words) for words in imported.banners(experiment)]
    missing = [run.ref.name for run in experiment.runs if run.state == "missing"]
    if missing:
        again = f"No attempt has ended; dvc repro {experiment.folder.pipeline} runs them."
        found.append(Banner("hole", f"Missing runs: {len(missing)} of {len(experiment.runs)}", f"{listed(missing)}. {again}"))
    failed = [run for run in experiment.runs if run.state == "failed"]
    if failed:
        found.append(Banner("hole", f"Failed runs: {len(failed)} of {len(experiment.runs)}", " ".join(_failures(experiment, failed))))
    gated = [run for run in experiment.runs if run.state in ("finished", "unknown") and not run.included]
    if gated:
        which = "Finished but left out" if all(run.state == "finished" for run in gated) else "Left out"  # an unknown end is no finish
        found.append(Banner("excluded", f"{which}: {len(gated)} of {len(experiment.runs)}", causes(gated)))
    late = [claim for claim in claims if claim.late]
    if late:
        said = "; ".join(f"{claim.id}: {claim.written}" for claim in late)
        found.append(Banner("hole", f"Rules changed after the data: {plural(len(late), 'claim')}", f"{said}."))
    if experiment.card.waivers:
        said = f"{carried.short(experiment.card.waivers)}. The judgements stand under Methods."
        found.append(Banner("excluded", "Results of older code, carried over", said))
    return tuple(found)


def _failures(experiment: ExperimentFiles, failed: list[RunFiles]) -> Iterator[str]:
    """A sentence each kind of failure: which runs, the first one's words, and what helps."""
    kinds: dict[str, list[RunFiles]] = {}
    for run in failed:
        kinds.setdefault(run.outcome.failure or "unknown" if run.outcome else "unknown", []).append(run)
    for kind, runs in kinds.items():
        which = "all runs" if len(runs) == len(experiment.runs) else listed([run.ref.name for run in runs])
        error = " ".join((runs[0].outcome.error or "").split()) if runs[0].outcome else ""
        cut = error if len(error) <= _LETTERS else f"{error[:_LETTERS].rstrip()} \u2026"
        said = f": {cut}" if cut else ""
        end = "" if said.endswith((".", "\u2026")) else "."
        yield f"{kind.replace('_', ' ').capitalize()} ({which}){said}{end}"
        if kind in HELP:
            yield f"What helps: {HELP[kind]}."
