"""The hypervolume where it is estimated: closed forms, what it says of its error, and when it is exact."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ucb_moppo.objectives.indicators import HYPERVOLUME_ERROR, measure
from ucb_moppo.objectives.pareto import hypervolume, measure_volume
from ucb_moppo.objectives.volume import Volume, estimate_volume, exact_volume, is_cheap, units_of


def sphere_points(num_points: int, num_objectives: int, seed: int = 0) -> np.ndarray:
    points = np.abs(np.random.default_rng(seed).normal(size=(num_points, num_objectives)))
    return points / np.linalg.norm(points, axis=1, keepdims=True)


def staircase(num_steps: int, num_objectives: int) -> np.ndarray:
    """(i, n + 1 − i)/n and 1 in all other objectives, i = 1 … n: an area of Σ i / n² = (n + 1)/(2n)."""
    points = np.ones((num_steps, num_objectives))
    points[:, 0] = np.arange(1, num_steps + 1) / num_steps
    points[:, 1] = points[::-1, 0]
    return points


def off_by(found: Volume, true: float) -> float:
    """Standard errors between an estimate and the truth."""
    return abs(found.value - true) / found.error


def test_few_points_are_measured_exactly() -> None:
    """2 in one objective and 1 in the eight others: the unit box, and nine boxes of 1 upon it."""
    points = np.ones((9, 9)) + np.eye(9)
    assert measure_volume(points, np.zeros(9)) == (pytest.approx(10.0), 0.0)
    assert measure_volume(staircase(60, 9), np.zeros(9)) == (pytest.approx(61 / 120), 0.0)


@pytest.mark.parametrize("num_objectives", [7, 9, 12])
def test_estimates_agree_with_closed_forms(num_objectives: int) -> None:
    found = estimate_volume(np.ones((1, num_objectives)), np.zeros(num_objectives))
    assert off_by(found, 1.0) < 4
    steps = estimate_volume(staircase(70, num_objectives), np.zeros(num_objectives))
    assert off_by(steps, 71 / 140) < 4
    assert steps.error < 0.03 * steps.value


def test_estimates_agree_with_the_exact_volume_and_know_their_error() -> None:
    """Over ten fronts the distance in standard errors has a mean square near 1, and each is below 1%."""
    distances = []
    for seed in range(10):
        points = sphere_points(40, 7, seed)
        found = estimate_volume(points, np.zeros(7))
        assert found.error < 0.01 * found.value
        distances.append(off_by(found, exact_volume(points, np.zeros(7)).value))
    assert 0.2 < np.mean(np.square(distances)) < 3


def test_estimates_see_the_reference_point() -> None:
    points = staircase(70, 9)
    found = measure_volume(3 * points - 2, np.full(9, -2.0))
    assert found.error > 0
    assert off_by(found, 3**9 * 71 / 140) < 4


@pytest.mark.parametrize("scale", [1e-3, 10.0, 100.0, 1000.0])
def test_estimates_do_not_depend_on_the_units_of_an_objective(scale: float) -> None:
    """A thousand times as far in one objective is a thousand times the volume, with the same share of error."""
    points, units = sphere_points(70, 9), np.array([scale, *[1.0] * 8])
    plain, scaled = estimate_volume(points, np.zeros(9)), estimate_volume(points * units - 5, np.full(9, -5.0))
    true = exact_volume(points, np.zeros(9)).value
    assert scaled.error < 0.01 * scaled.value
    assert off_by(scaled, scale * true) < 4
    assert scaled.value == pytest.approx(scale * plain.value, rel=0.02)


def test_units_are_powers_of_two_that_a_front_comes_up_to() -> None:
    assert units_of(np.array([[0.3, 5.0, 1.0], [0.2, 9.0, 0.1]])).tolist() == [0.25, 8.0, 1.0]


def test_a_front_that_grows_never_has_less_volume() -> None:
    """Every direction sees the farthest point, and directions are always the same."""
    points = sphere_points(90, 9)
    volumes = [measure_volume(points[:n], np.zeros(9)) for n in (70, 80, 90, 90)]
    assert all(volume.error > 0 for volume in volumes)
    assert volumes[0].value <= volumes[1].value <= volumes[2].value
    assert volumes[2] == volumes[3]


def test_what_is_dominated_or_not_above_the_reference_does_not_make_it_dear() -> None:
    """100 points, of which one counts: exact."""
    points = np.concatenate([np.ones((1, 9)), 0.5 * sphere_points(98, 9), -np.ones((1, 9))])
    assert measure_volume(points, np.zeros(9)) == (1.0, 0.0)


def test_cheap_is_a_matter_of_points_and_objectives() -> None:
    assert is_cheap(100_000, 3)
    assert is_cheap(600, 6)
    assert not is_cheap(601, 6)
    assert [is_cheap(61, m) for m in (8, 9, 10, 20)] == [True, False, False, False]
    assert is_cheap(25, 20)


def test_an_estimate_is_recorded_with_its_error() -> None:
    points = sphere_points(90, 9)[None]
    found = measure(points, (0.0,) * 9)
    assert list(found)[:2] == ["hypervolume", "expected_utility"]
    assert found[HYPERVOLUME_ERROR] == measure_volume(points[0], np.zeros(9)).error
    assert found["hypervolume"] == hypervolume(points[0], np.zeros(9))
    # The ball's orthant: π^(m/2) / (2^m Γ(m/2 + 1)), of which 90 points enclose a part.
    ball = math.pi**4.5 / (2**9 * math.gamma(5.5))
    assert 0 < found["hypervolume"] < ball
    assert HYPERVOLUME_ERROR not in measure(points[:, :60], (0.0,) * 9)
