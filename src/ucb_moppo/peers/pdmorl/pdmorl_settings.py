"""Settings of PD-MORL, and the published ones per problem.

Published: T. Basaklar, S. Gumussoy, U. Y. Ogras, "PD-MORL: Preference-Driven Multi-Objective Reinforcement Learning
Algorithm", ICLR 2023 (arXiv:2208.07914), MO-TD3-HER, and the settings file of the authors' repository
(github.com/tbasaklar/PDMORL-Preference-Driven-Multi-Objective-Reinforcement-Learning-Algorithm). Numbers of steps
are kept there as shares of the run, so that any budget works.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ucb_moppo.errors import ConfigError


@dataclass(frozen=True)
class PDMORLSettings:
    """How PD-MORL learns; ``key_*`` settings concern the pre-training that finds the key solutions."""

    workers: int = 10
    """Environments that step together, each with preferences from its own part of the simplex."""
    relabels: int = 3
    """Other preferences that every transition is stored with again (hindsight)."""
    cells: int = 400
    """Width of the two hidden layers of actor and critics."""
    learning_rate: float = 3e-4
    """Adam's learning rate, of actor and critics."""
    gamma: float = 0.995
    """Discount factor."""
    batch: int = 256
    """Samples per gradient step."""
    replay: int = 2_000_000
    """Stored samples, those with other preferences counted; the oldest make room."""
    updates_per_step: float = 1.0
    """Gradient steps per environment step."""
    tau: float = 0.005
    """How far the targets move at each update of the actor."""
    policy_delay: int = 10
    """Updates of the critics per update of actor and targets."""
    exploration_noise: float = 0.1
    """Standard deviation of the noise on the actions, which lie in [-1, 1]."""
    target_noise: float = 0.2
    """Standard deviation of the noise on the target's actions."""
    noise_clip: float = 0.5
    """Largest noise on the target's actions."""
    max_grad_norm: float = 100.0
    """Largest norm of a gradient, for actor and critics apart."""
    critic_angle: float = 1.0
    """Weight of the angle (in degrees) in the critics' loss."""
    actor_angle: float = 10.0
    """Weight of the angle (in degrees) in the actor's loss."""
    random_share: float = 0.01
    """Share of a phase that acts at random (published: 10,000 of 1M steps per worker)."""
    key_episodes: int = 3
    """Episodes per key preference, each time every worker has finished one, to look for better key solutions."""
    pretraining_share: float = 0.375
    """Share of all steps that pre-training takes (published: 3 × 2M beside 10 × 1M)."""
    key_gamma: float = 0.99
    """Discount factor of pre-training."""
    key_batch: int = 100
    """Samples per gradient step of pre-training."""
    key_replay: int = 500_000
    """Stored samples per key preference."""
    key_policy_delay: int = 2
    """Updates of the critics per update of actor and targets in pre-training."""
    key_spread: float = 0.05
    """Standard deviation, and limit, of the noise on a key preference while it is pre-trained."""
    key_interval: int = 100
    """Episodes between two evaluations of a key policy; it is always evaluated at the end of pre-training."""
    key_pretraining_episodes: int = 10
    """Episodes per such evaluation."""

    def __post_init__(self) -> None:
        for name in _COUNTS:
            _check(name, getattr(self, name), getattr(self, name) >= 1, "at least 1")
        _check("relabels", self.relabels, self.relabels >= 0, "at least 0")
        for name in ("learning_rate", "max_grad_norm", "updates_per_step"):
            _check(name, getattr(self, name), 0 < getattr(self, name) < math.inf, "a positive number")
        for name in (
            "exploration_noise",
            "target_noise",
            "noise_clip",
            "critic_angle",
            "actor_angle",
            "key_spread",
        ):
            _check(name, getattr(self, name), 0 <= getattr(self, name) < math.inf, "a number from 0")
        for name in ("gamma", "key_gamma", "tau", "random_share"):
            _check(name, getattr(self, name), 0 <= getattr(self, name) <= 1, "within [0, 1]")
        _check("pretraining_share", self.pretraining_share, 0 < self.pretraining_share < 1, "within (0, 1)")


_COUNTS = (
    "workers",
    "cells",
    "batch",
    "replay",
    "policy_delay",
    "key_episodes",
    "key_batch",
    "key_replay",
    "key_policy_delay",
    "key_interval",
    "key_pretraining_episodes",
)


def _check(name: str, value: float, holds: bool, wanted: str) -> None:
    if not holds:
        raise ConfigError(f"{name} is {value}; it must be {wanted}")


_HOPPER: dict[str, Any] = {"policy_delay": 20, "key_policy_delay": 10, "key_replay": 1_000_000}
PUBLISHED: dict[str, dict[str, Any]] = {
    "Swimmer-v2": {"pretraining_share": 3 / 13, "key_policy_delay": 5, "key_replay": 1_000_000},
    "Hopper-v2": _HOPPER,
    "Hopper-v3": _HOPPER,  # not in the paper, which has two objectives on every MuJoCo problem
}
"""Where the authors' settings differ between problems."""


def published(problem: str) -> PDMORLSettings:
    """The published settings for a problem; for one that the paper does not have, those of most of its problems."""
    return PDMORLSettings(**PUBLISHED.get(problem, {}))
