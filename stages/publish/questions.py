"""Answers to the spec's questions, built from findings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from markupsafe import Markup

from stages.contracts.finding import Finding
from stages.contracts.metric_words import words
from stages.contracts.question import ShownMetric
from stages.publish import numbers
from stages.publish.anomalies import unseen
from stages.publish.claims import ClaimView
from stages.publish.experiment import ExperimentFiles, RunFiles
from stages.publish.facts import Facts
from stages.publish.header import answer
from stages.publish.numbers import listed
from stages.publish.text import escape, escape_with_code

SURROGATES = ("grpo", "rloo", "ppo")
"""Algorithms whose loss is no measure of progress."""
_SURROGATE = (
    "{}'s logged loss is no measure of progress: on-policy it is {}, plus beta times KL. It can fall, rise or stay whatever is "
    "learned, so nothing here rests on it."
)
_LOSS = {
    "grpo": _SURROGATE.format("GRPO", "minus the covariance of advantage and length, as token losses are normalised"),
    "rloo": _SURROGATE.format("RLOO", "a mean of advantages that are zero on average"),
    "ppo": "PPO's logged losses are no measure of progress: the policy's is a surrogate that starts anew with every batch, the value's "
    "says how well returns are predicted. Nothing here rests on them.",
    "sft": "Supervised training minimises this loss, on the training data: a lower loss means that they are imitated better, and "
    "nothing about other prompts.",
}
_OTHER_LOSS = (
    "What this loss means depends on the program that trained: with GRPO, RLOO and PPO it is no measure of progress. octavo decides "
    "nothing by it."
)
_CONDITIONS = ("Conditions", "conditions")


class Answer(NamedTuple):
    """A first line, a table, and what a reader must know about it. `section` is (title, anchor) of the whole on this page."""

    short: Markup
    header: tuple[str, ...] = ()
    rows: Sequence[Sequence[Markup]] = ()
    notes: Sequence[Markup] = ()
    section: tuple[str, str] = _CONDITIONS


def answers(experiment: ExperimentFiles, facts: Facts, claims: tuple[ClaimView, ...]) -> Iterator[tuple[str, str, Answer]]:
    """(question, section or metric that answers it, answer), in the spec's order."""
    by = _Answers(experiment, facts, claims)
    sections = {
        "signal": by.signal,
        "reward": lambda: by.metric("reward"),
        "loss": by.loss,
        "anomalies": by.anomalies,
        "completion": by.completion,
        "claims": by.claims,
        "attempts": by.attempts,
    }
    for question in experiment.card.questions:
        if isinstance(question.show, ShownMetric):
            yield question.ask, question.show.metric, by.metric(question.show.metric)
        else:
            yield question.ask, question.show, sections[question.show]()


def loss_words(algorithm: str) -> str:
    """What a logged loss says about learning."""
    return _LOSS.get(algorithm, _OTHER_LOSS)


@dataclass(frozen=True)
class _Answers:
    experiment: ExperimentFiles
    facts: Facts
    claim_views: tuple[ClaimView, ...]

    @property
    def names(self) -> list[str]:
        return [condition.name for condition in self.experiment.card.conditions]

    def signal(self) -> Answer:
        """Whether groups kept unequal rewards."""
        null = [condition.name for condition in self.experiment.card.conditions if condition.role == "null_control"]
        counts = {name: self.facts.find(name, "detector.collapse", "runs") for name in self.names}
        meant = {name: count for name, count in counts.items() if name not in null}
        lost = {name: count for name, count in meant.items() if count and count.k}
        looked = [name for name, count in meant.items() if count and count.n]
        blind = [name for name in meant if name not in looked]
        if lost:
            parts = (Markup("{} {} runs").format(escape(f"{name} collapsed in"), self.facts.counted(count)) for name, count in lost.items())
            short = Markup("Yes. {}.").format(Markup("; ").join(parts))
        elif looked:
            short = escape(f"No. No run of {listed(looked)} collapsed.")
        else:
            short = escape("Not known: the detector of collapse looked at no run.")
        if blind and looked:
            short += escape(f" Not known of {listed(blind)}: no run was looked at.")
        if null:
            short += escape(f" {listed(sorted(null))}: without a signal by design, as a null control.")
        rows = [
            (
                self._named(name),
                *(self.facts.value(self.facts.find(name, "zero_signal_share", when), 2) for when in ("initial", "final")),
                self.facts.counted(count),
                self._onsets(name, "collapse") if count and count.n else escape("not looked at"),
            )
            for name, count in counts.items()
        ]
        counted = (
            "as its source counted it" if self.experiment.imported else "from its raw rewards, not by a threshold on the logged spread"
        )
        note = (
            "A collapse is a streak of steps without a signal, by default steps in which no group of completions has unequal rewards. Its "
            "onset is the first step of the streak, not the step at which it could be detected. A group without a signal is counted "
            f"{counted}."
        )
        header = ("Condition", "Groups without a signal, first window", "last window", "Runs that collapsed", "Onset")
        return Answer(short, header, rows, [escape(note)], ("Anomalies", "anomalies"))

    def metric(self, name: str) -> Answer:
        """Each condition's movement of a metric."""
        evaluated = name.startswith("evaluation.")
        moved = {condition: self.facts.moved(condition, name) for condition in self.names}
        wanted = numbers.column_decimals((f.value, f.low, f.high) for row in moved.values() for f in row if f)
        digits = self.facts.moved_digits(self.names, name, least=wanted)
        ends = {condition: last for condition, (_, last, _) in moved.items() if last is not None and last.value is not None}
        summed = any(last.window.startswith("no window") for last in ends.values())
        header = ("Condition", "First window", "Last window", "Change", "Seeds")
        where = "In the last window"
        if evaluated:
            header, where = ("Condition", "Untrained", "After training", "Change", "Seeds"), "After training"
        elif summed:
            header, where = ("Condition", "Beginning", "Source's summary", "Change", "Seeds"), "By the sources' summaries"
        parts = Markup("; ").join(Markup("{} {}").format(escape(c), self._printed(last, digits[c])) for c, last in ends.items())
        short = Markup("{}{}.").format(escape(f"{where}, {words(name)}: "), parts) if ends else escape("No run has a value that counts.")
        rows = [
            (
                escape(condition),
                self.facts.value(first, digits[condition]),
                self._printed(last, digits[condition]),
                self.facts.interval(change, digits[condition]) + self.facts.apart(change),
                self._seeds(condition, name, digits[condition]),
            )
            for condition, (first, last, change) in moved.items()
        ]
        note = "Each condition has its own reward, so conditions are not ranked by it; compare them on the shared evaluation."
        return Answer(short, header, rows, [escape(note)] if name == "reward" else [])

    def loss(self) -> Answer:
        """The logged loss, why it decides nothing, and what can decide."""
        cards = [card for name in self.names if (card := self.experiment.train_card(name)) is not None]
        algorithms: list[str] = list(dict.fromkeys(card.train.algorithm for card in cards)) or ["imported"]
        changes = self._intervals("loss", "")
        parts = [escape("The loss does not answer that." if {*algorithms} & {*SURROGATES} else "By itself it decides nothing.")]
        parts.append(Markup("Its absolute change: {}.").format(changes) if changes else escape("No history has a value that counts."))
        score = next(iter(self.experiment.card.evaluation), "")
        better = self._intervals(f"evaluation.{score}.pass_share", ":") if score else Markup("")
        if better:
            parts.append(Markup("Look at the change on the shared evaluation instead ({}): {}.").format(escape(score), better))
        else:
            parts.append(escape("Look at each condition's reward and at the claims instead."))
        notes = [
            *map(loss_words, algorithms),
            "No percentages are given: a loss near zero changes its sign, so a share of it says nothing.",
        ]
        return self.metric("loss")._replace(short=Markup(" ").join(parts), notes=[*map(escape, notes)], section=("Claims", "claims"))

    def anomalies(self) -> Answer:
        """What every detector saw, and what none could see."""
        total = self.facts.find("experiment", "detectors", "runs")
        if total is None or not total.n:
            short = escape("Not known: no run was screened.")
        else:
            short = Markup("{}. Detectors warn about {} runs.").format("Yes" if total.k else "No", self.facts.counted(total))
        metrics = dict.fromkeys(f.metric for f in self.experiment.findings.values() if f.metric.startswith("detector."))
        kinds = [metric.removeprefix("detector.") for metric in metrics]
        rows = [
            (
                self._named(name) if kind == "collapse" else escape(name),
                escape(kind.replace("_", " ")),
                self.facts.counted(count),
                self._onsets(name, kind),
            )
            for name in self.names
            for kind in kinds
            if (count := self.facts.find(name, f"detector.{kind}", "runs")) and count.k
        ]
        return Answer(short, ("Condition", "Detector", "Runs", "Onset"), rows, [*map(escape, self._ends())], ("Anomalies", "anomalies"))

    def _ends(self) -> Iterable[str]:
        runs = [(run, run.outcome) for run in self.experiment.runs]
        failed = [
            run.ref.name + (f" ({(outcome.failure or 'failed').replace('_', ' ')})" if outcome else "")
            for run, outcome in runs
            if run.state not in ("finished", "unknown")
        ]
        unknown = [f"{run.ref.name} ({outcome.unknown})" for run, outcome in runs if outcome and run.state == "unknown"]
        stopped = [f"{run.ref.name} ({outcome.stopped.rule})" for run, outcome in runs if outcome and outcome.stopped]
        if failed:
            yield f"Did not finish: {listed(failed)}."
        elif not unknown:
            yield "No run ended before its target by a failure."
        if unknown:
            yield f"Whether they finished is unknown: {listed(unknown)}."
        if stopped:
            yield f"Stopped early by a declared rule: {listed(stopped)}."
        blind: dict[str, dict[str, None]] = {}
        for detector, state, reason, _ in unseen(self.experiment):
            blind.setdefault(f"{state}: {reason}", {})[detector.replace("_", " ")] = None
        if blind:
            gaps = "; ".join(f"{listed(list(detectors))} ({why})" for why, detectors in blind.items())
            yield f"Could not look at some runs: {gaps}. Their health is not known there."

    def completion(self) -> Answer:
        """Steps done by each run, from the trainer's final state."""
        total = self.facts.find("experiment", "runs", "complete")
        unknown = sum(run.state == "unknown" for run in self.experiment.runs)
        rest = f"; of {numbers.counted(unknown)} it is unknown." if unknown else "."
        short = Markup("Runs that did all their steps: {}{}").format(self.facts.counted(total), escape(rest)) if total else None
        rows = [
            (escape(run.ref.name), self.facts.counted(self.facts.find(run.ref.name, "steps", "done")), escape(_state(run)))
            for run in self.experiment.runs
        ]
        note = "Steps done come from the trainer's final state: a log that merely ends near the target does not count as complete."
        header = ("Run", "Steps done of target", "State")
        return Answer(short or escape("Not known: not concluded."), header, rows, [escape(note)], ("Seeds", "seeds"))

    def claims(self) -> Answer:
        """The verdicts."""
        link = Markup('<a href="#{}">{}</a>')
        rows = [
            (
                link.format(escape(f"claim-{claim.id}"), escape_with_code(claim.says)),
                escape(claim.word),
                claim.fact or escape(numbers.NONE),
            )
            for claim in self.claim_views
        ]
        return Answer(escape(answer(self.claim_views)), ("Claim", "Verdict", "Number"), rows, (), ("Claims", "claims"))

    def attempts(self) -> Answer:
        """How attempts ended."""
        total, imported = self.facts.find("experiment", "attempts", "finished"), self.experiment.imported
        if total is None or not total.n:
            short = escape("No attempt is in the ledger.")
        elif imported:
            short = Markup("{} imported runs finished, as their logs say.").format(self.facts.counted(total))
        else:
            short = Markup("{} attempts finished; share {}.").format(self.facts.counted(total), self.facts.interval(total))
        rows = [
            (escape(name), self.facts.counted(finding), self.facts.interval(finding))
            for name in self.names
            if (finding := self.facts.find(name, "attempts", "finished")) and finding.n
        ]
        attempts = [attempt for run in self.experiment.runs for attempt in run.attempts if attempt.state != "finished"]
        ends = dict.fromkeys((a.ended.failure or "failed").replace("_", " ") if a.ended else "killed" for a in attempts)
        notes = [f"The others ended as: {listed(list(ends))}."] if ends else []
        notes = ["The logs do not say how often a run was tried before."] if imported else notes
        header = ("Condition", "Attempts finished", "Share, with interval")
        return Answer(short, header, rows, [*map(escape, notes)], ("Attempts", "attempts"))

    def _intervals(self, metric: str, mark: str) -> Markup:
        """`shaped +0.36 [+0.30, +0.42]; ...`: each condition's change that has a value."""
        changes = {name: self.facts.find(name, metric, "change") for name in self.names}
        known = {name: found for name, found in changes.items() if found and found.value is not None}
        return Markup("; ").join(Markup("{} {}").format(escape(f"{name}{mark}"), self.facts.interval(f)) for name, f in known.items())

    def _named(self, condition: str) -> Markup:
        role = self.experiment.condition(condition).role
        return escape(f"{condition} (null control: expected)" if role == "null_control" else condition)

    def _printed(self, finding: Finding | None, digits: int | None, *, bounds: bool = True) -> Markup:
        """With the row's digits, but never a 0.0000 for a number that is not 0; the interval of such a number is in its passport."""
        if digits is not None and finding is not None and finding.value and abs(finding.value) < 0.5 * 10**-digits:
            return self.facts.value(finding)
        return self.facts.interval(finding, digits) if bounds else self.facts.value(finding, digits)

    def _seeds(self, condition: str, metric: str, digits: int | None) -> Markup:
        """`1: 0.93, 2: 0.91`: the last values of a condition's seeds."""
        ends = [(run.ref.seed, self.facts.find(run.ref.name, metric, "final")) for run in self.experiment.of_condition(condition)]
        parts = (Markup("{} {}").format(escape(f"{seed}:"), self._printed(end, digits, bounds=False)) for seed, end in ends if end)
        return Markup(", ").join(parts)

    def _onsets(self, condition: str, kind: str) -> Markup:
        names = [run.ref.name for run in self.experiment.of_condition(condition)]
        onsets = {name: self.facts.find(name, f"detector.{kind}", "onset") for name in names}
        known = {name: onset for name, onset in onsets.items() if onset and onset.value is not None}
        parts = (Markup("{} {}").format(escape(f"{name} step"), self.facts.value(onset)) for name, onset in known.items())
        return Markup(", ").join(parts) if known else escape("none")


def _state(run: RunFiles) -> str:
    if run.outcome and run.outcome.stopped:
        return f"stopped by {run.outcome.stopped.rule}"
    return run.state if run.included or run.state != "finished" else "finished, left out"
