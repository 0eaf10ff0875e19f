"""Stage `draw`: the figures of an experiment, each as picture (SVG), numbers (CSV) and words (JSON).

    python -m stages.analyse.draw runs/<experiment>

Reads the cards of draw and of conclude (expectations and stop rules), findings, each run's history and health; writes
analysis/figures/<name>.{svg,csv,json} for `curves-<metric>`, `evaluation-<score>` and `funnel-<condition>`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from stages.analyse import picture, plots
from stages.analyse.cells import NOT_FINITE, NULL
from stages.analyse.frames import Run, read_if_there, read_run, window_ending
from stages.analyse.lines import line_parts, points_shown, thinned
from stages.contracts.analysis_card import ConcludeCard, DrawCard
from stages.contracts.artifact import dump, read
from stages.contracts.expressions import comparisons
from stages.contracts.figure import Figure, Limit, Mark
from stages.contracts.files import file_digest, write_text
from stages.contracts.finding import Finding, Findings, Source
from stages.contracts.health import Health
from stages.contracts.history import REWARD_UNITS, metric, metric_title
from stages.contracts.layout import ExperimentFolder
from stages.contracts.stage import main, open_card
from stages.rules import bound_text, rule_text, stretch

MODULES = ("stages.analyse.draw",)
POINTS, ALL_POINTS = 500, 20_000
"""Most points of a line in a table, and of all lines of a table together. Longer lines are thinned and keep their extremes."""
_CURVES = (
    "One colour a condition. Thin lines are seeds, thick ones the mean over the included seeds; dashed seeds are left out by a health "
    "gate or failed. Lines break where nothing was logged. A strip of strokes marks steps of a run whose gradient was not finite, a dotted "
    "vertical line the start of another attempt, a triangle the onset of a collapse, a square the step at which a rule stopped a run. A "
    "shaded bar is an expectation of its condition over the steps that are scored, a line of dashes and dots the limit of a stop rule. "
    "Conditions with different rewards have panels of their own."
)
_EVALUATION = (
    "Share of held-out completions that pass, or their mean score, after training. Dots are seeds (rings: left out), the upright bar is "
    "the mean of the included seeds and the horizontal line its interval. The dashed line is the untrained model, with its Wilson interval "
    "as a band."
)
_MEASURES = {"pass_share": "Share of held-out completions that pass", "score": "Mean score on held-out completions by"}
_FUNNEL = (
    "Gates of the reward in order. A bar is all completions: those that passed the gate, failed it, got no known answer, and (empty) "
    "those that an earlier gate had already decided. Before: preflight, the untrained model. End: the last window of training, included "
    "runs pooled."
)
_SPACES = str.maketrans("_-", "  ")
_Drawing = tuple[Figure, Any, pd.DataFrame]


class Experiment:
    """What the figures are drawn from: findings, and of each run its thinned curves, its marks and its source."""

    def __init__(self, folder: ExperimentFolder, card: DrawCard) -> None:
        self.card = card
        self.colours = {condition.name: picture.PALETTE[at % len(picture.PALETTE)] for at, condition in enumerate(card.conditions)}
        self.limits = list(_limits(read(ConcludeCard, folder.conclude_card)))
        self.findings = {finding.id: finding for finding in read(Findings, folder.findings).findings}
        self.source = Source(path=folder.findings.as_posix(), sha256=file_digest(folder.findings))
        self.last_step = max((run.target_steps for run in card.runs), default=1)
        self.points = min(POINTS, ALL_POINTS // max(1, len(card.runs)))
        self.shown, self.shown_of_means = points_shown(len(card.curves), len(card.runs), len(card.conditions))
        self.sources: list[Source] = []
        self.marks: dict[str, list[Mark]] = {name: [] for name in card.curves}
        self.cells: dict[str, list[pd.DataFrame]] = {name: [] for name in card.curves}
        self.lines: list[tuple[str, str, int | None, bool]] = []
        """Condition, run, seed and whether it is included, of every line."""
        self.whole: dict[tuple[str, str], list[pd.Series]] = {}
        """By metric and condition: the values of its included runs; their mean is drawn."""
        self.is_read = any(folder.run(ref.name).imported.exists() for ref in card.runs)
        conditions = {condition.name: condition for condition in card.conditions}
        for ref in card.runs:
            place = folder.run(ref.name)
            run, health = read_run(place, ref, conditions[ref.condition], (), card.derived), read_if_there(Health, place.health)
            self.last_step = max(self.last_step, run.last_step)
            if run.card_id is not None:
                self.sources.append(Source(path=place.history.as_posix(), sha256=file_digest(place.history), attempt=run.attempt))
            marks, included = _marks(run, health), health is not None and health.included
            for name in card.curves:
                self.marks[name] += [mark for metric_, mark in marks if metric_ in ("", name)]
                self._add(name, run, ref.seed, included=included)

    def _add(self, name: str, run: Run, seed: int, *, included: bool) -> None:
        cells = run.logged(name)
        if cells.empty:
            return
        steps, values = cells.index.to_numpy(), cells.to_numpy(dtype=float)
        is_drawn = np.isfinite(values) & ~np.isin(steps, run.bad_steps)
        drawn = cells[is_drawn]
        if included and len(drawn):
            self.whole.setdefault((name, run.condition), []).append(drawn)
        parts = np.full(len(steps), -1)
        parts[is_drawn] = line_parts(drawn.index)
        thin = thinned(drawn, self.points)
        if len(steps) > self.points:
            kept = np.isin(steps, thin.index)
            steps, values, parts = steps[kept], values[kept], parts[kept]
        counts = included & (parts >= 0) & (steps < (np.inf if run.since is None else run.since))
        state = np.select([values == NOT_FINITE, values == NULL], [1, 2], 0)
        own = {"line": len(self.lines), "step": steps, "value": np.where(state, np.nan, values), "state": state, "counts": counts}
        self.cells[name].append(pd.DataFrame(own | {"part": parts, "drawn": np.isin(steps, thinned(thin, self.shown).index)}))
        self.lines.append((run.condition, run.name, seed, included))

    def add_means(self, name: str) -> None:
        """The line of each condition's mean, over the steps that all its included runs have."""
        for condition in self.colours:
            if runs := self.whole.get((name, condition)):
                whole = pd.concat(runs, axis=1, join="inner").sort_index().mean(axis=1)
                mean, parts = thinned(whole, self.points), pd.Series(line_parts(whole.index), whole.index)
                own = {"line": len(self.lines), "step": mean.index, "value": mean.to_numpy(), "state": 0, "counts": True}
                drawn = mean.index.isin(thinned(mean, self.shown_of_means).index)
                self.cells[name].append(pd.DataFrame(own | {"part": parts[mean.index].to_numpy(), "drawn": drawn}))
                self.lines.append((condition, "mean", None, True))

    def table(self, name: str, unit: str) -> pd.DataFrame:
        """One row a step of each line of a metric: the columns of the file, and `included` and `drawn`."""
        cells = pd.concat([*self.cells[name], pd.DataFrame(columns=["line", "step", "value", "state", "counts", "part", "drawn"])])
        lines = pd.DataFrame(self.lines, columns=["condition", "run", "seed", "included"]).astype({"seed": "Int64"})
        table = lines.iloc[cells["line"].to_numpy(dtype=int)].reset_index(drop=True)
        table = table.assign(metric=name, unit=unit, **{column: cells[column].to_numpy() for column in ("step", "value")})
        table["state"] = np.array(["value", "nonfinite", "null"])[cells["state"].to_numpy(dtype=int)]
        table["counts"] = np.where(cells["counts"].to_numpy(dtype=bool), "true", "false")
        parts = cells["part"].astype("Int64")
        return table.assign(part=parts.where(parts >= 0).to_numpy(), drawn=cells["drawn"].to_numpy(dtype=bool))

    def known(self, *ids: str) -> list[Finding]:
        """Those of the findings that there are."""
        return [self.findings[id_] for id_ in ids if id_ in self.findings]


def _limits(card: ConcludeCard) -> Iterator[tuple[str, Limit]]:
    """(metric, limit) of each expectation, and of each comparison of a metric itself by which a rule stops runs."""
    targets = pd.Series({run.condition: run.target_steps for run in card.runs})
    for expected in card.expectations:
        for condition in (name for name in expected.conditions if name in targets):
            window = window_ending(expected, int(targets[condition]), card.windows)
            bounds = {side: bound for side in ("above", "below") if (bound := getattr(expected, side)) is not None}
            words = " and ".join(f"{side} {bound_text(bound)}" for side, bound in bounds.items())
            own = {"condition": condition, "first": window.first, "last": window.last, **bounds}
            yield expected.metric, Limit(kind="expected", says=f"{condition}: expected {words}, {window}", **own)
    for condition, stop in card.stops.items():
        for rule in stop.rules:
            for leaf in (leaf for leaf in comparisons(rule.when) if leaf.slope is None):
                side = "above" if leaf.sign in (">", ">=") else "below"
                own = {"condition": condition, "first": rule.earliest, "last": int(targets[condition]), side: leaf.value}
                yield leaf.metric, Limit(kind="stops", says=f"{condition}: {rule.id.translate(_SPACES)}, {rule_text(rule)}", **own)


def _marks(run: Run, health: Health | None) -> list[tuple[str, Mark]]:
    """What is marked along the steps, each with its metric; "" on every curve."""
    spans: list[tuple[str, Any, int, int, str]] = []
    for _, part in run.bad_steps.to_series().groupby(run.bad_steps - np.arange(len(run.bad_steps))):
        first, last = int(part.iloc[0]), int(part.iloc[-1])
        spans.append(("", "not_finite", first, last, f"gradient not finite, {stretch(first, last)}"))
    spans += [("", "attempt", resume.first, resume.first, f"another attempt from step {resume.first}") for resume in run.resumes]
    if health is not None and health.stopped is not None:
        step = health.stopped.step
        spans.append(("", "stopped", step, step, f"stopped by {health.stopped.rule} at step {step}"))
    for signal in (signal for detection in (health.detections if health else ()) for signal in detection.signals):
        if signal.detector == "collapse" and signal.severity != "info" and signal.onset:
            spans.append((signal.metric, "collapse", signal.onset, signal.onset, f"collapse from step {signal.onset}"))
    return [(name, Mark(run=run.name, kind=kind, first=a, last=b, says=f"{run.name}: {says}")) for name, kind, a, b, says in spans]


def draw(folder: Path) -> None:
    """Write all figures, and remove what an older version left in their folder."""
    experiment = ExperimentFolder(folder)
    drawn = Experiment(experiment, open_card(DrawCard, experiment.draw_card, MODULES))
    written = set()
    for figure, canvas, table in (*_curves(drawn), *_evaluations(drawn), *_funnels(drawn)):
        svg = picture.svg(canvas, figure.name, figure.alternative)
        texts = {"svg": svg, "csv": table.to_csv(index=False, lineterminator="\n"), "json": dump(figure)}
        for ending, text in texts.items():
            path = experiment.figures / f"{figure.name}.{ending}"
            write_text(path, text)
            written.add(path)
    for old in set(experiment.figures.glob("*")) - written:
        old.unlink()


def _curves(experiment: Experiment) -> Iterator[_Drawing]:
    """A curve a metric. Of logs that were read, those that no run holds are left out, unless all are: a preset maps what they may lack."""
    held = [name for name in experiment.card.curves if experiment.cells[name]]
    for name in held if held and experiment.is_read else experiment.card.curves:
        meaning, text = metric(name), metric_title(name)
        unit, share = (meaning.unit, meaning.share) if meaning else ("", False)
        experiment.add_means(name)
        table = experiment.table(name, unit)
        finals = experiment.known(*(f"{condition}/{name}/final" for condition in experiment.colours))
        values = ", ".join(f"{finding.subject} {picture.number(finding.value)}" for finding in finals if finding.value is not None)
        ending = f" In the final window: {values}." if values else "" if len(table) else " It was not logged."
        several = dict.fromkeys(condition.reward for condition in experiment.card.conditions)
        panels = [tuple(c.name for c in experiment.card.conditions if c.reward == reward) for reward in several]
        figure = Figure(
            name=f"curves-{name}",
            title=text[:1].upper() + text[1:],
            caption=_CURVES,
            alternative=f"Line chart of {text} over training steps.{ending}",
            findings=tuple(finding.id for finding in finals),
            sources=tuple(experiment.sources),
            marks=tuple(experiment.marks[name]),
            limits=tuple(limit for metric_, limit in experiment.limits if metric_ == name),
            panels=tuple(panels) if unit in REWARD_UNITS and len(panels) > 1 else (),
        )
        soft = " \u00b7 ".join(filter(None, [name if name != text else "", unit if unit not in (name, "share", "norm") else ""]))
        lines = table[table["drawn"]]
        columns = ["metric", "unit", "condition", "run", "seed", "step", "value", "state", "counts", "part"]
        yield figure, plots.curve(figure, soft, lines, experiment.colours, experiment.last_step, share=share), table[columns]


def _evaluations(experiment: Experiment) -> Iterator[_Drawing]:
    for score, measure in _measures(experiment):
        known = experiment.known(*(f"{own}/evaluation.{score}.{measure}/final" for own in ("untrained", *experiment.colours)))
        findings = [finding for finding in known if finding.subject != "untrained" or finding.value is not None]
        rows: list[tuple[Any, ...]] = []
        words = []
        for finding in findings:
            ends, untrained = (finding.value, finding.low, finding.high), finding.subject == "untrained"
            subject = (None, "untrained", None) if untrained else (finding.subject, "mean", None)
            rows.append((*subject, *ends, None if untrained else "true", finding.method))
            for seed in finding.seeds:
                rows.append((finding.subject, seed.run, seed.seed, seed.value, None, None, str(seed.included).lower(), seed.why or None))
            value, *interval = (picture.share(end) for end in ends if end is not None) if finding.value is not None else ("",)
            if value:
                words.append(f"{finding.subject} {value}" + (f" (interval {' to '.join(interval)})" if interval else ""))
        figure = Figure(
            name=f"evaluation-{score}" + ("-score" if measure == "score" else ""),
            title=f"Shared evaluation: {score}" + (", mean score" if measure == "score" else ""),
            caption=_EVALUATION,
            alternative=f"{_MEASURES[measure]} {score}, by condition: {', '.join(words) or 'no values'}.",
            findings=tuple(finding.id for finding in findings),
            sources=(experiment.source,),
        )
        columns = ["condition", "run", "seed", "mean_score" if measure == "score" else measure, "low", "high", "counts", "method"]
        table = pd.DataFrame(rows, columns=columns).astype({"seed": "Int64"})
        table.insert(0, "score", score)
        soft = "mean score" if measure == "score" else "share that passes"
        yield figure, plots.evaluation(score, soft, findings, experiment.colours), table


def _measures(experiment: Experiment) -> Iterator[tuple[str, str]]:
    """Scores with what is drawn of them: of one that gives partial credit, so that its mean is not its pass share, the mean too."""
    for score in experiment.card.evaluation:
        yield score, "pass_share"
        for own in ("untrained", *experiment.colours):
            share, mean = (experiment.findings.get(f"{own}/evaluation.{score}.{measure}/final") for measure in ("pass_share", "score"))
            if share and mean and share.value is not None and mean.value is not None and not np.isclose(share.value, mean.value, atol=1e-9):
                yield score, "score"
                break


def _funnels(experiment: Experiment) -> Iterator[_Drawing]:
    for condition in (condition for condition in experiment.card.conditions if condition.gates):
        rows, ids = [], list[str]()
        for gate, stage in ((gate, stage) for gate in condition.gates for stage in plots.STAGES):
            own = {part: f"{condition.name}/gate.{gate}.{part}/{stage}" for part in ("reach", *picture.STATES)}
            findings = experiment.known(*own.values())
            if findings and (n := findings[0].n):
                ids += own.values()
                counts = zip(own, (finding.k or 0 for finding in findings), strict=True)
                rows += [(condition.name, gate, stage, part, k, n, k / n) for part, k in counts]
        table = pd.DataFrame(rows, columns=["condition", "gate", "stage", "outcome", "completions", "of", "share_of_all"])
        passed = table[table["outcome"] == "pass"].itertuples()
        text = "; ".join(f"gate {row.gate}, {plots.STAGES[row.stage]}: {row.share_of_all:.0%} passed" for row in passed)
        figure = Figure(
            name=f"funnel-{condition.name}",
            title=f"Gates of {condition.name}",
            caption=_FUNNEL,
            alternative=f"What the reward gates of {condition.name} said of the completions. {text or 'Nothing was counted'}.",
            findings=tuple(ids),
            sources=(experiment.source,),
        )
        yield figure, plots.funnel(condition.name, condition.gates, table, experiment.colours[condition.name]), table


if __name__ == "__main__":
    main(draw, "python -m stages.analyse.draw runs/<experiment>")
