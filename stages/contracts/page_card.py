"""`page.card.json`: the words of a page. Editing them reruns only the page. Questions, actions and contingency plans stand on
it as in the spec."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, model_validator

from stages.contracts.analysis_card import AnalysisCard
from stages.contracts.artifact import Frozen, Section, later
from stages.contracts.claim import VerdictWords
from stages.contracts.code import Judgement
from stages.contracts.names import Band, ProjectPath, Slug, exactly_one, refused
from stages.contracts.progress import Progress

Answers = Literal["signal", "reward", "loss", "anomalies", "completion", "claims", "attempts"]
"""signal: groups without a reward signal, and collapse. reward: each condition by its own reward. loss: the logged loss, and why it decides
nothing. anomalies: what every detector saw. completion: steps done by each run. claims: the verdicts. attempts: how attempts ended."""


class ShownMetric(Frozen):
    """A metric's movement in each condition."""

    metric: str = Field(min_length=1, max_length=200, description="A history metric such as `entropy`, or `evaluation.<score>.pass_share`.")


class ShownDetector(Frozen):
    """What one detector saw in each condition, and in which runs it could not look."""

    detector: str = Field(min_length=1, max_length=200, description="Kind of a detector of the health profile, such as `spikes`.")


def _show_form(value: Any) -> str:
    if isinstance(value, ShownDetector) or (isinstance(value, dict) and "detector" in value):
        return "(detector)"
    return "(metric)" if isinstance(value, dict | ShownMetric) else "(section)"


Show = Annotated[
    Annotated[Answers, Tag("(section)")] | Annotated[ShownMetric, Tag("(metric)")] | Annotated[ShownDetector, Tag("(detector)")],
    Discriminator(_show_form),
]


class Question(Frozen):
    """A question with what is computed to answer it."""

    ask: str = Field(min_length=1, max_length=1000, description="The question, as the page shows it.")
    show: Show = Field(
        description="`signal`, `reward`, `loss`, `anomalies`, `completion`, `claims`, `attempts`, {metric: name}, or {detector: kind}."
    )


class ChangeWords(Frozen):
    """One setting that differs from the parent's, as text for people."""

    key: str
    """Dotted key in the spec, such as `train.learning_rate`."""
    before: str
    after: str


class ComparedWith(Frozen):
    """Another experiment beside this one, with all settings that differ."""

    experiment: str
    changes: tuple[ChangeWords, ...]


class Move(Band):
    """Where a metric should come to."""

    metric: str = Field(min_length=1, max_length=200, description="A history metric, or `evaluation.<score>.pass_share`.")


class Action(Frozen):
    """What to do next, in the author's judgement. With `change` it can become a child of this experiment as it stands."""

    id: Slug = Field(description="Name of the action.")
    do: str = Field(min_length=1, max_length=2000, description="What to do.")
    priority: int = Field(1, ge=1, le=9, description="1 comes first.")
    change: dict[str, Any] = Field({}, max_length=100, description="Settings that would differ, by dotted key.")
    because: str = Field("", max_length=2000, description="What it is for.")
    expect: tuple[Move, ...] = Field((), max_length=20, description="What it should move, and where to.")


OUTCOMES = {"claim": ("supported", "refuted", "inconclusive", "void"), "expectation": ("met", "missed"), "red_flag": ()}
"""Kind of what a plan waits for -> its outcomes."""
Outcome = Literal["supported", "refuted", "inconclusive", "void", "met", "missed"]


class When(Frozen):
    """What a contingency plan waits for: a claim's verdict, an expectation, or a red flag; exactly one of them."""

    claim: Slug | None = Field(None, description="Id of a claim of this spec, with `is: refuted` or another verdict.")
    expectation: Slug | None = Field(None, description="Id of an expectation; without `is` the plan waits for it to be missed.")
    red_flag: int | None = Field(None, ge=1, le=50, description="Number of a red flag, from 1; the plan waits for it to stop a run.")
    states: Annotated[
        Annotated[Outcome | None, Tag("(one)")] | Annotated[tuple[Outcome, ...], Tag("(several)"), Field(min_length=1)],
        Discriminator(lambda value: "(several)" if isinstance(value, list | tuple) else "(one)"),
    ] = Field(None, alias="is", description="Of a claim its verdict or verdicts; of an expectation `missed` or `met`.")

    _exactly_one = exactly_one(
        "claim",
        "expectation",
        "red_flag",
        says="a plan waits for",
        why="its state is computed from what it waits for; two plans can do the same thing",
        fix="if: {claim: ..., is: refuted}",
    )

    @property
    def waits(self) -> str:
        """Kind of what it waits for."""
        return next(kind for kind in OUTCOMES if getattr(self, kind) is not None)

    @property
    def name(self) -> str:
        """Id of what it waits for, as findings name it: a claim, an expectation, or `red_flag-1`."""
        return self.claim or self.expectation or f"red_flag-{self.red_flag}"

    @property
    def wanted(self) -> tuple[str, ...]:
        """Verdicts, `met` or `missed`, or `raised`."""
        return ("raised",) if self.red_flag is not None else self._states or ("missed",)

    @property
    def _states(self) -> tuple[str, ...]:
        return (self.states,) if isinstance(self.states, str) else self.states or ()

    @model_validator(mode="after")
    def _outcome_fits(self) -> When:
        kind, outcomes = self.waits.replace("_", " "), OUTCOMES[self.waits]
        if (self.claim and not self._states) or any(state not in outcomes for state in self._states):
            fix = f"is: {'refuted' if self.claim else 'missed'}" if outcomes else "delete `is`"
            raise refused("E209.outcome", kind=kind, known=", ".join(outcomes) or "none", fix=fix)
        return self


class Contingency(Frozen):
    """What to do if things come out otherwise, written before they do."""

    id: Slug = Field(description="Name of the plan.")
    when: When = Field(alias="if", description="What it waits for.")
    do: str = Field(min_length=1, max_length=2000, description="What to do then.")
    change: dict[str, Any] = Field({}, max_length=100, description="Settings that would differ, by dotted key.")


COLUMNS = {
    "conditions": ("runs", "steps", "seconds", "hours", "collapsed", "nonfinite", "attempts"),
    "seeds": ("state", "steps", "seconds", "hours", "collapsed", "nonfinite", "attempts"),
}
"""Table -> its columns that are no metrics. `seconds`: mean of a step; `hours`: of a whole run at that speed."""
POINTS = "points"
"""Of a column with five values of a metric: the first window, windows about 25, 50 and 75% of training, and the last."""
FIVE_POINTS = ("initial", "at-25", "at-50", "at-75", "final")
"""The statistics of those."""
WINDOWS = {"first": "initial", "change": "change", POINTS: POINTS}
"""Word after a metric in the name of a column -> statistic; without a word it is that of the last window."""


def column_statistic(column: str) -> tuple[str, str]:
    """Metric and statistic of a column such as `reward`, `reward first`, `reward change` or `reward points`."""
    metric, _, window = column.rpartition(" ")
    return (metric.strip(), WINDOWS[window]) if metric.strip() and window in WINDOWS else (column, "final")


class Tables(Frozen):
    """Columns of the page's tables."""

    conditions: tuple[str, ...] = Field(
        (),
        max_length=30,
        description="`runs`, `steps`, `seconds`, `hours`, `collapsed`, `nonfinite`, `attempts`, a metric such as `reward`, `reward first`, "
        "`reward change` or `reward points` (five points of training), or `evaluation.<score>.<measure>`; not given: those that suit the "
        "algorithm.",
    )
    seeds: tuple[str, ...] = Field((), max_length=30, description="The same with `state` in place of `runs`.")


PageSection = Literal[
    "claims", "conditions", "seeds", "curves", "reward", "completions", "anomalies", "attempts", "questions", "expectations", "plans",
    "settings", "lineage", "methods",
]  # fmt: skip
"""Sections of the evidence, in their usual order."""


class PageLayout(Section):
    """What the author puts first on the page, and what is folded."""

    lead: tuple[str, ...] = Field(
        (),
        max_length=4,
        description="Figures beside the result, by name: `evaluation-<score>`, `curves-<metric>`, `funnel-<condition>`. Without it: the "
        "figure of the first claim.",
    )
    order: tuple[PageSection, ...] = Field((), description="Sections of the evidence that come first; the others follow as usual.")
    fold: tuple[PageSection, ...] | None = later(
        None, description="Sections that begin folded; the others begin open. Without it a section is open where something in it is wrong."
    )
    tables: Tables = later(Tables(), description="Columns of the tables of conditions and of seeds.")


def _remark(value: Any) -> Any:
    if not isinstance(value, dict | Remark) or (isinstance(value, dict) and not {"text", "on", "step"} <= value.keys()):
        raise refused("E214")
    return value


def _date(text: str) -> str:
    try:
        if date.fromisoformat(text).isoformat() == text:
            return text
    except ValueError:
        pass
    raise refused("E214.date", shown=text[:40])


class Remark(Section):
    """What the author says of the experiment at a moment: its status, or what was decided. It stands on top of the page and decides
    nothing."""

    text: str = Field(min_length=1, max_length=2000, description="What is said, such as `struggling; intervene`.")
    on: Annotated[str, AfterValidator(_date)] = Field(
        json_schema_extra={"format": "date"}, description="The day on which it was written, such as `2026-11-29`."
    )
    step: int = Field(ge=0, description="The step at which runs were when it was written.")


DatedRemark = Annotated[Remark | None, BeforeValidator(lambda value: value if value is None else _remark(value))]


class ClaimText(Frozen):
    id: str
    says: str
    answers: VerdictWords = later(VerdictWords())
    """The author's own sentences."""


class PageCard(AnalysisCard):
    SCHEMA: ClassVar[str] = "octavo.page_card/1"

    title: str
    question: str
    owner: str
    tags: tuple[str, ...]
    spec: str
    """Path of the spec file."""
    prose: ProjectPath | None
    """Path of the author's interpretation, a Markdown file with references; null when there is none."""
    cited: tuple[str, ...] = later(())
    """Other experiments whose findings the interpretation names."""
    profile: str | None
    """Name of the spec profile; null for the experiment proper."""
    evidence: bool = later(False)
    """Of a profile: whether its numbers decide something. The page of one that does not says so."""
    health_profile: str
    claims: tuple[ClaimText, ...]
    evaluation: tuple[str, ...]
    curves: tuple[str, ...]
    parent: str | None = None
    """Experiment that this one changes."""
    changes: tuple[ChangeWords, ...] = ()
    """The whole difference to the parent, or of two profiles of one name."""
    changed_from: str = ""
    """Name of what `before` is of, where it is not the parent itself: its profile of the same name."""
    because: dict[str, tuple[str, ...]] = {}
    """Condition -> why each example of its reward earns what it does, in the spec's order. Words are not on the cards of stages."""
    compared: tuple[ComparedWith, ...] = later(())
    """Other experiments that this one is compared with, beside its parent."""
    unavailable: tuple[str, ...] = ()
    """Of imported runs: metrics that the source does not have, as the author says."""
    hypothesis: str = ""
    """What the changes were expected to do."""
    questions: tuple[Question, ...] = ()
    """What the page is asked, in the spec's order."""
    actions: tuple[Action, ...] = ()
    contingency: tuple[Contingency, ...] = ()
    layout: PageLayout = later(PageLayout())
    hypotheses: dict[str, str] = {}
    """Condition -> what its author expects it to do."""
    run_pages: bool = later(False)
    """Whether every run has a page of its own."""
    places: str = ""
    """Digest of where the spec writes each value (stages/contracts/lineage.py), without lines: pages show it."""
    status: Remark | None = None
    decision: Remark | None = None
    progress: Progress | None = later(None)
    """Of a page that is written while runs go on: how far each is."""
    judged: tuple[Judgement, ...] = ()
    """Changes of octavo's code that a person judged to change no result of this experiment's stages, oldest first."""

    @property
    def is_small(self) -> bool:
        """Whether this is a profile that only shows that every part works."""
        return self.profile is not None and not self.evidence
