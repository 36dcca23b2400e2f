"""What a finished run reports: members chosen by one set of values, measured by another, with honest errors."""

from __future__ import annotations

import numpy as np
import pytest
from counting_batch import CountingBatch, linear_actors, start_of

from ucb_moppo.engine.held_out import WITH_INTERVAL, HeldOut, bootstrap_intervals, evaluate_held_out, reflect
from ucb_moppo.objectives.indicators import measure_with
from ucb_moppo.objectives.pareto import hypervolume
from ucb_moppo.policy.networks import PAPER_NETWORK
from ucb_moppo.seeding import EVALUATION_SEED, HELD_OUT, episode_seed

K, W, HORIZON, REFERENCE = 2, 3, 4, (-100.0, -100.0)
RNG = np.random.default_rng(0)
OFFSET, SLOPE = RNG.normal(size=(K, 2)), RNG.normal(size=(K, 2, 2))
WEIGHTS = RNG.dirichlet(np.ones(2), (K, W))
# On the front: (5, 1), (3, 3) and (1, 5), of which policy 0 has two. (0, 9) is lost with its policy's NaN.
SELECTION = np.array([[[5.0, 1.0], [2.0, 2.0], [3.0, 3.0]], [[0.0, 0.0], [1.0, 5.0], [np.nan, 9.0]]])
MEMBERS = np.array([[True, False, True], [False, True, False]])


def tensors() -> dict[str, np.ndarray]:
    actors = linear_actors(OFFSET, SLOPE)
    stats = actors.observation_stats
    named = {f"actor.{name}": array for name, array in actors.params.items()}
    return named | {f"observation.{name}": getattr(stats, name) for name in ("mean", "variance", "count")}


def expected_episodes(num_episodes: int) -> np.ndarray:
    """[3, E, 2]: a = offset + w · slope for 4 steps pays 4 (a_0 + start) and a_1 (1 + 2 + 3 + 4)."""
    starts = np.array([start_of(episode_seed(EVALUATION_SEED, HELD_OUT, e)) for e in range(num_episodes)])
    actions = [OFFSET[k] + WEIGHTS[k, w] @ SLOPE[k] for k, w in ((0, 0), (0, 2), (1, 1))]
    return np.array([[[4 * (a[0] + start), 10 * a[1]] for start in starts] for a in actions])


def report(num_episodes: int, made: list[int] | None = None) -> HeldOut:
    def make(num_envs: int) -> CountingBatch:
        if made is not None:
            made.append(num_envs)
        return CountingBatch(num_envs, horizon=HORIZON)

    return evaluate_held_out(
        tensors(), PAPER_NETWORK, WEIGHTS, SELECTION, make, episodes=num_episodes, reference_point=REFERENCE
    )


def test_members_are_chosen_by_one_set_of_values_and_reported_by_another() -> None:
    found = report(3)
    episodes = expected_episodes(3)
    np.testing.assert_array_equal(found.members, MEMBERS)
    np.testing.assert_allclose(found.returns, episodes.mean(axis=1), rtol=1e-5, atol=1e-5)
    # Starts differ in the first objective alone: its error is that of 4 · start, and the second has none.
    starts = episodes[0, :, 0]
    error = np.sqrt(((starts - starts.mean()) ** 2).sum() / 2) / np.sqrt(3)
    np.testing.assert_allclose(found.errors[:, 0], error, rtol=1e-4)
    np.testing.assert_allclose(found.errors[:, 1], 0, atol=1e-5)
    assert (found.episodes, found.steps) == (3, 3 * 3 * HORIZON)
    # Members stay members, also those that the held-out values would not have chosen.
    assert found.returns.shape == (3, 2)
    assert found.indicators["hypervolume"] == pytest.approx(hypervolume(found.returns, REFERENCE))
    assert found.indicators["cardinality"] <= 3


def test_members_that_do_not_fit_side_by_side_take_turns() -> None:
    """A thousand episodes run at once: of 400 each, two members, then the third in the same environments."""
    made: list[int] = []
    found = report(400, made)
    assert made == [800]
    np.testing.assert_allclose(found.returns, expected_episodes(400).mean(axis=1), rtol=1e-5, atol=1e-5)
    assert found.steps == 3 * 400 * HORIZON


def test_of_one_episode_no_error_is_known() -> None:
    found = report(1)
    np.testing.assert_allclose(found.returns, expected_episodes(1)[:, 0], rtol=1e-5, atol=1e-5)
    assert np.isnan(found.errors).all()
    assert found.intervals == {}


# --- intervals ---------------------------------------------------------------------------------------------


def test_interval_of_two_episodes() -> None:
    """(1, 1) and (3, 3), drawn twice: means 1, 2, 3 with chances ¼, ½, ¼. HV above 0: 1, 4, 9; EU: 1, 2, 3.

    Less than 97.5% and more than 2.5% of the draws lie inside the ends, which are reflected at the measured 4 and 2
    and √2 times as far away: 4 − 5√2 (no hypervolume is below 0) to 4 + 3√2, and 2 ± √2.
    """
    found = bootstrap_intervals(np.array([[[1.0, 1.0], [3.0, 3.0]]]), (0.0, 0.0))
    root = np.sqrt(2)
    assert found["hypervolume"] == pytest.approx((0.0, 4 + 3 * root))
    assert found["expected_utility"] == pytest.approx((2 - root, 2 + root))


def test_an_episode_s_luck_is_drawn_for_all_members_at_once() -> None:
    """(4 + s, 1) and (1, 4 − s) with s = ±1: HV (4 + s) · 1 + 1 · (3 − s) = 7, whatever is drawn together."""
    luck = np.array([1.0, -1.0, 1.0, -1.0])
    ones = np.ones(4)
    episodes = np.stack([np.column_stack([4 + luck, ones]), np.column_stack([ones, 4 - luck])])
    assert bootstrap_intervals(episodes, (0.0, 0.0))["hypervolume"] == pytest.approx((7.0, 7.0))


def test_interval_is_as_wide_as_the_standard_error_says() -> None:
    """EU of a single point (v, v) is v: over 50 normal episodes about v̄ ± 1.96 standard errors."""
    values = np.random.default_rng(1).normal(10.0, 3.0, 50)
    low, high = bootstrap_intervals(np.repeat(values[None, :, None], 2, axis=2), (0.0, 0.0))["expected_utility"]
    error = values.std(ddof=1) / np.sqrt(50)
    assert low < values.mean() < high
    assert high - low == pytest.approx(2 * 1.96 * error, rel=0.2)
    assert low < 10.0 < high


@pytest.mark.parametrize(("common", "least"), [(1.0, 0.8), (0.0, 0.8)], ids=["common luck", "luck of their own"])
def test_intervals_hold_the_truth(common: float, least: float) -> None:
    """25 points on an arc, ten episodes, standard errors of 1%: 95% at best, some less with so few episodes.

    Quantiles themselves hold it in 1% of cases (EU) where every point has luck of its own.
    """
    rng, angles = np.random.default_rng(2), np.linspace(0.05, np.pi / 2 - 0.05, 25)
    points = 1500 + 3000 * np.column_stack([np.sin(angles), np.cos(angles)])
    truth = measure_with(WITH_INTERVAL, points, (0.0, 0.0))

    def held() -> list[bool]:
        shared, own = rng.standard_normal((1, 10, 2)), rng.standard_normal((25, 10, 2))
        luck = 30 * np.sqrt(10) * (np.sqrt(common) * shared + np.sqrt(1 - common) * own)
        intervals = bootstrap_intervals(points[:, None] + luck, (0.0, 0.0))
        return [low <= truth[name] <= high for name, (low, high) in intervals.items()]

    assert np.mean([held() for _ in range(40)], axis=0).min() >= least


def test_an_interval_is_reflected_and_as_wide_as_ten_episodes_scatter() -> None:
    """Drawn −1 … +3 about a measured 5: 5 − 3k to 5 + k, with k = √(10/9), at the quantiles of 2.5 and 97.5%."""
    drawn = 5 + np.linspace(-1.0, 3.0, 1001)
    low, high = reflect(5.0, drawn, 10)
    assert (low, high) == pytest.approx((5 - 2.9 * np.sqrt(10 / 9), 5 + 0.9 * np.sqrt(10 / 9)))


def test_too_many_points_of_many_objectives_have_no_interval_of_the_hypervolume() -> None:
    """151 points of six objectives, or 21 of nine, would take too long 200 times over; 21 of six or 2 do not."""
    episodes = np.random.default_rng(0).uniform(size=(151, 3, 9))
    of_six, both = episodes[..., :6], {"hypervolume", "expected_utility"}
    assert bootstrap_intervals(of_six, (0.0,) * 6).keys() == {"expected_utility"}
    assert bootstrap_intervals(of_six[:21], (0.0,) * 6).keys() == both
    assert bootstrap_intervals(episodes[:21], (0.0,) * 9).keys() == {"expected_utility"}
    assert bootstrap_intervals(episodes[:2], (0.0,) * 9).keys() == both
