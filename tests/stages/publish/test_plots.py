"""The numbers behind the form of a curve that a reader can zoom: those of the table, with gaps kept apart from steps not logged."""

import json
import re
from pathlib import Path
from typing import Any

from example_experiment import build

from stages.contracts.artifact import read, write
from stages.contracts.figure import Figure, Mark
from stages.contracts.files import write_text
from stages.contracts.layout import ExperimentFolder
from stages.publish.experiment import load
from stages.publish.figures import plot_script

HEAD = "metric,unit,condition,run,seed,step,value,state,counts,part\n"


def plotted(project: Path, rows: str, marks: tuple[Mark, ...] = (), name: str = "curves-reward") -> dict[str, Any] | None:
    folder = ExperimentFolder(build(project))
    figure = read(Figure, folder.figures / "reward.json").model_copy(update={"name": name, "marks": marks, "title": "</script>Reward"})
    write(folder.figures / f"{name}.json", figure)
    write_text(folder.figures / f"{name}.svg", (folder.figures / "reward.svg").read_text())
    write_text(folder.figures / f"{name}.csv", HEAD + rows)
    experiment = load(folder.root)
    script = plot_script(experiment, next(drawing for drawing in experiment.drawings if drawing.figure.name == name))
    if script is None:
        return None
    assert "<" not in script and script.isascii()
    match = re.fullmatch(r"octavo\.figure\((.*)\);\n", script)
    assert match
    return json.loads(match[1])


def test_values_are_those_of_the_table(project: Path) -> None:
    rows = "reward,reward,shaped,shaped-s1,1,1,0.25,value,true,0\nreward,reward,shaped,shaped-s1,1,2,1.2345678e-06,value,true,0\n"
    rows += "reward,reward,inverted,inverted-s3,3,1,0.5,value,false,0\nreward,reward,shaped,mean,,1,0.25,value,true,0\n"
    plot = plotted(project, rows)
    assert plot and plot["steps"] == [1, 2] and plot["unit"] == "reward" and plot["title"] == "</script>Reward"
    assert plot["lines"][0] == {
        "name": "shaped-s1",
        "condition": "shaped",
        "colour": 0,
        "mean": False,
        "counts": True,
        "why": "",
        "values": [0.25, 1.23457e-06],
    }
    assert plot["lines"][1]["why"] == "nonfinite: gradient norms are not finite from step 41"
    assert [(line["name"], line["counts"], line["mean"], line["colour"]) for line in plot["lines"][1:]] == [
        ("inverted-s3", False, False, 1),
        ("mean", True, True, 0),
    ]


def test_a_gap_is_null_and_a_step_between_two_logged_ones_is_false(project: Path) -> None:
    every_second = "".join(f"reward,reward,shaped,shaped-s1,1,{step},1.0,value,true,{step // 12}\n" for step in (2, 4, 6, 12, 14))
    every = "".join(f"reward,reward,zero,zero-s1,1,{step},0.5,value,true,0\n" for step in range(1, 15))
    plot = plotted(project, every_second + every)
    assert plot and plot["lines"][0]["values"] == [None, 1, False, 1, False, 1, None, None, None, None, None, 1, False, 1]
    assert plot["lines"][0]["values"][2] is False and plot["lines"][0]["values"][6] is None
    thinned_rows = every + "".join(f"reward,reward,shaped,shaped-s1,1,{step},1.0,value,true,0\n" for step in (1, 9, 14))
    plot = plotted(project, thinned_rows)
    assert plot and plot["lines"][1]["values"] == [1, [7], 1, [4], 1], "what a thinned line leaves out is no gap"
    plot = plotted(project, every_second)
    assert plot and plot["steps"] == [2, 4, 6, 7, 12, 14] and plot["lines"][0]["values"] == [1, 1, 1, None, 1, 1], (
        "a gap of all lines is one"
    )


def test_what_is_not_finite_is_no_number(project: Path) -> None:
    rows = "".join(
        f"reward,reward,shaped,shaped-s1,1,{step},{value},{state},true,{0 if step in (1, 4) else ''}\n"
        for step, value, state in ((1, "0.1", "value"), (2, "", "nonfinite"), (3, "0.3", "value"), (4, "0.4", "value"))
    )
    mark = Mark(run="shaped-s1", kind="not_finite", first=3, last=3, says="shaped-s1: gradient not finite, step 3")
    plot = plotted(project, rows, (mark,))
    assert plot and plot["steps"] == [1, 4] and plot["marks"] == [mark.model_dump()]


def test_other_figures_and_empty_ones_have_none(project: Path) -> None:
    assert plotted(project, "") is None
    assert plotted(project, "reward,reward,shaped,shaped-s1,1,1,0.25,value,true,0\n", name="evaluation-tests") is None
