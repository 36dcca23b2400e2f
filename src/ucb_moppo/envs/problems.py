"""The six problems as data: a MuJoCo model of Gymnasium's, a vector reward, and when an episode ends.

Everything here is a pure function of arrays with a row per environment, so that the batch and the single
environment share it and agree to the bit. All objectives are maximised.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucb_moppo.spec import ActionSpec, EnvSpec

if TYPE_CHECKING:
    import mujoco

Array = NDArray[np.float64]


class Motion(NamedTuple):
    """What a step did, a row per environment."""

    before: Array  # [B, nq] positions before the step
    after: Array  # [B, nq] positions after it
    action: Array  # [B, a] as applied, that is clipped to the actuators' range
    duration: float  # seconds: timestep times frame skip
    initial: Array  # [nq] the model's initial positions, without reset noise


@dataclass(frozen=True)
class ResetNoise:
    """Noise around the model's initial state: positions uniform in ±scale, velocities as named."""

    scale: float
    velocity: Literal["uniform", "normal"]


@dataclass(frozen=True)
class ModelChanges:
    """What a protocol changes in Gymnasium's model before it is compiled. Joints: those that a motor drives."""

    gears: tuple[float, ...] = ()
    """One per motor; empty: as they are."""
    control_bounds: tuple[float, ...] = ()
    """Controls lie in ±bound, one per motor; empty: as they are."""
    joint_damping: float | None = None
    joint_limits: bool = True
    """Whether joints keep their limits."""
    geom_density: float | None = None


@dataclass(frozen=True)
class MujocoProblem:
    """A problem on a MuJoCo model.

    ``num_hidden_positions`` leading positions (those of the torso in the plane) are left out of the
    observation; velocities are shown clipped to ±``velocity_clip``. ``healthy(qpos, qvel) -> [B]`` says where
    an episode goes on; None: the problem never ends one.
    """

    name: str
    model: str
    frame_skip: int
    objectives: tuple[str, ...]
    num_hidden_positions: int
    reward: Callable[[Motion], Array]
    reset_noise: ResetNoise
    velocity_clip: float = np.inf
    healthy: Callable[[Array, Array], NDArray[np.bool_]] | None = None
    horizon: int = 1000
    changes: ModelChanges = ModelChanges()

    @property
    def reference_point(self) -> tuple[float, ...]:
        """The hypervolume's reference point: the origin, [m]."""
        return (0.0,) * len(self.objectives)


# --- pieces of the rewards, [B] each -----------------------------------------------------------------------


def speed(motion: Motion, axis: int) -> Array:
    """Displacement along ``axis`` over the step, divided by its duration."""
    return (motion.after[:, axis] - motion.before[:, axis]) / motion.duration


def effort(motion: Motion) -> Array:
    """Σa², the sum of the squared actions."""
    return np.add.reduce(motion.action * motion.action, axis=1)


def rise(motion: Motion) -> Array:
    """Height of the torso above where the model starts."""
    return motion.after[:, 1] - motion.initial[1]


def thrift(motion: Motion) -> Array:
    """4 − Σa² + 1: energy efficiency with the bonus for staying alive."""
    return 5.0 - effort(motion)


def columns(*objectives: Array) -> Array:
    """Objectives of [B] each, side by side: [B, m]."""
    reward = np.empty((len(objectives[0]), len(objectives)))
    for index, objective in enumerate(objectives):
        reward[:, index] = objective
    return reward


# --- rewards, [B, m] ---------------------------------------------------------------------------------------


def swimmer_reward(motion: Motion) -> Array:
    return columns(speed(motion, 0), 0.3 - 0.15 * effort(motion))


def half_cheetah_reward(motion: Motion) -> Array:
    return columns(np.minimum(speed(motion, 0), 4.0) + 1.0, thrift(motion))


def walker2d_reward(motion: Motion) -> Array:
    return columns(speed(motion, 0) + 1.0, thrift(motion))


def ant_reward(motion: Motion) -> Array:
    living = 1.0 - 0.5 * effort(motion)
    return columns(speed(motion, 0) + living, speed(motion, 1) + living)


def hopper_reward(motion: Motion) -> Array:
    living = 1.0 - 2e-4 * effort(motion)
    return columns(1.5 * speed(motion, 0) + living, 12.0 * rise(motion) + living)


def hopper3_reward(motion: Motion) -> Array:
    return columns(1.5 * speed(motion, 0) + 1.0, 12.0 * rise(motion) + 1.0, thrift(motion))


# --- healthy states, [B] bool: the rules of Gymnasium's v4 environments ------------------------------------
# A comparison with NaN is false, so a state that is not finite is never healthy.


def walker2d_healthy(qpos: Array, qvel: Array) -> NDArray[np.bool_]:
    """Height strictly inside (0.8, 2.0), pitch strictly inside ±1 rad."""
    height = qpos[:, 1]
    return (height > 0.8) & (height < 2.0) & (np.abs(qpos[:, 2]) < 1.0)


def ant_healthy(qpos: Array, qvel: Array) -> NDArray[np.bool_]:
    """Height inside [0.2, 1.0], ends included, and the whole state finite."""
    height = qpos[:, 2]
    return (height >= 0.2) & (height <= 1.0) & all_inside(qpos, np.inf) & all_inside(qvel, np.inf)


def hopper_healthy(qpos: Array, qvel: Array) -> NDArray[np.bool_]:
    """Height above 0.7, pitch strictly inside ±0.2 rad, joint angles and all velocities inside ±100."""
    upright = (qpos[:, 1] > 0.7) & (qpos[:, 1] < np.inf) & (np.abs(qpos[:, 2]) < 0.2)
    return upright & all_inside(qpos[:, 2:], 100.0) & all_inside(qvel, 100.0)


def all_inside(rows: Array, bound: float) -> NDArray[np.bool_]:
    """Where a whole row [B, n] lies strictly inside ±bound, [B]."""
    inside: NDArray[np.bool_] = np.abs(rows) < bound
    # Nearly always every row does, and one look at the whole array is far cheaper than one per row.
    if inside.all():
        return np.ones(len(rows), dtype=bool)
    return np.logical_and.reduce(inside, axis=1)


# --- what the batch and the single environment have in common ----------------------------------------------


def observe(problem: MujocoProblem, qpos: Array, qvel: Array) -> Array:
    """Observations [B, d], a fresh array: the positions [B, nq] that are shown, then velocities [B, nv]."""
    shown = qvel if problem.velocity_clip == np.inf else qvel.clip(-problem.velocity_clip, problem.velocity_clip)
    return np.concatenate((qpos[:, problem.num_hidden_positions :], shown), axis=1)


def draw_initial_state(
    problem: MujocoProblem, qpos: Array, qvel: Array, rng: np.random.Generator
) -> tuple[Array, Array]:
    """The model's initial state [nq], [nv] plus reset noise, positions drawn first."""
    scale = problem.reset_noise.scale
    start = qpos + rng.uniform(-scale, scale, len(qpos))
    if problem.reset_noise.velocity == "normal":
        return start, qvel + scale * rng.standard_normal(len(qvel))
    return start, qvel + rng.uniform(-scale, scale, len(qvel))


def load_model(problem: MujocoProblem) -> mujoco.MjModel:
    """Compile the problem's model from the XML that Gymnasium ships."""
    import gymnasium
    import mujoco

    path = Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets" / problem.model
    # half_cheetah.xml uses settotalmass, which MuJoCo calls deprecated: nothing a user could act on. Compiled
    # from a spec the notice is a Python warning; MjModel.from_xml_path would print it and write a log file.
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*settotalmass.*")
        model_spec = mujoco.MjSpec.from_file(str(path))
        change_model(model_spec, problem.changes)
        return model_spec.compile()


def change_model(model_spec: mujoco.MjSpec, changes: ModelChanges) -> None:
    """Edit a model in place, before it is compiled."""
    motors = list(model_spec.actuators)
    for motor, gear in zip(motors, changes.gears, strict=bool(changes.gears)):
        motor.gear[0] = gear
    for motor, bound in zip(motors, changes.control_bounds, strict=bool(changes.control_bounds)):
        motor.ctrlrange = [-bound, bound]
    driven = {motor.target for motor in motors}
    for joint in model_spec.joints:
        if joint.name not in driven:
            continue
        if changes.joint_damping is not None:
            joint.damping[0] = changes.joint_damping  # linear; the other two are of higher order, and zero
        if not changes.joint_limits:
            joint.limited = 0
    if changes.geom_density is not None:
        for geom in model_spec.geoms:
            geom.density = changes.geom_density


def describe_problem(
    problem: MujocoProblem,
    model: mujoco.MjModel,
    horizon: int | None = None,
    reference_point: tuple[float, ...] | None = None,
) -> EnvSpec:
    """What the engine needs to know; ``horizon`` and ``reference_point`` override the problem's own."""
    low, high = (tuple(float(x) for x in bound) for bound in model.actuator_ctrlrange.T)
    return EnvSpec(
        name=problem.name,
        objectives=problem.objectives,
        observation_size=model.nq - problem.num_hidden_positions + model.nv,
        action=ActionSpec(discrete=False, size=model.nu, low=low, high=high),
        horizon=problem.horizon if horizon is None else horizon,
        reference_point=problem.reference_point if reference_point is None else reference_point,
    )


_SPEED, _ENERGY, _HEIGHT = "forward speed", "energy efficiency", "jump height"

PROBLEMS: dict[str, MujocoProblem] = {
    problem.name: problem
    for problem in (
        MujocoProblem(
            name="Swimmer-v2",
            model="swimmer.xml",
            frame_skip=4,
            objectives=(_SPEED, _ENERGY),
            num_hidden_positions=2,
            reward=swimmer_reward,
            reset_noise=ResetNoise(0.1, "uniform"),
        ),
        MujocoProblem(
            name="HalfCheetah-v2",
            model="half_cheetah.xml",
            frame_skip=5,
            objectives=(_SPEED, _ENERGY),
            num_hidden_positions=1,
            reward=half_cheetah_reward,
            reset_noise=ResetNoise(0.1, "normal"),
        ),
        MujocoProblem(
            name="Walker2d-v2",
            model="walker2d.xml",
            frame_skip=4,
            objectives=(_SPEED, _ENERGY),
            num_hidden_positions=1,
            velocity_clip=10.0,
            reward=walker2d_reward,
            healthy=walker2d_healthy,
            reset_noise=ResetNoise(5e-3, "uniform"),
        ),
        MujocoProblem(
            name="Ant-v2",
            model="ant.xml",
            frame_skip=5,
            objectives=("speed along x", "speed along y"),
            num_hidden_positions=2,
            reward=ant_reward,
            healthy=ant_healthy,
            reset_noise=ResetNoise(0.1, "normal"),
        ),
        MujocoProblem(
            name="Hopper-v2",
            model="hopper.xml",
            frame_skip=4,
            objectives=(_SPEED, _HEIGHT),
            num_hidden_positions=1,
            velocity_clip=10.0,
            reward=hopper_reward,
            healthy=hopper_healthy,
            reset_noise=ResetNoise(5e-3, "uniform"),
        ),
        MujocoProblem(
            name="Hopper-v3",
            model="hopper.xml",
            frame_skip=4,
            objectives=(_SPEED, _HEIGHT, _ENERGY),
            num_hidden_positions=1,
            velocity_clip=10.0,
            reward=hopper3_reward,
            healthy=hopper_healthy,
            reset_noise=ResetNoise(5e-3, "uniform"),
        ),
    )
}
