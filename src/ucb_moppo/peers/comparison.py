"""What a peer is evaluated on, and how often: the same as a run of ours on the same problem."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ucb_moppo.config import Config, default_config, override, resolve
from ucb_moppo.engine.trainer import make_run_decomposition, make_schedule
from ucb_moppo.peers.base import PeerConfig
from ucb_moppo.spec import EnvSpec


def our_config(config: PeerConfig, spec: EnvSpec) -> Config:
    """A run of ours on the same problem, of the same length (at least one iteration), policies and probes."""
    names = ("episodes", "policies", "probes")
    same = {name: getattr(config, name) for name in names} | {"horizon": spec.horizon}
    ours = override(default_config(config.problem, config.preset), **same)
    least = resolve(ours, spec).steps_per_iteration
    return resolve(override(ours, steps=max(config.steps, least)), spec)


def our_num_stages(config: PeerConfig, spec: EnvSpec) -> int:
    """How often such a run is evaluated after the first time."""
    ours = our_config(config, spec)
    assert ours.search.warmup is not None
    assert ours.search.stage_iterations is not None
    return len(make_schedule(ours.num_iterations, ours.search.warmup, ours.search.stage_iterations))


def our_probes(config: PeerConfig, spec: EnvSpec, num_probes: int | None = None) -> NDArray:
    """[K, P, m] the weights that such a run is evaluated on, or ``num_probes`` of each sub-space."""
    return make_run_decomposition(our_config(config, spec), spec, num_probes).probes


def positions_of(weights: NDArray, num_probes: int) -> NDArray:
    """[K, W] the position that each of the weights [K, W, m] takes its initial states from.

    Counted through and modulo P: all probes of ours under one policy, or one weight under each of many policies,
    then meet the initial states that our own policies meet.
    """
    num_policies, num_weights, _ = weights.shape
    return (np.arange(num_policies * num_weights) % num_probes).reshape(num_policies, num_weights)
