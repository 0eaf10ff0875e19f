"""Gibberish: completions at the end that loop, or that are noise, where those at the beginning were not.

Both measures know no language: prose, code, proofs and digits are measured alike, in bytes. A loop repeats itself: of its stretches of 16
bytes more than half stood in the text before. Noise cannot be predicted: the entropy of a byte, given the byte before it, is as high as
that of random letters. What it does not see: fluent nonsense, a salad of whole words or tokens of one script, random digits.
"""

from stages.analyse.signals import Answer, DataFrame, Event, NotObservable, Run, Thresholds, at_end, threshold
from stages.rules import above

NEEDS_COMPLETIONS = True
STRETCH, SHORTEST, MOST_BYTES = 16, 64, 4_000
"""Bytes of a stretch, of the shortest text in which repetition means anything, and of a text that are looked at."""
MOST_TEXTS, LEAST_POOL = 256, 8_000
"""Texts of a window that are looked at, evenly spread, and bytes without which its entropy says nothing."""
EXAMPLES, EXAMPLE_CHARS = 3, 400


class Settings(Thresholds):
    repeated: float = threshold(
        0.5, "share of a text", "seq-rep-n of Welleck et al. (2020), of 16 bytes in place of 4 tokens; healthy texts: 0.2", gt=0, lt=1
    )
    """A text loops when a larger share of its stretches of 16 bytes stood in it before."""
    looping: float = threshold(0.3, "share of completions", gt=0, lt=1)
    """A larger share of looping texts in the last window, and one larger by this than in the first window, is a warning."""
    entropy: float = threshold(
        4.3, "bits a byte", "Shannon (1951) has 3.3 for English, healthy code has 3.8, random letters have 4.7", gt=0, lt=8
    )
    """Texts of the last window are noise when a byte has more entropy given the one before."""
    risen: float = threshold(0.5, "bits a byte", gt=0, lt=8)
    """Noise has more than this above the entropy of the first window: another script or code is no noise."""


def detect(settings: Settings, run: Run) -> Answer:
    """At most an event for loops and one for noise."""
    if "text" not in run.completions or run.completions.empty:
        raise NotObservable("no texts of completions were kept")
    window = run.window()
    texts = run.counting(run.completions.set_index("step")[["text"]]).sort_index()
    first, last = _texts(texts.loc[1:window]), _texts(texts.loc[run.target_steps - window + 1 : run.target_steps])
    if not last:
        raise NotObservable("no completion of the last window counts")
    dates = (run.target_steps - window + 1, run.target_steps, run.target_steps)
    loops, before = ([text for text in side if above(repetition(text) or 0.0, settings.repeated)] for side in (last, first))
    share, share_before = (len(some) / max(1, len(every)) for some, every in ((loops, last), (before, first)))
    if above(share, settings.looping) and above(share - share_before, settings.looping):
        says = f"{share:.0%} of completions ({len(loops)} of {len(last)}) in {at_end(window)} repeat themselves"
        says += f", {share_before:.0%} in the first window"
        evidence = {"k": len(loops), "n": len(last), "first": share_before, "examples": _shown(loops)}
        yield Event("texts", "warning", says, share, dates, evidence, kind="loops")
    pools = [b"\n".join(side) for side in (first, last)]
    size = min(map(len, pools))
    if size < LEAST_POOL:
        yield f"noise: the first or the last window holds {size:,} bytes of text, and {LEAST_POOL:,} are needed"
        return
    start, end = (entropy(pool[:size]) for pool in pools)
    if above(end, settings.entropy) and above(end - start, settings.risen):
        says = f"given the byte before it, a byte of the texts in {at_end(window)} has {end:.3g} bits, {start:.3g} in the first window"
        yield Event("texts", "warning", says, end, dates, {"first": start, "examples": _shown(last)}, kind="noise")


def repetition(text: bytes) -> float | None:
    """Share of the stretches of a text that stood in it before; None of a text that is too short."""
    import numpy as np

    text = b" ".join(text.split())
    if len(text) < SHORTEST:
        return None
    stretches = np.lib.stride_tricks.sliding_window_view(np.frombuffer(text, dtype=np.uint8), STRETCH)
    different = np.unique(np.ascontiguousarray(stretches).view(np.dtype((np.void, STRETCH)))).size
    return 1 - different / len(stretches)


def entropy(text: bytes) -> float:
    """Bits of a byte given the one before it, as often as pairs occur in the text itself (Shannon's F2, of bytes)."""
    import numpy as np

    codes = np.frombuffer(text, dtype=np.uint8).astype(int)
    pairs = np.bincount(codes[:-1] * 256 + codes[1:], minlength=65536).reshape(256, 256)
    counts, firsts = pairs[pairs > 0], pairs.sum(axis=1, keepdims=True).repeat(256, axis=1)[pairs > 0]
    return float((counts * np.log2(firsts / counts)).sum() / pairs.sum())


def _texts(rows: DataFrame) -> list[bytes]:
    """Texts of a window that are not empty, at most MOST_TEXTS, evenly spread."""
    texts = [text for text in rows["text"].astype(str) if text.strip()]
    apart = max(1, -(-len(texts) // MOST_TEXTS))
    return [text.encode("utf-8", "replace")[:MOST_BYTES] for text in texts[::apart]]


def _shown(texts: list[bytes]) -> list[str]:
    """Untrusted: escape before showing."""
    return [text.decode("utf-8", "replace")[:EXAMPLE_CHARS] for text in texts[:EXAMPLES]]
