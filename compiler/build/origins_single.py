"""Where the values of cards of stages that run once came from: what a spec sets directly."""

from __future__ import annotations

from compiler.build import origins as places
from compiler.build.stops import stop_card, stop_origins
from compiler.document.node import Node
from compiler.language.expand import Expansion
from compiler.language.experiment import Experiment


def of_single_stages(of: Experiment, expansion: Expansion) -> dict[str, places.Origins]:
    """Path of a card below the experiment's folder -> places of its values."""
    root = of.root
    found: dict[str, places.Origins] = {
        "preflight/preflight.card.json": {
            "/completions": places.origin(root.get("preflight", "completions")),
            "/zero_signal_below": places.origin(root.get("preflight", "zero_signal_share", "below")),
            "/truncated_below": places.origin(root.get("preflight", "truncated", "below")),
        },
        "page.card.json": {f"/{key}": places.origin(root.get(key)) for key in ("title", "question", "owner", "tags")},
        "analysis/screen.card.json": {"/profile": places.origin(root.get("health", "profile"))},
        "analysis/conclude.card.json": {},
    }
    for index, name in enumerate(sorted(of.spec.health.gates)):
        found["analysis/screen.card.json"][f"/gates/{index}"] = places.origin(root.get("health", "gates", name))
    for index in range(len(of.spec.claims)):
        node = of.node("claims", index)
        margin = node.get("above") or node.get("below")
        keys: dict[str, Node | None] = {key: node.get(key) for key in ("metric", "statistic", "condition")}
        keys |= {"margin": margin, "seeds": node.get("needs", "seeds"), "contrast": node.get("contrast")}
        found["analysis/conclude.card.json"] |= {f"/claims/{index}/{key}": places.origin(inner) for key, inner in keys.items()}
        found["page.card.json"][f"/claims/{index}/says"] = places.origin(node.get("says"))
    conclude = found["analysis/conclude.card.json"]
    conclude |= {f"/expectations/{index}": places.origin(of.node("expect", index)) for index in range(len(of.spec.expect))}
    ruled = [setup for setup in expansion.setups if stop_card(of, setup) is not None]
    for index, setup in enumerate(ruled):
        conclude |= {f"/stops/{index}/stop{pointer}": place for pointer, place in stop_origins(of, setup).items()}
    if of.spec.evaluation is not None:
        keys = {key: root.get("evaluation", key) for key in ("samples", "temperature", "top_p", "max_completion_length")}
        data = root.get("data", "evaluation")
        keys |= {f"data/{key}": data.get(key) if data else None for key in ("prompt", "rows")}
        found["analysis/evaluate.card.json"] = {f"/{key}": places.origin(node) for key, node in keys.items()}
        found["analysis/evaluate.card.json"] |= places.of_data("/data", data)
        found["analysis/evaluate.card.json"] |= places.of_gates("/scores", expansion.scores)
    return found
