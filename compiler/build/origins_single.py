"""Where the values of cards of stages that run once came from: what a spec sets directly."""

from __future__ import annotations

from compiler.build import origins as places
from compiler.build.stops import stop_card, stop_origins
from compiler.language.expand import Expansion
from compiler.language.experiment import Experiment
from stages.contracts.evaluation import Sampling


def of_single_stages(of: Experiment, expansion: Expansion) -> dict[str, places.Origins]:
    """Path of a card below the experiment's folder -> places of its values."""
    root = of.root
    found: dict[str, places.Origins] = {
        "preflight/preflight.card.json": places.of_section("", of.spec.preflight, root.get("preflight")),
        "page.card.json": {f"/{key}": places.origin(root.get(key)) for key in ("title", "question", "owner", "tags")},
        "analysis/screen.card.json": {"/profile": places.origin(root.get("health", "profile"))},
        "analysis/conclude.card.json": {},
    }
    for index, name in enumerate(sorted(of.spec.health.gates)):
        found["analysis/screen.card.json"][f"/gates/{index}"] = places.origin(root.get("health", "gates", name))
    for index, claim in enumerate(of.spec.claims):
        node = of.node("claims", index)
        found["analysis/conclude.card.json"] |= places.of_section(f"/claims/{index}", claim.rule, node)
        found["page.card.json"][f"/claims/{index}/says"] = places.origin(node.get("says"))
    conclude = found["analysis/conclude.card.json"]
    conclude |= {f"/expectations/{index}": places.origin(of.node("expect", index)) for index in range(len(of.spec.expect))}
    ruled = [setup for setup in expansion.setups if stop_card(of, setup) is not None]
    for index, setup in enumerate(ruled):
        conclude |= {f"/stops/{index}/stop{pointer}": place for pointer, place in stop_origins(of, setup).items()}
    if of.spec.evaluation is not None:
        written = {key: value for key, value in of.spec.evaluation.model_dump(mode="json").items() if key in Sampling.model_fields}
        found["analysis/evaluate.card.json"] = places.leaves("", written, root.get("evaluation"))
        found["analysis/evaluate.card.json"] |= places.of_data("/data", of.spec.data.evaluation, root.get("data", "evaluation"))
        found["analysis/evaluate.card.json"] |= places.of_gates("/scores", expansion.scores)
    return found
