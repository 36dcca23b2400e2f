"""Surrogates: predict how an objective changes when a policy trains on a weight for one more stage.

A surrogate answers with a mean and a standard deviation in the raw units of the objective; what is done with
them (optimism, hypervolume, choice) is not known here.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import RBFInterpolator
from scipy.spatial.distance import cdist
from sklearn import config_context
from sklearn.ensemble import BaggingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import ElasticNet

from ucb_moppo.errors import ConfigError
from ucb_moppo.search.search_settings import SearchConfig

FloatArray = NDArray[np.float64]

# A line needs two points; with a third, bootstrap samples can disagree, which is all the std has to go by.
MIN_ROWS = 3
# Spreads below this fraction of the largest magnitude are rounding, not information.
ROUNDING = 1e-12
MAX_SWEEPS = 10_000


class Prediction(NamedTuple):
    """Predicted change of one objective at n weights, in raw units: ``mean`` [n] and ``std`` [n] >= 0."""

    mean: FloatArray
    std: FloatArray


class Surrogate(Protocol):
    """Something that predicts the change of one objective of one policy over a stage."""

    def predict(self, weights: FloatArray) -> Prediction:
        """Predict at ``weights`` [n, m], in raw units."""
        ...


class SurrogateModel(Protocol):
    """Settings that turn data into a surrogate: the value to swap for another kind of model.

    What ``--surrogate`` names is called with the search settings of the run and returns one.
    """

    def fit(self, weights: FloatArray, changes: FloatArray, prior_std: float, seed: int) -> Surrogate:
        """Fit to ``changes`` [n] seen at ``weights`` [n, m]; ``prior_std`` stands in for missing data."""
        ...


@dataclass(frozen=True)
class UninformedSurrogate:
    """No change expected anywhere, with one wide ``std``: the answer before there is data to learn from."""

    std: float

    def predict(self, weights: FloatArray) -> Prediction:
        """Predict at ``weights`` [n, m]: mean 0 and the same std everywhere."""
        num_weights = len(weights)
        return Prediction(np.zeros(num_weights), np.full(num_weights, self.std))


@dataclass(frozen=True, eq=False)
class LinearEnsemble:
    """B linear models, slopes_b · w + intercept_b, in raw units: ``slopes`` [B, m], ``intercepts`` [B]."""

    slopes: FloatArray
    intercepts: FloatArray

    def predict(self, weights: FloatArray) -> Prediction:
        """Predict at ``weights`` [n, m]: mean and population standard deviation over the members.

        Dividing by B, not B − 1, is the paper's σ² (section "Surrogate model").
        """
        by_member = np.asarray(weights, float) @ self.slopes.T + self.intercepts
        return Prediction(by_member.mean(axis=1), by_member.std(axis=1))


@dataclass(frozen=True)
class BaggedElasticNet:
    """Bagging of elastic-net linear models (the paper, section "Surrogate model").

    ``alpha`` and ``l1_ratio`` apply to standardised inputs and targets, so they mean the same for every
    problem, and scaling an objective scales its predictions.
    """

    num_members: int = 10
    """B, the bootstrap samples and models; at least 2, since one member has no spread."""
    alpha: float = 0.1
    """Strength of the penalty, > 0."""
    l1_ratio: float = 0.5
    """Share of the L1 part in the penalty, in [0, 1]."""

    def __post_init__(self) -> None:
        if self.num_members < 2:
            raise ConfigError(f"num_members is {self.num_members}: the uncertainty needs at least 2 members")
        if not (np.isfinite(self.alpha) and self.alpha > 0):
            raise ConfigError(f"alpha is {self.alpha}: give a penalty above 0, e.g. 0.1")
        if not 0 <= self.l1_ratio <= 1:
            raise ConfigError(f"l1_ratio is {self.l1_ratio}: give a share between 0 and 1")

    def fit(self, weights: FloatArray, changes: FloatArray, prior_std: float, seed: int) -> Surrogate:
        """Fit to ``changes`` [n] seen at ``weights`` [n, m]; rows that are not finite are dropped.

        With fewer than three rows left, or changes that are all the same, nothing can be learnt over w: the
        answer is then no change with a std of ``prior_std`` or the largest change, whichever is wider.
        """
        weights, changes = _finite_rows(np.asarray(weights, float), np.asarray(changes, float))
        if len(changes) < MIN_ROWS or _is_constant(changes):
            return UninformedSurrogate(_wide_std(changes, prior_std))
        input_mean, input_scale = weights.mean(axis=0), _safe_scale(weights)
        target_mean, target_scale = changes.mean(), _safe_scale(changes)
        # A sub-space is only about 0.1 wide: without standardised weights the penalty would leave no slope.
        members = self._fit_members(
            (weights - input_mean) / input_scale, (changes - target_mean) / target_scale, seed
        )
        # The scaling is undone where it was applied, so that the ensemble speaks raw units.
        slopes = np.stack([member.coef_ for member in members]) * (target_scale / input_scale)
        intercepts = np.array([member.intercept_ for member in members]) * target_scale + target_mean
        return LinearEnsemble(slopes, intercepts - slopes @ input_mean)

    def _fit_members(self, inputs: FloatArray, targets: FloatArray, seed: int) -> list[ElasticNet]:
        """B elastic nets, each on a bootstrap sample of ``inputs`` [n, m] and ``targets`` [n]."""
        member = ElasticNet(alpha=self.alpha, l1_ratio=self.l1_ratio, max_iter=MAX_SWEEPS)
        bagging = BaggingRegressor(member, n_estimators=self.num_members, random_state=seed)
        with warnings.catch_warnings(), config_context(assume_finite=True, skip_parameter_validation=True):
            # A sample can repeat so few rows that the solver stops at its sweep limit; its last sweep is as good.
            warnings.simplefilter("ignore", ConvergenceWarning)
            return bagging.fit(inputs, targets).estimators_


def elastic_net(search: SearchConfig) -> BaggedElasticNet:
    """The paper's model with the settings of a run."""
    return BaggedElasticNet(search.ensemble, search.surrogate_alpha, search.surrogate_l1_ratio)


def surrogate_data(probe_weights: FloatArray, values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The data sets D^{k,j}: the change between every two consecutive evaluations of the same weight.

    ``probe_weights`` [K, P, m] and their ``values`` [Z, K, P, m] at Z evaluations give weights and changes,
    both [K, (Z−1)·P, m], oldest first (the paper, section "Surrogate model"). Pairs that are not finite
    stay in, so that rows keep their places; a fit drops them.
    """
    probe_weights, values = np.asarray(probe_weights, float), np.asarray(values, float)
    num_policies, num_probes, num_objectives = probe_weights.shape
    with np.errstate(invalid="ignore"):  # inf − inf is a missing pair, not a surprise
        changes = np.diff(values, axis=0)
    num_pairs = len(changes)
    rows = (num_policies, num_pairs * num_probes)
    return (
        np.tile(probe_weights, (1, num_pairs, 1)),
        np.moveaxis(changes, 0, 1).reshape(*rows, num_objectives),
    )


def interpolate_values(probe_weights: FloatArray, values: FloatArray, weights: FloatArray) -> FloatArray:
    """Objective vectors [n, m_obj] at ``weights`` [n, m], from ``values`` [P, m_obj] at the probes [P, m].

    A linear radial basis with a constant: between two objectives, where weights lie on a line, this is
    piecewise-linear interpolation, constant beyond the ends; with more it is its smooth counterpart. A weight
    that is itself a probe gets exactly the probe's value. Probes with values that are not finite are dropped
    first; with none left every row is NaN.
    """
    weights = np.asarray(weights, float)
    probes, known = _finite_rows(np.asarray(probe_weights, float), np.asarray(values, float))
    probes, first = np.unique(probes, axis=0, return_index=True)
    known = known[first]
    if len(probes) == 0:
        return np.full((len(weights), known.shape[1]), np.nan)
    distance = cdist(weights, probes)
    nearest = distance.argmin(axis=1)
    result: FloatArray = known[nearest]
    between = distance.min(axis=1) > 0
    if len(probes) > 1 and between.any():
        result[between] = RBFInterpolator(probes, known, kernel="linear", degree=0)(weights[between])
    return result


def _finite_rows(weights: FloatArray, targets: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The rows of ``weights`` [n, m] and ``targets`` [n] or [n, …] in which every number is finite."""
    finite = np.isfinite(weights).all(axis=1) & np.isfinite(targets).all(axis=tuple(range(1, targets.ndim)))
    return weights[finite], targets[finite]


def _is_constant(changes: FloatArray) -> bool:
    """Whether ``changes`` [n] differ by no more than rounding."""
    return bool(np.ptp(changes) <= ROUNDING * np.abs(changes).max())


def _wide_std(changes: FloatArray, prior_std: float) -> float:
    """A std that cannot be 0 or NaN: the prior's or the largest of ``changes`` [n], else 1."""
    widest = max(float(np.abs(changes).max(initial=0.0)), prior_std if np.isfinite(prior_std) else 0.0)
    return widest if widest > 0 else 1.0


def _safe_scale(columns: FloatArray) -> FloatArray:
    """Standard deviation over the first axis, 1 where it is no more than rounding (a constant column)."""
    spread = columns.std(axis=0)
    return np.where(spread > ROUNDING * np.abs(columns).max(axis=0), spread, 1.0)
