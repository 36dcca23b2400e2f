"""The preferences trained on: parts of the simplex for the workers, others for hindsight, some around a key."""

from __future__ import annotations

import bisect
import math

import numpy as np
from numpy.typing import NDArray

from ucb_moppo.objectives.weights import simplex_lattice

MAX_DIVISIONS = 1000
MAX_PREFERENCES = 10_000
"""For two objectives the authors' lattice of step 0.001; coarser for more, where that has millions of points."""


def make_parts(num_objectives: int, num_workers: int) -> list[NDArray]:
    """A lattice of preferences, in lexicographic order, cut into a part [n, m] for every worker."""

    def too_many(divisions: int) -> bool:
        return math.comb(divisions + num_objectives - 1, num_objectives - 1) > MAX_PREFERENCES

    divisions = max(1, bisect.bisect_left(range(MAX_DIVISIONS + 1), True, key=too_many) - 1)
    lattice = simplex_lattice(num_objectives, divisions)
    # With more workers than preferences some share theirs.
    return np.array_split(np.resize(lattice, (max(len(lattice), num_workers), num_objectives)), num_workers)


def draw_from_part(rng: np.random.Generator, part: NDArray) -> NDArray:
    """One preference [m] of a worker's part [n, m]."""
    return part[rng.integers(len(part))]


def draw_relabels(rng: np.random.Generator, shape: tuple[int, ...], num_objectives: int) -> NDArray:
    """Preferences for hindsight, [*shape, m]: absolute values of normal numbers, scaled to sum to 1."""
    return _on_simplex(rng.standard_normal((*shape, num_objectives)))


def spread_preferences(rng: np.random.Generator, keys: NDArray, spread: float) -> NDArray:
    """Key preferences [k, m] moved a little, so that the networks see more than one input: [k, m]."""
    noise = np.clip(spread * rng.standard_normal(keys.shape), -spread, spread)
    return _on_simplex(keys + noise)


def _on_simplex(values: NDArray) -> NDArray:
    positive = np.abs(values)
    return (positive / positive.sum(axis=-1, keepdims=True)).astype(np.float32)
