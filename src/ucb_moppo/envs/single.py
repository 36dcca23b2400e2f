"""The six problems one environment at a time, for Gymnasium and MO-Gymnasium code and for rendering.

The same arithmetic as the batch, on Gymnasium's own MuJoCo base class: from the same seed and actions both
give the same bits.
"""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np
from gymnasium.envs.mujoco import MujocoEnv
from gymnasium.spaces import Box
from gymnasium.utils import EzPickle
from numpy.typing import NDArray

from ucb_moppo.envs import PROBLEMS, find_problem
from ucb_moppo.envs.problems import (
    Motion,
    MujocoProblem,
    describe_problem,
    draw_initial_state,
    load_model,
    observe,
)
from ucb_moppo.errors import ConfigError, nearest_names

# Follows the torso, body 1 of every model.
_CAMERA: dict[str, Any] = {"type": mujoco.mjtCamera.mjCAMERA_TRACKING, "trackbodyid": 1, "distance": 4.0}


class MujocoProblemEnv(MujocoEnv, EzPickle):
    """One environment with a vector reward [m]; ``problem`` is one of the six names, ``protocol`` which variant.

    ``reward_space`` and ``reward_dim`` are what MO-Gymnasium's environments have. Keyword arguments
    (``render_mode``, ``width``, ``height``, camera) go to Gymnasium's MujocoEnv. The time limit is the
    TimeLimit wrapper that ``gymnasium.make`` adds.
    """

    metadata: dict[str, Any] = {"render_modes": ["human", "rgb_array", "depth_array", "rgbd_tuple"]}  # noqa: RUF012

    def __init__(self, problem: str, protocol: str = "gymnasium", **kwargs: Any) -> None:
        EzPickle.__init__(self, problem, protocol, **kwargs)
        found = find_problem(problem, protocol)
        if found is None:
            raise ConfigError(f"unknown problem {problem!r}: {nearest_names(problem, PROBLEMS)}")
        self.problem: MujocoProblem = found
        kwargs["default_camera_config"] = _CAMERA | (kwargs.get("default_camera_config") or {})
        super().__init__(self.problem.model, self.problem.frame_skip, observation_space=None, **kwargs)
        if kwargs.get("camera_id") is None and kwargs.get("camera_name") is None:
            # Otherwise Gymnasium sets the camera free before every frame, and whatever runs leaves the picture.
            self.mujoco_renderer.camera_id = None
        self.metadata = {**self.metadata, "render_fps": round(1.0 / self.dt)}
        described = describe_problem(self.problem, self.model)
        self.objectives = described.objectives
        self.reward_dim = described.num_objectives
        self.reward_space = Box(-np.inf, np.inf, (self.reward_dim,), np.float64)
        self.observation_space = Box(-np.inf, np.inf, (described.observation_size,), np.float64)

    def step(  # type: ignore[override]  # Gymnasium types the reward as a scalar
        self, action: NDArray
    ) -> tuple[NDArray, NDArray, bool, bool, dict[str, Any]]:
        """Observation [d], reward [m], terminated, truncated (always False here), info."""
        low, high = self.model.actuator_ctrlrange.T
        applied = np.clip(np.asarray(action, dtype=np.float64), low, high)
        before = self.data.qpos.copy()
        self.do_simulation(applied, self.frame_skip)
        qpos, qvel = self._rows()
        motion = Motion(before[None], qpos, applied[None], float(self.dt), self.init_qpos)
        reward = self.problem.reward(motion)[0]
        healthy = self.problem.healthy
        terminated = healthy is not None and not bool(healthy(qpos, qvel)[0])
        if self.render_mode == "human":
            self.render()
        info = dict(zip(self.objectives, reward.tolist(), strict=True))
        return observe(self.problem, qpos, qvel)[0], reward, terminated, False, info

    def reset_model(self) -> NDArray:
        """A start drawn from ``np_random``, as the batch draws it from the same seed; observation [d]."""
        self.set_state(*draw_initial_state(self.problem, self.init_qpos, self.init_qvel, self.np_random))
        return observe(self.problem, *self._rows())[0]

    def _rows(self) -> tuple[NDArray, NDArray]:
        """Positions [1, nq] and velocities [1, nv]: a batch of one, copied out of MuJoCo's memory."""
        return self.data.qpos[None].copy(), self.data.qvel[None].copy()

    def _initialize_simulation(self) -> tuple[mujoco.MjModel, mujoco.MjData]:
        """The problem's own model, compiled as for the batch, with a framebuffer large enough to render."""
        model = load_model(self.problem)
        screen = model.vis.global_
        screen.offwidth, screen.offheight = (
            max(screen.offwidth, self.width),
            max(screen.offheight, self.height),
        )
        return model, mujoco.MjData(model)
