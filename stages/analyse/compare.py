"""Stage `compare`: experiments beside their parents, and beside those that their specs name.

    python -m stages.analyse.compare runs

Reads pages' cards, and of each pair the cards, findings and curves; writes build/comparisons/<experiment>/<other>/. The seeds of two
experiments are two independent groups, so the interval of a difference is Welch's, also where seeds have the same numbers: a seed decides
the order of prompts and the first samples, and with other settings two runs share nothing after their first step. A profile is compared
with the other experiment's profile of the same name.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from stages.analyse import picture, plots
from stages.analyse.findings import values_of
from stages.analyse.frames import read_if_there
from stages.analyse.lines import points_shown, thinned
from stages.analyse.statistics import Interval, detectable, estimate
from stages.contracts.algorithms import AnyTrainCard
from stages.contracts.analysis_card import ConcludeCard
from stages.contracts.artifact import dump, read
from stages.contracts.comparison import Comparison, Moved, Row
from stages.contracts.evaluation import EvaluateCard, evaluation_differences, same_scores
from stages.contracts.figure import Figure
from stages.contracts.files import check_folder, file_digest, write_text
from stages.contracts.finding import Finding, Findings, SeedValue, Source
from stages.contracts.history import POLICY_LOSSES, REWARD_UNITS, Metric, metric_title
from stages.contracts.history import metric as known_metric
from stages.contracts.import_card import ImportCard
from stages.contracts.layout import BUILD, COMPARISONS, ExperimentFolder
from stages.contracts.page_card import ChangeWords, PageCard
from stages.contracts.run_card import TrainCard
from stages.contracts.stage import main, print_text

Better = Literal["higher", "lower", ""]
_LOWER = {"zero_signal_share", "truncated", "unknown_share", "invalid_logits", "skipped"}
"""Metrics of which less is better, whatever the experiment is about."""
_CURVES = (
    "One panel a condition. Thin lines are seeds, thick ones the mean over the included seeds; dashed seeds do not count. Each experiment "
    "has one colour."
)


@dataclass(frozen=True)
class Side:
    """One of two experiments."""

    folder: ExperimentFolder
    card: ConcludeCard
    conclusions: Findings
    evaluate: EvaluateCard | None

    @property
    def name(self) -> str:
        return self.folder.name

    @cached_property
    def findings(self) -> dict[str, Finding]:
        return {finding.id: finding for finding in self.conclusions.findings}

    @cached_property
    def trained(self) -> dict[str, list[TrainCard[Any] | ImportCard]]:
        """Condition -> the cards of its runs that are there, in their order."""
        cards: dict[str, list[TrainCard[Any] | ImportCard]] = {own.name: [] for own in self.card.conditions}
        for run in self.card.runs:
            place = self.folder.run(run.name)
            own = (read_if_there(AnyTrainCard, place.card), read_if_there(ImportCard, place.import_card))
            cards[run.condition] += [card for card in own if card is not None]
        return cards

    def settings(self, condition: str) -> list[object]:
        """The cards of a condition's runs without the names that every experiment has its own of."""
        return [card.model_dump(exclude={"experiment", "code"}) for card in self.trained[condition]]

    def is_imported(self, condition: str) -> bool:
        return any(isinstance(card, ImportCard) for card in self.trained[condition])

    def reward(self, condition: str) -> object:
        """What a condition pays. Of runs that octavo did not train only its name is known."""
        own = next(card for card in self.card.conditions if card.name == condition)
        first = next(iter(self.trained[condition]), None)
        reward = first.reward if isinstance(first, TrainCard) else None
        return own.reward if reward is None else reward.model_copy(update={"name": "", "examples": ()})


@dataclass(frozen=True)
class Pair:
    """`after` is compared with `before`."""

    before: Side
    after: Side

    @cached_property
    def shared(self) -> list[str]:
        """Conditions that both have and that learn from the same kind of data."""
        others = {condition.name: condition.supervised for condition in self.before.card.conditions}
        return [own.name for own in self.after.card.conditions if others.get(own.name) == own.supervised]

    @cached_property
    def same(self) -> set[str]:
        """Conditions, and `untrained`, of which nothing differs."""
        same = {name for name in self.shared if (own := self.after.settings(name)) and own == self.before.settings(name)}
        models = [side.evaluate and (side.evaluate.model, side.evaluate.seed) for side in (self.before, self.after)]
        return same | ({"untrained"} if models[0] == models[1] else set())

    @cached_property
    def scores(self) -> tuple[str, ...]:
        return same_scores(self.before.evaluate, self.after.evaluate)

    @cached_property
    def same_rewards(self) -> set[str]:
        return {name for name in self.shared if self.before.reward(name) == self.after.reward(name)}

    def is_comparable(self, condition: str, metric: str) -> bool:
        """Whether a metric is the same measure in both."""
        if self.before.card.derived.get(metric) != self.after.card.derived.get(metric):
            return False
        if metric.startswith("evaluation."):
            return metric.split(".")[1] in self.scores
        of_reward = metric.startswith(("gate.", "penalty.")) or meaning(metric).unit in REWARD_UNITS
        return condition in self.same_rewards or not of_reward

    def bounds(self, condition: str, metric: str) -> tuple[float | None, float | None]:
        """What a value lies between by definition, as far as both know it."""
        if metric != "reward":
            return meaning(metric).bounds
        if any(side.is_imported(condition) for side in (self.before, self.after)):
            return (None, None)
        return self.after.card.reward_ranges.get(condition, (0.0, 1.0))

    def better(self, condition: str, metric: str) -> Better:
        """The side that a claim or an expectation of the condition names in either experiment, or that the metric itself has."""
        sides = set()
        for card in (self.before.card, self.after.card):
            sides |= {claim.direction for claim in card.claims if claim.metric == metric and claim.sides[0] == condition}
            for expected in card.expectations:
                if expected.metric == metric and condition in expected.conditions:
                    sides |= {side for side in ("above", "below") if getattr(expected, side) is not None}
        if sides:
            return "" if len(sides) > 1 else "higher" if "above" in sides else "lower"
        if metric in _LOWER or metric.endswith(".unknown_share"):
            return "lower"
        is_higher = metric == "reward" or metric.endswith((".pass_share", ".score"))
        return "higher" if is_higher and condition != "untrained" else ""

    def left_out(self) -> Iterator[str]:
        """What is not compared, and why."""
        names = [[condition.name for condition in side.card.conditions] for side in (self.before, self.after)]
        for own, others, side in ((names[0], names[1], self.before), (names[1], names[0], self.after)):
            if alone := [name for name in own if name not in others]:
                yield f"{', '.join(alone)}: only {side.name} has it"
        if rewards := [name for name in self.shared if name not in self.same_rewards]:
            yield f"rewards and gates of {', '.join(rewards)}: the two experiments pay otherwise"
        if self.before.evaluate and self.after.evaluate:
            for score in self.before.evaluate.names:
                if score in self.after.evaluate.names and score not in self.scores:
                    differing = evaluation_differences(self.before.evaluate, self.after.evaluate, score)
                    yield f"{score}: it is evaluated otherwise ({', '.join(differing)})"
        if same := [name for name in (*self.shared, "untrained") if name in self.same]:
            yield f"{', '.join(same)}: nothing that changes a result differs"


def meaning(name: str) -> Metric:
    """What a metric is; one that octavo does not know has no unit."""
    return known_metric(name) or Metric(name, "", (), name, name)


def compare(runs: Path) -> None:
    """Write every comparison, and remove those of before."""
    check_folder(BUILD)
    shutil.rmtree(COMPARISONS, ignore_errors=True)
    COMPARISONS.mkdir(parents=True)
    sides = {side.name: side for path in sorted(runs.glob("*/analysis/findings.json")) if (side := _side(path.parents[1]))}
    for name in sides:
        card = read(PageCard, ExperimentFolder(runs / name).page_card)
        others = {card.parent: card.changes} if card.parent else {}
        for other, changes in ({each.experiment: each.changes for each in card.compared} | others).items():
            before = sides.get(f"{other}@{card.profile}" if card.profile else other)
            if before is not None and before.name != name:
                _write(Pair(before, sides[name]), changes)


def _side(root: Path) -> Side | None:
    """None where the experiment has no page: nothing would show it."""
    folder = ExperimentFolder(root)
    if not folder.page_card.exists() or not folder.conclude_card.exists():
        return None
    evaluate = read_if_there(EvaluateCard, folder.evaluate_card)
    return Side(folder, read(ConcludeCard, folder.conclude_card), read(Findings, folder.findings), evaluate)


def _write(pair: Pair, changes: tuple[ChangeWords, ...]) -> None:
    folder, own = COMPARISONS / pair.after.name / pair.before.name, {"experiment": pair.after.name, "other": pair.before.name}
    comparison = Comparison(**own, rows=tuple(_rows(pair)), changes=changes, left_out=tuple(pair.left_out()))
    write_text(folder / "comparison.json", dump(comparison))
    for figure, canvas, table in _curves(pair):
        texts = {"svg": picture.svg(canvas, figure.name, figure.alternative), "csv": table.to_csv(index=False, lineterminator="\n")}
        for ending, text in (texts | {"json": dump(figure)}).items():
            write_text(folder / f"{figure.name}.{ending}", text)
    counts = {moved: sum(row.moved == moved for row in comparison.rows) for moved in ("gained", "lost", "undecided")}
    print_text(f"compare: {pair.after.name} with {pair.before.name}: {', '.join(f'{n} {moved}' for moved, n in counts.items())}")


def _rows(pair: Pair) -> Iterator[Row]:
    """Every metric at the end of training that both experiments measured alike, by condition."""
    for id_, after in pair.after.findings.items():
        before = pair.before.findings.get(id_)
        is_measured = known_metric(after.metric) is not None or after.metric in pair.after.card.metrics  # counts of gates are none
        if before is None or after.statistic != "final" or after.subject not in (*pair.shared, "untrained") or not is_measured:
            continue
        if after.value is None or before.value is None or not pair.is_comparable(after.subject, after.metric):
            continue
        difference = _difference(pair, before, after)
        better = pair.better(after.subject, after.metric)
        yield Row(
            condition=after.subject,
            metric=after.metric,
            before=_named(pair.before.name, before),
            after=_named(pair.after.name, after),
            difference=difference,
            better=better,
            moved="same" if after.subject in pair.same or _is_equal(difference) else _moved(difference, better),
        )


def _difference(pair: Pair, before: Finding, after: Finding) -> Finding:
    """`after` minus `before`: Welch's interval over the seeds that count. Equal seeds leave the intervals of their completions, which are
    combined as Zou and Donner (2008) have it."""
    groups, level = [values_of(after.seeds), values_of(before.seeds)], pair.after.card.level
    if all(groups):
        least, most = pair.bounds(after.subject, after.metric)
        apart = None if least is None or most is None else most - least
        scale = max(abs(value) for group in groups for value in group)
        interval = estimate(groups, level, scale, (None if apart is None else -apart, apart))
    else:
        interval = Interval((after.value or 0.0) - (before.value or 0.0), None, None, min(after.n or 0, before.n or 0), "", equal=True)
    if interval.equal and None not in (before.low, before.high, after.low, after.high):
        below = math.hypot((after.value or 0.0) - (after.low or 0.0), (before.high or 0.0) - (before.value or 0.0))
        above = math.hypot((after.high or 0.0) - (after.value or 0.0), (before.value or 0.0) - (before.low or 0.0))
        method = f"the intervals of the two numbers, combined ({after.method}; {before.method})"
        interval = interval._replace(low=interval.value - below, high=interval.value + above, method=method)
    seeds = [*after.seeds, *(_seed(pair.before.name, seed) for seed in before.seeds)]
    return Finding(
        id=f"{after.subject}-vs-{pair.before.name}:{after.id}",
        says=f"{after.says}, minus the same of {pair.before.name}",
        subject=f"{after.subject}-vs-{pair.before.name}:{before.subject}",
        metric=after.metric,
        statistic="difference",
        unit=after.unit,
        value=interval.value,
        low=interval.low,
        high=interval.high,
        level=None if interval.low is None else level,
        method=interval.method or "there is no interval of both numbers",
        n=interval.n,
        window=after.window,
        seeds=tuple(seeds),
        sources=(*after.sources, *before.sources),
        equal_seeds=interval.equal and all(groups),
        detectable=detectable(groups, level) if all(groups) and not interval.equal else None,
    )


def _named(experiment: str, finding: Finding) -> Finding:
    return finding.model_copy(update={"id": f"{experiment}:{finding.id}", "says": f"{finding.says}; experiment {experiment}"})


def _seed(experiment: str, seed: SeedValue) -> SeedValue:
    return seed.model_copy(update={"run": f"{experiment}:{seed.run}"})


def _is_equal(difference: Finding) -> bool:
    """Whether every seed of both has the same number."""
    return difference.value == 0.0 and difference.equal_seeds and difference.low is None


def _moved(difference: Finding, better: Better) -> Moved:
    low, high = difference.low, difference.high
    if low is None or high is None or low <= 0 <= high:
        return "undecided"
    side: Literal["higher", "lower"] = "higher" if low > 0 else "lower"
    if not better or difference.metric in POLICY_LOSSES:
        return side
    return "gained" if side == better else "lost"


def _curves(pair: Pair) -> Iterator[tuple[Figure, object, pd.DataFrame]]:
    """A figure a metric that both experiments logged, with a panel a condition and a colour an experiment."""
    colours = {pair.before.name: picture.PALETTE[0], pair.after.name: picture.PALETTE[1]}
    names = [{path.stem for path in side.folder.figures.glob("curves-*.csv")} for side in (pair.before, pair.after)]
    both, runs = names[0] & names[1], len(pair.before.card.runs) + len(pair.after.card.runs)
    shown = points_shown(len(both), runs, 2 * len(pair.shared))
    for name in sorted(both):
        metric = name.removeprefix("curves-")
        conditions = [condition for condition in pair.shared if pair.is_comparable(condition, metric)]
        paths = [side.folder.figures / f"{name}.csv" for side in (pair.before, pair.after)]
        tables = [_table(path, side.name) for path, side in zip(paths, (pair.before, pair.after), strict=True)]
        table = pd.concat([rows[rows["condition"].isin(conditions)] for rows in tables], ignore_index=True)
        points = table[table["part"].notna()]
        logged = [condition for condition in conditions if condition in set(points["condition"])]
        lines = points.assign(condition=points["experiment"] + " " + points["condition"])
        panels = [(f"{pair.before.name} {each}", f"{pair.after.name} {each}") for each in logged]
        if not panels:
            continue
        title, unit = metric_title(metric), meaning(metric)
        figure = Figure(
            name=name,
            title=title[:1].upper() + title[1:],
            caption=_CURVES,
            alternative=f"Line chart of {title} over training steps in {pair.before.name} and {pair.after.name}.",
            sources=tuple(Source(path=path.as_posix(), sha256=file_digest(path)) for path in paths),
            panels=tuple(panels),
        )
        by_line = {condition: colours[condition.partition(" ")[0]] for panel in panels for condition in panel}
        last = int(lines["step"].max())
        canvas = plots.curve(figure, unit.unit, _thinned(lines, shown), by_line, last, share=unit.share, legend=colours, titles=logged)
        yield figure, canvas, table.drop(columns="included")


def _thinned(lines: pd.DataFrame, shown: tuple[int, int]) -> pd.DataFrame:
    """`shown`: most points of a run's and of a mean's line."""
    each = [
        (rows.set_index("step")["value"], rows, shown[run == "mean"]) for (_, run), rows in lines.groupby(["condition", "run"], sort=False)
    ]
    return pd.concat([rows[rows["step"].isin(thinned(values, most).index)] for values, rows, most in each])


def _table(path: Path, experiment: str) -> pd.DataFrame:
    """Points of one experiment's curve; a run that counts has points that count."""
    table = pd.read_csv(path, keep_default_na=False, dtype={"run": str, "condition": str, "state": str, "unit": str, "counts": str})
    numbers = {name: pd.to_numeric(table[name], errors="coerce") for name in ("value", "part")}
    table = table.assign(value=numbers["value"], part=numbers["part"].astype("Int64"), experiment=experiment)
    return table.assign(included=(table["counts"] == "true").groupby([table["condition"], table["run"]]).transform("any"))


if __name__ == "__main__":
    main(compare, "python -m stages.analyse.compare runs")
