"""False alarms and hits of the detector `gibberish`, by what texts were at the beginning and at the end of a run. Fixed seeds.

    python benchmarks/gibberish.py [runs] [folder with more texts ...]

Texts are stretches of 100 to 2,000 letters of files: the guide, octavo's Python, the answers of the example data (OCaml, Lean, Python), and
`*.ml`, `*.lean` of the folders; digits, lists of numbers and tables are made. A run has a window of 64 texts at each end. Prints the share
of runs with a warning: where both ends are healthy (whatever they are), and where the last one is broken.
"""

from __future__ import annotations

import json
import random
import string
import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pandas as pd

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from stages.analyse.detectors import gibberish  # noqa: E402
from stages.analyse.frames import Run  # noqa: E402
from stages.analyse.signals import ask  # noqa: E402
from stages.contracts.wilson import wilson  # noqa: E402

TEXTS = 64
Text = Callable[[random.Random], str]


def corpora(folders: list[Path]) -> dict[str, str]:
    """Kind -> all its texts, one after the other."""
    whole = {"guide": (ROOT / "site/docs/guide").glob("*.md"), "python": (ROOT / "stages").rglob("*.py")}
    for ending in ("ml", "lean"):
        whole[f"{ending} files"] = (path for folder in folders for path in folder.rglob(f"*.{ending}"))
    texts = {name: [path.read_text(encoding="utf-8", errors="replace") for path in sorted(paths)[:500]] for name, paths in whole.items()}
    return {name: "\n".join(files) for name, files in texts.items() if files}


def answers(file: str) -> Text:
    """One answer of the example data."""
    lines = (ROOT / f"data/{file}/train.jsonl").read_text(encoding="utf-8").splitlines()
    texts = [f"{row.get('statement', '')} {row['answer']}" for row in map(json.loads, lines)]
    return lambda rng: rng.choice(texts)


def stretches(text: str) -> Text:
    def stretch(rng: random.Random) -> str:
        length = rng.randint(100, 2_000)
        start = rng.randrange(max(1, len(text) - length))
        return text[start : start + length]

    return stretch


def healthy(folders: list[Path]) -> dict[str, Text]:
    numbers: dict[str, Text] = {
        "digits": lambda rng: "".join(rng.choice(string.digits) for _ in range(rng.randint(20, 400))),
        "lists of numbers": lambda rng: ", ".join(str(rng.randrange(1000)) for _ in range(rng.randint(5, 80))),
        "sums": lambda rng: "\n".join(
            f"{(a := rng.randrange(99))} + {(b := rng.randrange(99))} = {a + b}" for _ in range(rng.randint(3, 20))
        ),
        "counting": lambda rng: " ".join(map(str, range(rng.randint(20, 200)))),
        "one word": lambda rng: rng.choice(["yes", "no", "maybe"]),
    }
    own = {"ocaml answers": answers("ocaml-tiny"), "lean answers": answers("theorems"), "python answers": answers("python-functions")}
    return {name: stretches(text) for name, text in corpora(folders).items()} | own | numbers


def broken(words: list[str], sources: list[Text]) -> dict[str, Text]:
    def loop(rng: random.Random) -> str:
        return (" ".join(rng.choices(words, k=rng.randint(1, 12))) + " ") * rng.randint(15, 60)

    def cut(rng: random.Random, size: int) -> str:
        return "".join(
            (text := rng.choice(sources)(rng))[(start := rng.randrange(len(text) - size)) : start + size] for _ in range(600 // size)
        )

    return {
        "loops": loop,
        "letters": lambda rng: "".join(rng.choice(string.ascii_letters + " ") for _ in range(400)),
        "any characters": lambda rng: "".join(chr(rng.randrange(0x20, 0xD7A4)) for _ in range(300)),
        "salad of 2 letters": lambda rng: cut(rng, 2),
        "salad of 4 letters": lambda rng: cut(rng, 4),
        "salad of words": lambda rng: " ".join(rng.choices(words, k=80)),
    }


def warned(first: Text, last: Text, seed: int) -> bool:
    rng = random.Random(seed)
    rows = [(step, text(rng)) for step, text in [(1, first)] * TEXTS + [(10, last)] * TEXTS]
    run = Run(
        "r-s1", "r", "treatment", 10, pd.DataFrame(index=pd.Index([1, 10], name="step")), pd.DataFrame(rows, columns=["step", "text"])
    )
    return bool(ask("gibberish", gibberish, {}, run).signals)


def main() -> None:
    runs, folders = int(sys.argv[1]) if len(sys.argv) > 1 else 10, [Path(name) for name in sys.argv[2:]]
    fine = healthy(folders)
    bad = broken(corpora([])["guide"].split(), [text for name, text in fine.items() if name in ("guide", "python")])
    alarms = {pair: sum(warned(fine[pair[0]], fine[pair[1]], seed) for seed in range(runs)) for pair in product(fine, fine)}
    k, n = sum(alarms.values()), runs * len(alarms)
    low, high = wilson(k, n, 0.95)
    print(f"healthy: warnings in {k} of {n} runs [{low:.2%}, {high:.2%}], {len(fine)} kinds of text at each end")
    for (first, last), count in alarms.items():
        if count:
            print(f"  {first} -> {last}: {count} of {runs}")
    for name, text in bad.items():
        hits = sum(warned(first, text, seed) for first in fine.values() for seed in range(runs))
        print(f"broken, {name}: warnings in {hits} of {runs * len(fine)}")


if __name__ == "__main__":
    main()
