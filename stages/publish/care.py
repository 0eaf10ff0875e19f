"""What a reader must know beside the answers: what kind of data these are, what is missing or left out, rules that came after the data,
missed expectations, warnings. Absent where nothing is to be said."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from markupsafe import Markup

from stages.contracts.page_card import PageSection
from stages.publish import rules
from stages.publish.anomalies import Anomaly, warned
from stages.publish.claims import ClaimView
from stages.publish.experiment import ExperimentFiles, RunFiles
from stages.publish.facts import Facts
from stages.publish.numbers import listed, plural
from stages.publish.text import TEXTS, environment, escape, escape_with_code

_LETTERS = 200
"""Of an attempt's error; the whole is in the table of attempts."""
_MOST = 3
"""Expectations that are named; their section holds all."""
_CONDITIONS = _PHRASES = 5
"""Conditions with warnings that are named, and warnings of each."""


class Caution(NamedTuple):
    says: Markup
    """A sentence."""
    section: PageSection
    """That holds the evidence."""
    short: str = ""
    """`3 of 12 runs do not count`: its words in the headline; empty of what is no doubt about the result."""


class Sources(NamedTuple):
    experiment: ExperimentFiles
    facts: Facts
    claims: Sequence[ClaimView]
    seen: Sequence[Anomaly]


def cautions(sources: Sources) -> list[Caution]:
    """The kind of data first, then holes, rules, and what was seen."""
    finders: tuple[Callable[[Sources], Iterator[Caution]], ...] = (
        _kind,
        _holes,
        _changes,
        _preflight,
        _expectations,
        _stops,
        _changed_levels,
        _warnings,
    )
    return [caution for find in finders for caution in find(sources)]


def is_doubtful(claim: ClaimView, sources: Sources) -> bool:
    """Whether a detector warns about a run that counts, or an expectation was missed, in a condition of the claim that is no null
    control."""
    experiment = sources.experiment
    controls = {condition.name for condition in experiment.card.conditions if condition.role == "null_control"}
    sides = set(claim.rule.sides if claim.rule else ()) - controls
    warnings = [anomaly for anomaly in sources.seen if anomaly.severity != "info" and anomaly.condition in sides]
    runs = [run for anomaly in warnings for run, _ in anomaly.signals]
    missed = any(score.condition in sides and score.state == "missed" for score in experiment.conclusions.expectations)
    return missed or any(experiment.by_name[run].included for run in runs)


def _kind(sources: Sources) -> Iterator[Caution]:
    experiment = sources.experiment
    if experiment.card.is_small:
        words = f"This is the profile {experiment.card.profile}: it shows that every part works, and its numbers decide nothing."
        yield Caution(escape(words), "methods")
    logs, of_all = experiment.logs, f" of {plural(len(experiment.runs), 'run')}"
    if not logs:
        return
    formats = dict.fromkeys(TEXTS["formats"][run.imported.read.format] for run in logs if run.imported)
    words = (
        f"octavo did not train {'these' if len(logs) == len(experiment.runs) else 'some of these'} runs; it read {listed(list(formats))}."
    )
    if all(run.imported and run.imported.summary for run in logs):
        words += " There are no series, so no number is a window mean and no detector could look."
    if sources.claims:
        words += " Rules are dated against octavo's first look at the logs; whether the author knew the results by then is not known."
    yield Caution(escape(words), "reward")
    open_ends = [run for run in logs if run.state == "unknown"]
    if open_ends:
        short = f"it is not known whether {len(open_ends)}{of_all} finished"
        ends = list(dict.fromkeys(run.outcome.unknown for run in open_ends if run.outcome and run.outcome.unknown))
        yield Caution(escape(f"{_capital(short)}: {'; '.join(ends[:_MOST])}{'; and more' if len(ends) > _MOST else ''}."), "seeds", short)
    uneven = [run for run in logs if run.imported and run.imported.stride > 1]
    if uneven:
        near = "about " if any(run.imported and run.imported.read.epoch for run in logs) else ""  # steps of printed epochs are near ones
        strides = sorted({run.imported.stride for run in uneven if run.imported})
        every = f"{near}every {listed([str(stride) for stride in strides])} steps"
        yield Caution(escape(f"Of {_who(experiment, _names(uneven))} only {every} were logged."), "reward", "not every step was logged")


def _holes(sources: Sources) -> Iterator[Caution]:
    experiment = sources.experiment
    runs, of_all = experiment.runs, f" of {plural(len(experiment.runs), 'run')}"
    missing = [run for run in runs if run.state == "missing"]
    failed = [run for run in runs if run.state == "failed"]
    gated = [run for run in runs if not run.included and run.state in ("finished", "unknown")]
    if missing:
        short = f"{len(missing)}{of_all} {'has' if len(missing) == 1 else 'have'} no data"
        command = f"`dvc repro {experiment.folder.pipeline}`"
        yield Caution(escape_with_code(f"{_capital(short)} ({_who(experiment, _names(missing))}): {command} runs them."), "attempts", short)
    if failed:
        short = f"{len(failed)}{of_all} failed"
        yield Caution(escape_with_code(f"{_capital(short)}. {failures(experiment)}"), "attempts", short)
    if gated:
        short = f"{len(gated)}{of_all} {'does' if len(gated) == 1 else 'do'} not count"
        reasons = {reason for run in gated for reason in run.left_out}
        why = f": {reasons.pop()}" if len(reasons) == 1 else ""
        yield Caution(escape(f"{_capital(short)} ({_who(experiment, _names(gated))}){why}."), "seeds", short)


def _changes(sources: Sources) -> Iterator[Caution]:
    changed = sources.experiment.changed
    late = [claim.id for claim in sources.claims if claim.dated.late]
    if late:
        short = f"the {'rule' if len(late) == 1 else 'rules'} of {listed(late)} changed after the data"
        yield Caution(escape(f"{_capital(short)}."), "claims", short)
    if changed.withdrawn:
        short = f"{listed(list(changed.withdrawn))} withdrawn after the data"
        yield Caution(escape(f"No longer declared, with data at hand: {listed(list(changed.withdrawn))}."), "claims", short)
    if changed.dropped:
        short = f"{plural(len(changed.dropped), 'run')} taken out after the data"
        yield Caution(escape(f"{_capital(short)}: {listed(list(changed.dropped))}. No number rests on them."), "seeds", short)
    if changed.added:
        short = f"{plural(len(changed.added), 'run')} added after the first data"
        names = listed(list(changed.added))
        yield Caution(escape(f"{_capital(short)}: {names}. Intervals are not adjusted for having looked before."), "seeds", short)
    edited = [name for name, rule in changed.expectations.items() if rule.late]
    if edited:
        short = f"{plural(len(edited), 'expectation')} written or edited after the data"
        yield Caution(escape(f"{_capital(short)}: {listed(edited)}. What they say was no prediction."), "expectations", short)


def _preflight(sources: Sources) -> Iterator[Caution]:
    """Of conditions that are meant to learn; a null control without a signal is as declared."""
    experiment = sources.experiment
    meant = [condition.name for condition in experiment.card.conditions if condition.role != "null_control"]
    refused = [run.ref.condition for run in experiment.runs if run.outcome and run.outcome.failure == "refused"]  # named as failed
    for result in experiment.preflight.results if experiment.preflight else ():
        if result.verdict != "pass" and result.condition in meant and result.condition not in refused:
            short = f"preflight {'refused' if result.verdict == 'refuse' else 'warned about'} {result.condition}"
            first = result.reasons[0].rstrip(".") if result.reasons else "no reason was written"
            more = f"; {len(result.reasons) - 1} more" if len(result.reasons) > 1 else ""
            yield Caution(escape(f"{_capital(short)}: {first}{more}."), "reward", short)


def _expectations(sources: Sources) -> Iterator[Caution]:
    scores = sources.experiment.conclusions.expectations
    missed = [score for score in scores if score.state == "missed"]
    if not missed:
        return
    words: Any = environment().get_template("rule_words.html.j2").module
    short = f"{len(missed)} of {plural(len(scores), 'expectation')} missed"
    parts = [
        Markup("{} ({} runs of {})").format(
            Markup(words.expectation(score).strip()), sources.facts.counted(sources.facts.get(score.finding)), escape(score.condition)
        )
        for score in missed[:_MOST]
    ]
    parts += [escape(f"{len(missed) - _MOST} more")] if len(missed) > _MOST else []
    yield Caution(Markup("{}: {}.").format(escape(_capital(short)), Markup("; ").join(parts)), "expectations", short)


def _stops(sources: Sources) -> Iterator[Caution]:
    facts = sources.facts
    for state, title in (("stopped", "Stopped by a rule"), ("would_have_stopped", "Not stopped, although a rule would have")):
        for (condition, rule, _), results in rules.rules(sources.experiment).items():
            steps = [facts.value(facts.get(result.stop)) for result in results if result.state == state and result.stop]
            if steps:
                runs = facts.counted(facts.find(condition, rule, "stopped"))
                text = Markup("{}: {}, by {}, {} runs at step {}.")
                says = text.format(*map(escape, (title, condition, rule, runs)), Markup(", ").join(steps))
                short = f"{plural(len(steps), 'run')} {'stopped by a rule' if state == 'stopped' else 'that a rule would have stopped'}"
                yield Caution(says, "expectations", short)


def _changed_levels(sources: Sources) -> Iterator[Caution]:
    """What happened to the reward and its parts, with its step; `_warnings` counts it."""
    changes = [anomaly for anomaly in sources.seen if anomaly.sentence]
    for anomaly in changes[:_MOST]:
        says, step = escape(f"In {anomaly.condition}, {anomaly.sentence}."), anomaly.signal.onset
        number = sources.facts.find(anomaly.signals[0][0], f"detector.{anomaly.signal.detector}", "onset")
        if number is not None and number.value == step:
            says = Markup(says.replace(f"at step {step}", Markup("at step {}").format(sources.facts.value(number)), 1))
        yield Caution(says, "anomalies")
    if len(changes) > _MOST:
        yield Caution(escape(f"{plural(len(changes) - _MOST, 'more change')} of level below."), "anomalies")


def _warnings(sources: Sources) -> Iterator[Caution]:
    counts = [sum(anomaly.severity == severity for anomaly in sources.seen) for severity in ("severe", "warning")]
    if not sum(counts):
        return
    short = plural(sum(counts), "warning") + (f" ({counts[0]} severe)" if counts[0] else "")
    parts, rows = [], warned(sources.experiment, sources.seen)
    for condition, phrases in rows[:_CONDITIONS]:
        more = [f"{len(phrases) - _PHRASES} more"] if len(phrases) > _PHRASES else []
        parts.append(f"in {condition} {listed([*phrases[:_PHRASES], *more])}")
    parts += [f"{plural(len(rows) - _CONDITIONS, 'more condition')} have warnings"] if len(rows) > _CONDITIONS else []
    yield Caution(escape(f"{_capital('; '.join(parts))}." if parts else ""), "anomalies", short)


def failures(experiment: ExperimentFiles) -> str:
    """Each kind of failure: which runs, the first one's error, and what helps."""
    kinds: dict[str, list[RunFiles]] = {}
    for run in experiment.runs:
        if run.outcome and run.state == "failed":  # imported runs have no class, only an error
            kinds.setdefault(run.outcome.failure or ("broke off" if run.outcome.error else "unknown"), []).append(run)
    sentences = []
    for kind, runs in kinds.items():
        error = " ".join(((runs[0].outcome and runs[0].outcome.error) or "").split())
        cut = textwrap.shorten(error, _LETTERS, placeholder=" \u2026")
        end = "" if cut.endswith((".", "\u2026")) else "."
        sentences.append(f"{_capital(kind.replace('_', ' '))} ({_who(experiment, _names(runs))}){f': {cut}' if cut else ''}{end}")
        sentences += [f"What helps: {TEXTS['help'][kind]}."] if kind in TEXTS["help"] else []
    return " ".join(sentences)


def _names(runs: Iterable[RunFiles]) -> list[str]:
    return [run.ref.name for run in runs]


def _who(experiment: ExperimentFiles, names: Sequence[str]) -> str:
    """`all runs`, or `all of inverted and shaped-s1`: conditions whose runs are all among them stand for their runs."""
    if len(names) == len(experiment.runs):
        return "all runs" if len(names) > 1 else names[0]
    groups = [(condition.name, _names(experiment.of_condition(condition.name))) for condition in experiment.card.conditions]
    whole = [name for name, runs in groups if len(runs) > 1 and set(runs) <= set(names)]
    rest = [run for name, runs in groups if name not in whole for run in runs if run in names]
    return listed(([f"all of {listed(whole)}"] if whole else []) + rest)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
