"""MO-Gymnasium's MuJoCo problems (v5) as data, to the bit what ``mo_gymnasium.make`` makes.

Its rewards are in single precision: objectives are rounded before what all share is added, and the result is
rounded again after each addition. Actions are in single precision too, and so is what they cost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucb_moppo.envs.known import KNOWN, without_version
from ucb_moppo.envs.problems import (
    CONTACT_FORCES,
    Array,
    Motion,
    MujocoProblem,
    ResetNoise,
    Shown,
    ant_healthy,
    columns,
    effort,
    hopper_healthy,
    rise,
    speed,
    walker2d_healthy,
)

# --- pieces of the rewards ---------------------------------------------------------------------------------


def rounded(objectives: Array, *shared: Any) -> Array:
    """Objectives [B, m] in single precision, with what all share, [B] each, added one after the other."""
    reward = objectives.astype(np.float32)
    for bonus in shared:
        reward += bonus[:, None]
    return reward.astype(np.float64)


def weighted_effort(motion: Motion, weight: float) -> Array:
    """−weight·Σa², in the precision of the actions, [B]."""
    return -(weight * effort(motion))


def unweighted_effort(motion: Motion, weight: float) -> Array:
    """−Σa² as MO-Gymnasium has it, [B]: Gymnasium's weight is multiplied in and divided out again."""
    return weighted_effort(motion, weight) / weight


def living(motion: Motion, bonus: float = 1.0) -> Array:
    """The bonus where the episode goes on, else 0, [B]."""
    assert motion.healthy is not None
    return np.where(motion.healthy, bonus, 0.0)


def squares(forces: Array) -> Array:
    """Σf² over all bodies, [B, bodies, 6] -> [B]."""
    flat = forces.reshape(len(forces), -1)
    return np.add.reduce(flat * flat, axis=1)


# --- rewards, [B, m] ---------------------------------------------------------------------------------------


def runner_reward(weight: float) -> Callable[[Motion], Array]:
    """Speed and −Σa², for those that never fall."""

    def reward(motion: Motion) -> Array:
        return rounded(columns(speed(motion, 0), unweighted_effort(motion, weight)))

    return reward


def walker2d_reward(motion: Motion) -> Array:
    return rounded(columns(speed(motion, 0), unweighted_effort(motion, 1e-3)), living(motion))


def hopper_reward(motion: Motion) -> Array:
    height = 10 * rise(motion)
    return rounded(columns(speed(motion, 0), height, unweighted_effort(motion, 1e-3)), living(motion))


def hopper_2obj_reward(motion: Motion) -> Array:
    return rounded(columns(speed(motion, 0), 10 * rise(motion)), weighted_effort(motion, 1e-3), living(motion))


def torso_velocity(motion: Motion) -> Array:
    """The torso's velocity in the plane, [B, 2]; it is body 1."""
    before, after = (fields["xpos"][:, 1, :2] for fields in (motion.fields_before, motion.fields_after))
    return (after - before) / motion.duration


def ant_contact(motion: Motion) -> Array:
    """What contact forces, clipped to ±1, cost the ant, [B]."""
    return -(5e-4 * squares(motion.fields_after[CONTACT_FORCES].clip(-1.0, 1.0)))


def ant_reward(motion: Motion) -> Array:
    velocity, cost = torso_velocity(motion), unweighted_effort(motion, 0.5)
    return rounded(columns(velocity[:, 0], velocity[:, 1], cost), living(motion), ant_contact(motion))


def ant_2obj_reward(motion: Motion) -> Array:
    cost = weighted_effort(motion, 0.5)
    return rounded(torso_velocity(motion), cost, living(motion), ant_contact(motion))


def mass_centre(masses: Array, places: Array) -> Array:
    """Where the masses [bodies] at places [B, bodies, 3] have their centre, [B, 3]."""
    return np.einsum("b,nbj->nj", masses, places) / masses.sum()


def humanoid_reward(motion: Motion) -> Array:
    before, after = (mass_centre(motion.masses, f["xipos"]) for f in (motion.fields_before, motion.fields_after))
    velocity = (after - before)[:, 0] / motion.duration
    doubled = motion._replace(action=motion.action.astype(np.float64))  # as read back from MuJoCo
    contact = -np.minimum(5e-7 * squares(motion.fields_after[CONTACT_FORCES]), 10.0)
    return rounded(columns(velocity, unweighted_effort(doubled, 0.1)), living(motion, 5.0), contact)


def reacher_reward(motion: Motion) -> Array:
    """Nearness of the fingertip (body 3) to the four targets (bodies 4 to 7), of before the step."""
    places = motion.fields_before["xpos"][:, 3:, :2]
    gaps = places[:, :1] - places[:, 1:]
    return rounded(1 - 4 * np.sqrt(gaps[..., 0] ** 2 + gaps[..., 1] ** 2))


# --- the rest of what differs ------------------------------------------------------------------------------


def humanoid_healthy(qpos: Array, qvel: Array) -> NDArray[np.bool_]:
    """Height strictly inside (1.0, 2.0)."""
    return (qpos[:, 2] > 1.0) & (qpos[:, 2] < 2.0)


def reacher_observation(qpos: Array, qvel: Array) -> Array:
    """Cosines and sines of the two joints' angles, and a tenth of their velocities, [B, 6]."""
    angles = qpos[:, :2]
    return np.concatenate((np.cos(angles), np.sin(angles), qvel[:, :2] * 0.1), axis=1)


_GOALS = (0.14, 0.0, -0.14, 0.0, 0.0, 0.14, 0.0, -0.14)
_TORQUES = (-1.0, 0.0, 1.0)
_NO_FLIGHT = {"num_hidden_positions": 1, "velocity_clip": 10.0, "reset_noise": ResetNoise(5e-3, "uniform")}
_HOPPER: dict[str, Any] = {"model": "hopper.xml", "frame_skip": 4, "healthy": hopper_healthy, **_NO_FLIGHT}
_ANT: dict[str, Any] = {
    "model": "ant.xml",
    "frame_skip": 5,
    "healthy": ant_healthy,
    "num_hidden_positions": 2,
    "reset_noise": ResetNoise(0.1, "normal"),
    "shown": (Shown(CONTACT_FORCES, 1, clip=1.0),),
    "compared": ("xpos",),
}
_DATA: dict[str, dict[str, Any]] = {
    "mo-hopper-v5": {**_HOPPER, "reward": hopper_reward},
    "mo-hopper-2obj-v5": {**_HOPPER, "reward": hopper_2obj_reward},
    "mo-walker2d-v5": {
        "model": "walker2d_v5.xml",
        "frame_skip": 4,
        "healthy": walker2d_healthy,
        "reward": walker2d_reward,
        **_NO_FLIGHT,
    },
    "mo-halfcheetah-v5": {
        "model": "half_cheetah.xml",
        "frame_skip": 5,
        "num_hidden_positions": 1,
        "reward": runner_reward(0.1),
        "reset_noise": ResetNoise(0.1, "normal"),
    },
    "mo-swimmer-v5": {
        "model": "swimmer.xml",
        "frame_skip": 4,
        "num_hidden_positions": 2,
        "reward": runner_reward(1e-4),
        "reset_noise": ResetNoise(0.1, "uniform"),
    },
    "mo-ant-v5": {**_ANT, "reward": ant_reward},
    "mo-ant-2obj-v5": {**_ANT, "reward": ant_2obj_reward},
    "mo-humanoid-v5": {
        "model": "humanoid.xml",
        "frame_skip": 5,
        "num_hidden_positions": 2,
        "reward": humanoid_reward,
        "healthy": humanoid_healthy,
        "reset_noise": ResetNoise(1e-2, "uniform"),
        "shown": (Shown("cinert", 1), Shown("cvel", 1), Shown("qfrc_actuator", 6), Shown(CONTACT_FORCES, 1)),
        "compared": ("xipos",),
    },
    "mo-reacher-v5": {
        "package": "mo_gymnasium",
        "model": "mo_reacher.xml",
        "frame_skip": 2,
        "num_hidden_positions": 0,
        "reward": reacher_reward,
        "reset_noise": ResetNoise(
            0.1,
            "uniform",
            velocity_scale=0.005,
            fixed_positions=tuple(enumerate((0.0, 3.1415 / 2, *_GOALS))),
            num_still=len(_GOALS),
        ),
        "observation": reacher_observation,
        "compared": ("xpos",),
        "choices": tuple((first, second) for first in _TORQUES for second in _TORQUES),
        "horizon": 50,
    },
}


def _problem(env_id: str) -> MujocoProblem:
    objectives, reference = KNOWN[without_version(env_id)]
    return MujocoProblem(
        name=env_id, objectives=objectives, reference=reference, single_precision=True, **_DATA[env_id]
    )


MO_PROBLEMS: dict[str, MujocoProblem] = {env_id: _problem(env_id) for env_id in _DATA}

CMORL_HORIZON = 500
CMORL_REFERENCE = -100.0
CMORL_DISCOUNT = 0.99
"""Of evaluated returns."""
CMORL_DIVISIONS = {2: 100, 3: 10}
"""Steps of the lattice of weights that the expected utility is the mean over, by the number of objectives."""
CMORL_PROBLEMS: dict[str, MujocoProblem] = {
    name: replace(problem, horizon=CMORL_HORIZON, reference=(CMORL_REFERENCE,) * len(problem.objectives))
    for name, problem in MO_PROBLEMS.items()
    if not problem.choices
}
"""As C-MORL and D3PO measure them: episodes are cut at 500 steps. Reacher, which lasts 50, is not among them."""
