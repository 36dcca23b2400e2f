"""PGMORL's protocol: the six problems as Xu et al. (ICML 2020) set them up, as differences to Gymnasium's.

Episodes of 500 steps from one and the same initial state, other gears, damping, limits and rules for an
episode's end. The rewards are those of ``problems.py``; actions are clipped to the actuators' own range.
Results under this protocol stand beside those of PGMORL, PD-MORL, Hyper-MORL and COLA, never beside others.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucb_moppo.envs.problems import (
    PROBLEMS,
    Array,
    ModelChanges,
    MujocoProblem,
    ResetNoise,
    all_inside,
    walker2d_healthy,
)

HORIZON = 500
NO_NOISE = ResetNoise(0.0, "uniform")


def half_cheetah_healthy(qpos: Array, qvel: Array) -> NDArray[np.bool_]:
    """Pitch strictly inside ±50°."""
    return np.abs(qpos[:, 2]) < np.deg2rad(50)


def ant_healthy(qpos: Array, qvel: Array) -> NDArray[np.bool_]:
    """The whole state finite."""
    return all_inside(qpos, np.inf) & all_inside(qvel, np.inf)


def hopper_healthy(qpos: Array, qvel: Array) -> NDArray[np.bool_]:
    """Height above 0.4, pitch and the three joint angles strictly inside ±90°."""
    return (qpos[:, 1] > 0.4) & all_inside(qpos[:, 2:6], np.deg2rad(90))


_HOPPER: dict[str, Any] = {
    "frame_skip": 5,
    "healthy": hopper_healthy,
    "changes": ModelChanges(
        gears=(200.0, 200.0, 300.0), control_bounds=(2.0, 2.0, 4.0), joint_damping=40.0, joint_limits=False
    ),
}
_DIFFERENCES: dict[str, dict[str, Any]] = {
    "Swimmer-v2": {"changes": ModelChanges(gears=(300.0, 300.0))},
    "HalfCheetah-v2": {"healthy": half_cheetah_healthy},
    "Walker2d-v2": {
        "healthy": walker2d_healthy,
        "changes": ModelChanges(joint_damping=3.0, geom_density=1500.0),
    },
    "Ant-v2": {"healthy": ant_healthy, "changes": ModelChanges(gears=(100.0,) * 8)},
    "Hopper-v2": _HOPPER,
    "Hopper-v3": _HOPPER,
}

PGMORL_PROBLEMS: dict[str, MujocoProblem] = {
    name: replace(PROBLEMS[name], horizon=HORIZON, reset_noise=NO_NOISE, **differences)
    for name, differences in _DIFFERENCES.items()
}
