"""Situations: rows that keep together, and how densely a stage trains near a weight, by hand."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from ucb_moppo.search.situations import UNIFORM, Situations, relative_density


def two_situations() -> Situations:
    return Situations(
        subspace=np.array([0, 3]),
        weights=np.array([[0.2, 0.8], [0.7, 0.3]]),
        places=np.array([[-0.1, 0.1], [0.0, 0.0]]),
        values=np.array([[10.0, 20.0], [30.0, 40.0]]),
        density=np.array([1.0, 2.5]),
        rate=np.array([0.9, 0.5]),
        age=np.array([1.0, 0.0]),
    )


def assert_same_rows(first: Situations, second: Situations) -> None:
    for field in fields(Situations):
        np.testing.assert_array_equal(getattr(first, field.name), getattr(second, field.name), field.name)


def test_features_are_weight_place_value_density_and_rate() -> None:
    # Neither which sub-space it is nor how long ago: what holds for one policy is to hold for another.
    np.testing.assert_array_equal(
        two_situations().features(),
        [[0.2, 0.8, -0.1, 0.1, 10, 20, 1, 0.9], [0.7, 0.3, 0, 0, 30, 40, 2.5, 0.5]],
    )


@pytest.mark.parametrize("rows", [np.array([False, True]), np.array([1])], ids=["mask", "index"])
def test_where_takes_whole_rows(rows: np.ndarray) -> None:
    last = two_situations().where(rows)
    assert len(last) == 1
    assert last.subspace.tolist() == [3]
    assert last.age.tolist() == [0]
    np.testing.assert_array_equal(last.features(), two_situations().features()[[1]])


def test_join_undoes_where() -> None:
    both = two_situations()
    assert_same_rows(Situations.join([both.where(np.array([0])), both.where(np.array([1]))]), both)
    nothing = both.where(np.array([False, False]))
    assert len(nothing) == 0
    assert nothing.features().shape == (0, 8)
    assert_same_rows(Situations.join([nothing, both, nothing]), both)


def line(num_weights: int) -> np.ndarray:
    first = np.linspace(0, 1, num_weights)
    return np.stack([first, 1 - first], axis=1)


def test_density_of_two_weights_by_hand() -> None:
    # (0,1) and (1,0) are √2 apart: under a width of 1 each counts exp(−½·2) = e⁻¹ at the other, and 1 at itself.
    # On both alike is the even case, (1 + e⁻¹)/2 at each. All on the first: 1 and e⁻¹, over that.
    even, far = (1 + np.exp(-1)) / 2, np.exp(-1)
    np.testing.assert_allclose(relative_density(line(2)[:1], line(2), 1.0), [1 / even, far / even])
    # Three quarters on the first: (3 + e⁻¹)/4 and (3e⁻¹ + 1)/4.
    mostly = relative_density(line(2)[[0, 0, 0, 1]], line(2), 1.0)
    np.testing.assert_allclose(mostly, [(3 + far) / 4 / even, (3 * far + 1) / 4 / even])


@pytest.mark.parametrize("width", [0.01, 0.1, 10.0])
def test_training_on_the_weights_themselves_is_uniform(width: float) -> None:
    np.testing.assert_allclose(relative_density(line(9), line(9), width), np.full(9, UNIFORM))
    # How often each, or in which order, is no matter.
    np.testing.assert_allclose(relative_density(np.repeat(line(9)[::-1], 3, axis=0), line(9), width), UNIFORM)


def test_training_at_one_weight_is_dense_near_it_and_thin_far_away() -> None:
    density = relative_density(np.tile(line(9)[2], (20, 1)), line(9), 0.15)
    assert density.argmax() == 2
    assert (density[1:4] > 1).all()
    assert (density[5:] < 0.1).all()


def test_density_is_a_ratio_of_kernel_means() -> None:
    rng = np.random.default_rng(0)
    trained, weights = rng.dirichlet(np.ones(3), 11), rng.dirichlet(np.ones(3), 6)

    def near(here: np.ndarray, others: np.ndarray) -> float:
        return sum(np.exp(-np.sum((here - other) ** 2) / (2 * 0.2**2)) for other in others) / len(others)

    expected = [near(weight, trained) / near(weight, weights) for weight in weights]
    np.testing.assert_allclose(relative_density(trained, weights, 0.2), expected)
