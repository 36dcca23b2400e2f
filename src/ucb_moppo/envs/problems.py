"""Problems as data: a MuJoCo model, a vector reward, and when an episode ends; the paper's six are here.

Everything here is a pure function of arrays with a row per environment, so that the batch and the single
environment share it and agree to the bit. All objectives are maximised.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucb_moppo.spec import ActionSpec, EnvSpec

if TYPE_CHECKING:
    import mujoco

Array = NDArray[np.float64]
Fields = Mapping[str, Array]
"""What MuJoCo derives from the state, by the name of its field, a row per environment."""

NO_FIELDS: Fields = MappingProxyType({})
CONTACT_FORCES = "cfrc_ext"
"""The one field that MuJoCo computes only when it is asked to."""


class Motion(NamedTuple):
    """What a step did, a row per environment."""

    before: Array  # [B, nq] positions before the step
    after: Array  # [B, nq] positions after it
    action: Array  # [B, a] as applied, that is clipped to the actuators' range
    duration: float  # seconds: timestep times frame skip
    initial: Array  # [nq] the model's initial positions, without reset noise
    masses: Array = np.empty(0)  # [bodies]
    healthy: NDArray[np.bool_] | None = None  # [B] where the episode goes on; None: everywhere
    fields_before: Fields = NO_FIELDS  # [B, …] the problem's fields before the step
    fields_after: Fields = NO_FIELDS  # [B, …] and after it


@dataclass(frozen=True)
class ResetNoise:
    """Noise around the model's initial state: positions uniform in ±scale, velocities as named."""

    scale: float
    velocity: Literal["uniform", "normal"]
    velocity_scale: float | None = None
    """That of the velocities; None: the same."""
    fixed_positions: tuple[tuple[int, float], ...] = ()
    """(number, value) of positions that are always the same."""
    num_still: int = 0
    """So many of the last velocities are 0."""


class Shown(NamedTuple):
    """A derived field in the observation: its rows from ``first`` on, clipped to ±``clip``."""

    field: str
    first: int
    clip: float = np.inf


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
    """A problem on a MuJoCo model that ``package`` ships.

    ``num_hidden_positions`` leading positions (those of the torso in the plane) are left out of the
    observation; velocities are shown clipped to ±``velocity_clip``, and then what ``shown`` names; or else
    ``observation(qpos, qvel)`` is all there is to see. ``healthy(qpos, qvel) -> [B]`` says where an episode goes
    on; None: the problem never ends one. ``compared`` names the fields that the reward takes of before and
    after. With ``choices`` actions are Discrete, each a row of controls.
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
    package: str = "gymnasium"
    reference: tuple[float, ...] | None = None
    shown: tuple[Shown, ...] = ()
    observation: Callable[[Array, Array], Array] | None = None
    compared: tuple[str, ...] = ()
    choices: tuple[tuple[float, ...], ...] = ()
    single_precision: bool = False
    """Whether actions are rounded to single precision, as those of Gymnasium's action spaces are."""

    @property
    def reference_point(self) -> tuple[float, ...]:
        """The hypervolume's reference point, [m]: the origin unless another is given."""
        return (0.0,) * len(self.objectives) if self.reference is None else self.reference

    @property
    def fields(self) -> tuple[str, ...]:
        """Every derived field that is shown or compared, once."""
        return tuple(dict.fromkeys((*self.compared, *(part.field for part in self.shown))))

    @property
    def feels_contact(self) -> bool:
        """Whether contact forces must be computed."""
        return CONTACT_FORCES in self.fields


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


def observe(problem: MujocoProblem, qpos: Array, qvel: Array, fields: Fields = NO_FIELDS) -> Array:
    """Observations [B, d], a fresh array: positions [B, nq] and velocities [B, nv] shown, then derived fields."""
    if problem.observation is not None:
        return problem.observation(qpos, qvel)
    derived = [
        clip(fields[part.field][:, part.first :], part.clip).reshape(len(qpos), -1) for part in problem.shown
    ]
    velocities = clip(qvel, problem.velocity_clip)
    return np.concatenate((qpos[:, problem.num_hidden_positions :], velocities, *derived), axis=1)


def clip(values: Array, bound: float) -> Array:
    """Values clipped to ±bound; an infinite one costs nothing."""
    return values if bound == np.inf else values.clip(-bound, bound)


def draw_initial_state(
    problem: MujocoProblem, qpos: Array, qvel: Array, rng: np.random.Generator
) -> tuple[Array, Array]:
    """The model's initial state [nq], [nv] plus reset noise, positions drawn first."""
    noise = problem.reset_noise
    positions = qpos + rng.uniform(-noise.scale, noise.scale, len(qpos))
    for index, value in noise.fixed_positions:
        positions[index] = value
    scale = noise.scale if noise.velocity_scale is None else noise.velocity_scale
    normal = noise.velocity == "normal"
    drawn = scale * rng.standard_normal(len(qvel)) if normal else rng.uniform(-scale, scale, len(qvel))
    velocities = qvel + drawn
    velocities[len(qvel) - noise.num_still :] = 0
    return positions, velocities


def load_model(problem: MujocoProblem) -> mujoco.MjModel:
    """Compile the problem's model from the XML that its package ships."""
    import mujoco

    package = find_spec(problem.package)
    assert package is not None, f"{problem.package} is not installed"
    path = Path(str(package.origin)).parent / "envs" / "mujoco" / "assets" / problem.model
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
    return EnvSpec(
        name=problem.name,
        objectives=problem.objectives,
        observation_size=observe(problem, *blank_state(problem, model)).shape[1],
        action=describe_action(problem, model),
        horizon=problem.horizon if horizon is None else horizon,
        reference_point=problem.reference_point if reference_point is None else reference_point,
    )


def blank_state(problem: MujocoProblem, model: mujoco.MjModel) -> tuple[Array, Array, Fields]:
    """Positions [1, nq], velocities [1, nv] and fields [1, …] that are all 0, for their shapes."""
    import mujoco

    data = mujoco.MjData(model)
    fields = {name: np.zeros((1, *getattr(data, name).shape)) for name in problem.fields}
    return np.zeros((1, model.nq)), np.zeros((1, model.nv)), fields


def describe_action(problem: MujocoProblem, model: mujoco.MjModel) -> ActionSpec:
    """The actuators' range, or how many choices there are, as arrays of what Gymnasium declares."""
    if problem.choices:
        return ActionSpec(discrete=True, size=len(problem.choices), shape=(), dtype="int64")
    bounds = model.actuator_ctrlrange.astype(np.float32) if problem.single_precision else model.actuator_ctrlrange
    low, high = (tuple(float(x) for x in bound) for bound in bounds.T)
    return ActionSpec(discrete=False, size=model.nu, low=low, high=high, shape=(model.nu,), dtype="float32")


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
