"""The weights that policies are evaluated on, the same for every method."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ucb_moppo.config import Division, MoppoConfig
from ucb_moppo.objectives.weights import Decomposition, make_decomposition, reweigh
from ucb_moppo.spec import EnvSpec


def make_run_decomposition(config: MoppoConfig, spec: EnvSpec) -> Decomposition:
    """Pivots, candidates and probes of every policy, the same for each replica."""
    return _decompose(config.division, spec.num_objectives, config.search.candidates)


def probe_weights(division: Division, num_objectives: int, num_probes: int | None = None) -> NDArray:
    """[K, P, m] the weights that a run is evaluated on, or ``num_probes`` of each sub-space."""
    wanted = division if num_probes is None else division._replace(probes=num_probes)
    return _decompose(wanted, num_objectives, num_candidates=1).probes


def spread_weights(division: Division, num_objectives: int, num_policies: int, per_subspace: int) -> NDArray:
    """[K, W, m] so many evenly spaced weights of each sub-space; a policy that knows all of them gets all."""
    weights = probe_weights(division, num_objectives, per_subspace)
    return weights if num_policies == len(weights) else weights.reshape(1, -1, num_objectives)


def _decompose(division: Division, num_objectives: int, num_candidates: int) -> Decomposition:
    policies, probes, pivots, replicas, scales = division
    scale = np.ones(num_objectives) if scales is None else np.asarray(scales)
    given = None if pivots is None else reweigh(np.asarray(pivots), scale)
    one = make_decomposition(num_objectives, policies, num_candidates, probes, pivots=given)
    repeat = (replicas, 1, 1)
    return Decomposition(
        pivots=np.tile(reweigh(one.pivots, 1 / scale), repeat[:2]),
        candidates=np.tile(reweigh(one.candidates, 1 / scale), repeat),
        probes=np.tile(reweigh(one.probes, 1 / scale), repeat),
    )
