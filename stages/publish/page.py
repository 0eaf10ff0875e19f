"""`python -m stages.publish.page runs/<experiment>`: the page of one experiment, written from files alone.

Writes `page/`: index.md, static/ (numbers.html, and a page a run when the spec asks for them), passports.js, summary.json, rules.json,
texts/ (completions to search), lineage.json and a copy of the figures. The folder is replaced as a whole when everything was written.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from markupsafe import Markup

from stages.contracts.artifact import digest, dump
from stages.contracts.diagnostic import StageError
from stages.contracts.files import file_digest
from stages.contracts.finding import Source
from stages.contracts.interpretation import TABLES
from stages.contracts.layout import ExperimentFolder
from stages.contracts.lineage import COMPILED, INPUT, Lineage, MadeFile
from stages.contracts.page_card import PageCard
from stages.contracts.stage import main, open_card
from stages.publish import anomalies, attempts, completions, evidence, figures, header, imported, methods, now, result, rules, tables
from stages.publish.care import Sources, cautions, is_doubtful
from stages.publish.claims import ClaimView, claim_views
from stages.publish.experiment import RULES, ExperimentFiles, load
from stages.publish.facts import Facts
from stages.publish.header import FOLDER, page_summary
from stages.publish.held_out import held_out
from stages.publish.methods import citation, judged_run, judged_words
from stages.publish.passports import FILE as PASSPORTS
from stages.publish.passports import figure_passport, passport, passports_json, passports_script, records, verdict_passport
from stages.publish.prose import Named, Prose, fill_answer, read_prose
from stages.publish.run_page import run_pages
from stages.publish.stored_texts import stored_texts
from stages.publish.text import environment, escape, render

MODULES = ("stages.publish.page",)


def page(folder: Path) -> None:
    """Build `<folder>/page/`. Raises StageError or ArtifactError and leaves the old page when anything is missing or broken, and S304,
    behind a page that says so, when no run could be imported: a page without a number is no success."""
    open_card(PageCard, ExperimentFolder(folder).page_card, MODULES)
    experiment = load(folder)
    replace_folder(experiment.folder.page, compose(experiment))
    failed = [run.outcome for run in experiment.runs if run.only_read and run.outcome and run.outcome.failure]
    if failed and len(failed) == len(experiment.runs) and experiment.card.progress is None:
        name, index = experiment.folder.name, experiment.folder.page / "index.md"
        what = f"all {len(failed)} imports of {name} failed; of {experiment.runs[0].ref.name}: {failed[0].error}"
        fix = f"{index} has the reason of each run; correct `runs.import` or the logs, then octavo compile {name} && dvc repro"
        raise StageError("S304", what, why="the page holds no number of any run", fix=fix)


def compose(experiment: ExperimentFiles) -> dict[str, bytes]:
    """Relative path -> content of everything in the page's folder."""
    card, facts, cited = experiment.card, Facts(experiment.findings, digits=experiment.digits), citation(experiment)
    claims, seen = claim_views(experiment, facts), anomalies.anomalies(experiment)
    sources = Sources(experiment, facts, claims, seen)
    reasons = cautions(sources)
    held, browsers = held_out(experiment), list(completions.browsers(experiment))
    sections = (anomalies, attempts, completions, imported, methods, now, result, rules, tables)
    leading, drawn = result.split_leading(experiment, figures.pictures(experiment))
    reading = sum(len(asked.answers) for asked in (held.asked if held else ())) + sum(len(browser.entries) for browser in browsers)
    words: dict[str, Any] = dict(
        **{module.__name__.rpartition(".")[2]: module for module in sections},
        experiment=experiment,
        name=experiment.folder.name,
        card=card,
        facts=facts,
        front_title=Markup(json.dumps(escape(card.title))),  # themes write titles and tags as they are
        front_tags=Markup(json.dumps([escape(tag) for tag in card.tags])),
        answer=header.verdict_counts(claims),
        cautions=reasons,
        is_doubtful=lambda claim: is_doubtful(claim, sources),
        claims=claims,
        seen=seen,
        rates=attempts.rates(experiment, facts),
        parts=evidence.parts(experiment, claims, seen, reading),
        leading=leading,
        answer_of=lambda claim: fill_answer(claim, experiment.folder.name, facts, claims),
        older_code={run.ref.name: judged_words(lines) for run in experiment.runs if (lines := judged_run(experiment, run))},
        drawn=drawn,
        held=held,
        reading=reading,
        citation=cited,
    )
    index = render("experiment.md.j2", prose=lambda: _prose(experiment, facts, claims, words), **words)
    shared = records(experiment, [*facts.used.values(), *(drawing.figure for drawing in experiment.drawings)])
    passports = [passport(experiment, finding) for finding in facts.used.values()]
    passports += [verdict_passport(experiment, claim) for claim in claims]
    passports += [figure_passport(experiment, drawing) for drawing in experiment.drawings]
    stored = list(stored_texts(experiment))
    pages = run_pages(experiment, stored)
    if reading:
        pages["completions.html"] = render("reading.html.j2", browsers=browsers, stored=stored, **words)
    texts = {
        "index.md": index,
        **{f"{FOLDER}/{name}": text for name, text in pages.items()},
        "summary.json": dump(page_summary(sources, reasons)),
        RULES: dump(experiment.changed),
        f"{FOLDER}/numbers.html": render("numbers.html.j2", experiment=experiment.folder.name),
        PASSPORTS: passports_script(passports_json(experiment, passports, shared)),
        "lineage.json": dump(lineage(experiment, [source for record in shared.values() for source in record.files])),
        **{texts.file: texts.script for texts in stored},
        "citation.bib": cited.bibtex,
        "CITATION.cff": cited.cff,
    }
    files = {name: text.encode() for name, text in texts.items()}
    for drawing in experiment.drawings:
        if (plot := figures.plot_script(experiment, drawing)) is not None:
            files[f"figures/{drawing.figure.name}.js"] = plot.encode()
        files |= {f"figures/{name}": content for name, content in figures.files(drawing).items()}
    return files


def _prose(experiment: ExperimentFiles, facts: Facts, claims: Sequence[ClaimView], words: Mapping[str, Any]) -> Prose | None:
    """None when there is no interpretation, and while runs go on. A profile has its own, for its numbers are others. `words`: what
    templates of sections are filled with."""
    if experiment.card.prose is None or experiment.card.progress is not None:
        return None
    macros: dict[str, Any] = {name: environment().get_template(f"{name}.html.j2").module for name in ("pictures", "gates")}
    every = (picture for section in (words["leading"], *words["drawn"].values()) for picture in section)
    pictures = {picture.figure.name.removeprefix("curves-"): picture for picture in every}
    blocks = {f"figure:{name}": partial(macros["pictures"].show, [picture]) for name, picture in pictures.items()}
    blocks |= {f"table:{name}": partial(render, f"{name}.html.j2", **macros, **words) for name in TABLES}
    return read_prose(Path(experiment.card.prose), facts, Named(claims, blocks))


def lineage(experiment: ExperimentFiles, sources: Iterable[Source]) -> Lineage:
    """The files of all runs, of the analysis, and those that the shown numbers and figures were computed from (`sources`). A file that is
    not here and whose digest was never recorded is left out. Paths are relative to the project."""
    recorded = {source.path: source for source in sources}
    made_by: dict[str, str] = {}
    pins = {path: source.sha256 for path, source in recorded.items()}
    for path, sha256, by in _made_files(experiment):
        name = path.as_posix()
        if pin := pins.get(name) or sha256 or (file_digest(path) if path.is_file() else None):
            pins[name] = pin
            made_by.setdefault(name, by)
    made_by = {path: f"attempt {source.attempt}" if source.attempt else "a stage" for path, source in recorded.items()} | made_by
    commits = experiment.commits
    return Lineage(
        experiment=experiment.folder.name,
        commit=commits[0] if len(commits) == 1 else None,
        files=tuple(MadeFile(path=name, sha256=pins[name], made_by=made_by[name]) for name in sorted(pins)),
    )


def _made_files(experiment: ExperimentFiles) -> Iterator[tuple[Path, str | None, str]]:
    """Path, digest where one was recorded, and what made it."""
    folder = experiment.folder
    for path in (folder.screen_card, folder.conclude_card, folder.draw_card):
        yield path, None, COMPILED
    yield from ((folder.findings, None, "stage conclude"), (folder.preflight, None, "stage preflight"))
    for path in (path for drawing in experiment.drawings for path in (drawing.svg, drawing.csv)):
        yield path, None, "stage draw"
    if experiment.evaluate:
        asked = experiment.evaluate.data
        yield from ((Path(path), asked.sha256, INPUT) for path in (asked.path,) if path)
        yield folder.untrained.evaluation, None, "stage evaluate-untrained"
    for run in experiment.runs:
        read = run.import_card.sources if run.import_card else (run.card.data,) if run.card else ()
        yield run.folder.import_card if run.import_card else run.folder.card, None, COMPILED
        yield from ((Path(data.path), data.sha256, INPUT) for data in read if data.path and data.sha256)
        by = f"attempt {run.outcome.attempt}" if run.outcome else "an attempt"
        for path in (run.folder.history, run.folder.completions, run.folder.imported, run.folder.outcome):
            yield path, None, by
        yield run.folder.attempts, None, "attempts"
        yield run.folder.evaluation, None, f"stage evaluate-{run.ref.name}"
        yield run.folder.health, None, "stage screen"


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
