"""MO-Gymnasium's deep-sea-treasure, whose fronts are known: the convex one in full, of the concave one the ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mo_gymnasium
import numpy as np
import pytest
from numpy.typing import NDArray

import ucb_moppo
from ucb_moppo.objectives.pareto import hypervolume, maximum_utility_loss
from ucb_moppo.objectives.weights import even_weights

REFERENCE = (0.0, -50.0)
# The farthest treasure is 19 steps away; nothing is gained by diving longer than 30.
HORIZON = 30


def known_front(env_id: str) -> NDArray:
    env = mo_gymnasium.make(env_id)
    return np.array(env.unwrapped.pareto_front(gamma=1.0))  # type: ignore[attr-defined]


def best_points(front: NDArray) -> NDArray:
    """Indices of the points of ``front`` [n, 2] that are best for some weight."""
    return np.unique(np.argmax(even_weights(2, 10_001) @ front.T, axis=1))


def train_treasure(problem: str, out: Path, **settings: Any) -> ucb_moppo.Run:
    """100,000 steps with seed 0, in silence."""
    shared = {"horizon": HORIZON, "reference_point": REFERENCE, "candidates": 20, "minibatch": 125}
    shared |= {"layout": "static", "probes": 10, "episodes": 1, "held_out": 0}
    return ucb_moppo.train(problem, seed=0, steps=100_000, out=out, quiet=True, **shared, **settings)


def test_convex_front_is_recovered(tmp_path: Path) -> None:
    front = known_front("deep-sea-treasure-v0")
    # From treasure to treasure each step of time buys less: 7.5 for 2, then 3.3 for 2, ... 0.65 a step, so all
    # ten are on the convex hull, (20.3, −14) on the line between its neighbours (0.7 a step either side).
    assert set(best_points(front)) | {7} == set(range(10))

    own = {"policies": 5, "active": 5, "samples": 500, "stage_iterations": 8}
    ppo = {"learning_rate": 2e-3, "gamma": 1.0, "entropy_coefficient": 0.01}
    run = train_treasure("deep-sea-treasure-v0", tmp_path / "run", **own, **ppo)

    truth = hypervolume(front, REFERENCE)
    assert 0.95 * truth <= run.summary["hypervolume"] <= truth * (1 + 1e-6)  # rewards are of 32 bits
    # Nothing else on the way to a treasure pays: most of what is found is on the front itself.
    gaps = np.abs(run.front().returns[:, None] - front).max(axis=-1).min(axis=1)
    assert (gaps < 1e-5).mean() >= 0.7
    assert maximum_utility_loss(run.evaluated().returns, front, even_weights(2)) < 1.0


def test_of_a_concave_front_a_linear_method_finds_the_two_ends(tmp_path: Path) -> None:
    front = known_front("deep-sea-treasure-concave-v0")
    # (124, −19) beats (1, −1) where 123 w_1 > 18 w_2, and one of the two beats everything between them.
    assert best_points(front).tolist() == [0, 9]

    own = {"policies": 2, "active": 10, "samples": 1000, "stage_iterations": 10}
    ppo = {"learning_rate": 1e-3, "gamma": 0.99, "entropy_coefficient": 0.02}
    run = train_treasure("deep-sea-treasure-concave-v0", tmp_path / "run", **own, **ppo)

    # Every policy under every weight surfaces with a treasure. One between the ends that a policy came by
    # on its way is kept for its hypervolume, but is worth less than one of the ends to everyone.
    everything, found = run.evaluated(), run.front()
    assert {1.0, 124.0} <= set(everything.returns[:, 0].tolist()) <= set(front[:, 0].tolist())
    near, far = np.argmin(found.returns[:, 0]), np.argmax(found.returns[:, 0])
    np.testing.assert_array_equal(found.returns[near], front[0])
    assert set(best_points(found.returns)) == {near, far}
    # Discounting at 0.99 makes a detour of two steps cheap: allow the far end one or two of them.
    assert found.returns[far, 1] >= front[9, 1] - 4
    # The two ends with 31 steps left to the reference for the far one and 49 for the near: 124·31 + 1·18.
    assert hypervolume(front[[0, 9]], REFERENCE) == pytest.approx(124 * 31 + 18)
    assert hypervolume(found.returns[[near, far]], REFERENCE) == pytest.approx(124 * 31 + 18, rel=0.15)
