"""Texts that end a completion: found in tokens while sampling, and cut off the completion's text."""

from __future__ import annotations

import bisect
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from stages.contracts.model import DatasetRef


@dataclass(frozen=True)
class StopTexts:
    """`texts` in the spec's order; none: only tokens end a completion. `keep`: the text that ended a completion stays in it."""

    texts: tuple[str, ...] = ()
    keep: bool = False
    tokenizer: Any = None

    @classmethod
    def from_data(cls, data: DatasetRef, tokenizer: Any) -> StopTexts:
        """Those of a card's data."""
        return cls(data.layout.stop, data.layout.keep_stop, tokenizer) if data.layout else cls()

    def cut(self, text: str) -> str:
        """A completion up to the first of the texts."""
        first = min(((place, stop) for stop in self.texts if (place := text.find(stop)) >= 0), default=None)
        if first is None:
            return text
        return text[: first[0] + len(first[1])] if self.keep else text[: first[0]]

    def is_in(self, ids: Sequence[int]) -> bool:
        """Whether one of the texts stands in what the tokens say."""
        if not self.texts:
            return False
        text = self.tokenizer.decode(ids, skip_special_tokens=True)
        return any(stop in text for stop in self.texts)

    def are_in(self, rows: Sequence[Sequence[int]]) -> list[bool]:
        """`is_in` of each row."""
        return [self.is_in(ids) for ids in rows]

    def length(self, ids: Sequence[int], ends: Collection[int]) -> int | None:
        """Tokens up to the one that ends the completion: a token of `ends`, or the one that completes a text. None: it was cut."""
        length = next((place + 1 for place, token in enumerate(ids) if token in ends), None)
        if self.is_in(ids[:length]):
            return bisect.bisect_left(range(length or len(ids)), True, key=lambda number: self.is_in(ids[:number]))
        return length

    @property
    def tail(self) -> int:
        """Tokens at the end of a completion that hold a text which its last token has completed: no token but the ones that say nothing
        has less than a byte."""
        return max((len(stop.encode()) for stop in self.texts), default=0) + 8


NO_STOPS = StopTexts()


def stopping_criteria(stops: StopTexts, width: int) -> dict[str, Any]:
    """Arguments of `generate` that end a row whose completion, behind `width` tokens of prompt, holds a text; none without texts."""
    if not stops.texts:
        return {}
    import torch
    from transformers import StoppingCriteria, StoppingCriteriaList

    class Stop(StoppingCriteria):  # type: ignore[misc]
        def __call__(self, input_ids: Any, scores: Any, **rest: Any) -> Any:
            tails = input_ids[:, max(width, input_ids.shape[1] - stops.tail) :].tolist()
            return torch.tensor(stops.are_in(tails), device=input_ids.device)

    return {"stopping_criteria": StoppingCriteriaList([Stop()])}
