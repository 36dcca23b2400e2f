"""The algorithms there are: the one place that knows them by name."""

from __future__ import annotations

from ucb_moppo.algos.base import Algorithm
from ucb_moppo.algos.ppo.ppo import PPO
from ucb_moppo.algos.ppo.ppo_settings import PPOConfig


def make_algorithm(settings: PPOConfig, num_iterations: int) -> Algorithm:
    """The algorithm that these settings belong to, for a run of so many iterations."""
    return PPO(settings, num_iterations)
