"""What the README, the guide and the pages of errors tell people to type and to write: commands that exist, and specs that are right."""

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from compiler.__main__ import _parser, main

ROOT = Path(__file__).parents[1]
PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    *sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "site/docs").rglob("*.md") if "decisions" not in path.parts),
]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.S | re.M)
INLINE = re.compile(r"`((?:octavo|make) [^`]+)`")
END = {"&&", "||", "|", ";", "&"}
NAMED = ("expected one argument", "the following arguments are required")
"""What argparse says of a command or an option that running text names and does not type, such as `octavo plan --base`."""


def commands(text):
    """(line, words, whether in running text) of each `octavo` and `make` command of a page."""
    lines = []
    for block in FENCE.finditer(text):
        if block[1] == "sh":
            first = text[: block.start(2)].count("\n") + 1
            lines += [
                (first + number, line, False) for number, line in enumerate(block[2].splitlines()) if re.search(r"\b(octavo|make)\b", line)
            ]
    bare = FENCE.sub(lambda block: "\n" * block[0].count("\n"), text)
    lines += [(bare[: code.start()].count("\n") + 1, code[1].replace("\n", " "), True) for code in INLINE.finditer(bare)]
    for line, typed, is_named in lines:
        if typed.count("'") % 2:  # a message that begins with octavo's name
            continue
        lexer = shlex.shlex(re.sub(r"<[^<>]+>", "x", typed), posix=True, punctuation_chars="&|;")
        lexer.whitespace_split, lexer.commenters = True, "#"
        command = []
        for word in [*lexer, ";"]:
            if word in END:
                if command[:1] in (["octavo"], ["make"]):
                    yield line, command[: command.index(">")] if ">" in command else command, is_named
                command = []
            elif command or "=" not in word:  # `NAME=value` before a command
                command.append(word)


@pytest.mark.parametrize("page", PAGES)
def test_commands_that_people_are_told_to_type_exist(page, capsys):
    targets = set(re.findall(r"^([a-z0-9-]+):.*##", (ROOT / "Makefile").read_text(), re.M))
    wrong = []
    for line, (program, *words), is_named in commands((ROOT / page).read_text(encoding="utf-8")):
        if program == "make":
            wrong += [(line, word) for word in words if "=" not in word and word not in targets and re.fullmatch("[a-z0-9-]+", word)]
            continue
        try:
            _parser().parse_args(words)
        except SystemExit as end:
            errors = capsys.readouterr().err
            if end.code and not (is_named and any(text in errors for text in NAMED)):
                wrong.append((line, " ".join(words), errors.splitlines()[-1]))
    assert not wrong


def blocks(page):
    """(line, content) of each YAML block of a page that is a map."""
    text = (ROOT / page).read_text(encoding="utf-8")
    for block in FENCE.finditer(text):
        if block[1] == "yaml":
            content = YAML(typ="safe", pure=True).load(block[2])
            if isinstance(content, dict) and "repos" not in content:  # pre-commit's own file
                yield text[: block.start(2)].count("\n") + 1, content


def merged(below, above):
    """Maps merge, null removes, all else is replaced, as layers of specs do."""
    if not (isinstance(below, dict) and isinstance(above, dict)):
        return above
    both = {**below, **{key: merged(below.get(key), value) for key, value in above.items()}}
    return {key: value for key, value in both.items() if value is not None}


PLACES = {
    "site/docs/guide/hub-and-gpu.md": {"examples": ("rewards", "shaped")},
    "site/docs/guide/import-runs.md": {"format": ("runs", "import"), "config": ("runs", "import")},
}
"""Blocks that begin further down in a spec: page -> first key of the block -> where it stands."""
BASES = {"site/docs/guide/lean.md": "deceptive-proofs"}
"""Pages whose blocks belong to another spec than the quickstart's."""


def base(page):
    """A whole spec for the blocks of a page, without profiles, and without examples: they name rows of its own data."""
    spec = YAML(typ="safe", pure=True).load((ROOT / f"specs/{BASES.get(page, 'quickstart')}.yaml").read_text(encoding="utf-8"))
    spec.pop("profiles")
    if spec["conditions"].pop("ut-inverted", None):  # its reward reads a column of its own
        spec["rewards"].pop("unit-tests")
    for reward in spec["rewards"].values():
        reward.pop("examples", None)
    return spec


def wholes(block, base, so_far):
    """Specs that a person may make of a block: alone, merged into or in place of keys of the page so far, or of the base."""
    yield block
    if "algorithm" in block.get("train", {}):
        yield {**{key: base[key] for key in ("title", "question", "seeds")}, **block}
    for below in (so_far, base):
        yield merged(below, block)
        yield {**below, **block}


@pytest.mark.parametrize("page", [page for page in PAGES if any(blocks(page))])
def test_yaml_that_people_are_shown_is_right(page, tmp_path, monkeypatch, capsys):
    for name in ("data", "constraints.txt", "specs/_models", "specs/quickstart.yaml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tmp_path / name)
        else:
            shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "specs/_shared").mkdir()
    for name in ("laptop", "python-health"):  # of the guide's example
        (tmp_path / f"specs/_shared/{name}.yaml").write_text("tags: [shared]\n")
    (tmp_path / "scripts").mkdir()
    for name in ("train.py", "rewards.py"):
        (tmp_path / "scripts" / name).write_text("")
    monkeypatch.chdir(tmp_path)
    below = so_far = base(page)
    for line, block in blocks(page):
        for key in reversed(PLACES.get(page, {}).get(next(iter(block)), ())):
            block = {key: block}
        tried = []
        for whole in wholes(block, below, so_far):
            (tmp_path / "specs/block.yaml").write_text(json.dumps(whole, default=str), encoding="utf-8")
            main(["check", "block"])
            problems = re.findall(r"^(?:\S+ )?(E\d{3} .*)", capsys.readouterr().err, re.M)
            if not [problem for problem in problems if not problem.startswith("E389 ")]:  # a log that is the reader's own
                so_far = whole
                break
            tried.append(problems)
        else:
            pytest.fail(f"{page}:{line}: in no whole spec is this right:\n" + "\n".join(" | ".join(problems) for problems in tried))
