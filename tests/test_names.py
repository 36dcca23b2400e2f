"""What ``import ucb_moppo`` gives: names for type hints among it, at no cost before they are used."""

from __future__ import annotations

import subprocess
import sys

import pytest

import ucb_moppo
from ucb_moppo.decide.forecast import Forecast
from ucb_moppo.engine.learner import Snapshot
from ucb_moppo.policy.policy import PolicyEpisode
from ucb_moppo.spec import EnvSpec
from ucb_moppo.store.decision import Decision


def test_what_functions_return_can_be_named() -> None:
    assert ucb_moppo.Decision is Decision
    assert ucb_moppo.Forecast is Forecast
    assert (ucb_moppo.EnvSpec, ucb_moppo.PolicyEpisode, ucb_moppo.Snapshot) == (EnvSpec, PolicyEpisode, Snapshot)
    assert [name for name in ucb_moppo.__all__ if not hasattr(ucb_moppo, name)] == []


def test_another_name_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="module 'ucb_moppo' has no attribute 'Trainer'"):
        _ = ucb_moppo.Trainer


def test_importing_loads_neither_what_decides_nor_what_trains() -> None:
    ask = [sys.executable, "-c", "import sys, ucb_moppo; print(*sys.modules)"]
    done = subprocess.run(ask, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "ucb_moppo.training.stepping" in loaded
    heavy = {"jax", "mujoco", "moocore", "scipy", "sklearn", "matplotlib", "mo_gymnasium"}
    assert not loaded & {"ucb_moppo.store.decision", "ucb_moppo.decide.advice", "ucb_moppo.config", *heavy}
