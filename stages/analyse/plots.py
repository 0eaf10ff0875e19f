"""The three plots: curves over steps, the shared evaluation, and what gates said of completions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from stages.analyse import picture
from stages.analyse.picture import SOFT, STATES, TEXT, WIDTH
from stages.contracts.figure import Figure, Limit, Mark
from stages.contracts.finding import Finding

_PLOT, _PANEL = (132, 0), (64, 18)
"""Height of the plot of a curve, and of what stands above it: the only plot of a figure, and one of several."""
STAGES = {"preflight": "before", "final": "end"}


def curve(
    figure: Figure,
    soft: str,
    lines: pd.DataFrame,
    colours: Mapping[str, str],
    last_step: int,
    *,
    share: bool,
    legend: Mapping[str, str] | None = None,
    titles: Sequence[str] = (),
) -> Any:
    """`lines`: one row a point, with `condition`, `run` (`mean`: of a condition), `included`, `step`, `value` and `part`. `colours` by
    condition; `legend`: names and colours that stand for them; `titles` of the panels, where they are not their conditions."""
    legend = legend or colours
    names = [picture.shorten(name, WIDTH - 40) for name in legend]
    columns = max(1, min(4, int(WIDTH / (40 + 7 * max(map(len, names), default=0)))))
    panels = figure.panels or (tuple(colours),)
    top, (plot, apart) = 29 + 17 * -(-len(legend) // columns), (_PANEL if len(panels) > 1 else _PLOT)
    height = top + len(panels) * (plot + apart) + 21
    canvas = picture.figure(height, figure.title, soft)
    handles = [Line2D([], [], color=colour, lw=2.6) for colour in legend.values()]
    canvas.legend(handles, names, loc="upper left", bbox_to_anchor=(0, 1 - 20 / height), ncols=columns)
    cut = False
    for place, conditions in enumerate(panels):
        above = top + place * (plot + apart) + apart
        axes = picture.axes(canvas, 42, above, 6, height - above - plot)
        _steps(axes, last_step, labels=place == len(panels) - 1)
        if len(panels) > 1:
            axes.yaxis.set_major_locator(MaxNLocator(2, steps=(1, 2, 5, 10)))
            words = picture.shorten(titles[place] if titles else ", ".join(conditions), WIDTH - 48)
            canvas.text(42 / WIDTH, 1 - (above - 5) / height, words, size=11, alpha=SOFT)
        cut |= _panel(axes, figure, lines[lines["condition"].isin(conditions)], colours, conditions, share=share)
    if cut:
        canvas.text(1, 1 - 13 / height, "cut at the edge: see the table", ha="right", alpha=SOFT)
    return canvas


def _steps(axes: Any, last_step: int, *, labels: bool) -> None:
    axes.set_xlim(1, max(2, last_step))
    apart = last_step / 9
    ticks = [tick for tick in axes.get_xticks() if 1 + apart < tick < last_step - 1.6 * apart]
    words = ["1", *(f"{tick:.0f}" for tick in ticks), f"step {last_step}"] if labels else [""] * (len(ticks) + 2)
    axes.set_xticks([1, *ticks, last_step], words, alpha=SOFT)
    axes.get_xticklabels()[-1].set_ha("right")


def _panel(axes: Any, figure: Figure, lines: pd.DataFrame, colours: Mapping[str, str], conditions: Sequence[str], *, share: bool) -> bool:
    """Draw the lines, limits and marks of some conditions on one pair of axes; whether values lie outside of it."""
    limits = [limit for limit in figure.limits if limit.condition in conditions]
    low, high, cut = _domain(lines["value"], [bound for limit in limits for bound in limit.bounds], share=share)
    axes.set_ylim(low, high)
    axes.grid(axis="y")
    axes.yaxis.set_major_formatter(lambda value, _: picture.number(value))
    if lines.empty:
        axes.text(0.5, 0.5, "not logged", transform=axes.transAxes, ha="center", alpha=SOFT)
        return False
    for limit in limits:
        _limit(axes, limit, colours[limit.condition], (low, high))
    drawn = {}
    for (condition, run, included), points in lines.groupby(["condition", "run", "included"], sort=False):
        values, name = points.set_index("step")["value"], f"{condition}: mean" if run == "mean" else run
        drawn[run] = (colours[condition], values)
        style = {"lw": 1, "alpha": 0.55} if included else {"lw": 1, "alpha": 0.7, "dashes": (3, 3)}
        style = {"lw": 2.6, "zorder": 3} if run == "mean" else style
        _broken(axes, points, color=colours[condition], gid=f"run:{name}{'' if included else ' (left out)'}", **style)
    for mark in (mark for mark in figure.marks if mark.run in drawn):
        _mark(axes, mark, *drawn[mark.run])
    return cut


def _domain(values: pd.Series, bounds: Sequence[float], *, share: bool) -> tuple[float, float, bool]:
    """(low, high, whether values lie outside). A few far outliers, or a bound that is far off, must not flatten everything else."""
    if share or values.empty:
        return -0.02, 1.02, False
    low, high = values.min(), values.max()
    inner_low, inner_high = values.quantile(0.02), values.quantile(0.98)
    inner = inner_high - inner_low
    clipped = bool(len(values) >= 50 and inner > 0 and high - low > 6 * inner)
    if clipped:
        low, high = inner_low - inner * 0.5, inner_high + inner * 0.5
    widest = 4 * (high - low) or max(1.0, 2 * abs(high))
    for bound in sorted(bounds, key=lambda bound: abs(bound - high)):
        if max(high, bound) - min(low, bound) <= widest:
            low, high = min(low, bound), max(high, bound)
    if low == high:
        return low - max(0.5, abs(low) * 0.1), high + max(0.5, abs(high) * 0.1), clipped
    pad = (high - low) * 0.05
    return (-pad / 2 if 0 <= low < (high - low) else low - pad), high + pad, clipped


def _broken(axes: Any, points: pd.DataFrame, **style: Any) -> None:
    """A line that breaks between its parts; a point by itself becomes a dot."""
    breaks = np.flatnonzero(np.diff(points["part"].to_numpy(dtype=int))) + 1
    steps, values = (np.insert(points[name].to_numpy(dtype=float), breaks, np.nan) for name in ("step", "value"))
    edges = np.isnan(np.concatenate([[np.nan], values, [np.nan]]))
    alone = np.flatnonzero(~edges[1:-1] & edges[:-2] & edges[2:])
    axes.plot(steps, values, marker="o", markersize=2, markevery=alone.tolist(), **style)


def _limit(axes: Any, limit: Limit, colour: str, domain: tuple[float, float]) -> None:
    """An expectation: its bounds over the window, with a strip on the side that was hoped for. A rule: a line of dashes and dots."""
    low, high = domain
    bounds = [min(max(bound, low), high) for bound in limit.bounds]  # one that is far off lies at the edge
    off = "" if bounds == list(limit.bounds) else " (off this axis)"
    ends, gid = (max(1, limit.first - 0.5), limit.last + 0.5), f"run:{limit.says}{off}"
    if limit.kind == "stops":
        axes.hlines(bounds, *ends, color=colour, lw=1.1, ls=(0, (6, 2, 1, 2)), zorder=2, gid=gid)
        return
    strip = (high - low) * 0.05 * (1 if limit.above is not None else -1)
    other = bounds[1] if len(bounds) == 2 else bounds[0] + strip
    axes.fill_between(ends, bounds[0], other, color=colour, alpha=0.3, lw=0, gid=gid)
    axes.hlines(bounds, *ends, color=TEXT, lw=1.3, zorder=4)


def _mark(axes: Any, mark: Mark, colour: str, values: pd.Series) -> None:
    gid = f"run:{mark.says}"
    if mark.kind == "not_finite":  # a strip of strokes at the value before, or else the one after
        before, after = values[values.index < mark.first], values[values.index > mark.last]
        level = before.iloc[-1] if len(before) else after.iloc[0] if len(after) else None
        if level is not None:
            ends = [mark.first - 0.5, mark.last + 0.5]
            axes.plot(ends, [level, level], color=colour, lw=8, dashes=(0.15, 0.35), dash_capstyle="butt", alpha=0.7, zorder=1, gid=gid)
    elif mark.kind == "attempt":
        axes.axvline(mark.first - 0.5, color=TEXT, alpha=0.6, lw=1, ls=(0, (1, 3)), gid=gid)
    else:
        shape = "s" if mark.kind == "stopped" else "v"
        axes.plot([mark.first], [1.04], shape, transform=axes.get_xaxis_transform(), color=colour, ms=7, clip_on=False, gid=gid)


def evaluation(score: str, soft: str, findings: Sequence[Finding], colours: Mapping[str, str]) -> Any:
    """One row a condition: its mean, interval and seeds; the untrained model behind all of them."""
    height, left = 47 + 32 * len(colours), 18 + min(130, 7 * max(map(len, colours), default=0))
    canvas = picture.figure(height, score, soft)
    axes = picture.axes(canvas, left, 38, 46, 18)
    axes.set(xlim=(0, 1), ylim=(len(colours) - 0.5, -0.5))
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "0.25", "0.5", "0.75", "1"], alpha=SOFT)
    axes.set_yticks(range(len(colours)), [picture.shorten(name, 130) for name in colours], size=13)
    axes.grid(axis="x")
    axes.spines["bottom"].set_visible(False)
    unit = WIDTH - left - 46
    rows = {name: row for row, name in enumerate(colours)}
    for finding in findings:
        value, interval = finding.value, [finding.low, finding.high]
        if finding.subject == "untrained" and value is not None:
            if finding.low is not None:
                axes.axvspan(*interval, color=TEXT, alpha=0.09, lw=0)
            axes.axvline(value, color=TEXT, alpha=0.8, lw=1.4, ls=(0, (4, 3)))
            label = f"untrained {picture.share(value)}"
            at = np.clip(value, (3.3 * len(label) - left) / unit, 1 + (46 - 3.3 * len(label)) / unit)
            axes.text(at, 1.02, label, transform=axes.get_xaxis_transform(), ha="center", va="bottom", alpha=SOFT)
            continue
        row, colour = rows[finding.subject], colours[finding.subject]
        if finding.low is not None:
            axes.plot(interval, [row, row], color=colour, lw=2.6, solid_capstyle="butt")
        for seed in finding.seeds:
            if seed.value is not None:
                gid = f"run:{seed.run}: {picture.number(seed.value)}{'' if seed.included else ' (left out)'}"
                fill = colour if seed.included else "none"
                axes.plot([seed.value], [row + 0.25], "o", ms=6, mfc=fill, mec=colour, mew=1.2, clip_on=False, gid=gid)
        if value is not None:
            axes.plot([value, value], [row - 0.25, row + 0.1], color=colour, lw=2.6, solid_capstyle="butt", clip_on=False)
        style = {"alpha": SOFT} if value is None else {"weight": "bold"}
        text = "none" if value is None else picture.share(value)
        axes.text(1 + 46 / unit, row, text, transform=axes.get_yaxis_transform(), ha="right", va="center_baseline", **style)
    return canvas


def funnel(condition: str, gates: Sequence[str], table: pd.DataFrame, colour: str) -> Any:
    """A pair of bars a gate. `table`: columns gate, stage, outcome, completions, of, share_of_all."""
    height = 46 + 64 * len(gates)
    canvas = picture.figure(height, f"\u25a0 {condition}", colour=colour)
    axes = picture.axes(canvas, 58, 46, 1, 0)
    axes.set(xlim=(0, 1), ylim=(len(gates) * 3, 0))
    axes.axis("off")
    counts = {key: group.set_index("outcome") for key, group in table.groupby(["gate", "stage"])}
    for place, gate in enumerate(gates):
        axes.text(0, place * 3 + 0.7, picture.shorten(gate, WIDTH - 58), alpha=SOFT)
        for row, (stage, label) in enumerate(STAGES.items(), place * 3 + 1):
            axes.text(-0.02, row + 0.45, label, ha="right", va="center_baseline", alpha=SOFT)
            if (gate, stage) in counts:
                _bar(axes, row + 0.45, counts[gate, stage])
            else:
                axes.text(0.01, row + 0.45, "no completions counted", va="center_baseline", alpha=SOFT)
    handles = [*(axes.barh([0], [0], color=fill)[0] for fill in STATES.values()), axes.barh([0], [0], fill=False, ec=TEXT, alpha=0.4)[0]]
    names = ["passed", "failed", "unknown", "not reached"]
    canvas.legend(handles, names, loc="upper left", bbox_to_anchor=(58 / WIDTH, 1 - 22 / height), ncols=4)
    return canvas


def _bar(axes: Any, y: float, counts: pd.DataFrame) -> None:
    left, n = 0.0, counts["of"].iloc[0]
    for part, colour in STATES.items():
        k, share = counts.at[part, "completions"], counts.at[part, "share_of_all"]
        if k:
            axes.barh([y], [share], 0.85, left=left, color=colour)[0].set_gid(f"run:{part}: {k} of {n}")
            if share > 0.08:
                axes.text(left + share / 2, y, f"{share:.0%}", ha="center", va="center_baseline", weight="bold", color="white")
            left += share
    axes.barh([y], [1], 0.85, fill=False, ec=TEXT, alpha=0.4)
