"""On how many weights a run ends: the same for every method, as far as evaluation stays under a quarter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ucb_moppo.config import make_settings, resolve
from ucb_moppo.engine.evaluation import Evaluation
from ucb_moppo.engine.learner import Snapshot, StageRecord
from ucb_moppo.envs import make_spec
from ucb_moppo.policy.networks import PAPER_NETWORK, Network
from ucb_moppo.training.ending import affordable_weights, spare_episodes

CONDITIONED = PAPER_NETWORK
APART = Network("relu", 1, conditioned=False, residual=False, squash=True)


def last_stage(training: int, evaluation: int, episode: float, **counts: int) -> StageRecord:
    nothing: Any = {"stage": 1, "iteration": 1, "seconds": 1.0, "returns": np.zeros((1, 1, 2)), "indicators": {}}
    found = {"training_steps": training, "evaluation_steps": evaluation, "episode_steps": episode}
    return StageRecord(**nothing, **found, method_counts=counts, finished=True)


def count_weights(
    problem: str,
    method: str,
    steps: int,
    record: StageRecord,
    network: Network = CONDITIONED,
    policies: int = 1,
    tried: Evaluation | None = None,
) -> int:
    spec = make_spec(problem)
    config = resolve(make_settings(problem, method, steps=steps), spec)
    weights = np.full((policies, 32 // policies, spec.num_objectives), 1 / spec.num_objectives)
    return affordable_weights(config, Snapshot({}, network, weights, 0), record, tried)


@pytest.mark.parametrize(
    ("method", "policies", "training", "own"),
    [
        ("ucb", 4, 2_500_000, {}),
        ("pdmorl", 1, 2_400_000, {"pretraining_steps": 100_000}),
        ("pdmorl", 1, 2_500_000, {"peer_evaluation_steps": 300_000}),
        ("pdmorl", 1, 2_600_000, {}),  # a method that took more than it was given
    ],
)
def test_every_method_ends_on_as_many_weights(
    method: str, policies: int, training: int, own: dict[str, int]
) -> None:
    """Seven evaluations of 4 × 8 weights, 2 episodes of 1,000 steps, are 448,000 of the quarter's 625,000; of what
    is left 95% of two thirds pay for 14.01 weights of each sub-space. What a method has evaluated for itself is its
    own."""
    evaluation = 7 * 4 * 8 * 2 * 1000 + own.get("peer_evaluation_steps", 0)
    record = last_stage(training, evaluation, 1000.0, **own)
    assert count_weights("HalfCheetah-v2", method, 2_500_000, record, policies=policies) == 14


@pytest.mark.parametrize(
    ("episode", "evaluated", "expected"),
    [
        (1000.0, 448_000, 14),
        (500.0, 224_000, 25),  # 63.5 could be paid, 25 are enough
        (1000.0, 600_000, 1),  # 25,000 × 2/3 × 0.95 / 8,000 = 1.98
    ],
)
def test_shorter_episodes_leave_more_weights(episode: float, evaluated: int, expected: int) -> None:
    record = last_stage(2_500_000, evaluated, episode)
    assert count_weights("HalfCheetah-v2", "ucb", 2_500_000, record, policies=4) == expected


def test_what_is_kept_may_live_longer_than_what_was_trained_last() -> None:
    """25 weights of 4 × 2 episodes of 250 steps are 50,000. If an episode of each is tried and takes 1,000, 95%
    of two thirds of 625,000 − 465,000, less 16,000, pay for 10.8."""
    record = last_stage(2_500_000, 465_000, 250.0)
    assert count_weights("HalfCheetah-v2", "ucb", 2_500_000, record, policies=4) == 25
    tried = Evaluation(np.zeros((4, 4, 1, 2)), 16_000)  # 16 episodes
    assert count_weights("HalfCheetah-v2", "ucb", 2_500_000, record, policies=4, tried=tried) == 10


def test_policies_that_know_no_weight_have_none() -> None:
    record = last_stage(2_500_000, 448_000, 1000.0)
    assert count_weights("HalfCheetah-v2", "pdmorl", 2_500_000, record, network=APART) == 0


def test_a_second_look_has_what_is_left() -> None:
    """625,000 − 448,000 of stages − 112,000 of 14 × 4 weights are 65,000: 95% are 61.75 episodes of 1,000."""
    spec = make_spec("HalfCheetah-v2")
    config = resolve(make_settings("HalfCheetah-v2", steps=2_500_000), spec)
    record = last_stage(2_500_000, 448_000, 1000.0)
    assert spare_episodes(config, record, 112_000, 1000.0) == 61
    assert spare_episodes(config, record, 177_001, 1000.0) == 0
