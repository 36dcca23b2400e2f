"""How a policy learns by PPO."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

from ucb_moppo.errors import require


@dataclass(frozen=True)
class PPOSettings:
    """How each policy learns."""

    gamma: float = 0.99
    """Discount factor of training (evaluation is undiscounted)."""
    gae_lambda: float = 0.95
    """λ of generalised advantage estimation."""
    clip: float = 0.2
    """PPO's clip range ε."""
    epochs: int = 10
    """Passes over each rollout."""
    minibatch: int = 64
    """Samples per gradient step."""
    learning_rate: float = 3e-4
    """Adam's learning rate."""
    decay: bool = True
    """Decay the learning rate linearly to zero over the run."""
    adam_epsilon: float = 1e-5
    """Adam's ε."""
    max_grad_norm: float = 0.5
    """Largest norm of a gradient, for actor and critic apart."""
    value_coefficient: float = 0.5
    """Weight of the value loss."""
    entropy_coefficient: Annotated[float | None, "0, or 0.05 where actions are choices"] = None
    """Weight of the entropy bonus; it decays with the learning rate."""
    cells: int = 64
    """Width of the two hidden layers of actor and critic."""
    log_std: float = 0.0
    """Initial log standard deviation of Box actions."""
    normalise_observations: bool = True
    """Normalise observations by their running mean and variance (frozen at evaluation)."""


@dataclass(frozen=True)
class PPOConfig(PPOSettings):
    """PPO's settings with nothing left open."""

    entropy_coefficient: float = 0.0


def check_ppo(ppo: PPOSettings) -> None:
    """Refuse values that cannot be."""
    for name in ("gamma", "gae_lambda"):
        value = getattr(ppo, name)
        require(0 <= value <= 1, f"{name} is {value}; it must lie in [0, 1]")
    for name in ("epochs", "minibatch", "cells"):
        value = getattr(ppo, name)
        require(value >= 1, f"{name} is {value}; it must be at least 1")
    for name in ("clip", "learning_rate", "adam_epsilon", "max_grad_norm"):
        value = getattr(ppo, name)
        require(0 < value < math.inf, f"{name} is {value}; it must be a positive number")
    for name in ("value_coefficient", "entropy_coefficient", "log_std"):
        value = getattr(ppo, name)
        require(value is None or math.isfinite(value), f"{name} is {value}; it must be a finite number")
