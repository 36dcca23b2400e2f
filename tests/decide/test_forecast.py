"""What episodes say of a policy, against numbers derived by hand."""

import json

import numpy as np
import pytest

from ucb_moppo.decide.bounds import make_bounds
from ucb_moppo.decide.forecast import Episodes, chance_of, describe_chances, make_forecast

NAMES = ("speed", "energy")


def hundred_episodes():
    """Speeds 1 … 100 in some order, energies 100 − speed; every tenth ended early, after 50 of 200 steps."""
    speed = np.random.default_rng(0).permutation(np.arange(1.0, 101.0))
    early = np.arange(100) % 10 == 0
    return Episodes(np.stack([speed, 100 - speed], axis=1), np.where(early, 50, 200), early)


def test_quantiles_worst_and_chances():
    bounds = make_bounds(NAMES, {"speed": 21}, {"energy": 89.5})
    found = make_forecast(hundred_episodes(), NAMES, bounds)
    np.testing.assert_allclose(found.mean, [50.5, 49.5])
    # The variance of 1 … n is n (n + 1) / 12.
    np.testing.assert_allclose(found.error, np.sqrt(100 * 101 / 12) / 10)
    # Between the k-th and the next of 100: 1 + 99 q.
    np.testing.assert_allclose(found.quantiles[:, 0], [5.95, 25.75, 50.5, 75.25, 95.05])
    np.testing.assert_allclose(found.worst, [(1 + 2 + 3 + 4 + 5) / 5, (0 + 1 + 2 + 3 + 4) / 5])
    assert found.floors[0].share == 0.8
    assert found.ceilings[1].share == 0.9  # energies up to 89: speeds from 11 on
    assert found.all_hold.share == 0.8
    assert found.ended_early.share == 0.1
    np.testing.assert_allclose(found.steps, [50, 200, 200, 200, 200])
    assert describe_chances(found, bounds) == [
        "speed at least 21: holds in 80% of episodes (95% interval 71% to 87%)",
        "energy at most 89.5: holds in 90% of episodes (95% interval 83% to 94%)",
        "all of it: holds in 80% of episodes (95% interval 71% to 87%)",
        "ended early: 10% of episodes (95% interval 6% to 17%)",
    ]


@pytest.mark.parametrize(
    ("held", "count", "low", "high"),
    # Wilson's interval at 95%, from its closed form: n = 100 and 10.
    [(80, 100, 0.71117, 0.86663), (100, 100, 0.96301, 1.0), (0, 10, 0.0, 0.27753)],
)
def test_wilson(held, count, low, high):
    chance = chance_of(np.arange(count) < held)
    assert (chance.share, chance.low, chance.high) == pytest.approx((held / count, low, high), abs=1e-4)


def test_one_episode_has_no_error():
    found = make_forecast(
        Episodes(np.ones((1, 2)), np.array([5]), np.array([True])), NAMES, make_bounds(NAMES, {}, {})
    )
    assert np.isnan(found.error).all()
    assert found.all_hold is None
    as_json = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert as_json["objectives"]["speed"]["standard_error"] is None
    assert as_json["ended_early"]["share"] == 1.0
