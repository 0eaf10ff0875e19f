"""Questions of a spec and their answers. An answer is computed: each number in it is a finding, and what is not known is said to be so."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from markupsafe import Markup

from stages.contracts.finding import Finding
from stages.contracts.metric_words import words
from stages.contracts.question import Question, ShownMetric
from stages.publish import numbers
from stages.publish.anomalies import unseen
from stages.publish.claims import ClaimView
from stages.publish.experiment import ExperimentFiles, RunFiles
from stages.publish.facts import Facts
from stages.publish.loss_words import SURROGATES, loss_words
from stages.publish.numbers import listed
from stages.publish.summary import answer
from stages.publish.text import shown, spoken


@dataclass(frozen=True)
class Answer:
    """One answer: a first line, a table, and what a reader must know about it. `section` is (title, anchor) of the whole on this page."""

    short: Markup
    header: tuple[str, ...] = ()
    rows: tuple[tuple[Markup, ...], ...] = ()
    notes: tuple[Markup, ...] = ()
    section: tuple[str, str] = ("Conditions", "conditions")


@dataclass(frozen=True)
class Asked:
    ask: str
    by: str
    """What answered it: the section's or the metric's name."""
    answer: Answer


def answers(experiment: ExperimentFiles, facts: Facts, claims: tuple[ClaimView, ...]) -> tuple[Asked, ...]:
    """One a question, in the spec's order."""
    return tuple(_asked(_Answering(experiment, facts, claims), question) for question in experiment.card.questions)


def _asked(by: _Answering, question: Question) -> Asked:
    if isinstance(question.show, ShownMetric):
        return Asked(question.ask, question.show.metric, by.metric(question.show.metric))
    sections: dict[str, Callable[[], Answer]] = {
        "signal": by.signal,
        "reward": lambda: by.metric("reward"),
        "loss": by.loss,
        "anomalies": by.anomalies,
        "completion": by.completion,
        "claims": by.claims,
        "attempts": by.attempts,
    }
    return Asked(question.ask, question.show, sections[question.show]())


@dataclass(frozen=True)
class _Answering:
    experiment: ExperimentFiles
    facts: Facts
    claim_views: tuple[ClaimView, ...]

    @property
    def names(self) -> list[str]:
        return [condition.name for condition in self.experiment.card.conditions]

    def signal(self) -> Answer:
        """Whether groups kept unequal rewards."""
        null = {condition.name for condition in self.experiment.card.conditions if condition.role == "null_control"}
        counts = {name: self.facts.find(name, "detector.collapse", "runs") for name in self.names}
        lost = [name for name, found in counts.items() if found and found.k and name not in null]
        looked = [name for name, found in counts.items() if found and found.n and name not in null]
        if lost:
            short = Markup("Yes. {}.").format(self._counted_list(lost, counts, "collapsed in"))
        elif looked:
            short = shown(f"No. No run of {listed(looked)} collapsed.")
        else:
            short = shown("Not known: no run was looked at by the detector of collapse.")
        blind = [name for name in self.names if name not in looked and name not in null]
        if blind and (lost or looked):
            short += shown(f" Not known of {listed(blind)}: no run was looked at.")
        if null:
            short += shown(f" {listed(sorted(null))}: without a signal by design, as a null control.")
        rows = tuple(
            (
                self._named(name),
                *(self.facts.value(self.facts.find(name, "zero_signal_share", when), decimals=2) for when in ("initial", "final")),
                self.facts.counted(counts[name]),
                self._onsets(name, "collapse") if (seen := counts[name]) and seen.n else shown("not looked at"),
            )
            for name in self.names
        )
        counted = (
            "as its source counted it" if self.experiment.imported else "from its raw rewards, never from a threshold on the logged spread"
        )
        note = (
            "A collapse is a streak of steps without a signal, by default steps in which no group of completions has unequal rewards; its "
            "onset is the first step of the streak, not the step at which it could be known. A group without a signal is counted "
            f"{counted}."
        )
        header = ("Condition", "Groups without a signal, first window", "last window", "Runs that collapsed", "Onset")
        return Answer(short, header, rows, (shown(note),), ("Anomalies", "anomalies"))

    def metric(self, name: str, short: Markup | None = None, section: tuple[str, str] = ("Conditions", "conditions")) -> Answer:
        """Each condition's movement of a metric."""
        start = "untrained" if name.startswith("evaluation.") else "first window"
        known = {condition: self.facts.moved(condition, name) for condition in self.names}
        rows_of_values = [tuple(f.value if f else None for f in row) for row in known.values()]
        wanted = numbers.column_decimals((f.value, f.low, f.high) for row in known.values() for f in row if f)
        agreed = numbers.agreed_rows(((first, last, change) for first, last, change in rows_of_values), least=wanted)
        digits = dict(zip(known, agreed, strict=True))
        ended = [(condition, row[1]) for condition, row in known.items() if row[1] is not None and row[1].value is not None]
        summed = any(last is not None and last.window.startswith("no window") for _, last in ended)
        parts = Markup("; ").join(Markup("{} {}").format(shown(c), self._printed(f, digits[c])) for c, f in ended)
        if short is None:
            where = "After training" if start == "untrained" else "By the sources' summaries" if summed else "In the last window"
            said = f"{where}, {words(name)}: "
            short = Markup("{}{}.").format(shown(said), parts) if ended else shown("No run has a value that counts.")
        rows = tuple(
            (
                shown(condition),
                self.facts.value(row[0], decimals=digits[condition]),
                self._printed(row[1], digits[condition]),
                self.facts.interval(row[2], decimals=digits[condition]) + (self.facts.apart(row[2]) if row[2] else Markup("")),
                self._seeds(condition, name, digits[condition]),
            )
            for condition, row in known.items()
        )
        note = "Each condition has its own reward, so conditions are not ranked by it; compare them on the shared evaluation."
        header = ("Condition", start.capitalize(), "Last window" if start != "untrained" else "After training", "Change", "Seeds")
        if summed:
            header = ("Condition", "Beginning", "Source's summary", "Change", "Seeds")
        return Answer(short, header, rows, (shown(note),) if name == "reward" else (), section)

    def loss(self) -> Answer:
        """The logged loss, and why it decides nothing; what can decide stands beside it."""
        cards = [card for name in self.names if (card := self.experiment.train_card(name)) is not None]
        algorithms: list[str] = list(dict.fromkeys(card.train.algorithm for card in cards)) or ["imported"]
        changes = [(name, self.facts.find(name, "loss", "change")) for name in self.names]
        moved = [(name, found) for name, found in changes if found and found.value is not None]
        parts = Markup("; ").join(Markup("{} {}").format(shown(name), self.facts.interval(found)) for name, found in moved)
        said = Markup(" {} {}.").format(shown("Its absolute change:"), parts) if moved else shown(" No history has a value that counts.")
        asked = (
            "The loss does not answer that."
            if any(algorithm in SURROGATES for algorithm in algorithms)
            else "By itself it decides nothing."
        )
        better = [
            Markup("{} {}").format(shown(f"{name}:"), self.facts.interval(found))
            for name in self.names
            for score in self.experiment.card.evaluation[:1]
            if (found := self.facts.find(name, f"evaluation.{score}.pass_share", "change")) and found.value is not None
        ]
        instead = shown("Look at the change on the shared evaluation instead")
        if better:
            instead = Markup("{} ({}): {}.").format(instead, shown(self.experiment.card.evaluation[0]), Markup("; ").join(better))
        else:
            instead = Markup("{}.").format(shown("Look at each condition's reward and at the claims instead"))
        made = self.metric("loss", Markup("{}{} {}").format(shown(asked), said, instead), section=("Claims", "claims"))
        note = "No percentages are given: a loss near zero changes its sign, and a share of it says nothing."
        return Answer(
            made.short, made.header, made.rows, (*(shown(loss_words(algorithm)) for algorithm in algorithms), shown(note)), made.section
        )

    def anomalies(self) -> Answer:
        """What every detector saw, and what none could see."""
        total = self.facts.find("experiment", "detectors", "runs")
        if total is None or not total.n:
            short = shown("Not known: no run was screened.")
        elif total.k:
            short = Markup("Yes. Detectors warn about {} runs.").format(self.facts.counted(total))
        else:
            short = Markup("No. Detectors warn about {} runs.").format(self.facts.counted(total))
        rows = tuple(
            (
                self._named(name) if kind == "collapse" else shown(name),
                shown(kind.replace("_", " ")),
                self.facts.counted(found),
                self._onsets(name, kind),
            )
            for name in self.names
            for kind in self._kinds()
            if (found := self.facts.find(name, f"detector.{kind}", "runs")) and found.k
        )
        stopped = [
            run.ref.name + (f" ({(run.outcome.failure or 'failed').replace('_', ' ')})" if run.outcome else "")
            for run in self.experiment.runs
            if run.state not in ("finished", "unknown")
        ]
        unknown = [f"{run.ref.name} ({run.outcome.unknown})" for run in self.experiment.runs if run.outcome and run.state == "unknown"]
        ruled = [f"{run.ref.name} ({run.outcome.stopped.rule})" for run in self.experiment.runs if run.outcome and run.outcome.stopped]
        notes = [f"Did not finish: {listed(stopped)}."] if stopped else [] if unknown else ["No run ended before its target by a failure."]
        notes += [f"Whether they finished is unknown: {listed(unknown)}."] if unknown else []
        notes += [f"Stopped early by a declared rule: {listed(ruled)}."] if ruled else []
        blind: dict[str, list[str]] = {}
        for gap in unseen(self.experiment):
            blind.setdefault(f"{gap.state}: {gap.reason}", []).append(gap.detector.replace("_", " "))
        if blind:
            gaps = "; ".join(f"{listed(list(dict.fromkeys(names)))} ({why})" for why, names in blind.items())
            notes.append(f"Could not look at some runs: {gaps}. Silence there is not health.")
        return Answer(short, ("Condition", "Detector", "Runs", "Onset"), rows, tuple(map(shown, notes)), ("Anomalies", "anomalies"))

    def completion(self) -> Answer:
        """Steps done by each run, from the trainer's final state."""
        total = self.facts.find("experiment", "runs", "complete")
        unknown = sum(run.state == "unknown" for run in self.experiment.runs)
        rest = f"; of {numbers.counted(unknown)} it is unknown." if unknown else "."
        known = Markup("Runs that did all their steps: {}{}")
        short = known.format(self.facts.counted(total), shown(rest)) if total else shown("Not known: not concluded.")
        runs = self.experiment.runs
        states = [_state(run) for run in runs]
        rows = tuple((shown(r.ref.name), self._steps(r.ref.name), shown(state)) for r, state in zip(runs, states, strict=True))
        note = "Steps done come from the trainer's final state: a log that merely ends near the target does not count as complete."
        return Answer(short, ("Run", "Steps done of target", "State"), rows, (shown(note),), ("Seeds", "seeds"))

    def claims(self) -> Answer:
        """The verdicts."""
        link = Markup('<a href="#{}">{}</a>')
        rows = tuple(
            (link.format(shown(f"claim-{claim.id}"), spoken(claim.says)), shown(claim.word), claim.fact or shown(numbers.NONE))
            for claim in self.claim_views
        )
        return Answer(shown(answer(self.claim_views)), ("Claim", "Verdict", "Number"), rows, (), ("Claims", "claims"))

    def attempts(self) -> Answer:
        """How attempts ended."""
        total = self.facts.find("experiment", "attempts", "finished")
        short = (
            Markup("{} imported runs finished, as their logs say.").format(self.facts.counted(total))
            if total and total.n and self.experiment.imported
            else Markup("{} attempts finished; share {}.").format(self.facts.counted(total), self.facts.interval(total))
            if total and total.n
            else shown("No attempt is in the ledger.")
        )
        rows = tuple(
            (shown(name), self.facts.counted(found), self.facts.interval(found))
            for name in self.names
            if (found := self.facts.find(name, "attempts", "finished")) and found.n
        )
        ends = dict.fromkeys(
            (attempt.ended.failure or "failed").replace("_", " ") if attempt.ended else "killed"
            for run in self.experiment.runs
            for attempt in run.attempts
            if attempt.state != "finished"
        )
        notes = (shown(f"The others ended as: {listed(list(ends))}."),) if ends else ()
        if self.experiment.imported:
            notes = (shown("How often a run was tried before its log was written is not in it."),)
        return Answer(short, ("Condition", "Attempts finished", "Share, with interval"), rows, notes, ("Attempts", "attempts"))

    def _named(self, condition: str) -> Markup:
        role = self.experiment.condition(condition).role
        return shown(f"{condition} (null control: expected)" if role == "null_control" else condition)

    def _seeds(self, condition: str, name: str, digits: int | None) -> Markup:
        found = [(run.ref.seed, self.facts.find(run.ref.name, name, "final")) for run in self.experiment.of_condition(condition)]
        return Markup(", ").join(
            Markup("{} {}").format(shown(f"{seed}:"), self._printed(f, digits, bounds=False)) for seed, f in found if f
        )

    def _printed(self, found: Finding | None, digits: int | None, *, bounds: bool = True) -> Markup:
        """With the row's digits, but never a 0.0000 for a number that is not 0; the interval of such a one stands in its passport."""
        if digits is not None and found is not None and found.value and abs(found.value) < 0.5 * 10**-digits:
            return self.facts.value(found)
        return self.facts.interval(found, decimals=digits) if bounds else self.facts.value(found, decimals=digits)

    def _onsets(self, condition: str, kind: str) -> Markup:
        names = [run.ref.name for run in self.experiment.of_condition(condition)]
        found = [(name, self.facts.find(name, f"detector.{kind}", "onset")) for name in names]
        known = [Markup("{} {}").format(shown(f"{run} step"), self.facts.value(f)) for run, f in found if f and f.value is not None]
        return Markup(", ").join(known) if known else shown("none")

    def _counted_list(self, names: Iterable[str], counts: dict[str, Finding | None], verb: str) -> Markup:
        return Markup("; ").join(Markup("{} {} runs").format(shown(f"{name} {verb}"), self.facts.counted(counts[name])) for name in names)

    def _kinds(self) -> list[str]:
        names = (found.metric for found in self.experiment.findings.values() if found.metric.startswith("detector."))
        return list(dict.fromkeys(name.removeprefix("detector.") for name in names))

    def _steps(self, run: str) -> Markup:
        return self.facts.counted(self.facts.find(run, "steps", "done"))


def _state(run: RunFiles) -> str:
    if run.outcome and run.outcome.stopped:
        return f"stopped by {run.outcome.stopped.rule}"
    return run.state if run.included or run.state != "finished" else "finished, left out"
