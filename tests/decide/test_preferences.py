"""The posterior over weights against Bayes' rule on a fine grid, and how steadiness is learnt."""

import numpy as np
import pytest

from ucb_moppo.decide import preferences
from ucb_moppo.decide.preferences import (
    FIRST,
    NUM_PARTICLES,
    SAME,
    SECOND,
    SLIPS,
    STEADINESS,
    THRESHOLD,
    answer_chances,
    believe,
)


def test_chances_of_answers_by_hand():
    # No gap, steadiness 100: 1/(1 + e^1) = .268941 each way, the rest is "same"; a slip adds a third of 2%.
    first, second, same = answer_chances(np.array(0.0), np.array(100.0))
    assert first == pytest.approx(0.98 * 0.268941 + 0.02 / 3, abs=1e-6)
    assert second == pytest.approx(first)
    assert same == pytest.approx(0.98 * (1 - 2 * 0.268941) + 0.02 / 3, abs=1e-6)
    # .05 above the threshold, steadiness 20: 1/(1 + e^-1).
    assert answer_chances(np.array(THRESHOLD + 0.05), np.array(20.0))[FIRST] == pytest.approx(
        (1 - SLIPS) * 0.731059 + SLIPS / 3, abs=1e-6
    )


def test_chances_sum_to_one_and_mirror():
    gaps, steadiness = np.linspace(-1, 1, 41), np.full(41, 50.0)
    chances = answer_chances(gaps, steadiness)
    np.testing.assert_allclose(chances.sum(axis=0), 1)
    np.testing.assert_allclose(chances[FIRST], chances[SECOND, ::-1])
    assert (chances > 0).all()


def posterior_on_a_grid(differences, said):
    """Mean of the first of two weights: both it and the logarithm of steadiness on 400 even places."""
    first = np.linspace(0, 1, 400)
    steadiness = np.exp(np.linspace(*np.log(STEADINESS), 400))
    chance = np.ones((400, 400))
    for difference, answer in zip(differences, said, strict=True):
        gaps = first * difference[0] + (1 - first) * difference[1]
        chance *= answer_chances(gaps[:, None], steadiness)[answer]
    return (chance.sum(axis=1) @ first) / chance.sum(), (chance.sum(axis=0) @ np.log(steadiness)) / chance.sum()


@pytest.mark.parametrize(
    "said",
    [[FIRST], [FIRST, SECOND], [FIRST, SAME], [FIRST, FIRST, SECOND, SECOND, FIRST], [SECOND] * 6],
)
def test_many_particles_agree_with_the_grid(said, monkeypatch):
    monkeypatch.setattr(preferences, "NUM_PARTICLES", 10_000)
    rng = np.random.default_rng(1)
    differences = np.stack([rng.uniform(0.2, 0.9, 6), -rng.uniform(0.2, 0.9, 6)], axis=1)[: len(said)]
    belief = believe(differences, said, 2)
    weight, steadiness = posterior_on_a_grid(differences, said)
    assert belief.mean[0] == pytest.approx(weight, abs=0.015)
    assert belief.shares @ np.log(belief.steadiness) == pytest.approx(steadiness, abs=0.12)


def test_without_answers_everything_is_possible():
    belief = believe(np.zeros((0, 3)), [], 3)
    np.testing.assert_allclose(belief.mean, 1 / 3, atol=0.03)
    assert len(belief.weights) == NUM_PARTICLES


def test_particles_stay_weights():
    rng = np.random.default_rng(0)
    belief = believe(rng.uniform(-1, 1, (8, 4)), [FIRST, SECOND] * 4, 4)
    assert (belief.weights >= 0).all()
    np.testing.assert_allclose(belief.weights.sum(axis=1), 1)
    assert belief.shares.sum() == pytest.approx(1)


def test_the_same_answers_give_the_same_belief():
    differences = np.array([[0.5, -0.5], [0.3, -0.1], [-0.4, 0.2]])
    one, other = (believe(differences, [0, 1, 2], 2) for _ in range(2))
    np.testing.assert_array_equal(one.weights, other.weights)
    np.testing.assert_array_equal(one.shares, other.shares)


def test_who_contradicts_themselves_is_believed_less():
    # A gap of .5 either way at the weights' middle; the same question eight times.
    differences = np.tile([0.9, -0.1], (8, 1))
    steady = believe(differences, [FIRST] * 8, 2)
    wavering = believe(differences, [FIRST, SECOND] * 4, 2)
    assert wavering.shares @ np.log(wavering.steadiness) < steady.shares @ np.log(steady.steadiness) - 0.2
