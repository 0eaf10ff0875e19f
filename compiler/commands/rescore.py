"""`octavo rescore`: stored completions of a run, scored again with today's gates. Published files are only read."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from pydantic import ValidationError

from compiler.build.inputs import Inputs
from compiler.build.pipeline import named
from compiler.commands.explain import find
from compiler.compile import compile_all
from compiler.problems import Rejected, listed, nearest
from stages.contracts.algorithms import SFT
from stages.contracts.artifact import ArtifactError, load_json
from stages.contracts.diagnostic import Diagnostic, StageError
from stages.contracts.layout import RUNS, RunFolder
from stages.contracts.rescoring import Rescoring, ScoredCard

CARDS = ("train.card.json", "import.card.json")
"""A run's folder holds one of them."""
EVERY_SECONDS = 2.0
"""Between two lines of progress."""


def rescore(name: str, *, spec: bool, to: Path | None, inputs: Inputs) -> Rescoring:
    """The report; writes a new file when `to` says where. Raises Rejected E330 (no such run), E498 (a file that is in the
    way), or what scoring found."""
    from stages.train import rescore as scoring

    run = folder(name)
    if to is not None:
        _free(to, name)
    try:
        if not run.completions.is_file():
            scoring.read_completions(run.completions)  # says so, before anything is said of cards
        card = _declared(run, inputs) if spec else _card(run)
        made = scoring.rescore(run, card, "spec" if spec else "card", Progress(run.name))
        if to is not None:
            made.write(to)
    except StageError as error:
        fix = f"{error.fix}; or score with the data and the reward as the spec has them now: octavo rescore {name} --spec"
        raise _rejected(error.code, error.what, error.why, fix if error.code == "S201" and not spec else error.fix) from None
    except ArtifactError as error:
        raise _rejected("S102", f"{error.path}: {error.what}", error.why, error.fix) from None
    return made.report


def folder(name: str) -> RunFolder:
    """The folder of a run such as `shaped-s1`, `quickstart/shaped-s1` or `runs/quickstart/shaped-s1`; whatever has a card there, old and
    imported runs among them. Raises Rejected E330."""
    wanted = name.removeprefix(f"{RUNS}/").rstrip("/")
    runs = {
        f"{path.parent.parent.name}/{path.parent.name}": path.parent for path in sorted(RUNS.glob("*/*/*.card.json")) if path.name in CARDS
    }
    found = [full for full in runs if wanted in (full, full.partition("/")[2])]
    if len(found) > 1:  # the plain name means the experiment proper
        found = [full for full in found if "@" not in full] or found
    if len(found) == 1:
        return RunFolder(runs[found[0]])
    if found:
        raise _rejected("E330", f"`{wanted}` is a run of several experiments", f"runs: {listed(found, 12)}", f"octavo rescore {found[0]}")
    raise _rejected(*_unknown(wanted, list(runs)))


def _unknown(wanted: str, runs: list[str]) -> tuple[str, str, str, str]:
    meant = nearest(wanted, runs if "/" in wanted else [full.partition("/")[2] for full in runs])
    what = f"no run `{wanted}`" + (f", did you mean `{meant}`?" if meant else "")
    why = f"a run is a folder below {RUNS}/ with a card; runs: {listed(runs, 12)}"
    return "E330", what, why, f"octavo rescore {meant or next(iter(runs), '<experiment>/<run>')}"


def _declared(run: RunFolder, inputs: Inputs) -> ScoredCard:
    """What the spec says now of the run's condition."""
    one, found = find(compile_all([named(run.root.parent.name)], inputs), f"{run.root.parent.name}/{run.name}")
    card = one.cards.train.get(found.setup.name)
    if card is not None and card.reward is None:
        raise _learned(found.setup.name)
    if card is None:
        raise _no_reward(
            f"the spec trains nothing in the condition `{found.setup.name}`", f"name a reward in conditions.{found.setup.name}"
        )
    return ScoredCard.model_validate({**card.model_dump(mode="json"), "seed": found.seed})


def _no_reward(what: str, fix: str) -> StageError:
    return StageError("S299", f"no reward to score with: {what}", why="completions are scored by the gates of a reward", fix=fix)


def _learned(condition: str) -> StageError:
    return _no_reward(f"`{condition[:64]}` learned gold answers", "look at its shared evaluation; training sampled no completions")


def _card(run: RunFolder) -> ScoredCard:
    if not run.card.is_file() and run.root.joinpath("import.card.json").is_file():
        raise _no_reward("the run was imported, and its card holds none", f"octavo rescore {run.root.parent.name}/{run.name} --spec")
    content = load_json(run.card)
    train = content.get("train") if isinstance(content, dict) and "reward" not in content else None
    if isinstance(train, dict) and train.get("algorithm") == SFT:
        raise _learned(str(content["condition"]))
    try:
        return ScoredCard.model_validate(content)
    except ValidationError as error:
        place = ".".join(str(part) for part in error.errors()[0]["loc"]) or "(top)"
        raise ArtifactError(
            run.card,
            f"{place}: {error.errors()[0]['msg']}",
            why="scoring needs the run's reward and its data",
            fix=f"octavo rescore {run.root.parent.name}/{run.name} --spec",
        ) from None


def _free(to: Path, name: str) -> None:
    """Raises Rejected E498 unless a new file may be written there."""
    why = "today's scores go to a new file; what was published stays as it is"
    if RUNS.resolve() in to.resolve().parents:
        raise _rejected("E498", f"{to} lies below {RUNS}/", why, f"octavo rescore {name} --write {to.name}")
    if to.exists():
        raise _rejected("E498", f"{to} exists", why, f"octavo rescore {name} --write {to.with_name(f'{to.stem}-again{to.suffix}')}")
    if not to.parent.is_dir():
        raise _rejected("E498", f"{to.parent} is no folder", why, f"mkdir -p {to.parent}")


def _rejected(code: str, what: str, why: str, fix: str) -> Rejected:
    return Rejected([Diagnostic(code, what, why=why, fix=fix)])


class Progress:
    """Lines on standard error, at most one every two seconds."""

    def __init__(self, name: str) -> None:
        self.name, self.begun = name, time.monotonic()
        self.said = self.begun

    def __call__(self, done: int, of: int) -> None:
        now = time.monotonic()
        if now - self.said < EVERY_SECONDS and done < of:
            return
        if done == of and self.said == self.begun:
            return  # it was quick: nobody waited
        self.said = now
        left = (now - self.begun) / done * (of - done)
        print(f"{self.name}: {done} of {of} completions scored, {left:.0f} s left", file=sys.stderr, flush=True)
