"""What a reader must know before the first number: what is missing, what failed and why, what is left out, what changed after the data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from stages.contracts.attempt import Outcome
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
        alike: dict[str, list[str]] = {}
        for claim in late:
            alike.setdefault(claim.written, []).append(claim.id)
        said = "; ".join(f"{listed(names)}: {written}" for written, names in alike.items())
        found.append(Banner("hole", f"Rules changed after the data: {plural(len(late), 'claim')}", f"{said}."))
    found += _since_the_data(experiment)
    if experiment.card.waivers:
        said = f"{carried.short(experiment.card.waivers)}. The judgements stand under Methods."
        found.append(Banner("excluded", "Results of older code, carried over", said))
    return tuple(found)


def _since_the_data(experiment: ExperimentFiles) -> Iterator[Banner]:
    """What came and went once there were data: a reader must know what was not shown, and what was chosen with the data at hand."""
    changed = experiment.changed
    if changed.withdrawn:
        yield Banner(
            "hole", f"Withdrawn after the data: {len(changed.withdrawn)}", f"No longer declared: {listed(list(changed.withdrawn))}."
        )
    if changed.dropped:
        said = f"{listed(list(changed.dropped))}: no longer declared, so no number here rests on them."
        yield Banner("hole", f"Runs taken out after the data: {len(changed.dropped)}", said)
    if changed.added:
        said = f"{listed(list(changed.added))}: declared when others had data. Intervals are not adjusted for having looked before."
        yield Banner("excluded", f"Runs added after the first data: {len(changed.added)}", said)
    late = [name for name, rule in changed.expectations.items() if rule.late]
    if late:
        yield Banner("hole", f"Expectations changed after the data: {len(late)}", f"{listed(late)}: what is met here was no prediction.")


def _at_its_source(outcome: Outcome) -> str:
    """A class is octavo's own; of an imported run that broke off only its source's words are known."""
    return "broke off" if outcome.error else "unknown"


def _failures(experiment: ExperimentFiles, failed: list[RunFiles]) -> Iterator[str]:
    """A sentence each kind of failure: which runs, the first one's words, and what helps."""
    kinds: dict[str, list[RunFiles]] = {}
    for run in failed:
        kinds.setdefault(run.outcome.failure or _at_its_source(run.outcome) if run.outcome else "unknown", []).append(run)
    for kind, runs in kinds.items():
        which = "all runs" if len(runs) == len(experiment.runs) else listed([run.ref.name for run in runs])
        error = " ".join((runs[0].outcome.error or "").split()) if runs[0].outcome else ""
        cut = error if len(error) <= _LETTERS else f"{error[:_LETTERS].rstrip()} \u2026"
        said = f": {cut}" if cut else ""
        end = "" if said.endswith((".", "\u2026")) else "."
        yield f"{kind.replace('_', ' ').capitalize()} ({which}){said}{end}"
        if kind in HELP:
            yield f"What helps: {HELP[kind]}."
