"""Rows 15 and 16 of ../shared/cases/README.md for their whole kind: a change, wherever it is printed, is the printed last number minus the
printed first one, never a percentage, and nothing of it is lost near zero.

Eight conditions of three seeds: movements of any size and sign, above and below zero. What is right is computed here from the logs.
"""

from __future__ import annotations

import html
import json
import random
import re
import statistics
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.imported import compiled, findings, make, run

STEPS, WINDOW = 20, 2
CONDITIONS = [f"c{number}" for number in range(8)]
METRICS = {"reward": "r", "loss": "l", "kl": "k", "learning_rate": "lr"}
ROLES = {name: "null_control" if name == "c0" else "treatment" for name in CONDITIONS}
SPEC = f"""title: Changes of any kind
question: What moved?
runs:
  import:
    format: jsonl
    path: logs/{{condition}}-{{seed}}.jsonl
    steps: {STEPS}
    metrics: {{{", ".join(f"{metric}: {{column: {column}, optional: true}}" for metric, column in METRICS.items())}}}
seeds: [1, 2, 3]
conditions: {{{", ".join(f"{name}: {{reward: of {name}, role: {role}}}" for name, role in ROLES.items())}}}
questions:
  - {{ask: "Did the reward rise?", show: reward}}
  - {{ask: "Did the loss fall?", show: loss}}
  - {{ask: "How far did it go?", show: {{metric: kl}}}}
  - {{ask: "Decay or warm-up?", show: {{metric: learning_rate}}}}
claims:
  - {{id: moves, says: It moves., metric: reward, contrast: {{condition: c1, against: c0}}, statistic: change, above: 0}}
"""
SIZES = {  # (first, last) of a metric, around which three seeds lie
    "r": [(0.1410, 0.1394), (0.0018, 0.0352), (-3.0, 3.2), (0.5, 0.5004), (12.3, 98.7), (0.0, 1e-5), (0.3, 0.9), (1500.0, 1502.0)],
    "l": [(-0.002, 0.0004), (0.0018, 0.0352), (1e-6, -1e-6), (0.1410, 0.1394), (-2e-5, 3e-4), (0.0, 0.0), (4.0, 0.1), (1.7e-5, 1e-3)],
    "k": [(0.0, 4.7e-4), (1e-5, 2.5e-5), (0.5, 2e-5), (-0.07, 0.01), (3e-7, 5e-7), (2e-5, 0.5), (0.01, 0.02), (0.0, 2e-8)],
    "lr": [(3.58e-6, 3.55e-6), (1e-6, 1e-6), (0.0, 1e-5), (1e-3, 0.0), (2e-5, 1.9e-5), (1e-6, 1e-7), (5e-5, 1e-5), (1e-6, 2e-6)],
}


def logs(rng: random.Random) -> dict[tuple[str, int], list[dict[str, float]]]:
    """By (condition, seed). The third seed of c6 ends before the last window."""
    rows_by_run = {}
    for index, condition in enumerate(CONDITIONS):
        for seed in (1, 2, 3):
            ends = {c: [value * rng.uniform(0.9, 1.1) for value in sizes[index]] for c, sizes in SIZES.items()}
            rows = [
                {"step": step} | {c: (first + (last - first) * (step - 1) / (STEPS - 1)) for c, (first, last) in ends.items()}
                for step in range(1, STEPS + 1)
            ]
            rows_by_run[condition, seed] = rows[:15] if (condition, seed) == ("c6", 3) else rows
    return rows_by_run


@pytest.fixture(scope="module")
def study(tmp_path_factory) -> tuple[Path, dict[tuple[str, int], list[dict[str, float]]]]:
    """The experiment's folder, with its page, and the logs."""
    root = tmp_path_factory.mktemp("changes")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        written = logs(random.Random(15))
        (root / "logs").mkdir()
        for (condition, seed), rows in written.items():
            text = "".join(json.dumps(row) + "\n" for row in rows)
            (root / "logs" / f"{condition}-{seed}.jsonl").write_text(text, encoding="utf-8")
        make(root, "changes", SPEC)
        trio = "{{ID/initial}} to {{ID/final}} is {{ID/change}}"
        prose = [f"{c} {metric}: {trio}\n".replace("ID", f"{c}/{metric}") for c in CONDITIONS for metric in METRICS]
        prose += [line.replace("}}", " | interval }}") for line in prose]
        (root / "specs" / "changes.md").write_text("\n".join(prose), encoding="utf-8")
        folder = compiled("changes")
        run(folder)
        return root / folder, written


def windows(rows: list[dict[str, float]], column: str) -> tuple[float, float | None]:
    first = statistics.fmean(row[column] for row in rows if row["step"] <= WINDOW)
    inside = [row[column] for row in rows if row["step"] > STEPS - WINDOW]
    return first, statistics.fmean(inside) if inside else None


def truth(written: Any, condition: str, column: str) -> tuple[float, float, float]:
    """First and last window and change of a condition: means over the seeds that have them."""
    ends = [windows(written[condition, seed], column) for seed in (1, 2, 3)]
    changes = [last - first for first, last in ends if last is not None]
    return (
        statistics.fmean(first for first, _ in ends),
        statistics.fmean(last for _, last in ends if last is not None),
        statistics.fmean(changes),
    )


def plain(markup: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", markup)).replace("\u202f", "").replace("\u2212", "-").split())


_NUMBER = re.compile(r"([+-]?\d+(?:\.\d+)?)(?: × 10([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+))?")
_RAISED = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")


def printed(text: str) -> Decimal:
    """The first number of a cell, exactly as it is printed."""
    match = _NUMBER.match(plain(text))
    assert match is not None, text
    return Decimal(match[1]).scaleb(int(match[2].translate(_RAISED)) if match[2] else 0)


def agrees(cells: tuple[str, str, str], true: tuple[float, float, float], where: str, *, whole: bool = True) -> None:
    """The ends are the true ones rounded to the digits that are shown; the change follows from them, so its last digit may differ by one
    from the rounded true one (decision 19), and has lost no movement."""
    first, last, change = (printed(cell) for cell in cells)
    for shown, value, units in zip((first, last, change), true, ("0.5000001", "0.5000001", "1.0000001"), strict=True):
        assert abs(shown - Decimal(value)) <= Decimal(units).scaleb(int(shown.as_tuple().exponent)), (where, cells, true)
    if whole and "10" in plain(cells[1]).partition("×")[2]:  # a last number that the change's digits would show as 0 has an exponent
        assert abs(last - first - change) <= Decimal("0.5").scaleb(int(change.as_tuple().exponent)), (where, cells)
    elif whole:
        assert last - first == change, (where, cells)
        largest = max(abs(value) for value in true)
        if largest < 1e-4:
            assert change != 0 or abs(true[2]) <= 1e-3 * largest, (where, cells, "near zero the movement is still there")
    assert "%" not in "".join(cells), (where, cells)


def rows_of(page: str, heading: str) -> list[list[str]]:
    """Cells of the table below a question."""
    part = page.partition(heading)[2]
    table = part[: part.index("</table>")]
    rows = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL) for row in re.findall(r"<tr.*?</tr>", table, re.DOTALL)]
    return [row for row in rows if row and plain(row[0]) in CONDITIONS]


QUESTIONS = {"Did the reward rise": "r", "Did the loss fall": "l", "How far did it go": "k", "Decay or warm-up": "lr"}


@pytest.mark.parametrize("asked", QUESTIONS)
def test_cases_15_and_16_in_the_table_of_an_answer(study, asked):
    folder, written = study
    rows = rows_of((folder / "page/index.md").read_text(encoding="utf-8"), f"<h3>{asked}")
    assert [plain(row[0]) for row in rows] == CONDITIONS
    for row in rows:
        condition = plain(row[0])
        whole = condition != "c6"  # one of its seeds has no last window, so the change is of the others
        agrees((row[1], row[2], row[3]), truth(written, condition, QUESTIONS[asked]), f"{asked} {condition}", whole=whole)
        assert ("of the seeds with both windows (1 and 2)" in plain(row[3])) is not whole


def test_cases_15_and_16_in_the_table_of_conditions(study):
    folder, written = study
    part = (folder / "page/index.md").read_text(encoding="utf-8").partition('aria-label="Conditions"')[2]
    table = part[: part.index("</table>")]
    for condition in CONDITIONS:
        ids = [f'data-finding="{condition}/reward/{statistic}"' for statistic in ("initial", "final", "change")]
        first, last, change = (next(cell for cell in re.findall(r"<td[^>]*>(.*?)</td>", table, re.DOTALL) if id_ in cell) for id_ in ids)
        agrees((first, last, change), truth(written, condition, "r"), condition, whole=condition != "c6")
        assert ("of the seeds with both windows (1 and 2)" in plain(change)) is (condition == "c6")


def test_cases_15_and_16_no_seed_s_number_is_printed_as_nothing(study):
    folder, written = study
    page = (folder / "page/index.md").read_text(encoding="utf-8")
    for (condition, seed), rows in written.items():
        for statistic, value in zip(("initial", "final"), windows(rows, "r"), strict=True):
            cell = re.search(rf'data-finding="{condition}-s{seed}/reward/{statistic}"[^>]*>(.*?)</a>', page)
            assert cell is not None and (plain(cell[1]) == "–") == (value is None)
            if value:
                shown = printed(cell[1])
                unit = Decimal("0.5000001").scaleb(int(shown.as_tuple().exponent))
                assert shown != 0 and abs(shown - Decimal(value)) <= unit, (condition, seed, cell[1])


def test_cases_15_and_16_in_prose(study):
    folder, written = study
    text = plain((folder / "page/index.md").read_text(encoding="utf-8"))
    for condition in CONDITIONS:
        for metric, column in METRICS.items():
            triples = re.findall(rf"\b{condition} {metric}: (.*?) to (.*?) is (\S+(?: × 10\S+)?)", text)
            assert len(triples) == 2, (condition, metric)
            for cells in triples:
                agrees(cells, truth(written, condition, column), f"{condition} {metric}", whole=condition != "c6")


def test_cases_15_and_16_in_what_programs_read(study):
    folder, written = study
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder.parents[1])
        values = findings(folder)
    for condition in CONDITIONS:
        for metric, column in METRICS.items():
            ours = tuple(values[f"{condition}/{metric}/{statistic}"]["value"] for statistic in ("initial", "final", "change"))
            assert ours == pytest.approx(truth(written, condition, column), rel=1e-12, abs=1e-18)
            assert values[f"{condition}/{metric}/change"]["unit"] != "%"
            for seed in (1, 2, 3):
                first, last = windows(written[condition, seed], column)
                change = values[f"{condition}-s{seed}/{metric}/change"]["value"]
                assert change == (None if last is None else pytest.approx(last - first, rel=1e-12, abs=1e-18))
    contrast = values["c1-vs-c0/reward/change"]["value"]
    assert contrast == pytest.approx(truth(written, "c1", "r")[2] - truth(written, "c0", "r")[2])
