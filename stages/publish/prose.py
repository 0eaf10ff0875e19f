"""The author's interpretation on a page: Markdown without raw HTML, in which `{{ ... }}` becomes what it names.

    {{ shaped/reward/final }}               a number; `| interval` and `| digits 2` say how it is written
    {{ length-ppo:short/loss.value/final }} a number of another experiment
    {{ claim:shaped-teaches }}              a verdict
    {{ figure:reward }} {{ table:conditions }}   a figure or a table, alone in its paragraph

Nothing else is evaluated; an unknown id ends the stage with its place. Code spans and code blocks are left alone.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from markupsafe import Markup

from stages.contracts.diagnostic import StageError
from stages.contracts.interpretation import Interpretation, parse_reference, read_interpretation
from stages.publish import markdown
from stages.publish.claims import ClaimView
from stages.publish.clean import clean_prose, inert
from stages.publish.facts import Facts, did_you_mean
from stages.publish.text import escape, escape_with_code

_REFERENCE = re.compile(f"{markdown.OPEN}(.*?){markdown.CLOSE}", re.DOTALL)
_BLOCK, _BLOCK_END = "\ue002", "\ue003"
"""Around the name of a figure or table until its paragraph is known; `escape` names these letters, so no author writes them."""
_ALONE = re.compile(f"<p>{_BLOCK}([^{_BLOCK_END}]*){_BLOCK_END}</p>")
_IDS = re.compile(r' id="[^"]*"')
_VERDICT = Markup('<a class="fact word {verdict}" href="#claim-{id}">{verdict}</a>')


class Named(NamedTuple):
    """What an interpretation may name, beside numbers: claims, and the HTML of `figure:<name>` and `table:<name>`."""

    claims: Sequence[ClaimView] = ()
    blocks: Mapping[str, Callable[[], str]] = {}


class Prose(NamedTuple):
    """An interpretation as a page shows it."""

    text: Markup
    written_for: Mapping[str, Sequence[str]]
    others: Sequence[ClaimView]
    """Claims whose verdict is none for which it was written."""
    unstated: Sequence[str]
    """Claims of which it does not say for which verdict it was written."""


def read_prose(path: Path, facts: Facts, named: Named) -> Prose:
    """Raises ArtifactError for a file that cannot be read, StageError S301 and S302 as `render_prose`."""
    interpretation = read_interpretation(path)
    written_for = interpretation.written_for
    others = [claim for claim in named.claims if claim.verdict not in written_for.get(claim.id, (claim.verdict,))]
    return Prose(render_prose(interpretation, path, facts, named), written_for, others, interpretation.unstated(c.id for c in named.claims))


def render_prose(interpretation: Interpretation, path: Path, facts: Facts, named: Named) -> Markup:
    """HTML of the author's Markdown. Raises StageError S301 at references that name nothing, S302 when it is too much to read."""
    unknown: list[tuple[str, str]] = []

    def fill(words: str) -> Markup:
        parts: list[str] = _REFERENCE.split(words)
        for at, part in enumerate(parts):
            try:
                parts[at] = _referred(part, facts, named) if at % 2 else escape(part)
            except KeyError as error:
                unknown.append((part, str(error.args[0])))
        return Markup("").join(map(Markup, parts))

    html = inert(clean_prose(_convert(interpretation.text, path)), fill)
    html = Markup(_ALONE.sub(lambda block: _placed(named.blocks[block[1]]()), html))
    inside = [(f"{{{{ {name} }}}}", f"{name} stands inside a text") for name in re.findall(f"{_BLOCK}(.*?){_BLOCK_END}", html)]
    if unknown or inside:
        raise _refusal(_places(interpretation, path, [*unknown, *inside]), path.stem)
    return html


def _referred(source: str, facts: Facts, named: Named) -> Markup:
    """Raises KeyError, with what is wrong, where the reference names nothing."""
    reference = parse_reference(source)
    if reference is None:
        raise KeyError(f"{source} is no reference: write the id of a finding, or claim:, figure: or table: and a name")
    if reference.kind == "claim":
        verdicts = {claim.id: claim.verdict for claim in named.claims}
        if reference.name not in verdicts:
            raise KeyError(f"claim: {did_you_mean(reference.name, verdicts)}")
        return _VERDICT.format(verdict=verdicts[reference.name], id=reference.name)
    if reference.kind != "finding":
        name = f"{reference.kind}:{reference.name}"
        if name not in named.blocks:
            raise KeyError(did_you_mean(name, named.blocks))
        return Markup(f"{_BLOCK}{name}{_BLOCK_END}")  # nothing but names that are known comes here
    if reference.experiment and not facts.reads(reference.experiment):
        raise KeyError(f"the page does not read the findings of {reference.experiment}; octavo compile makes it do so")
    finding = facts.get(reference.name)
    write = facts.interval if reference.interval else facts.value
    return write(finding, reference.digits)


def _placed(block: str) -> str:
    """Without ids, which the section of the figure or table has, and without blank lines, at which Markdown would end the HTML."""
    return re.sub(r"\n\s*\n", "\n", _IDS.sub("", block)).strip()


def fill_answer(claim: ClaimView, experiment: str, facts: Facts, claims: Sequence[ClaimView]) -> Markup | None:
    """The author's sentence for the claim's verdict, with what it refers to; None where there is none. Raises StageError S301."""
    text: str = getattr(claim.answers, claim.verdict, "")  # none while it is open
    if not text:
        return None
    parts = re.split(r"(\{\{.*?\}\})", text)
    try:
        filled = [_referred(part, facts, Named(claims)) if at % 2 else escape_with_code(part) for at, part in enumerate(parts)]
    except KeyError as error:
        raise _refusal([f"specs/{experiment}.yaml: answers.{claim.verdict} of the claim {claim.id}: {error.args[0]}"], experiment) from None
    return Markup("").join(filled)


def _convert(text: str, path: Path) -> str:
    converted = subprocess.run([sys.executable, "-I", markdown.__file__], input=text.encode(), capture_output=True, check=False)
    if converted.returncode:
        raise StageError(
            "S302",
            f"{path}: the interpretation cannot be read as Markdown in {markdown.SECONDS} s and {markdown.MEGABYTES} MB",
            why="a page is built in bounded time, whatever an author wrote",
            fix=f"shorten {path}: look for thousands of brackets, links or table cells",
        )
    return converted.stdout.decode()


def _places(interpretation: Interpretation, path: Path, wrong: Sequence[tuple[str, str]]) -> list[str]:
    lines: list[str] = []
    written = list(interpretation.references)
    for source, message in wrong:
        lines += [f"{path}:{line}:{column}: {message}" for text, line, column in written if text == source] or [f"{path}: {message}"]
    return list(dict.fromkeys(lines))


def _refusal(places: Sequence[str], experiment: str) -> StageError:
    return StageError(
        "S301",
        "\n".join(places),
        why="what the author's words refer to must be computed, so that they cannot drift from the data",
        fix=f"grep '\"id\"' runs/{experiment.replace('.', '@')}/analysis/findings.json  # all ids",
    )
