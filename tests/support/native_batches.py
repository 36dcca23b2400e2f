"""Batches of native problems, taken through random actions."""

from __future__ import annotations

from typing import Any

import numpy as np

from ucb_moppo.envs import MO_PROBLEMS, PROBLEMS, make_spec
from ucb_moppo.envs.native import NativeBatch

NATIVE = {**PROBLEMS, **MO_PROBLEMS}


def make(name: str, num_envs: int, **kwargs: Any) -> NativeBatch:
    return NativeBatch(NATIVE[name], num_envs, **{"num_threads": 1, **kwargs})


def started(name: str, num_envs: int, **kwargs: Any) -> NativeBatch:
    batch = make(name, num_envs, **kwargs)
    batch.reset(np.arange(num_envs), range(num_envs))
    return batch


def actions_for(name: str, steps: int, num_envs: int) -> np.ndarray:
    """Actors' actions [steps, num_envs, …]: choices, or numbers of which a quarter lie beyond the bounds."""
    spec, rng = make_spec(name), np.random.default_rng(1)
    if spec.action.discrete:
        return rng.integers(spec.action.size, size=(steps, num_envs))
    return rng.uniform(-1.3, 1.3, (steps, num_envs, spec.action.size)).astype(np.float32)
