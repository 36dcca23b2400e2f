"""The actor π(s, w) and the twin critics Q(s, a, w) ∈ ℝ^m: two ReLU layers each, the preference at the input."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ucb_moppo.policy.networks import Array, Network, Params, apply_mlp
from ucb_moppo.spec import EnvSpec

ACTOR = Network(activation="relu", residual=False, squash=True)
CRITIC = Network(activation="relu", residual=False)
NUM_TWINS = 2


def init_actor(rng: np.random.Generator, spec: EnvSpec, cells: int) -> dict[str, NDArray]:
    """Parameters of an actor for Box actions."""
    return _init_mlp(rng, (spec.observation_size + spec.num_objectives, cells, cells, spec.action.size))


def init_critics(rng: np.random.Generator, spec: EnvSpec, cells: int) -> dict[str, NDArray]:
    """Parameters of the twins, with a leading axis 2."""
    inputs = spec.observation_size + spec.action.size + spec.num_objectives
    twins = [_init_mlp(rng, (inputs, cells, cells, spec.num_objectives)) for _ in range(NUM_TWINS)]
    return {name: np.stack([twin[name] for twin in twins]) for name in twins[0]}


def _init_mlp(rng: np.random.Generator, sizes: tuple[int, ...]) -> dict[str, NDArray]:
    """Normal kernels of variance 2 / (inputs + outputs) (Glorot's), zero biases, as the authors begin."""
    params: dict[str, NDArray] = {}
    for layer, fan_in, fan_out in zip((*ACTOR.layers, "head"), sizes[:-1], sizes[1:], strict=True):
        kernel = rng.standard_normal((fan_in, fan_out)) * np.sqrt(2 / (fan_in + fan_out))
        params |= {f"{layer}.kernel": kernel.astype(np.float32), f"{layer}.bias": np.zeros(fan_out, np.float32)}
    return params


def apply_actor(actor: Params, observation: Array, weight: Array) -> Array:
    """Actions [B, a] in [-1, 1] for raw observations [B, d] and preferences [B, m]."""
    return apply_mlp(actor, observation, weight, ACTOR)


def apply_critics(critics: Params, observation: Array, action: Array, weight: Array) -> Array:
    """Values [..., B, m] of actions [B, a]; the leading axis of the parameters, if any, is that of the result."""
    xp = observation.__array_namespace__()
    return apply_mlp(critics, xp.concat([observation, action], axis=-1), weight, CRITIC)


def count_parameters(*params: Params) -> int:
    return sum(array.size for part in params for array in part.values())
