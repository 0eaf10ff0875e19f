"""The attacks in OCaml: all are contained in every tier, and one that gets through takes the tier away."""

import os
import shutil
from pathlib import Path

import pytest

from stages.train.verifiers import ocaml_attacks, sandbox
from stages.train.verifiers.faults import VerifierUnavailable

if shutil.which("ocamlc") is None and os.environ.get("CI") != "true":
    pytest.skip("OCaml is not installed (apt-get install ocaml-nox)", allow_module_level=True)


def test_every_attack_is_contained(tier, monkeypatch):
    monkeypatch.setenv("OCTAVO_SECRET", "x")
    assert ocaml_attacks.holes(tier) == []
    assert not Path("/tmp/octavo-escape").exists()


def test_an_answer_that_is_simply_right_would_be_seen_as_a_hole(tier, monkeypatch):
    """Else the probe could not tell a refusal from a verifier that answers nothing."""
    monkeypatch.setattr(ocaml_attacks, "CHEATING", {"nothing forbidden": "let f x = x + 1"})
    monkeypatch.setattr(ocaml_attacks, "REACHING_OUT", {"gets through": "0", "is refused": "x + 1"})
    assert ocaml_attacks.holes(tier) == ["gets through: --", "nothing forbidden: ++"]


def test_a_hole_takes_the_tier_away_and_is_not_remembered(monkeypatch, tmp_path):
    monkeypatch.setattr(sandbox, "CACHE", tmp_path)
    monkeypatch.setattr(ocaml_attacks, "holes", lambda tier: ["Obj.magic: ++"])
    ocaml_attacks.tier.cache_clear()
    with pytest.raises(VerifierUnavailable, match="does not hold OCaml answers: Obj"):
        ocaml_attacks.tier()
    assert list(tmp_path.glob("ocaml-*")) == []
    monkeypatch.setattr(ocaml_attacks, "holes", lambda tier: [])
    assert ocaml_attacks.tier() == sandbox.tier()
    assert len(list(tmp_path.glob("ocaml-*"))) == 1
    ocaml_attacks.tier.cache_clear()
    monkeypatch.setattr(ocaml_attacks, "holes", lambda tier: ["never asked again"])
    assert ocaml_attacks.tier() == sandbox.tier()
