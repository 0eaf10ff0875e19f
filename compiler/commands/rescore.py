"""`octavo rescore`: stored completions of a run, scored again with today's gates. Published files are only read."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from compiler.build.inputs import Inputs
from compiler.build.pipeline import named
from compiler.commands.explain import find, full_name
from compiler.commands.export import check_free
from compiler.compile import compile_all
from compiler.problems import Rejected
from stages.contracts.artifact import ArtifactError, dump, load_json
from stages.contracts.diagnostic import Diagnostic, StageError
from stages.contracts.layout import RUNS, RunFolder

if TYPE_CHECKING:
    from stages.train.rescore import Rescoring, ScoredCard

TEMPLATE = Path(__file__).parents[1] / "templates/rescore.txt"
CARDS = ("train.card.json", "import.card.json")
"""A run's folder holds one of them."""
EVERY_SECONDS = 2.0
"""Time between two lines of progress."""
SHOWN = 8
"""Completions shown, largest change of the reward first."""
WINDOWS = 5
"""Parts of the run that the curve is shown in."""
WIDTH = 90
"""Characters shown of a completion."""


def run(options: argparse.Namespace, inputs: Inputs) -> int:
    """Print the report. Writes only where `--write` says, and only a new file."""
    report = rescore(options.run, spec=options.spec, to=Path(options.write) if options.write else None, inputs=inputs)
    print(dump(report) if options.json else text(report), end="")
    if options.write:
        print(f"{options.write}: written", file=sys.stderr)
    return 0


def rescore(name: str, *, spec: bool, to: Path | None, inputs: Inputs) -> Rescoring:
    """The report; also writes a new file if `to` is given. Raises Rejected E330 (no such run), E498 (a file is in the way), or what
    scoring found."""
    from stages.train import rescore as scoring
    from stages.train.recorder import write_completions

    folder = run_folder(name, "rescore")
    if to is not None:
        check_free(to, f"octavo rescore {name} --write")
    try:
        if not folder.completions.is_file():
            scoring.read_completions(folder.completions)  # raises, before anything is said of cards
        card = _declared(folder, inputs) if spec else _card(folder)
        report, rows = scoring.rescore(folder, card, "spec" if spec else "card", _progress(folder.name))
        if to is not None:
            gates = [gate.name for gate in card.reward.gates]
            write_completions(to, rows, gates, card_id=report.card_id, attempt="rescored")
    except (StageError, ArtifactError) as error:
        if isinstance(error, StageError) and error.code == "S201" and not spec:
            error.fix += f"; or score with the data and the reward as the spec has them now: octavo rescore {name} --spec"
        raise rejected(error) from None
    return report


def run_folder(name: str, command: str) -> RunFolder:
    """The folder of a run. Any folder with a card is a run, old and imported ones among them. Raises Rejected E330."""
    runs = sorted(path.parent for path in RUNS.glob("*/*/*.card.json") if path.name in CARDS)
    return RunFolder(RUNS / full_name(name, [path.relative_to(RUNS).as_posix() for path in runs], command))


def _declared(folder: RunFolder, inputs: Inputs) -> ScoredCard:
    """What the spec says now of the run's condition."""
    from stages.train.rescore import ScoredCard

    experiment = folder.root.parent.name
    compiled, run = find(compile_all([named(experiment)], inputs), f"{experiment}/{folder.name}")
    condition = run.setup.name
    card = compiled.cards.train.get(condition)
    if card is None or card.reward is None:
        raise _no_reward(f"the spec trains the condition `{condition}` with none", f"name a reward in conditions.{condition}")
    return ScoredCard.model_validate({**card.model_dump(mode="json", by_alias=True), "seed": run.seed})


def _card(folder: RunFolder) -> ScoredCard:
    """What the run was trained on, or S299 where its card holds no reward: of an imported run, or of gold answers that were learned."""
    from stages.train.rescore import ScoredCard

    by_spec = f"octavo rescore {folder.root.parent.name}/{folder.name} --spec"
    if not folder.card.is_file() and folder.root.joinpath("import.card.json").is_file():
        raise _no_reward("the run was imported, and its card holds none", by_spec)
    content = load_json(folder.card)
    if isinstance(content, dict) and "train" in content and "reward" not in content:
        raise _no_reward("the card of the run holds none", by_spec)
    try:
        return ScoredCard.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        what = f"{'.'.join(map(str, first['loc'])) or '(top)'}: {first['msg']}"
        raise ArtifactError(folder.card, what, why="scoring needs the run's reward and its data", fix=by_spec) from None


def _no_reward(what: str, fix: str) -> StageError:
    return StageError("S299", f"no reward to score with: {what}", why="completions are scored by the gates of a reward", fix=fix)


def rejected(error: StageError | ArtifactError) -> Rejected:
    """What a stage's own code refused, as a command says it."""
    code, what = (error.code, error.what) if isinstance(error, StageError) else ("S102", f"{error.path}: {error.what}")
    return Rejected([Diagnostic(code, what, why=error.why, fix=error.fix)])


def _progress(name: str) -> Callable[[int, int], None]:
    """Lines on standard error, at most one every two seconds; none for a scoring that takes less."""
    last = time.monotonic()

    def progress(done: int, total: int) -> None:
        nonlocal last
        if time.monotonic() - last >= EVERY_SECONDS:
            last = time.monotonic()
            print(f"{name}: {done} of {total} completions scored", file=sys.stderr, flush=True)

    return progress


def text(report: Rescoring) -> str:
    """Headline, gates, curve, and the completions that changed most."""
    import jinja2

    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, undefined=jinja2.StrictUndefined)
    environment.filters |= {"number": _number, "mean": _mean, "quoted": _quoted}
    environment.filters["counts"] = lambda counts: " ".join(map(str, counts.values())) if counts else "not there"
    environment.filters["score"] = lambda score: "" if score is None else f" {score:g}"
    parts, curve = min(WINDOWS, len(report.curve)), report.curve
    return environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render(
        report=report,
        width=max((len(gate["gate"]) for gate in report.gates), default=4),
        windows=[curve[part * len(curve) // parts : (part + 1) * len(curve) // parts] for part in range(parts)],
        most=sorted(report.changes, key=_moved, reverse=True)[:SHOWN],
    )


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.4f}"


def _mean(steps: Sequence[Mapping[str, Any]], key: str) -> str:
    values = [step[key] for step in steps if step[key] is not None]
    return _number(sum(values) / len(values) if values else None)


def _moved(change: Mapping[str, Any]) -> float:
    before, after = change["reward_before"], change["reward_after"]
    if before is None or after is None:
        return 2.0 if before != after else 0.0
    return float(abs(after - before))


def _quoted(text: str) -> str:
    """Text of a model as one line that cannot steer a terminal."""
    return json.dumps(text if len(text) <= WIDTH else text[:WIDTH] + "...", ensure_ascii=True)
