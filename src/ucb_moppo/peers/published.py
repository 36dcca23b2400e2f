"""Published settings of the peers per problem, with where they were published. Importing this needs no extra.

PGMORL: Xu et al., "Prediction-Guided Multi-Objective Reinforcement Learning for Continuous Robot Control",
    ICML 2020; the authors' repository mit-gfx/PGMORL, ``scripts/<problem>.py`` and ``morl/arguments.py``.
CAPQL: Lu, Herman and Yu, "Multi-Objective Reinforcement Learning: Convexity, Stationarity and Pareto
    Optimality", ICLR 2023; the authors' repository haoyelu/CAPQL, ``conf/experiment_config.py`` and the README.
GPI-LS: Alegre et al., "Sample-Efficient Multi-Objective Learning via Generalized Policy Improvement
    Prioritization", AAMAS 2023; the first author's package morl-baselines 1.3: the defaults of
    ``GPILSContinuousAction`` and of its ``train``, and ``examples/gpi_pd_hopper.py``.

Names are those of morl-baselines, except where a comment says so.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class PGMORLSettings:
    """The authors' values for Walker2d and HalfCheetah."""

    task_steps: int = 5_000_000
    """Published budget of each of the ``pop_size`` tasks; not an option of morl-baselines."""
    scale_to_budget: bool = True
    """Shorten warm-up and generations to their published share of the run where its budget is smaller than the
    published one; else a short run would never leave the warm-up. Not an option of morl-baselines."""
    warmup_iterations: int = 80
    evolutionary_iterations: int = 20
    num_envs: int = 4
    steps_per_iteration: int = 2048
    pop_size: int | None = None
    """Tasks trained side by side (default: one per weight of the ``delta_weight`` lattice, as published)."""
    delta_weight: float = 0.2
    num_performance_buffer: int = 100
    performance_buffer_size: int = 2
    sparsity_coef: float = -1.0
    gamma: float = 0.995
    gae_lambda: float = 0.95
    net_arch: tuple[int, ...] = (64, 64)
    num_minibatches: int = 32
    update_epochs: int = 10
    learning_rate: float = 3e-4
    anneal_lr: bool = False
    clip_coef: float = 0.2
    ent_coef: float = 0.0
    vf_coef: float = 0.5
    max_grad_norm: float = 0.5


_LONG = {"task_steps": 8_000_000, "warmup_iterations": 200, "evolutionary_iterations": 40}
PGMORL: dict[str, dict[str, Any]] = {
    "Swimmer-v2": {"task_steps": 2_000_000, "warmup_iterations": 40, "evolutionary_iterations": 10},
    "Ant-v2": _LONG,
    "Hopper-v2": _LONG,
    "Hopper-v3": _LONG | {"delta_weight": 0.25, "num_performance_buffer": 20, "sparsity_coef": -1e6},
}
"""Where the authors' scripts differ from `PGMORLSettings`; Hopper-v3's lattice has 15 weights and so 15 tasks."""


@dataclass(frozen=True)
class CAPQLSettings:
    """The authors' values. ``alpha`` weighs the augmentation (entropy) term."""

    learning_rate: float = 3e-4
    gamma: float = 0.99
    tau: float = 0.005
    buffer_size: int = 1_000_000
    net_arch: tuple[int, ...] = (256, 256)
    batch_size: int = 256
    num_q_nets: int = 2
    alpha: float = 0.2
    learning_starts: int = 10_000
    gradient_updates: int = 1


HOPPERS = ("Hopper-v2", "Hopper-v3", "mo-hopper-v4", "mo-hopper-2d-v4", "mo-hopper-v5", "mo-hopper-2obj-v5")
CAPQL: dict[str, dict[str, Any]] = {hopper: {"alpha": 0.1} for hopper in HOPPERS}
"""The README runs Hopper with another alpha; the same body learns alike under other rewards."""


@dataclass(frozen=True)
class GPILSSettings:
    """The authors' values for MO-Hopper, the one problem with continuous actions in their paper.

    Replay is always prioritised, the package's default: without priorities it fails (1.3).
    """

    learning_rate: float = 3e-4
    gamma: float = 0.99
    tau: float = 0.005
    buffer_size: int = 400_000
    net_arch: tuple[int, ...] = (256, 256)
    batch_size: int = 128
    num_q_nets: int = 2
    delay_policy_update: int = 2
    learning_starts: int = 100
    gradient_updates: int = 20
    policy_noise: float = 0.2
    noise_clip: float = 0.5
    min_priority: float = 0.1
    alpha: float = 0.6
    timesteps_per_iter: int = 10_000
    """Training steps between two choices of weights."""
    num_eval_episodes_for_front: int = 5
    """Episodes per weight in the evaluations that its choice of weights is based on."""


def published_pgmorl(problem: str) -> PGMORLSettings:
    return replace(PGMORLSettings(), **PGMORL.get(problem, {}))


def published_capql(problem: str) -> CAPQLSettings:
    return replace(CAPQLSettings(), **CAPQL.get(problem, {}))


def published_gpils(problem: str) -> GPILSSettings:
    return GPILSSettings()
