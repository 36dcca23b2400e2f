"""What a finished run reports: its front, measured from initial states that nothing was chosen by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ucb_moppo.engine.evaluation import Evaluation, MakeBatch, evaluate, evaluation_width
from ucb_moppo.objectives.indicators import expected_utility, measure, measure_with
from ucb_moppo.objectives.pareto import nondominated
from ucb_moppo.objectives.utility import LINEAR_GOAL, Goal
from ucb_moppo.objectives.weights import even_weights
from ucb_moppo.policy.actors import actors_from_tensors
from ucb_moppo.policy.networks import Network
from ucb_moppo.seeding import EVALUATION_SEED, HELD_OUT, INTERVAL

CONFIDENCE, NUM_RESAMPLES = 0.95, 200
WITH_INTERVAL = ("hypervolume", "expected_utility")
MAX_POINTS_WITH_INTERVAL = {2: 5000, 3: 1000, 4: 1000, 5: 500, 6: 150, 7: 60, 8: 30}
"""Points up to which, by objectives, the hypervolume is quick enough to be computed of every resample."""


@dataclass(frozen=True, eq=False)
class HeldOut:
    """The front's members, chosen by the values that stages saw, on episodes of their own."""

    members: NDArray
    """[K, W] which of the evaluated pairs are meant."""
    returns: NDArray
    """[n, m] mean return of each member."""
    errors: NDArray
    """[n, m] standard error of that mean."""
    episodes: int
    steps: int
    indicators: dict[str, float]
    extra_indicators: dict[str, float]
    intervals: dict[str, tuple[float, float]]
    """95% intervals, over the draw of initial states alone: other seeds of training differ by more."""


def evaluate_held_out(
    tensors: Mapping[str, NDArray],
    network: Network,
    weights: NDArray,
    returns: NDArray,
    make_batch: MakeBatch,
    *,
    episodes: int,
    reference_point: Sequence[float],
    extra: Sequence[str] = (),
    discount: float = 1.0,
    divisions: int | None = None,
    goal: Goal = LINEAR_GOAL,
    outcomes: NDArray | None = None,
    sampled: bool = False,
) -> HeldOut:
    """Evaluate the front of K policies with ``returns`` [K, W, m] under ``weights``, over ``episodes`` each.

    Returns are discounted by ``discount`` a step; ``divisions`` are of the lattice of the expected utility, that of
    ``goal``. Who serves some preference best by ``outcomes`` [K, W, E, m] is measured beside the front.
    """
    members = nondominated(returns.reshape(-1, returns.shape[-1])).reshape(returns.shape[:2])
    if outcomes is not None:
        members |= serve_best(outcomes, goal)
    found = run_members(tensors, network, weights, members, make_batch, episodes, discount, sampled)
    means = found.returns[:, 0]
    return HeldOut(
        members=members,
        returns=means,
        errors=found.errors[:, 0],
        episodes=episodes,
        steps=found.steps,
        indicators=measure(means, reference_point, divisions, goal, goal.outcomes(found.episodes[:, 0])),
        extra_indicators=measure_with(extra, means, reference_point),
        intervals=bootstrap_intervals(found.episodes[:, 0], reference_point, divisions, goal),
    )


def serve_best(outcomes: NDArray, goal: Goal) -> NDArray:
    """Which of outcomes [K, W, E, m] serve an evenly spaced preference best: [K, W]."""
    flat = outcomes.reshape(-1, *outcomes.shape[-2:])
    finite = np.isfinite(flat).all((1, 2))
    chosen = np.zeros(len(flat), bool)
    for preference in even_weights(outcomes.shape[-1]) if finite.any() else ():
        chosen[np.argmax(np.where(finite, goal.values(flat, preference[None]), -np.inf))] = True
    return chosen.reshape(outcomes.shape[:2])


def run_members(
    tensors: Mapping[str, NDArray],
    network: Network,
    weights: NDArray,
    members: NDArray,
    make_batch: MakeBatch,
    episodes: int,
    discount: float = 1.0,
    sampled: bool = False,
    starts: int = HELD_OUT,
    first: int = 0,
) -> Evaluation:
    """Evaluate the n members among [K, W], each a policy with one weight, as many at a time as fit.

    Their episodes are numbered from ``first`` on in the stream of ``starts``.
    """
    policies, columns = np.nonzero(members)
    at_once = max(1, evaluation_width(1) // episodes)
    parts = []
    with closing(make_batch(min(len(policies), at_once) * episodes)) as env:
        for start in range(0, len(policies), at_once):
            rows = slice(start, start + at_once)
            acting = actors_from_tensors({name: a[policies[rows]] for name, a in tensors.items()}, network)
            own = weights[policies[rows], columns[rows]][:, None]
            found = evaluate(
                acting, own, env, episodes, starts=starts, first=first, discount=discount, sampled=sampled
            )
            parts.append(found)
    return Evaluation(np.concatenate([part.episodes for part in parts]), sum(part.steps for part in parts))


def bootstrap_intervals(
    episodes: NDArray,
    reference_point: Sequence[float],
    divisions: int | None = None,
    goal: Goal = LINEAR_GOAL,
) -> dict[str, tuple[float, float]]:
    """Reflected intervals of hypervolume and expected utility, drawing episodes of all members [n, E, m] together.

    Members share their initial states, so an episode's luck is drawn for all of them at once. Both are maxima over
    members, which luck of their own only raises: what was measured lies above the truth by about as much as what is
    drawn lies above it. Hence 2θ̂ − q; the quantiles q themselves would add that a second time.
    """
    num_points, num_episodes, num_objectives = episodes.shape
    if num_episodes < 2:
        return {}
    quick = num_points <= MAX_POINTS_WITH_INTERVAL.get(num_objectives, 20)
    names = WITH_INTERVAL if quick else WITH_INTERVAL[1:]
    rng = np.random.default_rng((EVALUATION_SEED, INTERVAL))
    draws = rng.integers(0, num_episodes, (NUM_RESAMPLES, num_episodes))
    found = [measure_with(names, episodes[:, draw].mean(axis=1), reference_point, divisions) for draw in draws]
    if not goal.is_linear:
        drawn = (goal.outcomes(episodes[:, draw]) for draw in draws)
        utilities = [expected_utility(points, reference_point, divisions, goal) for points in drawn]
        found = [values | {"expected_utility": u} for values, u in zip(found, utilities, strict=True)]
    measured = measure_with(names, episodes.mean(axis=1), reference_point, divisions)
    if not goal.is_linear:
        measured["expected_utility"] = expected_utility(goal.outcomes(episodes), reference_point, divisions, goal)
    reflected = {name: reflect(measured[name], np.array([f[name] for f in found]), num_episodes) for name in names}
    if quick:  # a hypervolume is never below 0
        reflected["hypervolume"] = (max(0.0, reflected["hypervolume"][0]), reflected["hypervolume"][1])
    return reflected


def reflect(measured: float, drawn: NDArray, num_episodes: int) -> tuple[float, float]:
    """The interval about ``measured`` that values ``drawn`` [B] from as many episodes stand for.

    Drawing with replacement scatters less than the episodes themselves do, by √((E − 1)/E).
    """
    tail = (1 - CONFIDENCE) / 2
    low, high = (np.quantile(drawn, (tail, 1 - tail)) - measured) * np.sqrt(num_episodes / (num_episodes - 1))
    return float(measured - high), float(measured - low)
