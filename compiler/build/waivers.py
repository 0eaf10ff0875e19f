"""Waived code changes: cards that keep the code hash that their stage ran with, and what became of waivers that no longer hold."""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from compiler.build.emit import CARD, Files, seeded
from compiler.build.inputs import Inputs
from compiler.build.plan_values import differences
from compiler.build.resolve import Cards
from compiler.language.expand import Expansion
from compiler.language.experiment import Experiment
from compiler.problems import sentence
from stages.contracts.artifact import dump
from stages.contracts.layout import RUNS
from stages.contracts.page_card import WaivedWords
from stages.contracts.waiver import Waiver, chain, coded, identity

SINGLE = {"preflight/preflight.card.json": "preflight", "analysis/evaluate.card.json": "evaluate"}
"""Stages beside training whose results can be carried over: they cost GPU time. The others take seconds."""
SHOWN = 3


def applied(of: Experiment, expansion: Expansion, cards: Cards, inputs: Inputs) -> Cards:
    """The cards, those with a waiver that holds keeping their code hash; the page's card names these waivers."""
    known = inputs.waivers(RUNS / of.name)
    held = [_words("pretrain", None, waiver) for waiver in reversed(cards.model.waivers)]
    kept: dict[str, str] = {}
    waived = {waiver.card for waiver in known}
    for stage in stages(expansion, cards, waived):
        if found := chain(known, stage.card, identity(stage.text), coded(stage.text)):
            kept[stage.card] = found[-1].code_from
            held += [_words(stage.kind, stage.run, waiver) for waiver in reversed(found)]
    if not held:
        return cards
    page = cards.page.model_copy(update={"waivers": tuple(held)})
    return replace(cards, kept=kept, page=page, single={**cards.single, "page.card.json": page})


@dataclass(frozen=True)
class Waivable:
    """A stage whose results can be carried over. `card` is its card's path below the experiment's folder, `text` has today's code hash."""

    kind: str
    run: str | None
    card: str
    text: str


def stages(expansion: Expansion, cards: Cards, only: Container[str] | None = None) -> Iterator[Waivable]:
    """Of one experiment, training last; with `only` those of these cards."""
    for path, kind in SINGLE.items():
        if path in cards.single and (only is None or path in only):
            yield Waivable(kind, None, path, dump(cards.single[path]))
    texts: dict[str, str] = {}
    for run in expansion.runs:
        path = f"{run.name}/{CARD}"
        if run.setup.name in cards.train and (only is None or path in only):
            if run.setup.name not in texts:
                texts[run.setup.name] = dump(cards.train[run.setup.name])
            yield Waivable("train", run.name, path, seeded(texts[run.setup.name], run.seed))


def _words(stage: str, run: str | None, waiver: Waiver) -> WaivedWords:
    return WaivedWords(
        stage=stage, run=run, code_from=waiver.code_from, code_to=waiver.code_to, who=waiver.who, why=waiver.why, at=waiver.at
    )


def expired(files: Files, inputs: Inputs) -> Iterator[str]:
    """Sentences about cards that would keep their bytes by a waiver if it still held, and are about to change on disk."""
    said_of = expiry(inputs)
    for path, new in files.items():
        folder, card = _home(Path(path))
        if folder is None or not any(waiver.card == card for waiver in inputs.waivers(folder)):
            continue
        with suppress(OSError, UnicodeDecodeError):
            if says := said_of(path, Path(path).read_text(encoding="utf-8"), new):
                yield f"{path}: {says}"


def expiry(inputs: Inputs) -> Callable[[str, str, str], str | None]:
    """A function of a card's path, its older and its newer text: which waiver kept the older one and no longer holds, and why."""

    def expired(path: str, old: str, new: str) -> str | None:
        folder, card = _home(Path(path))
        known = inputs.waivers(folder) if folder is not None else ()
        kept = [waiver for waiver in known if (waiver.card, waiver.identity, waiver.code_from) == (card, identity(old), coded(old))]
        return _ended(kept[-1], old, new) if kept and coded(old) != coded(new) else None

    return expired


def _ended(waiver: Waiver, old: str, new: str) -> str:
    """Why a waiver no longer holds."""
    if identity(old) == identity(new):
        why = f"the code changed again, to {coded(new)}, and it was judged for {waiver.code_to}"
    else:
        found = [change.says for change in differences(json.loads(old), json.loads(new)) if change.key != "code_hash"]
        more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
        why = f"its card changes otherwise: {'; '.join(found[:SHOWN])}{more}"
    return f"the waiver of {waiver.at[:10]} by {sentence(waiver.who)} has expired: {why}"


def _home(path: Path) -> tuple[Path | None, str]:
    """The folder whose waivers are about the card, and the card's path in it."""
    if path.name == "pretrain.card.json":
        return path.parent, path.name
    if path.name == CARD or "/".join(path.parts[-2:]) in SINGLE:
        return path.parent.parent, "/".join(path.parts[-2:])
    return None, ""


def said(words: WaivedWords) -> str:
    """A waiver in one line."""
    return f"waived {words.at[:10]} by {sentence(words.who)}: {sentence(words.why)} (code {words.code_from} -> {words.code_to})"
