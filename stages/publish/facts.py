"""Numbers as doors: a finding becomes a link to its passport, on the page of numbers. Only findings that a page uses get one."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from markupsafe import Markup

from stages.contracts.finding import Finding
from stages.publish import numbers
from stages.publish.text import shown, slug

_LINK = Markup('<a class="fact{mood}" href="{page}#{anchor}" data-finding="{id}"{title}>{text}</a>')
_UNSEEN = Markup('<br><small class="unseen">{}</small>')
_BOUNDS = Markup(' <span class="bounds">{}</span>')


class Facts:
    """Writes numbers and remembers, in order of first use, which findings they came from. `page` holds the passports; empty: this one."""

    def __init__(self, findings: Mapping[str, Finding], page: str = "numbers.html") -> None:
        self._findings, self._page = findings, page
        self.used: dict[str, Finding] = {}

    def find(self, subject: str, metric: str, *statistics: str) -> Finding | None:
        """The first statistic of a subject's metric that was computed."""
        return next((found for s in statistics if (found := self._findings.get(f"{subject}/{metric}/{s}"))), None)

    def get(self, finding: str) -> Finding:
        """Raises KeyError with the nearest known ids in the message."""
        if finding not in self._findings:
            raise KeyError(did_you_mean(finding, self._findings))
        return self._findings[finding]

    def value(self, finding: Finding | None, *, decimals: int | None = None, unit: bool = False) -> Markup:
        """The value alone."""
        if finding is None:
            return self._nothing("not computed")
        text = numbers.number(finding.value, finding.unit, decimals=decimals, signed=finding.statistic in numbers.SIGNED)
        return self._link(finding, numbers.with_unit(text, finding.unit) if unit else text)

    def interval(self, finding: Finding | None, *, decimals: int | None = None) -> Markup:
        """The value with its interval, when it has one."""
        if finding is None:
            return self._nothing("not computed")
        value, _, bounds = interval_text(finding, decimals=decimals).partition(" [")
        return self._link(finding, value, f"[{bounds}" if bounds else "")

    def change(self, finding: Finding | None, *, decimals: int | None = None) -> Markup:
        """The value, and where its interval holds 0 the smallest change that the data would have shown."""
        written = self.value(finding, decimals=decimals)
        seen = unseen_change(finding) if finding else ""
        return (written + _UNSEEN.format(seen) if seen else written) + (self.apart(finding) if finding else Markup(""))

    def apart(self, change: Finding) -> Markup:
        """Over which seeds a change is, where some of them have only one of the two windows: it is no difference of the two means then."""
        first, last, _ = self.moved(change.subject, change.metric)
        if first is None or last is None or change.value is None or first.value is None or last.value is None:
            return Markup("")
        if abs(last.value - first.value - change.value) <= 1e-9 * max(abs(first.value), abs(last.value)):
            return Markup("")
        both = numbers.listed([str(seed.seed) for seed in change.seeds if seed.included])
        return _UNSEEN.format(f"of the seeds with both windows ({both})")

    def digits(self, finding: Finding, *, bounds: bool = False) -> int | None:
        """Digits with which a number that stands alone agrees with those beside which a reader may hold it: of initial, final and change
        of one metric the printed change is the printed last minus the printed first. None: the finding's own."""
        row = self.moved(finding.subject, finding.metric)
        values = tuple(found.value if found else None for found in row)
        if finding not in row or None in values:
            return None
        wanted = max(numbers.decimals_for(f.value, *((f.low, f.high) if bounds else ())) for f in row if f)
        return numbers.agreed_rows([(values[0], values[1], values[2])], least=wanted)[0]

    def moved(self, subject: str, metric: str) -> tuple[Finding | None, Finding | None, Finding | None]:
        """Where a metric began, where it ended, and the change."""
        start = ("untrained", "final") if metric.startswith("evaluation.") else (subject, "initial")
        return self.find(start[0], metric, start[1]), self.find(subject, metric, "final"), self.find(subject, metric, "change")

    def counted(self, finding: Finding | None, *, of: str = "of") -> Markup:
        """`12 of 48`: the numerator and denominator of a share, or its value when it was not counted."""
        if finding is None or finding.k is None or finding.n is None:
            return self.value(finding)
        return self._link(finding, f"{finding.k} {of} {finding.n}")

    def _link(self, finding: Finding, text: str, bounds: str = "") -> Markup:
        self.used.setdefault(finding.id, finding)
        empty = finding.value is None
        title = Markup(' title="{}"').format(shown(finding.reason)) if empty else Markup("")
        inside = shown(text) + (_BOUNDS.format(shown(bounds)) if bounds else Markup(""))
        mood, anchor, id_ = " none" if empty else "", slug(finding.id), shown(finding.id)
        return _LINK.format(mood=mood, page=self._page, anchor=anchor, id=id_, title=title, text=inside)

    @staticmethod
    def _nothing(reason: str) -> Markup:
        return Markup('<span class="none" title="{}">{}</span>').format(reason, numbers.NONE)


def unseen_change(finding: Finding) -> str:
    """`no change seen; from ±0.05 on it would have shown`, where the interval holds 0; else empty."""
    if finding.low is None or finding.high is None or not finding.low <= 0 <= finding.high or not finding.detectable:
        return ""
    return f"no change seen; from \u00b1{numbers.number(finding.detectable, finding.unit)} on it would have shown"


def interval_text(finding: Finding, *, decimals: int | None = None) -> str:
    """`+0.36 [+0.30, +0.42]`: a finding's value and interval as text; changes carry their sign."""
    signed = finding.statistic in numbers.SIGNED
    if finding.low is None or finding.high is None:
        return numbers.number(finding.value, finding.unit, decimals=decimals, signed=signed)
    return numbers.interval(finding.value, finding.low, finding.high, decimals=decimals, signed=signed)


def did_you_mean(word: str, known: Mapping[str, object] | list[str]) -> str:
    """`unknown id 'x'; did you mean 'y'?`, with at most three near ones."""
    near = difflib.get_close_matches(word, list(known), n=3, cutoff=0.6)
    return f"unknown id {word!r}" + (f"; did you mean {' or '.join(repr(name) for name in near)}?" if near else "")
