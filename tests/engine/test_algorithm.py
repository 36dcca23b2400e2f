"""A shard trains with any algorithm: here one that adds 1 to its only parameter at every update."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest
from numpy.typing import NDArray

from ucb_moppo.algos.base import Algorithm, Transitions
from ucb_moppo.config import default_settings, override, resolve
from ucb_moppo.engine import population as population_module
from ucb_moppo.engine.shard import Shard
from ucb_moppo.envs import make_spec
from ucb_moppo.spec import ActionSpec, EnvSpec

PROBLEM = "probe_envs:probe/Trade-v0"
WEIGHTS = np.full((2, 2, 2), 0.5)


def often(iterations: int) -> NDArray:
    """The same weights at every iteration: [I, K, N, m]."""
    return np.broadcast_to(WEIGHTS, (iterations, *WEIGHTS.shape))


class Count(NamedTuple):
    updates: Any  # [K, 1]


@dataclass(frozen=True)
class Counting:
    """Acts with what it sees plus a tenth of its count, and explores with its count for noise."""

    poison: int | None = None
    """The count at which policy 1 reports a loss that is not finite."""

    def init_policies(self, spec: EnvSpec, seed: int, policy_ids: Sequence[int]) -> Count:
        return Count(jnp.zeros((len(policy_ids), 1)))

    def make_actors(self, state: Count) -> Callable[..., NDArray]:
        def act(observation: NDArray, weight: NDArray, noise: NDArray | None = None) -> NDArray:
            output = observation + np.asarray(state.updates)[:, None] / 10
            return output if noise is None else output + noise

        return act

    def draw_noise(self, state: Count, action: ActionSpec, num_steps: int, num_envs: int) -> NDArray:
        drawn = np.asarray(state.updates)[None, :, None]
        return np.broadcast_to(drawn, (num_steps, len(state.updates), num_envs, action.size))

    def update(self, state: Count, rollout: Transitions, weights: NDArray) -> tuple[Count, dict[str, Any]]:
        added = (rollout.action - rollout.observation)[..., 0]  # [T, K, N]
        expected = 1.1 * np.asarray(state.updates)
        np.testing.assert_allclose(added, np.broadcast_to(expected, added.shape), rtol=1e-5, atol=1e-6)
        loss = jnp.array([0.0, jnp.nan if state.updates[1, 0] == self.poison else 0.0])
        return Count(state.updates + 1), {"loss": loss}

    def part(self, state: Count, group: int) -> Count:
        return Count(jnp.repeat(state.updates, group, axis=0))

    def restore(self, diverged: NDArray, good: Count, state: Count) -> Count:
        return Count(jnp.where(jnp.asarray(diverged)[:, None], good.updates, state.updates))

    def name_tensors(self, state: Count) -> dict[str, NDArray]:
        return {"actor.updates": np.asarray(state.updates)}


@pytest.fixture
def make_shard(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Algorithm], Shard]]:
    made: list[Shard] = []
    small = override(default_settings(PROBLEM), layout="static", policies=2, active=2, samples=8, steps=100)
    config = resolve(small, make_spec(PROBLEM))

    def make(algorithm: Algorithm) -> Shard:
        monkeypatch.setattr(population_module, "make_algorithm", lambda *settings: algorithm)
        made.append(Shard(config, range(2)))
        return made[-1]

    yield make
    for shard in made:
        shard.close()


def test_it_trains_evaluates_and_continues(make_shard: Callable[[Algorithm], Shard]) -> None:
    shard = make_shard(Counting())
    report = shard.train(often(3))
    np.testing.assert_array_equal(report["loss"], np.zeros((3, 2)))
    np.testing.assert_array_equal(shard.policies()["actor.updates"], [[3], [3]])
    # a = c + 0.3, so u = 0.8: five steps of (1 − 0.2², 1 − 0.8²).
    expected = np.broadcast_to([4.8, 1.8], (2, 2, 2))
    np.testing.assert_allclose(shard.evaluate(WEIGHTS, 1).returns, expected, rtol=1e-5)
    state = shard.get_state()
    np.testing.assert_array_equal(state["policy.updates"], [[3], [3]])
    other = make_shard(Counting())
    other.set_state(state)
    other.train(often(1))
    np.testing.assert_array_equal(other.policies()["actor.updates"], [[4], [4]])
    assert other.own.iteration == 4


def test_a_policy_that_diverges_goes_back_to_what_was_evaluated(
    make_shard: Callable[[Algorithm], Shard],
) -> None:
    shard = make_shard(Counting(poison=3))
    shard.train(often(2))
    shard.evaluate(WEIGHTS, 1)
    shard.train(often(2))
    np.testing.assert_array_equal(shard.policies()["actor.updates"], [[4], [2]])
    assert [(d.policy, d.iteration, d.cause) for d in shard.get_divergences()] == [(1, 4, "loss")]
