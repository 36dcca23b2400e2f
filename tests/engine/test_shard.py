"""A shard on a real problem: the same seed gives the same bits, interrupted or not, alone or in company."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
import pytest

from ucb_moppo.config import MoppoConfig, default_settings, override, resolve
from ucb_moppo.engine.shard import Shard
from ucb_moppo.envs import make_spec

WEIGHTS = np.array([[[0.2, 0.8], [0.3, 0.7]], [[0.7, 0.3], [0.9, 0.1]]])


@lru_cache
def config(seed: int = 0) -> MoppoConfig:
    """Two policies × 20 steps in two environments each; episodes of 15 steps end inside a rollout."""
    small = override(
        default_settings("Swimmer-v2"),
        seed=seed,
        layout="static",
        horizon=15,
        policies=2,
        active=2,
        samples=40,
        minibatch=20,
        epochs=2,
        cells=8,
        steps=2 * 40 * 6,
        threads=1,
    )
    return resolve(small, make_spec("Swimmer-v2", horizon=15))


def train(shard: Shard, iterations: int) -> dict[str, np.ndarray]:
    """Train on the weights of the shard's sub-spaces; its whole state afterwards."""
    shard.train(np.stack([WEIGHTS[list(shard.subspaces)]] * iterations))
    return shard.get_state()


@pytest.fixture(scope="module")
def after_three() -> dict[str, np.ndarray]:
    return train(Shard(config(), range(2)), 3)


@pytest.fixture
def shard() -> Iterator[Shard]:
    shard = Shard(config(), range(2))
    yield shard
    shard.close()


def assert_same(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)


def test_same_seed_same_bits(shard: Shard, after_three: dict[str, np.ndarray]) -> None:
    assert_same(train(shard, 3), after_three)


def test_other_seed_other_everything(after_three: dict[str, np.ndarray]) -> None:
    """Every kernel, the noise (through the states of the environments) and the keys differ."""
    other = train(Shard(config(seed=1), range(2)), 3)
    for name, array in without_good(after_three).items():
        if "kernel" in name or "physics" in name or ".key" in name:
            assert not np.array_equal(other[name], array), name


def test_policies_differ_from_each_other(after_three: dict[str, np.ndarray]) -> None:
    for name, array in without_good(after_three).items():
        if "kernel" in name or ".key" in name:
            assert not np.array_equal(array[0], array[1]), name


def test_training_changes_every_parameter(shard: Shard) -> None:
    before = {name: array.copy() for name, array in shard.policies().items()}
    train(shard, 1)
    for name, array in shard.policies().items():
        assert np.isfinite(array).all(), name
        assert not np.array_equal(array, before[name]), name


def test_interrupted_equals_uninterrupted(shard: Shard, after_three: dict[str, np.ndarray]) -> None:
    state = train(shard, 1)
    saved = {name: array.copy() for name, array in state.items()}
    train(shard, 2)  # the state taken earlier must not move on with the shard
    assert_same(state, saved)
    resumed = Shard(config(), range(2))
    resumed.set_state(state)
    assert_same(resumed.get_state(), saved)
    assert_same(train(resumed, 2), after_three)
    assert_same(state, saved)  # nor with the one that continued from it


def without_good(state: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """But for where policies that diverge go back to: what an evaluation has found good."""
    return {name: array for name, array in state.items() if not name.startswith("good")}


def test_evaluation_and_timing_leave_no_trace(shard: Shard, after_three: dict[str, np.ndarray]) -> None:
    train(shard, 1)
    before = {name: array.copy() for name, array in shard.get_state().items()}
    timing = shard.time_iteration()
    assert timing.iteration > 0
    assert timing.step > 0
    assert_same(shard.get_state(), before)
    first = shard.evaluate(WEIGHTS, 1)
    np.testing.assert_array_equal(first.returns, shard.evaluate(WEIGHTS, 1).returns)
    assert first.returns.shape == (2, 2, 2)
    assert first.steps == 2 * 2 * 15  # no Swimmer episode ends before its horizon
    assert_same(without_good(shard.get_state()), without_good(before))
    assert_same(without_good(train(shard, 2)), without_good(after_three))


def test_a_policy_trains_alike_alone_and_in_company(after_three: dict[str, np.ndarray]) -> None:
    """Seeds and noise belong to the policy, so only the rounding of larger matrix products may differ."""
    alone = train(Shard(config(), [1]), 3)
    np.testing.assert_array_equal(alone["collector.episodes"][0], after_three["collector.episodes"][1])
    for name in (name for name in alone if name.startswith("policy")):
        np.testing.assert_allclose(alone[name][0], after_three[name][1], rtol=1e-3, atol=1e-4, err_msg=name)


def test_reports_are_of_every_iteration_and_policy(shard: Shard) -> None:
    report = shard.train(np.stack([WEIGHTS] * 2))
    assert shard.own.iteration == 2
    assert report.keys() == {"policy_loss", "value_loss", "entropy", "approx_kl", "clip_fraction"}
    # Two Gaussian actions with log-stds near 0: entropy near 2·½·log(2πe) = 2.838.
    np.testing.assert_allclose(report["entropy"], np.full((2, 2), 2.838), atol=0.05)
    assert (report["approx_kl"] >= 0).all()
    assert (report["approx_kl"] < 0.2).all()


def test_every_iteration_trains_on_weights_of_its_own(shard: Shard, after_three: dict[str, np.ndarray]) -> None:
    """Three iterations at once are three of one each; other weights in the second are another result."""
    for _ in range(3):
        found = train(shard, 1)
    assert_same(found, after_three)
    other = Shard(config(), range(2))
    other.train(np.stack([WEIGHTS, WEIGHTS[::-1], WEIGHTS]))
    changed = without_good(other.get_state())
    assert not np.array_equal(
        changed["policy.params['actor']['head.kernel']"], found["policy.params['actor']['head.kernel']"]
    )


# --- while policies are shared ---------------------------------------------------------------------------


def test_a_led_shard_walks_like_one_that_trains(shard: Shard) -> None:
    """With the tensors and the noise of policies of its own it collects what these would have learnt from."""
    seen = []
    update = shard.own.update
    shard.own.update = lambda rollout, weights: (seen.append(rollout), update(rollout, weights))[1]  # type: ignore[method-assign]
    tensors, noise = shard.policies(), shard.own.draw_noise()
    shard.train(WEIGHTS[None])
    led = Shard(config(), range(2), led=True)
    rollout = led.collect(tensors, WEIGHTS, noise)
    for name, array in seen[0]._asdict().items():
        np.testing.assert_array_equal(getattr(rollout, name), array, err_msg=name)
    with pytest.raises(RuntimeError, match="led"):
        led.train(WEIGHTS[None])
    assert led.get_divergences() == []
    assert all(name.startswith("collector.") for name in led.get_state())


def test_a_led_shard_evaluates_the_tensors_it_is_given(shard: Shard) -> None:
    led = Shard(config(), range(2), led=True)
    expected = shard.evaluate(WEIGHTS, 2)
    found = led.evaluate(WEIGHTS, 2, shard.policies())
    np.testing.assert_array_equal(found.episodes, expected.episodes)
    # Whoever leads judges: what is not finite stays as it was found, episode by episode.
    broken = shard.policies() | {"actor.head.bias": np.full((2, 2), np.nan, np.float32)}
    assert np.isnan(led.evaluate(WEIGHTS, 1, broken).episodes).all()
    assert led.get_divergences() == []


def test_a_led_shard_goes_on_with_policies_of_its_own(shard: Shard, after_three: dict[str, np.ndarray]) -> None:
    """After two iterations that another led: with the state of the policies the third is the same bits."""
    led = Shard(config(), range(2), led=True)
    for _ in range(2):
        led.collect(shard.policies(), WEIGHTS, shard.own.draw_noise())
        shard.train(WEIGHTS[None])
    led.adopt(shard.own.get_state())
    assert_same(led.get_state(), shard.get_state())
    assert_same(train(led, 1), after_three)


def test_a_led_shard_s_state_is_that_of_its_environments(shard: Shard) -> None:
    led, other = Shard(config(), range(2), led=True), Shard(config(), range(2), led=True)
    tensors, noise = shard.policies(), shard.own.draw_noise()
    led.collect(tensors, WEIGHTS, noise)
    other.set_state(led.get_state())
    assert other.population is None
    expected, found = led.collect(tensors, WEIGHTS, noise), other.collect(tensors, WEIGHTS, noise)
    for name, array in expected._asdict().items():
        np.testing.assert_array_equal(getattr(found, name), array, err_msg=name)
    # A state with policies makes it one with policies of its own, as resuming after the parting does.
    other.set_state(shard.get_state())
    assert_same(other.get_state(), shard.get_state())
