"""What a surrogate learns from: (policy, weight) before a stage, and how the stage trained near it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

UNIFORM = 1.0
"""The density of a stage that trains everywhere alike."""


@dataclass(frozen=True, eq=False)
class Situations:
    """n pairs of a sub-space and a weight before a stage, and how that stage trains. A row each."""

    subspace: IndexArray
    """[n] which of the K sub-spaces the weight belongs to."""
    weights: FloatArray
    """[n, m]"""
    places: FloatArray
    """[n, m] from the pivot of the sub-space to the weight."""
    values: FloatArray
    """[n, m] returns under the weight, before the stage."""
    density: FloatArray
    """[n] how densely the stage trains near the weight: 1 is everywhere alike, 0 not at all."""
    rate: FloatArray
    """[n] learning rate of the stage, as a share of the first."""
    age: FloatArray
    """[n] stages between it and now; 0 is the last one."""

    def __len__(self) -> int:
        return len(self.weights)

    @staticmethod
    def join(parts: Sequence[Situations]) -> Situations:
        """The rows of several, one after the other."""
        names = [field.name for field in fields(Situations)]
        return Situations(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))

    def where(self, mask: NDArray) -> Situations:
        """Those that ``mask`` [n] or an index names."""
        return Situations(*(getattr(self, field.name)[mask] for field in fields(self)))

    def features(self) -> FloatArray:
        """[n, 3m + 2] what a model may go by: weight, place, value, density and rate."""
        columns = (self.weights, self.places, self.values, self.density[:, None], self.rate[:, None])
        return np.concatenate(columns, axis=1)


def training_density(trained: FloatArray, weights: FloatArray, width: float, group: int = 1) -> FloatArray:
    """How densely training on ``trained`` [K, N, m] lies around ``weights`` [K, P, m] of each sub-space: [K, P].

    ``group`` neighbouring sub-spaces share a policy and its training; a kernel of ``width`` counts what is near.
    """
    num_policies, num_weights, num_objectives = weights.shape
    by_policy = (num_policies // group, -1, num_objectives)
    policies = zip(trained.reshape(by_policy), weights.reshape(by_policy), strict=True)
    return np.stack([relative_density(*policy, width) for policy in policies]).reshape(num_policies, num_weights)


def relative_density(trained: FloatArray, weights: FloatArray, width: float) -> FloatArray:
    """How densely ``trained`` [t, m] lie around ``weights`` [n, m], against these around themselves: [n]."""
    near = np.exp(-0.5 * (cdist(weights, trained) / width) ** 2).mean(axis=1)
    even = np.exp(-0.5 * (cdist(weights, weights) / width) ** 2).mean(axis=1)
    density: FloatArray = near / even
    return density
