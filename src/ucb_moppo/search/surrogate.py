"""Surrogates: predict what one more stage of training changes at a weight.

A surrogate answers with draws of the change of all objectives, in their raw units: what its members believe, each
about all weights and objectives together. What is done with them (optimism, hypervolume, choice) is not known here.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import RBFInterpolator
from scipy.spatial.distance import cdist
from sklearn import config_context
from sklearn.ensemble import BaggingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.linear_model import ElasticNet, Ridge

from ucb_moppo.errors import ConfigError
from ucb_moppo.search.search_settings import SearchConfig
from ucb_moppo.search.situations import Situations

FloatArray = NDArray[np.float64]

# A line needs two points; with a third, bootstrap samples can disagree, which is all the std has to go by.
MIN_ROWS = 3
# Spreads below this fraction of the largest magnitude are rounding, not information.
ROUNDING = 1e-12
MAX_SWEEPS = 10_000
# Tells the draw of residuals from that of bootstrap samples.
LUCK = 1


class Surrogate(Protocol):
    """Something that predicts what a stage changes."""

    def draw(self, situations: Situations) -> FloatArray:
        """Changes [B, n, m] of the objectives in n situations, in raw units: what each of B members believes."""
        ...


class SurrogateModel(Protocol):
    """Settings that turn data into a surrogate: the value to swap for another kind of model.

    What ``--surrogate`` names is called with the search settings of the run and returns one.
    """

    def fit(self, situations: Situations, changes: FloatArray, prior_std: FloatArray, seed: int) -> Surrogate:
        """Fit to ``changes`` [n, m] that stages brought in n situations; rows may be NaN.

        ``prior_std`` [m] stands in for missing data.
        """
        ...


class Prediction(NamedTuple):
    """Predicted changes in n situations: ``mean`` [n, m] and ``std`` [n, m] >= 0."""

    mean: FloatArray
    std: FloatArray


ROUNDING = 1e-12
"""Of the spread of some draws: a mean that is smaller is 0."""


def summarise_draws(draws: FloatArray) -> Prediction:
    """Mean and population standard deviation over the members of ``draws`` [B, n, m].

    Dividing by B, not B − 1, is the paper's σ² (section "Surrogate model").
    """
    mean, std = draws.mean(axis=0), draws.std(axis=0)
    # What rounding leaves of luck that cancels out is no prediction: it would be ranked like one.
    return Prediction(np.where(np.abs(mean) <= ROUNDING * std, 0.0, mean), std)


def even_scores(count: int) -> FloatArray:
    """[B] evenly spaced numbers of mean 0 and standard deviation 1: how members that know nothing disagree."""
    scores = np.linspace(-1.0, 1.0, count)
    return np.asarray(scores / scores.std())


@dataclass(frozen=True, eq=False)
class NoChange:
    """No change expected anywhere, with one wide ``std`` [m]: the answer before there is data to learn from."""

    std: FloatArray
    num_members: int

    def draw(self, situations: Situations) -> FloatArray:
        """Changes [B, n, m] of mean 0, the same in every situation."""
        draws = even_scores(self.num_members)[:, None, None] * self.std
        return np.broadcast_to(draws, (self.num_members, len(situations), len(self.std)))


@dataclass(frozen=True)
class NoChangeModel:
    """Expects no change, and as much uncertainty as changes have shown: what any other model has to beat."""

    num_members: int

    def fit(self, situations: Situations, changes: FloatArray, prior_std: FloatArray, seed: int) -> Surrogate:
        """Take the root mean square of the finite ``changes`` [n, m], or ``prior_std`` [m] without any."""
        known = changes[np.isfinite(changes).all(axis=1)]
        std = np.sqrt(np.mean(known**2, axis=0)) if len(known) else prior_std
        return NoChange(std, self.num_members)


def no_change(search: SearchConfig) -> NoChangeModel:
    """The model that expects nothing."""
    return NoChangeModel(search.ensemble)


# --- the paper's: a bag of elastic nets for every policy and objective, over the weight alone -----------------


@dataclass(frozen=True)
class UninformedSurrogate:
    """No change of one objective expected anywhere, with one wide ``std``."""

    std: float
    num_members: int = 10

    def predict(self, weights: FloatArray) -> FloatArray:
        """Changes [B, n] at ``weights`` [n, m]: mean 0 and the same std everywhere."""
        return np.repeat(even_scores(self.num_members)[:, None] * self.std, len(weights), axis=1)


@dataclass(frozen=True, eq=False)
class LinearEnsemble:
    """B linear models, slopes_b · w + intercept_b, in raw units: ``slopes`` [B, m], ``intercepts`` [B]."""

    slopes: FloatArray
    intercepts: FloatArray

    def predict(self, weights: FloatArray) -> FloatArray:
        """Changes [B, n] at ``weights`` [n, m]."""
        return np.asarray((np.asarray(weights, float) @ self.slopes.T + self.intercepts).T)


@dataclass(frozen=True, eq=False)
class PerPolicy:
    """A surrogate for every (sub-space, objective), and one per objective for sub-spaces without any."""

    fitted: dict[tuple[int, int], UninformedSurrogate | LinearEnsemble]
    unknown: list[UninformedSurrogate]

    def draw(self, situations: Situations) -> FloatArray:
        """Changes [B, n, m]; each sub-space is asked about its own weights."""
        num_members, num_objectives = self.unknown[0].num_members, len(self.unknown)
        draws = np.empty((num_members, len(situations), num_objectives))
        for k in np.unique(situations.subspace).tolist():
            rows = situations.subspace == k
            for j in range(num_objectives):
                draws[:, rows, j] = self.fitted.get((k, j), self.unknown[j]).predict(situations.weights[rows])
        return draws


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

    def fit(self, situations: Situations, changes: FloatArray, prior_std: FloatArray, seed: int) -> Surrogate:
        """Fit every sub-space and objective by itself to the ``changes`` [n, m] seen there."""
        names, num_objectives = np.unique(situations.subspace), changes.shape[1]
        fitted = {}
        for k in names.tolist():
            rows = situations.subspace == k
            for j in range(num_objectives):
                own = int(np.random.SeedSequence((seed, k, j + 1)).generate_state(1)[0])
                fitted[k, j] = self.fit_one(situations.weights[rows], changes[rows, j], float(prior_std[j]), own)
        unknown = [UninformedSurrogate(_wide_std(np.zeros(0), float(std)), self.num_members) for std in prior_std]
        return PerPolicy(fitted, unknown)

    def fit_one(
        self, weights: FloatArray, changes: FloatArray, prior_std: float, seed: int
    ) -> UninformedSurrogate | LinearEnsemble:
        """Fit to ``changes`` [n] seen at ``weights`` [n, m]; rows that are not finite are dropped.

        With fewer than three rows left, or changes that are all the same, nothing can be learnt over w: the
        answer is then no change with a std of ``prior_std`` or the largest change, whichever is wider.
        """
        weights, changes = _finite_rows(np.asarray(weights, float), np.asarray(changes, float))
        if len(changes) < MIN_ROWS or _is_constant(changes):
            return UninformedSurrogate(_wide_std(changes, prior_std), self.num_members)
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


# --- of all policies together, over everything that is known of a situation -----------------------------------


@dataclass(frozen=True, eq=False)
class Standard:
    """Brings columns to mean 0 and standard deviation 1, and back."""

    mean: FloatArray
    scale: FloatArray

    @classmethod
    def of(cls, columns: FloatArray) -> Standard:
        return cls(columns.mean(axis=0), _safe_scale(columns))

    def to(self, columns: FloatArray) -> FloatArray:
        scaled = (columns - self.mean) / self.scale
        return np.where(np.isfinite(scaled), scaled, 0.0)  # what is not known is taken for average

    def back(self, columns: FloatArray) -> FloatArray:
        return np.asarray(columns * self.scale + self.mean)


@dataclass(frozen=True, eq=False)
class SharedEnsemble:
    """B linear models of all objectives, each fitted to rows of its own, believed as far as they are right."""

    members: list[Ridge]
    inputs: Standard
    targets: Standard
    skill: float
    """In [0, 1]: what their predictions are multiplied by."""
    noise: FloatArray
    """[B, m] of each member in raw units: what it holds for luck."""

    def predict(self, features: FloatArray) -> FloatArray:
        """Changes [B, n, m] that the members foresee, without luck."""
        inputs = self.inputs.to(features)
        return self.skill * np.stack([self.targets.back(member.predict(inputs)) for member in self.members])

    def draw(self, situations: Situations) -> FloatArray:
        """Changes [B, n, m]: the member's prediction and its luck, the same in every situation."""
        return self.predict(situations.features()) + self.noise[:, None]


@dataclass(frozen=True)
class BaggedRidge:
    """Bagging of ridge regressions on the situations of all policies; old stages count less.

    Early stages change much and later ones little: a line through them foresees what will not come. Therefore the
    last stage is foreseen from those before it, and predictions count by how much better than "no change" that was.
    """

    num_members: int = 10
    strength: float = 10.0
    """Penalty of the squared slopes, on standardised columns."""
    memory: float = 0.7
    """Weight of a row for each stage that it is older."""

    def fit(self, situations: Situations, changes: FloatArray, prior_std: FloatArray, seed: int) -> Surrogate:
        """Fit to the finite rows; too few of them, or changes that do not differ, teach nothing."""
        known = _usable(situations, changes)
        situations, changes = situations.where(known), changes[known]
        if len(changes) < MIN_ROWS or all(_is_constant(column) for column in changes.T):
            std = np.array([_wide_std(c, s) for c, s in zip(changes.T, prior_std, strict=True)])
            return NoChange(std, self.num_members)
        fitted = self.fit_members(situations, changes, seed, self._skill(situations, changes, seed))
        share, rng = self._shares(situations), np.random.default_rng((seed, LUCK))
        left = changes - fitted.predict(situations.features()).mean(axis=0)
        drawn = left[rng.choice(len(left), self.num_members, p=share)]
        # A few draws scatter: brought to the size of all that is left over.
        size = np.sqrt((share[:, None] * left**2).sum(axis=0))
        return replace(fitted, noise=Standard.of(drawn).to(drawn) * size)

    def _shares(self, situations: Situations) -> FloatArray:
        """How much each row counts, [n]; 1 in all."""
        trust = self.memory**situations.age
        return np.asarray(trust / trust.sum())

    def _skill(self, situations: Situations, changes: FloatArray, seed: int) -> float:
        """The share of the last stage's squared changes that those before it foresee; 0 if none."""
        last = situations.age == situations.age.min()
        if last.all() or (~last).sum() < MIN_ROWS:
            return 0.0
        before = self.fit_members(situations.where(~last), changes[~last], seed, 1.0)
        foreseen = before.predict(situations.where(last).features()).mean(axis=0)
        scale = _safe_scale(changes)
        missed = float((((changes[last] - foreseen) / scale) ** 2).sum())
        whole = float(((changes[last] / scale) ** 2).sum())
        return max(0.0, 1 - missed / whole) if whole > 0 else 0.0

    def fit_members(self, situations: Situations, changes: FloatArray, seed: int, skill: float) -> SharedEnsemble:
        """Fit the members to bootstrap samples of finite rows; they leave nothing to luck yet."""
        features = situations.features()
        inputs, targets = Standard.of(features), Standard.of(changes)
        x, y, rng = inputs.to(features), targets.to(changes), np.random.default_rng(seed)
        draws = [rng.choice(len(y), len(y), p=self._shares(situations)) for _ in range(self.num_members)]
        members = [Ridge(alpha=self.strength).fit(x[rows], y[rows]) for rows in draws]
        return SharedEnsemble(members, inputs, targets, skill, np.zeros((self.num_members, y.shape[1])))


def shared_ridge(search: SearchConfig) -> BaggedRidge:
    """One model of all policies, with as many members as the run asks for."""
    return BaggedRidge(search.ensemble)


@dataclass(frozen=True, eq=False)
class ProcessDraws:
    """A Gaussian process an objective; members are evenly spaced quantiles of its marginals."""

    processes: list[GaussianProcessRegressor]
    inputs: Standard
    targets: Standard
    num_members: int

    def draw(self, situations: Situations) -> FloatArray:
        """Changes [B, n, m]: a member is as optimistic everywhere as it is anywhere."""
        features = self.inputs.to(situations.features())
        found = [process.predict(features, return_std=True) for process in self.processes]
        mean, std = (np.stack([part[i] for part in found], axis=1) for i in range(2))
        draws = mean + even_scores(self.num_members)[:, None, None] * std
        return np.stack([self.targets.back(draw) for draw in draws])


@dataclass(frozen=True)
class GaussianProcessModel:
    """A Gaussian process with a smooth kernel and noise, of all policies together, to compare with."""

    num_members: int = 10
    max_rows: int = 400
    """The newest rows that it is fitted to; it takes the cube of their number."""

    def fit(self, situations: Situations, changes: FloatArray, prior_std: FloatArray, seed: int) -> Surrogate:
        """Fit a process an objective to the newest finite rows."""
        known = _usable(situations, changes)
        newest = np.flatnonzero(known)[np.argsort(situations.age[known], kind="stable")[: self.max_rows]]
        if len(newest) < MIN_ROWS:
            return NoChange(np.asarray(prior_std, float), self.num_members)
        features, changes = situations.where(newest).features(), changes[newest]
        inputs, targets = Standard.of(features), Standard.of(changes)
        kernel = ConstantKernel() * RBF(np.sqrt(features.shape[1])) + WhiteKernel()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            processes = [
                GaussianProcessRegressor(kernel, random_state=0).fit(inputs.to(features), column)
                for column in targets.to(changes).T
            ]
        return ProcessDraws(processes, inputs, targets, self.num_members)


def gaussian_process(search: SearchConfig) -> GaussianProcessModel:
    """The process with as many members as the run asks for."""
    return GaussianProcessModel(search.ensemble)


# --- values between probes --------------------------------------------------------------------------------------


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


def _usable(situations: Situations, changes: FloatArray) -> NDArray[np.bool_]:
    """Which rows [n] of situations and changes [n, m] are finite throughout."""
    return np.asarray(np.isfinite(np.concatenate([situations.features(), changes], axis=1)).all(axis=1))


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
