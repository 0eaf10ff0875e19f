"""How to cite an experiment: BibTeX and Citation File Format, from its title, owner, newest data and commit."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from stages.publish.experiment import ExperimentFiles
from stages.publish.passports import commits
from stages.publish.text import reveal_hidden

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_TEX = {"\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}


@dataclass(frozen=True)
class Citation:
    bibtex: str
    cff: str


def citation(experiment: ExperimentFiles) -> Citation:
    """Both forms. Without data there is no date; attempts from several commits name each of them."""
    card = experiment.card
    ends = [attempt.ended.at for run in experiment.runs for attempt in run.attempts if attempt.ended]
    date, made_by = max(ends)[:10] if ends else "", commits(experiment.runs)
    note = f"octavo experiment {experiment.folder.name}" + (f", commit {', '.join(made_by)}" if made_by else "")
    fields = {"title": f"{{{_tex(card.title)}}}", "author": f"{{{_tex(card.owner)}}}", "note": _tex(note)}
    if date:
        fields |= {"year": date[:4], "month": _MONTHS[int(date[5:7]) - 1]}
    key = re.sub(r"[^A-Za-z0-9-]", "-", f"octavo-{experiment.folder.name}")
    lines = (f"  {name} = {text if name == 'month' else f'{{{text}}}'}," for name, text in fields.items())
    bibtex = "\n".join([f"@misc{{{key},", *lines, "}"]) + "\n"
    entries: list[tuple[str, object]] = [
        ("cff-version", "1.2.0"),
        ("message", "If you use these results, please cite the experiment."),
        ("type", "dataset"),
        ("title", card.title),
        ("abstract", card.question.strip()),
        ("authors", [{"name": card.owner}]),
    ]
    entries += [("keywords", list(card.tags))] if card.tags else []
    entries += [("date-released", date)] if date else []
    entries += [("commit", made_by[0].removesuffix("+"))] if len(made_by) == 1 else []
    return Citation(bibtex, "".join(f"{name}: {_yaml(value)}\n" for name, value in entries))


def _tex(text: str) -> str:
    plain = " ".join(reveal_hidden(text).split())
    return re.sub(r"[\\{}~^]|[#$%&_]", lambda match: _TEX.get(match[0], f"\\{match[0]}"), plain)


def _yaml(value: object) -> str:
    """JSON is YAML, and quotes whatever a title may hold. What cannot be seen is named, so every reader takes it."""
    return reveal_hidden(json.dumps(value, ensure_ascii=False))
