"""Settings have TRL's names: each key is one of TRL's own, so that its documentation stays true."""

import dataclasses

import pytest

from stages.contracts.training import GrpoSettings, RlooSettings, SftSettings

OURS = {"algorithm", "early_stop", "guards", "generation", "deterministic"}


@pytest.mark.parametrize(("settings", "config"), [(GrpoSettings, "GRPOConfig"), (RlooSettings, "RLOOConfig"), (SftSettings, "SFTConfig")])
def test_every_key_is_a_field_of_trl(settings, config):
    import trl

    fields = {field.name for field in dataclasses.fields(getattr(trl, config))}
    assert set(settings.model_fields) - OURS - fields == set()
