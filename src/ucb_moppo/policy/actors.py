"""Acting: the one forward pass from raw observations to what the actors of K policies say. Numpy alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ucb_moppo.policy.networks import PAPER_NETWORK, Network, Params, add_noise, apply_mlp, choose
from ucb_moppo.policy.normaliser import Statistics, normalise

ACTOR_PREFIX = "actor."
OBSERVATION_TENSORS = tuple(f"observation.{name}" for name in Statistics._fields)


class ActingFunction(Protocol):
    """What rollouts and evaluations ask for actions."""

    def __call__(self, observation: NDArray, weight: NDArray, noise: NDArray | None = None) -> NDArray:
        """Raw observations [K, N, d], weights [K, N, m] -> means, logits or (MultiDiscrete) choices [K, N, a], with
        noise if given."""
        ...


class Actors(NamedTuple):
    """What acting needs of K policies: arrays with a leading axis K, which a single policy may leave out."""

    params: Params
    observation_stats: Statistics
    network: Network = PAPER_NETWORK

    def __call__(self, observation: NDArray, weight: NDArray, noise: NDArray | None = None) -> NDArray:
        """Means, logits or choices [K, N, a] for raw observations [K, N, d] under weights [K, N, m]."""
        inputs = normalise(self.observation_stats, observation.astype(np.float32, copy=False))
        output = apply_mlp(self.params, inputs, weight, self.network)
        return choose(self.params, output if noise is None else add_noise(self.params, output, noise))


def actors_from_tensors(tensors: Mapping[str, NDArray], network: Network = PAPER_NETWORK) -> Actors:
    """The actors among named tensors, of K policies or of one."""
    params = {n.removeprefix(ACTOR_PREFIX): a for n, a in tensors.items() if n.startswith(ACTOR_PREFIX)}
    return Actors(params, Statistics(*(tensors[name] for name in OBSERVATION_TENSORS)), network)


def actors_to_tensors(actors: Actors) -> dict[str, NDArray]:
    """The named tensors that ``actors_from_tensors`` reads."""
    named = {f"{ACTOR_PREFIX}{name}": array for name, array in actors.params.items()}
    return named | dict(zip(OBSERVATION_TENSORS, actors.observation_stats, strict=True))
