"""`python -m stages.publish.page runs/<experiment>`: the page of one experiment, written from files alone.

Writes `page/`: index.md, leaves/ (numbers.html, and a page a run when the spec asks for them), numbers.js, summary.json, passports.json,
rules.json, lineage.json and a copy of the figures. The folder is replaced as a whole when everything was written.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

from markupsafe import Markup

from stages.contracts.artifact import ArtifactError, canonical_json, digest, dump
from stages.contracts.layout import ExperimentFolder
from stages.contracts.page_card import PageCard
from stages.contracts.stage import main, open_card
from stages.publish import anomalies, doors, imported, intentions, late_figure, ledger, nothing, overview, reward, settings, summary
from stages.publish.ancestry import lineage
from stages.publish.answers import answers
from stages.publish.banners import banners
from stages.publish.citation import citation
from stages.publish.claims import claim_views
from stages.publish.examples import examples
from stages.publish.expectations import expectation_views, rule_views
from stages.publish.experiment import RULES, ExperimentFiles, load
from stages.publish.facts import Facts
from stages.publish.flow import flow
from stages.publish.gate_effects import gate_effects
from stages.publish.leaves import FOLDER
from stages.publish.lists import tag_place
from stages.publish.methods import methods
from stages.publish.opened import script
from stages.publish.passports import passport, passport_json, recompute, records
from stages.publish.pictures import pictures
from stages.publish.plots import plot_script
from stages.publish.prose import render_prose
from stages.publish.prov import prov
from stages.publish.render import render
from stages.publish.run_page import run_pages
from stages.publish.text import shown

MODULES = ("stages.publish.page",)


def page(folder: Path) -> None:
    """Build `<folder>/page/`. Raises StageError or ArtifactError and leaves the old page when anything is missing or broken."""
    open_card(PageCard, ExperimentFolder(folder).page_card, MODULES)
    experiment = load(folder)
    replace_folder(experiment.folder.page, compose(experiment))


def compose(experiment: ExperimentFiles) -> dict[str, bytes]:
    """Relative path -> content of everything in the page's folder."""
    facts = Facts(experiment.findings)
    claims = claim_views(experiment, facts)
    seen, rates = anomalies.anomalies(experiment), ledger.completions(experiment, facts)
    bullets = summary.bullets(experiment, facts, claims, seen, rates)
    told = banners(experiment, claims)
    cited = citation(experiment)
    values = {
        "card": experiment.card,
        "front_title": Markup(json.dumps(shown(experiment.card.title))),  # themes write a page's title as it is
        "experiment": experiment.folder.name,
        "answer": summary.answer(claims),
        "headline": summary.headline(experiment),
        "banners": told,
        "badges": summary.badges(experiment),
        "tags": [(tag, tag_place(tag)) for tag in experiment.card.tags],
        "bullets": bullets,
        "claims": claims,
        "claims_tested": experiment.conclusions.claims_tested,
        "untrained": overview.untrained_row(experiment, facts),
        "conditions": overview.condition_rows(experiment, facts),
        "seeds": overview.seed_rows(experiment, facts),
        "drawn": pictures(experiment),
        "rewards": reward.reward_views(experiment, facts),
        "only_gold": all(condition.supervised for condition in experiment.card.conditions),
        "sandbox": experiment.preflight.sandbox if experiment.preflight else "",
        "examples": examples(experiment),
        "anomalies": seen,
        "unseen": anomalies.unseen(experiment),
        "looked": anomalies.looked(experiment),
        "no_anomalies": nothing.no_anomalies(experiment, bool(anomalies.looked(experiment))),
        "no_curves": nothing.no_curves(experiment),
        "gates": {run.ref.name: run.health.gates for run in experiment.runs if run.health},
        "gate_effects": gate_effects(experiment, facts),
        "attempts": ledger.attempt_rows(experiment),
        "rates": rates,
        "hours": ledger.hours(experiment),
        "questions": answers(experiment, facts, claims),
        "expectations": expectation_views(experiment, facts),
        "stop_rules": rule_views(experiment, facts),
        "actions": intentions.actions(experiment, facts),
        "plans": intentions.plans(experiment),
        "imports": imported.rows(experiment),
        "commands": imported.commands(experiment),
        "at_the_end": imported.at_the_end(experiment),
        "mapping": imported.mapping(experiment),
        "held": imported.held(experiment),
        "unavailable": imported.unavailable(experiment),
        "settings": settings.setting_groups(experiment),
        "prose": prose(experiment, facts),
        "methods": methods(experiment),
        "citation": cited,
    }
    used = facts.used
    drawn = [drawing.figure for drawing in experiment.drawings]
    passports, shared = [passport(experiment, finding) for finding in used.values()], records(experiment, [*used.values(), *drawn])
    verdicts, figures = doors.verdict_passports(experiment, claims, used), doors.figure_passports(experiment, used)
    values |= {"passports": passports, "records": shared, "verdict_passports": verdicts, "figure_passports": figures}
    values["lineage"] = flow(experiment, claims, used)
    values["recompute"], values["analysis_card"] = recompute(experiment), experiment.conclusions.card_id
    graph = lineage(experiment, list(used))
    warnings = len(told) + sum(anomaly.severity != "info" for anomaly in seen)
    files = {
        "index.md": render("experiment.md.j2", **values),
        f"{FOLDER}/numbers.html": render("numbers.html.j2", **values),
        **{f"{FOLDER}/{name}": text for name, text in run_pages(experiment).items()},
        "numbers.js": script([*passports, *verdicts, *figures], shared),
        "summary.json": dump(summary.page_summary(experiment, claims, warnings)),
        "passports.json": canonical_json({name: passport_json(experiment, finding) for name, finding in used.items()}),
        doors.VERDICTS: doors.verdicts_json(experiment, claims),
        doors.FIGURES: doors.figures_json(experiment),
        RULES: dump(experiment.changed),
        "lineage.json": dump(graph),
        "prov.json": prov(graph),
        "citation.bib": cited.bibtex,
        "CITATION.cff": cited.cff,
    }
    made = {name: text.encode() for name, text in files.items()}
    for drawing in experiment.drawings:
        if (plot := plot_script(experiment, drawing)) is not None:
            made[f"figures/{drawing.figure.name}.js"] = plot.encode()
        made |= {f"figures/{name}": content for name, content in late_figure.files(experiment, drawing).items()}
    return made


def prose(experiment: ExperimentFiles, facts: Facts) -> Markup | None:
    """The author's interpretation as HTML; None when the spec has none, and on a profile's page: it is about the full experiment."""
    if experiment.card.prose is None or experiment.card.profile is not None:
        return None
    path = Path(experiment.card.prose)
    try:
        return render_prose(path.read_text(encoding="utf-8"), path, facts)
    except (FileNotFoundError, UnicodeDecodeError) as error:
        raise ArtifactError(path, f"the interpretation cannot be read: {error}", why="the page shows it", fix="octavo compile") from None


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
