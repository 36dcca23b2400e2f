"""MuJoCo problems, many environments at a time: MuJoCo steps the batch on its own threads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import mujoco
import numpy as np
from mujoco.batch import Batch, SimulationError
from numpy.typing import NDArray

from ucb_moppo.cores import available_cores
from ucb_moppo.envs.base import ADAPTER_PREFIX, Step, check_count, check_reference_point
from ucb_moppo.envs.problems import (
    CONTACT_FORCES,
    Fields,
    Motion,
    MujocoProblem,
    blank_state,
    describe_problem,
    draw_initial_state,
    load_model,
    observe,
)
from ucb_moppo.errors import ConfigError, EnvironmentFault


class NativeBatch:
    """``num_envs`` environments of a MuJoCo problem, agreeing to the bit with Gymnasium's own stepping.

    The result does not depend on ``num_threads`` (0: one per CPU this process may use). Observations and
    rewards are float64, in fresh arrays.
    """

    def __init__(
        self,
        problem: MujocoProblem,
        num_envs: int,
        num_threads: int = 0,
        horizon: int | None = None,
        reference_point: Sequence[float] | None = None,
    ) -> None:
        check_count("num_envs", num_envs)
        if horizon is not None:
            check_count("horizon", horizon)
        point = check_reference_point(reference_point, len(problem.objectives))
        model = load_model(problem)
        self.problem = problem
        self.spec = describe_problem(problem, model, horizon, point)
        self.num_envs = num_envs
        # Contact forces are computed from what a step leaves in an environment's own memory.
        self._batch = Batch(model, num_envs, num_threads or len(available_cores()), problem.feels_contact)
        self._qpos, self._qvel = self._batch.bind("qpos"), self._batch.bind("qvel")
        self._ctrl = self._batch.bind("ctrl")
        self._derived = {name: self._batch.bind(name) for name in problem.fields if name != CONTACT_FORCES}
        # MuJoCo's fields lag behind the state by a part of a step, so they belong to what is saved.
        fields = blank_state(problem, model)[2]
        self._compared = {name: np.repeat(fields[name], num_envs, axis=0) for name in problem.compared}
        self._scratch = mujoco.MjData(model)
        self._choices = np.array(problem.choices)
        self._init_qpos, self._init_qvel = self._scratch.qpos.copy(), self._scratch.qvel.copy()
        duration = float(model.opt.timestep * problem.frame_skip)
        self._constants = (duration, self._init_qpos, model.body_mass.copy())
        self._init_state = self._batch.state[0].copy()
        self._ids = np.arange(num_envs)
        self._elapsed = np.zeros(num_envs, dtype=np.int64)
        self._seeds = np.zeros(num_envs, dtype=np.int64)

    def reset(self, ids: NDArray, seeds: Sequence[int]) -> NDArray:
        """Start new episodes in environments ``ids`` [n]; observations [n, observation_size]."""
        ids = np.asarray(ids, dtype=np.int32)
        # The whole state of a fresh simulation: the same as Batch.reset, at a fraction of its time.
        self._batch.state[ids] = self._init_state
        for env, seed in zip(ids, seeds, strict=True):
            rng = np.random.default_rng(int(seed))
            state = draw_initial_state(self.problem, self._init_qpos, self._init_qvel, rng)
            self._qpos[env], self._qvel[env] = state
        # A full forward pass, as Gymnasium's set_state does: it also fills the solver's warm start, without
        # which the first step would differ in its last bits.
        self._run(self._batch.forward, ids=np.sort(ids))  # sorted is what MuJoCo asks for
        self._elapsed[ids], self._seeds[ids] = 0, list(seeds)
        fields = self._read_fields(ids, self._no_forces)
        self._keep_compared(ids, fields)
        return observe(self.problem, self._qpos[ids], self._qvel[ids], fields)

    def step(self, action: NDArray, ids: NDArray | None = None) -> Step:
        """Step environments ``ids`` [n] (all by default) with actions [n, a] in [-1, 1], which are clipped, or
        with choices [n]."""
        rows: slice | NDArray = slice(None) if ids is None else np.asarray(ids, dtype=np.int32)
        applied = self._applied(action, rows)
        before = self._qpos[rows].copy()
        fields_before = {name: kept[rows] for name, kept in self._compared.items()}
        self._ctrl[rows] = applied
        self._run(self._batch.step, ids=None if ids is None else np.sort(ids), nstep=self.problem.frame_skip)
        self._elapsed[rows] += 1
        # Contiguous copies: arithmetic on views of MuJoCo's long state rows costs several times as much.
        qpos, qvel = self._qpos[rows].copy(), self._qvel[rows].copy()
        fields = self._read_fields(rows, self._contact_forces)
        healthy = None if self.problem.healthy is None else self.problem.healthy(qpos, qvel)
        reward = self.problem.reward(
            Motion(before, qpos, applied, *self._constants, healthy, fields_before, fields)
        )
        self._keep_compared(rows, fields)
        terminated = np.zeros(len(qpos), dtype=bool) if healthy is None else ~healthy
        truncated = (self._elapsed[rows] >= self.spec.horizon) & ~terminated
        return Step(observe(self.problem, qpos, qvel, fields), reward, terminated, truncated)

    def _read_fields(self, rows: slice | NDArray, forces: Callable[[NDArray], NDArray]) -> dict[str, NDArray]:
        """What the problem needs of MuJoCo's fields after a call, [n, …] each, in fresh arrays."""
        fields = {name: bound[rows].copy() for name, bound in self._derived.items()}
        return fields | ({CONTACT_FORCES: forces(self._ids[rows])} if self.problem.feels_contact else {})

    def _no_forces(self, ids: NDArray) -> NDArray:
        """What is felt before the first step, as Gymnasium has it: nothing."""
        return np.zeros((len(ids), self._batch.model.nbody, 6))

    def _contact_forces(self, ids: NDArray) -> NDArray:
        """Forces on the bodies of environments ``ids``, [n, bodies, 6]: what MuJoCo leaves to its caller."""
        model, data = self._batch.model, self._scratch
        forces = np.empty((len(ids), model.nbody, 6))
        for row, env in enumerate(ids.tolist()):
            self._batch.get_data(env, data)
            mujoco.mj_rnePostConstraint(model, data)
            forces[row] = data.cfrc_ext
        return forces

    def _keep_compared(self, rows: slice | NDArray, fields: Fields) -> None:
        for name, kept in self._compared.items():
            kept[rows] = fields[name]

    def _applied(self, action: NDArray, rows: slice | NDArray) -> NDArray:
        """Actions [n, a], or choices [n], as the actuators take them: a finite row per environment or refused."""
        ids = self._ids[rows]
        shape = (len(ids),) if self.problem.choices else (len(ids), self.spec.action.size)
        if np.shape(action) != shape:
            raise ConfigError(
                f"{self.spec.name}: actions of shape {np.shape(action)} for {len(ids)} environments; "
                f"pass a row per environment, shape {shape}"
            )
        applied = self.spec.action.to_environment(np.asarray(action))
        if self.problem.choices:
            return self._choices[applied.astype(np.int64)]
        if self.problem.single_precision:
            applied = applied.astype(np.float32)
        if not np.isfinite(applied).all():
            # MuJoCo would zero the controls, print a warning and go on: the fault would show much later.
            row = int(np.flatnonzero(~np.isfinite(applied).all(axis=1))[0])
            raise EnvironmentFault(
                f"{self.spec.name}: environment {ids[row]} was given action {applied[row].tolist()} after "
                f"{self._since(ids[row])}; check the actor's parameters and the learning rate",
                int(ids[row]),
            )
        return applied

    def get_state(self) -> dict[str, NDArray]:
        """``physics`` [B, s]: MuJoCo's whole integration state with its warm start; ``elapsed`` steps [B] since
        the resets with ``seeds`` [B]; the fields that rewards compare with those of the next step, [B, …]."""
        return {
            "physics": self._batch.state.copy(),
            "elapsed": self._elapsed.copy(),
            "seeds": self._seeds.copy(),
            **{f"field.{name}": kept.copy() for name, kept in self._compared.items()},
        }

    def set_state(self, state: Mapping[str, NDArray]) -> None:
        """Continue from what ``get_state`` returned, in this batch or in another of the same problem."""
        if "physics" not in state:
            raise ConfigError(
                f"{self.spec.name}: the state was saved by the adapter, which could not be asked for the physics; "
                f"continue it with the version that saved it, or train {ADAPTER_PREFIX}{self.spec.name} anew"
            )
        physics, elapsed = np.asarray(state["physics"]), np.asarray(state["elapsed"])
        if physics.shape != self._batch.state.shape or elapsed.shape != self._elapsed.shape:
            raise ConfigError(
                f"{self.spec.name}: a state of shape {physics.shape} does not fit a batch of shape "
                f"{self._batch.state.shape}; make the batch with the problem and num_envs it was saved from"
            )
        self._batch.state[:] = physics
        self._elapsed[:], self._seeds[:] = elapsed, state["seeds"]
        for name, kept in self._compared.items():
            kept[:] = state[f"field.{name}"]

    def _since(self, env: int) -> str:
        """How to come to where an environment stands."""
        return f"{self._elapsed[env]} steps from seed {self._seeds[env]}"

    def close(self) -> None:
        """Nothing to release: the batch's threads end with the object."""

    def _run(self, call: Callable[..., None], **arguments: Any) -> None:
        """Call the batch; a simulation that MuJoCo gives up on is named."""
        try:
            call(**arguments)
        except SimulationError as fault:
            env = int(fault.ids[0])
            raise EnvironmentFault(
                f"{self.spec.name}: MuJoCo failed in environment {env} after {self._since(env)}: "
                f"{self._batch.error(env)}",
                env,
            ) from fault
