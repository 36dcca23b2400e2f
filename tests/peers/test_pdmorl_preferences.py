"""Where PD-MORL's preferences come from and where their solutions point."""

from itertools import pairwise

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.interpolate import RBFInterpolator

from ucb_moppo.peers.pdmorl.interpolation import (
    better_solutions,
    fit_interpolation,
    interpolate,
    key_preferences,
    unit_directions,
)
from ucb_moppo.peers.pdmorl.preferences import draw_relabels, make_parts, spread_preferences


def test_key_preferences_are_the_extremes_and_the_middle():
    assert_allclose(key_preferences(2), [[1, 0], [0, 1], [0.5, 0.5]])
    assert_allclose(key_preferences(3), [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1 / 3, 1 / 3, 1 / 3]])


@settings(deadline=None, max_examples=25)
@given(st.integers(2, 5), st.integers(0, 2**32 - 1))
def test_interpolation_passes_through_the_key_directions_and_is_scipys(num_objectives, seed):
    rng = np.random.default_rng(seed)
    keys = key_preferences(num_objectives)
    solutions = rng.uniform(-100, 3000, keys.shape)
    fitted = fit_interpolation(keys, solutions)
    directions = unit_directions(solutions)
    assert_allclose(interpolate(fitted, keys.astype(np.float32)), directions, atol=1e-5)
    weights = draw_relabels(rng, (20,), num_objectives)
    theirs = RBFInterpolator(keys, directions, kernel="linear")(weights)
    assert_allclose(interpolate(fitted, weights), theirs, atol=1e-5)
    assert_allclose(interpolate(fitted, jnp.asarray(weights)), theirs, atol=1e-5)


def test_interpolation_of_two_objectives_is_piecewise_linear():
    fitted = fit_interpolation(key_preferences(2), np.array([[300.0, 0.0], [0.0, 2.0], [3.0, 4.0]]))
    # Half way from the middle, (0.6, 0.8), to the first extreme, (1, 0).
    assert_allclose(interpolate(fitted, np.array([[0.75, 0.25]], np.float32)), [[0.8, 0.4]], atol=1e-6)


def test_a_key_solution_gives_way_only_to_a_larger_utility():
    keys = key_preferences(2)
    known = np.array([[10.0, 0.0], [0.0, 10.0], [4.0, 4.0]])
    found = np.array([[9.0, 99.0], [-5.0, 11.0], [3.0, 5.0]])  # worse by w, better, equal
    assert_allclose(better_solutions(keys, known, found), [[10.0, 0.0], [-5.0, 11.0], [4.0, 4.0]])
    lost = np.full((3, 2), np.nan)
    assert_allclose(better_solutions(keys, known, lost), known)


@pytest.mark.parametrize(("num_objectives", "workers"), [(2, 10), (2, 3), (3, 10), (5, 7)])
def test_workers_share_the_simplex_out(num_objectives, workers):
    parts = make_parts(num_objectives, workers)
    every = np.vstack(parts)
    assert len(parts) == workers
    assert len(np.unique(every, axis=0)) == len(every)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    assert_allclose(every.sum(-1), 1.0)


def test_two_objectives_have_the_authors_lattice_in_order():
    parts = make_parts(2, 10)
    assert sum(map(len, parts)) == 1001
    assert all(before[-1, 0] < after[0, 0] for before, after in pairwise(parts))


def test_drawn_preferences_lie_on_the_simplex():
    rng = np.random.default_rng(0)
    relabels = draw_relabels(rng, (500, 3), 2)
    assert relabels.shape == (500, 3, 2)
    assert relabels.dtype == np.float32
    assert (relabels >= 0).all()
    assert_allclose(relabels.sum(-1), 1.0, rtol=1e-6)
    near = np.stack([spread_preferences(rng, key_preferences(2), 0.05) for _ in range(500)])
    assert_allclose(near.sum(-1), 1.0, rtol=1e-6)
    # Noise of at most 0.05 in each component, before the sum is made 1 again.
    assert np.abs(near - key_preferences(2)).max() <= 0.1
    assert np.ptp(near, axis=0).min() > 0.01
