"""The collector: where every number of a rollout comes from, whose seeds it uses, and how it goes on."""

from __future__ import annotations

import numpy as np
import pytest
from counting_batch import CountingBatch, linear_actors, start_of

from ucb_moppo.algos.base import Transitions
from ucb_moppo.engine.rollout import Collector, Lockstep
from ucb_moppo.errors import EnvironmentFault
from ucb_moppo.seeding import EVALUATION, TRAINING, episode_seed

K, N, T = 2, 3, 8
WEIGHT = np.random.default_rng(0).dirichlet(np.ones(2), (K, N))
STILL = linear_actors(np.zeros((K, 2)), np.zeros((K, 2, 2)))  # a = noise


def noise(steps: int = T, policies: int = K, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(steps, policies, N, 2)).astype(np.float32)


FIELDS = [name for name in Transitions._fields if name not in ("preference", "accrued")]
"""What rollouts hold where there is no ledger."""


def collect(env: CountingBatch, steps: int = T) -> Transitions:
    return Collector(env, range(K), seed=0).collect(STILL, WEIGHT, noise(steps))


def test_layout_of_a_rollout() -> None:
    """Environment k·N + n belongs to policy k; without endings, step t shows t and leads to t + 1."""
    rollout = collect(CountingBatch(K * N))
    drawn = noise()
    for t, k, n in np.ndindex(T, K, N):
        start = start_of(episode_seed(0, TRAINING, k, n, 0))
        np.testing.assert_allclose(rollout.observation[t, k, n], [k * N + n, 0, t, start], rtol=1e-6)
        np.testing.assert_allclose(rollout.next_observation[t, k, n], [k * N + n, 0, t + 1, start], rtol=1e-6)
        np.testing.assert_array_equal(rollout.action[t, k, n], drawn[t, k, n])
        # Paid: (a_0 + initial state, a_1 · step), the step being counted from 1.
        expected = [drawn[t, k, n, 0] + start, drawn[t, k, n, 1] * (t + 1)]
        np.testing.assert_allclose(rollout.reward[t, k, n], expected, rtol=1e-5, atol=1e-6)
    assert not rollout.terminated.any()
    assert not rollout.truncated.any()


def test_actions_come_from_the_policy_and_weight_of_their_environment() -> None:
    """Without noise a = offset_k + w_{k,n} · slope_k."""
    rng = np.random.default_rng(2)
    offset, slope = rng.normal(size=(K, 2)), rng.normal(size=(K, 2, 2))
    collector = Collector(CountingBatch(K * N), range(K), seed=0)
    rollout = collector.collect(linear_actors(offset, slope), WEIGHT, np.zeros_like(noise()))
    expected = offset[:, None] + np.einsum("knm,kma->kna", WEIGHT, slope)
    np.testing.assert_allclose(rollout.action, np.broadcast_to(expected, (T, K, N, 2)), rtol=1e-5, atol=1e-6)


def test_discrete_actions_are_choices() -> None:
    """Logits 0, so the larger noise wins; choice j pays 1 in objective j."""
    env = CountingBatch(K * N, discrete=True)
    actors = linear_actors(np.zeros((K, 2)), np.zeros((K, 2, 2)), discrete=True)
    rollout = Collector(env, range(K), seed=0).collect(actors, WEIGHT, noise())
    np.testing.assert_array_equal(rollout.action, noise().argmax(-1))
    assert rollout.action.shape == (T, K, N)
    np.testing.assert_array_equal(rollout.reward, np.eye(2)[rollout.action])


@pytest.mark.parametrize("kind", ["terminated", "truncated"])
def test_endings(kind: str) -> None:
    """Episodes of 3 steps: steps 2 and 5 end one, and what they lead to is the final observation, not a reset."""
    env = CountingBatch(K * N, life=lambda seed: 3) if kind == "terminated" else CountingBatch(K * N, horizon=3)
    rollout = collect(env)
    ends = np.array([t % 3 == 2 for t in range(T)])
    other = "truncated" if kind == "terminated" else "terminated"
    np.testing.assert_array_equal(getattr(rollout, kind), np.broadcast_to(ends[:, None, None], (T, K, N)))
    assert not getattr(rollout, other).any()
    episode, step = rollout.observation[..., 1], rollout.observation[..., 2]
    for t in range(T):
        # Step t is number t % 3 of episode t // 3, and leads to number t % 3 + 1 of the same.
        assert (episode[t] == t // 3).all()
        assert (step[t] == t % 3).all()
        assert (rollout.next_observation[t, ..., 1] == t // 3).all()
        assert (rollout.next_observation[t, ..., 2] == t % 3 + 1).all()
    starts = [
        [[start_of(episode_seed(0, TRAINING, k, n, e)) for n in range(N)] for k in range(K)] for e in range(3)
    ]
    np.testing.assert_allclose(rollout.observation[::3, ..., 3], starts, rtol=1e-6)


def test_environments_end_on_their_own() -> None:
    """Lives of 1 to 4 steps by seed: every environment counts its own episodes, replayed here one by one."""
    life = lambda seed: seed % 4 + 1  # noqa: E731
    rollout = collect(CountingBatch(K * N, life=life), steps=20)
    for k, n in np.ndindex(K, N):
        episode = step = 0
        for t in range(20):
            np.testing.assert_array_equal(rollout.observation[t, k, n, 1:3], [episode, step])
            step += 1
            ended = step == life(episode_seed(0, TRAINING, k, n, episode))
            assert rollout.terminated[t, k, n] == ended
            np.testing.assert_array_equal(rollout.next_observation[t, k, n, 1:3], [episode, step])
            if ended:
                episode, step = episode + 1, 0
    assert len({len(np.flatnonzero(rollout.terminated[:, k, n])) for k, n in np.ndindex(K, N)}) > 1


def test_a_policy_s_resets_do_not_depend_on_its_company() -> None:
    life = lambda seed: seed % 4 + 1  # noqa: E731
    everyone = CountingBatch(5 * N, life=life)
    actors = linear_actors(np.zeros((5, 2)), np.zeros((5, 2, 2)))
    weight = np.full((5, N, 2), 0.5)
    Collector(everyone, range(5), seed=7).collect(actors, weight, noise(12, policies=5))
    alone = CountingBatch(N, life=life)
    Collector(alone, [3], seed=7).collect(
        linear_actors(np.zeros((1, 2)), np.zeros((1, 2, 2))), weight[:1], noise(12, policies=1)
    )
    of_three = [(env - 3 * N, seed) for env, seed in everyone.resets if env // N == 3]
    assert len(of_three) > 2 * N
    assert alone.resets == of_three


def test_episodes_begin_from_the_seeds_they_are_given() -> None:
    """Two steps each: environment e begins its episodes 0, 1 and 2 from the seeds 10 e, 10 e + 1, 10 e + 2."""
    env = CountingBatch(4, horizon=2)
    lockstep = Lockstep(env, 2, lambda environment, episode: 10 * environment + episode)
    for _ in range(4):
        step = lockstep.step(np.zeros((2, 2, 2), np.float32))
    assert env.resets == [(e, 10 * e + episode) for episode in range(3) for e in range(4)]
    np.testing.assert_array_equal(lockstep.episodes, np.full((2, 2), 3))
    # The step shows the end of episode 1; what is acted on next is the beginning of episode 2.
    np.testing.assert_array_equal(step.observation[..., 1:3], np.broadcast_to([1, 2], (2, 2, 2)))
    np.testing.assert_array_equal(lockstep.observation[..., 1:3], np.broadcast_to([2, 0], (2, 2, 2)))


def test_seeds_differ_between_runs_policies_environments_episodes_and_uses() -> None:
    base = episode_seed(0, TRAINING, 1, 2, 3)
    others = [(1, TRAINING, 1, 2, 3), (0, EVALUATION, 1, 2, 3), (0, TRAINING, 2, 2, 3)]
    others += [(0, TRAINING, 1, 3, 3), (0, TRAINING, 1, 2, 4), (0, TRAINING, 2, 1, 3)]
    seeds = [base, *(episode_seed(*other) for other in others)]
    assert len(set(seeds)) == len(seeds)
    assert episode_seed(0, TRAINING, 1, 2, 3) == base


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_rewards_that_are_not_finite_stop_the_run(value: float) -> None:
    """Environment 4 is environment 1 of the second policy, here number 9; its 11th step is number 10 from 0."""
    env = CountingBatch(K * N, poison=(4, 11, value))
    collector = Collector(env, [5, 9], seed=0)
    collector.collect(STILL, WEIGHT, noise())  # steps 0 … 7
    with pytest.raises(EnvironmentFault, match=r"counting .*policy 9 in environment 1 .*step 10.*finite"):
        collector.collect(STILL, WEIGHT, noise())


def test_rollouts_continue_where_the_last_one_stopped() -> None:
    env = CountingBatch(K * N, life=lambda seed: seed % 4 + 1, horizon=3)
    collector = Collector(env, range(K), seed=0)
    drawn = noise(12)
    parts = [collector.collect(STILL, WEIGHT, part) for part in np.split(drawn, 3)]
    again = CountingBatch(K * N, life=lambda seed: seed % 4 + 1, horizon=3)
    whole = Collector(again, range(K), seed=0).collect(STILL, WEIGHT, drawn)
    for name in FIELDS:
        joined = np.concatenate([getattr(part, name) for part in parts])
        np.testing.assert_array_equal(joined, getattr(whole, name))


def test_state_continues_identically() -> None:
    """Saved, trained on for a while, put into another collector: the same future, and a state that kept still."""

    def make() -> Collector:
        return Collector(CountingBatch(K * N, life=lambda seed: seed % 4 + 1), range(K), seed=0)

    first = make()
    first.collect(STILL, WEIGHT, noise(5))
    state = first.get_state()
    expected = first.collect(STILL, WEIGHT, noise(9, seed=3))
    second = make()
    second.set_state(state)
    found = second.collect(STILL, WEIGHT, noise(9, seed=3))
    for name in FIELDS:
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    assert second.steps_taken == first.steps_taken == 14
    third = make()  # the state itself has not moved on with either of them
    third.set_state(state)
    again = third.collect(STILL, WEIGHT, noise(9, seed=3))
    np.testing.assert_array_equal(again.observation, expected.observation)
