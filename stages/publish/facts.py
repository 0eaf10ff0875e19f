"""Numbers as links: a finding becomes a link to its passport. Only findings that a page uses get a passport."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping

from markupsafe import Markup

from stages.contracts.analysis_card import ConditionCard, RunRef
from stages.contracts.finding import Finding
from stages.publish import numbers
from stages.publish.text import escape, slug

_LINK = Markup('<a class="fact{mood}" href="{page}#{anchor}" data-finding="{id}"{title}>{text}</a>')
_UNSEEN = Markup('<br><small class="unseen">{}</small>')
_NEAR_ZERO, _FINEST = 1e-4, 12
"""Size below which a metric's whole movement is small; most digits of a number."""
_BOUNDS = Markup(' <span class="bounds">{}</span>')
_NOTHING = Markup(f'<span class="none" title="not computed">{numbers.NONE}</span>')


class Facts:
    """Writes numbers and remembers, in order of first use, which findings they came from. `page` holds the passports; empty: this one."""

    def __init__(self, findings: Mapping[str, Finding], page: str = "numbers.html", digits: Mapping[str, int] | None = None) -> None:
        self._findings, self._page = findings, page
        self._digits = metric_digits(findings.values()) if digits is None else digits
        self.used: dict[str, Finding] = {}

    def find(self, subject: str, metric: str, *statistics: str) -> Finding | None:
        """The first of these statistics of a subject's metric that was computed."""
        return next((finding for s in statistics if (finding := self._findings.get(f"{subject}/{metric}/{s}"))), None)

    def ends(self, subjects: Iterable[ConditionCard | RunRef], metric: str, statistic: str) -> list[tuple[ConditionCard | RunRef, Finding]]:
        """A statistic of each of these conditions or runs that has it."""
        each = ((subject, self.find(subject.name, metric, statistic)) for subject in subjects)
        return [(subject, finding) for subject, finding in each if finding]

    def get(self, finding: str) -> Finding:
        """Raises KeyError with the nearest known ids in the message."""
        if finding not in self._findings:
            if finding.count("/") == 3 and ":" not in finding:
                raise KeyError(f"unknown id {finding!r}; a number of another experiment is written {finding.replace('/', ':', 1)!r}")
            whose = finding[: finding.find(":") + 1]  # another experiment's number is never meant for one of this
            raise KeyError(did_you_mean(finding, [known for known in self._findings if known[: known.find(":") + 1] == whose]))
        return self._findings[finding]

    def reads(self, experiment: str) -> bool:
        """Whether findings of another experiment are here."""
        return any(known.startswith(f"{experiment}:") for known in self._findings)

    def value(self, finding: Finding | None, decimals: int | None = None) -> Markup:
        """The value alone."""
        if finding is None:
            return _NOTHING
        digits = self.digits(finding) if decimals is None else decimals
        value = self._printed(finding, digits)
        return self._link(finding, numbers.number(value, finding.unit, decimals=digits, signed=is_signed(finding)))

    def percent(self, finding: Finding) -> Markup:
        """A share in percent: `74%` of a metric with 2 digits, `73.6%` with 3."""
        if finding.value is None:
            return self.value(finding)
        digits = self.digits(finding)
        decimals = numbers.decimals_for(finding.value) if digits is None else digits
        return self._link(finding, f"{numbers.fixed(100 * finding.value, max(0, decimals - 2))}%")

    def interval(self, finding: Finding | None, decimals: int | None = None) -> Markup:
        """The value with its interval, when it has one."""
        if finding is None:
            return _NOTHING
        digits = self.digits(finding) if decimals is None else decimals
        shown = finding.model_copy(update={"value": self._printed(finding, digits)})
        value, _, bounds = interval_text(shown, decimals=digits).partition(" [")
        return self._link(finding, value, f"[{bounds}" if bounds else "")

    def with_all(self, finding: Finding) -> str:
        """The number with the excluded runs counted in."""
        return numbers.number(finding.with_all, finding.unit, decimals=self.digits(finding), signed=is_signed(finding))

    def change(self, finding: Finding | None, decimals: int | None = None) -> Markup:
        """The value, and where its interval holds 0 the smallest change that the data could have shown."""
        written = self.value(finding, decimals)
        if finding is None:
            return written
        undetected = undetected_change(finding)
        return written + (_UNSEEN.format(undetected) if undetected else "") + self.apart(finding)

    def apart(self, change: Finding | None) -> Markup:
        """The seeds that a change is over, where some seeds have only one of the two windows: then it is not the means' difference."""
        first, last, _ = self.moved(change.subject, change.metric) if change else (None, None, None)
        if change is None or first is None or last is None or None in (change.value, first.value, last.value):
            return Markup("")
        a, b, difference = first.value or 0.0, last.value or 0.0, change.value or 0.0
        if abs(b - a - difference) <= 1e-9 * max(abs(a), abs(b)):
            return Markup("")
        both = numbers.listed([str(seed.seed) for seed in change.seeds if seed.included])
        return _UNSEEN.format(f"of the seeds with both windows ({both})")

    def digits(self, finding: Finding) -> int | None:
        """Digits of a number: all numbers of a metric have the same. Where those would show only zeros of it, or of where its metric began
        or ended, the three have as many as show something. None: its own, of a number for which no few digits do."""
        digits, row = self._digits.get(finding.metric), self.moved(finding.subject, finding.metric)
        if digits is None or finding.unit == "share":  # a share below what its column shows is none worth more digits
            return digits
        first, last, change = row if finding in row else (finding, None, None)
        sizes = [_scale(end) for end in (first, last) if end and end.value]
        near_zero = max(sizes, default=1.0) < _NEAR_ZERO  # there the movement itself must be seen
        sizes += [abs(change.value)] if near_zero and change and change.value else []
        smallest = min(sizes, default=math.inf)
        if smallest >= (5.0 if near_zero else 0.5) * 10**-digits:
            return digits
        more = 1 - math.floor(math.log10(smallest))
        return more if more <= _FINEST else None

    def moved(self, subject: str, metric: str) -> tuple[Finding | None, Finding | None, Finding | None]:
        """Where a metric began, where it ended, and the change."""
        whose = subject[: subject.rfind(":") + 1]  # of another experiment
        start = (f"{whose}untrained", "final") if metric.startswith("evaluation.") else (subject, "initial")
        return self.find(start[0], metric, start[1]), self.find(subject, metric, "final"), self.find(subject, metric, "change")

    def movement(self, subject: str, metric: str) -> tuple[Markup, Markup, Markup]:
        """First window, last window and change, written."""
        first, last, change = self.moved(subject, metric)
        return self.value(first), self.value(last), self.change(change)

    def _printed(self, finding: Finding, decimals: int | None) -> float | None:
        """The value to print. A change follows from the printed numbers that it is the difference of, when it has their digits."""
        first, last, change = self.moved(finding.subject, finding.metric)
        if change is not finding or decimals is None or first is None or last is None or self.apart(finding):
            return finding.value
        if decimals != self.digits(first) or decimals != self.digits(last) or None in (first.value, last.value, finding.value):
            return finding.value
        return numbers.rounded(last.value or 0.0, decimals) - numbers.rounded(first.value or 0.0, decimals)

    def counted(self, finding: Finding | None, of: str = "of") -> Markup:
        """`12 of 48`: the numerator and denominator of a share, or its value when it was not counted."""
        if finding is None or finding.k is None or finding.n is None:
            return self.value(finding)
        return self._link(finding, f"{finding.k} {of} {finding.n}")

    def _link(self, finding: Finding, text: str, bounds: str = "") -> Markup:
        self.used.setdefault(finding.id, finding)
        empty = finding.value is None
        return _LINK.format(
            mood=" none" if empty else "",
            page=self._page,
            anchor=slug(finding.id),
            id=escape(finding.id),
            title=Markup(' title="{}"').format(escape(finding.reason)) if empty else Markup(""),
            text=escape(text) + (_BOUNDS.format(escape(bounds)) if bounds else Markup("")),
        )


def _scale(finding: Finding) -> float:
    """What must be seen of a number: its size, or that of its interval."""
    half = (finding.high - finding.low) / 2 if finding.low is not None and finding.high is not None else 0.0
    return max(abs(finding.value or 0.0), half)


def metric_digits(findings: Iterable[Finding]) -> dict[str, int]:
    """Metric -> digits of all its numbers on a page: as many as the interval of a condition, a contrast or the untrained model needs, and
    at most four; of a metric that only runs have, as their values need."""
    cells: dict[str, list[tuple[float | None, float | None, float | None]]] = {}
    runs: dict[str, list[float | None]] = {}
    for finding in findings:
        if finding.seeds or finding.subject == "untrained":
            cells.setdefault(finding.metric, []).append((finding.value, finding.low, finding.high))
        else:
            runs.setdefault(finding.metric, []).append(finding.value)
    digits = {metric: numbers.column_decimals(values, most=4) for metric, values in runs.items()}
    return digits | {
        metric: numbers.column_decimals(own, most=4) for metric, own in cells.items() if any(value is not None for value, *_ in own)
    }


def is_signed(finding: Finding) -> bool:
    """Whether a number is printed with its sign."""
    return finding.statistic in ("change", "difference")


def undetected_change(finding: Finding) -> str:
    """`no change detected (smallest detectable: ±0.05)`, where the interval holds 0; else empty."""
    if finding.low is None or finding.high is None or not finding.low <= 0 <= finding.high or not finding.detectable:
        return ""
    return f"no change detected (smallest detectable: \u00b1{numbers.number(finding.detectable, finding.unit)})"


def interval_text(finding: Finding, *, decimals: int | None = None) -> str:
    """`+0.36 [+0.30, +0.42]`: a finding's value and interval as text; changes carry their sign."""
    signed = is_signed(finding)
    if finding.low is None or finding.high is None:
        return numbers.number(finding.value, finding.unit, decimals=decimals, signed=signed)
    return numbers.interval(finding.value, finding.low, finding.high, decimals=decimals, signed=signed)


def did_you_mean(word: str, names: Mapping[str, object] | list[str]) -> str:
    """`unknown id 'x'; did you mean 'y'?`, with at most three near ones."""
    near = difflib.get_close_matches(word, list(names), n=3, cutoff=0.6)
    return f"unknown id {word!r}" + (f"; did you mean {' or '.join(repr(name) for name in near)}?" if near else "")
