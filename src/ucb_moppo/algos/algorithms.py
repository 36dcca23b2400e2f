"""The algorithms there are: the one place that knows them by name."""

from __future__ import annotations

from ucb_moppo.algos.base import Algorithm
from ucb_moppo.algos.ppo.ppo import PPO
from ucb_moppo.algos.ppo.ppo_settings import PPOConfig


def make_algorithm(settings: PPOConfig, num_iterations: int, num_scaled: int = 0) -> Algorithm:
    """The algorithm that these settings belong to, for a run of so many iterations.

    The last ``num_scaled`` inputs have a scale of their own: they are not normalised.
    """
    return PPO(settings, num_iterations, num_scaled)
