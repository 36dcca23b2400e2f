"""Weights of a run: spread over the objectives as they are, or divided by their scales."""

from __future__ import annotations

import numpy as np

from ucb_moppo.config import Division
from ucb_moppo.engine.probes import probe_weights, spread_weights


def test_weights_are_spread_over_objectives_divided_by_their_scales() -> None:
    """An objective of tenfold units gets a tenth of the weight that the other gets: ω/σ, summing to 1."""
    plain, scaled = (probe_weights(Division(2, 5, scales=scales), 2) for scales in (None, (1.0, 10.0)))
    slow = [[[w / (w + v / 10), (v / 10) / (w + v / 10)] for w, v in subspace] for subspace in plain]
    np.testing.assert_allclose(scaled, slow, rtol=1e-12)
    np.testing.assert_allclose(scaled.sum(axis=-1), 1, rtol=1e-12)


def test_equal_scales_change_no_bit() -> None:
    for count in (3, 8):
        plain, scaled = (spread_weights(Division(4, 8, scales=s), 3, 1, count) for s in (None, (7.0,) * 3))
        np.testing.assert_array_equal(plain, scaled)


def test_pivots_are_given_for_the_objectives_as_they_are() -> None:
    """A sub-space with one weight has its pivot for it, whatever the scales."""
    pivots = ((0.9, 0.1), (0.99, 0.01))
    found = probe_weights(Division(2, 1, pivots, scales=(1.0, 30.0)), 2)
    np.testing.assert_allclose(found[:, 0], pivots, rtol=1e-9)
