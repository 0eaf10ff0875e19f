"""`python -m stages.publish.page runs/<experiment>`: the page of one experiment, written from files alone.

Writes `page/`: index.md, static/ (numbers.html, and a page a run when the spec asks for them), passports.js, summary.json, rules.json,
lineage.json and a copy of the figures. The folder is replaced as a whole when everything was written.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

from markupsafe import Markup

from stages.contracts.artifact import ArtifactError, digest, dump
from stages.contracts.layout import ExperimentFolder
from stages.contracts.page_card import PageCard
from stages.contracts.stage import main, open_card
from stages.publish import (
    anomalies,
    attempts,
    completions,
    conditions,
    exclusions,
    figures,
    header,
    imported,
    judged,
    methods,
    questions,
    rewards,
    rules,
)
from stages.publish.citation import citation
from stages.publish.claims import ClaimView, claim_views
from stages.publish.experiment import RULES, ExperimentFiles, load
from stages.publish.facts import Facts
from stages.publish.lineage import lineage
from stages.publish.page_summary import page_summary
from stages.publish.passports import FILE as PASSPORTS
from stages.publish.passports import figure_passport, passport, passports_json, passports_script, records, verdict_passport
from stages.publish.prose import render_prose
from stages.publish.render import render
from stages.publish.run_page import run_pages
from stages.publish.settings import setting_groups
from stages.publish.static_pages import FOLDER
from stages.publish.text import escape

MODULES = ("stages.publish.page",)


def page(folder: Path) -> None:
    """Build `<folder>/page/`. Raises StageError or ArtifactError and leaves the old page when anything is missing or broken."""
    open_card(PageCard, ExperimentFolder(folder).page_card, MODULES)
    experiment = load(folder)
    replace_folder(experiment.folder.page, compose(experiment))


def compose(experiment: ExperimentFiles) -> dict[str, bytes]:
    """Relative path -> content of everything in the page's folder."""
    facts, modules = Facts(experiment.findings), (anomalies, attempts, conditions, exclusions, imported, methods, questions, rewards, rules)
    claims, seen = claim_views(experiment, facts), anomalies.anomalies(experiment)
    warnings = list(header.banners(experiment, claims))
    finished = attempts.rates(experiment, facts)
    index = render(
        "experiment.md.j2",
        **{module.__name__.rpartition(".")[2]: module for module in modules},
        experiment=experiment,
        name=experiment.folder.name,
        card=experiment.card,
        facts=facts,
        front_title=Markup(json.dumps(escape(experiment.card.title))),  # themes write titles and tags as they are
        front_tags=Markup(json.dumps([escape(tag) for tag in experiment.card.tags])),
        answer=header.answer(claims),
        badges=header.badges(experiment),
        banners=warnings,
        summary=list(header.summary(experiment, facts, claims, seen, finished)),
        claims=claims,
        seen=seen,
        rates=finished,
        older_code={run.ref.name: judged.short(lines) for run in experiment.runs if (lines := judged.behind_run(experiment, run))},
        drawn=figures.pictures(experiment),
        examples=completions.examples(experiment),
        settings=setting_groups(experiment),
        prose=_prose(experiment, facts),
        citation=citation(experiment),
        judged=[(judged.units(line), line.who, line.at, line.why) for line in judged.behind_page(experiment)],
    )
    warned = len(warnings) + sum(anomaly.severity != "info" for anomaly in seen)
    texts = {
        "index.md": index,
        **{f"{FOLDER}/{name}": text for name, text in run_pages(experiment).items()},
        "summary.json": dump(page_summary(experiment, claims, warned)),
        RULES: dump(experiment.changed),
        **_evidence(experiment, facts, claims),
    }
    files = {name: text.encode() for name, text in texts.items()}
    for drawing in experiment.drawings:
        if (plot := figures.plot_script(experiment, drawing)) is not None:
            files[f"figures/{drawing.figure.name}.js"] = plot.encode()
        files |= {f"figures/{name}": content for name, content in figures.files(drawing).items()}
    return files


def _prose(experiment: ExperimentFiles, facts: Facts) -> Markup | None:
    """The author's interpretation as HTML; None when the spec has none, and on a profile's page: it is about the full experiment."""
    if experiment.card.prose is None or experiment.card.profile is not None:
        return None
    path = Path(experiment.card.prose)
    try:
        return render_prose(path.read_text(encoding="utf-8"), path, facts)
    except (FileNotFoundError, UnicodeDecodeError) as error:
        raise ArtifactError(path, f"the interpretation cannot be read: {error}", why="the page shows it", fix="octavo compile") from None


def _evidence(experiment: ExperimentFiles, facts: Facts, claims: tuple[ClaimView, ...]) -> dict[str, str]:
    """Passports of the numbers, verdicts and figures that the page shows, the files behind it, and how to cite it."""
    shared = records(experiment, [*facts.used.values(), *(drawing.figure for drawing in experiment.drawings)])
    passports = [passport(experiment, finding) for finding in facts.used.values()]
    passports += [verdict_passport(experiment, claim) for claim in claims]
    passports += [figure_passport(experiment, drawing) for drawing in experiment.drawings]
    cited = citation(experiment)
    return {
        f"{FOLDER}/numbers.html": render("numbers.html.j2", experiment=experiment.folder.name),
        PASSPORTS: passports_script(passports_json(experiment, passports, shared)),
        "lineage.json": dump(lineage(experiment, [source for record in shared.values() for source in record.files])),
        "citation.bib": cited.bibtex,
        "CITATION.cff": cited.cff,
    }


def replace_folder(target: Path, files: dict[str, bytes]) -> None:
    """Write a folder beside its place and swap it in: a reader sees the old page or the new one, also on a full disk."""
    mark = digest("".join(sorted(files)))[:8]
    new, old = target.with_name(f".{target.name}.new-{mark}"), target.with_name(f".{target.name}.old-{mark}")
    for folder in (new, old):
        shutil.rmtree(folder, ignore_errors=True)
    try:
        for name, content in files.items():
            path = new / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        if target.exists():
            os.replace(target, old)
        os.replace(new, target)
    finally:
        shutil.rmtree(new, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)


if __name__ == "__main__":
    main(page, "python -m stages.publish.page runs/<experiment>")
