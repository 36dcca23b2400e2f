"""How a policy learns by PPO."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, get_args

from ucb_moppo.errors import nearest_names, require
from ucb_moppo.policy.networks import MAX_HIDDEN_LAYERS, Activation, Network


@dataclass(frozen=True)
class PPOSettings:
    """How each policy learns."""

    gamma: Annotated[float | None, "0.99; 0.995 or more for choices; 1 for --criterion esr"] = None
    """Discount factor of training (that of evaluation is --evaluation-discount)."""
    gae_lambda: float = 0.95
    """λ of generalised advantage estimation."""
    clip: float = 0.2
    """PPO's clip range ε."""
    epochs: int = 10
    """Passes over each rollout."""
    minibatch: int = 64
    """Samples per gradient step."""
    learning_rate: Annotated[float | None, "0.0003, or 0.001 where actions are choices"] = None
    """Adam's learning rate."""
    target_kl: float = 0.0
    """KL divergence of an update that the actor's learning rate is held to, by lowering it (0: not at all)."""
    decay: bool = True
    """Decay the learning rate linearly to zero over the run."""
    adam_epsilon: float = 1e-5
    """Adam's ε."""
    max_grad_norm: float = 0.5
    """Largest norm of a gradient, for actor and critic apart."""
    value_coefficient: float = 0.5
    """Weight of the value loss."""
    entropy_coefficient: Annotated[float | None, "0, or 0.2 among the choices of an action"] = None
    """Weight of the entropy bonus; it decays with the learning rate."""
    cells: Annotated[int | None, "128, or 64 where actions are choices"] = None
    """Width of the hidden layers of actor and critic."""
    layers: int = 2
    """Hidden layers of actor and critic."""
    activation: Activation = "tanh"
    """What follows each hidden layer of actor and critic."""
    log_std: float = 0.0
    """Initial log standard deviation of Box actions."""
    normalise_observations: bool = True
    """Normalise observations by their running mean and variance (frozen at evaluation)."""

    @property
    def network(self) -> Network:
        """The paper's, as deep and with the activation that is asked for."""
        return Network(self.activation, self.layers)


@dataclass(frozen=True)
class PPOConfig(PPOSettings):
    """PPO's settings with nothing left open."""

    gamma: float = 0.99
    learning_rate: float = 3e-4
    entropy_coefficient: float = 0.0
    cells: int = 64


def check_ppo(ppo: PPOSettings) -> None:
    """Refuse values that cannot be."""
    for name in ("gamma", "gae_lambda"):
        value = getattr(ppo, name)
        require(value is None or 0 <= value <= 1, f"{name} is {value}; it must lie in [0, 1]")
    for name in ("epochs", "minibatch", "cells", "layers"):
        value = getattr(ppo, name)
        require(value is None or value >= 1, f"{name} is {value}; it must be at least 1")
    require(ppo.layers <= MAX_HIDDEN_LAYERS, f"layers is {ppo.layers}; it must be {MAX_HIDDEN_LAYERS} at most")
    activation, known = ppo.activation, get_args(Activation)
    require(activation in known, f"unknown activation {activation!r}; {nearest_names(str(activation), known)}")
    for name in ("clip", "learning_rate", "adam_epsilon", "max_grad_norm"):
        value = getattr(ppo, name)
        require(value is None or 0 < value < math.inf, f"{name} is {value}; it must be a positive number")
    require(0 <= ppo.target_kl < math.inf, f"target_kl is {ppo.target_kl}; it must be a number from 0 on")
    for name in ("value_coefficient", "entropy_coefficient", "log_std"):
        value = getattr(ppo, name)
        require(value is None or math.isfinite(value), f"{name} is {value}; it must be a finite number")
