"""A shard: some of the policies with their environments, optimiser states and random streams.

Policies of one run are independent within a stage, so a shard trains and evaluates without knowing the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from time import perf_counter, process_time
from typing import NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from ucb_moppo.algos.algorithms import make_algorithm
from ucb_moppo.algos.base import Transitions
from ucb_moppo.algos.stacked import copy_state, fill_leaves, finite_policies, name_leaves
from ucb_moppo.config import MoppoConfig
from ucb_moppo.engine.evaluation import Evaluation, evaluate
from ucb_moppo.engine.rollout import Collector
from ucb_moppo.envs import make_batch
from ucb_moppo.envs.base import BatchEnv
from ucb_moppo.errors import RunFormatError

MAX_EVALUATION_ENVS = 1000


def evaluation_width(num_policies: int) -> int:
    """Evaluation episodes per policy that run side by side."""
    return max(1, MAX_EVALUATION_ENVS // num_policies)


CAUSES = ("loss", "parameters", "returns")
NUM_CHANCES = 1
"""How often a policy that diverges is restored before it is set aside."""


class Divergence(NamedTuple):
    """A policy whose loss, parameters or returns stopped being finite."""

    policy: int
    iteration: int
    cause: str


class Timing(NamedTuple):
    """Seconds of one training iteration, and of one environment step with its action."""

    iteration: float
    step: float


class Shard:
    """Policies ``policy_ids`` of a resolved ``config``."""

    def __init__(self, config: MoppoConfig, policy_ids: Sequence[int]) -> None:
        self.policy_ids, self._seed = tuple(policy_ids), config.seed
        self._num_steps, self._num_envs = config.rollout_steps, config.search.active
        self._make_env = partial(
            make_batch,
            config.problem,
            num_threads=config.threads,
            horizon=config.horizon,
            reference_point=config.reference_point,
            protocol=config.protocol,
        )
        self._collector = self._make_collector()
        self._evaluation_env: BatchEnv | None = None
        self.algorithm = make_algorithm(config.ppo, config.num_iterations)
        self.state = self.algorithm.init_policies(self._collector.spec, config.seed, self.policy_ids)
        self._good = copy_state(self.state)
        self.divergences: list[Divergence] = []
        self.clock = {"acting_and_physics": 0.0, "updating": 0.0, "evaluating": 0.0}

    def _make_collector(self) -> Collector:
        env = self._make_env(num_envs=len(self.policy_ids) * self._num_envs)
        return Collector(env, self.policy_ids, self._seed)

    def train(self, weights: NDArray, num_iterations: int) -> dict[str, NDArray]:
        """``num_iterations`` iterations on weights [K, N, m]; what the updates reported, [iterations, K] each.

        A policy that diverges reports NaN.
        """
        reports = [self._train_iteration(weights) for _ in range(num_iterations)]
        return {name: np.stack([report[name] for report in reports]) for name in reports[0]}

    def _train_iteration(self, weights: NDArray) -> dict[str, NDArray]:
        start = perf_counter()
        rollout = self._collector.collect(self.algorithm.make_actors(self.state), weights, self._draw_noise())
        middle = perf_counter()
        self.state, reported = self.algorithm.update(self.state, rollout, weights.astype(np.float32))
        self._restore(~np.asarray(finite_policies(reported)), "loss")
        self._restore(~np.asarray(finite_policies(self.state)), "parameters")
        report = {name: np.where(self.set_aside, np.nan, values) for name, values in reported.items()}
        self.clock["acting_and_physics"] += middle - start
        self.clock["updating"] += perf_counter() - middle
        return report

    def _draw_noise(self) -> NDArray:
        """Exploration noise of the next rollout, [T, K, N, a]."""
        return self.algorithm.draw_noise(self.state, self._collector.spec.action, self._num_steps, self._num_envs)

    @property
    def iteration(self) -> int:
        return self._collector.steps_taken // self._num_steps

    @property
    def set_aside(self) -> NDArray:
        """Which policies [K] have diverged once too often and are not trained any more."""
        faulty = [divergence.policy for divergence in self.divergences]
        return np.array([faulty.count(policy) > NUM_CHANCES for policy in self.policy_ids])

    def _restore(self, diverged: NDArray, cause: str) -> None:
        """Note who has just diverged [K]; put them, and all that are set aside, back to their last good state."""
        for k in np.flatnonzero(diverged & ~self.set_aside):
            self.divergences.append(Divergence(self.policy_ids[k], self.iteration, cause))
        back = diverged | self.set_aside
        if back.any():
            self.state = self.algorithm.restore(back, self._good, self.state)

    def time_iteration(self) -> Timing:
        """How long an iteration takes here, measured on throw-away environments and a copy of the policies."""
        steps = min(25, self._num_steps)
        collector, weights, noise = self._make_collector(), self._uniform_weights(), self._draw_noise()
        start = perf_counter()
        short = collector.collect(self.algorithm.make_actors(self.state), weights, noise[:steps])
        per_step = (perf_counter() - start) / steps
        rollout = Transitions(*(np.resize(a, (len(noise), *a.shape[1:])) for a in short))
        for _ in range(2):  # the first call compiles
            start = perf_counter()
            jax.block_until_ready(self.algorithm.update(copy_state(self.state), rollout, weights))
        update = perf_counter() - start
        collector.env.close()
        return Timing(per_step * len(noise) + update, per_step / collector.env.num_envs)

    def _uniform_weights(self) -> NDArray:
        num_objectives = self._collector.spec.num_objectives
        shape = (len(self.policy_ids), self._num_envs, num_objectives)
        return np.full(shape, 1 / num_objectives, np.float32)

    def evaluate(self, weights: NDArray, episodes: int) -> Evaluation:
        """Deterministic returns of every policy under its weights [K, W, m]; NaN for those that diverged.

        What passes is from now on the last good state of its policy.
        """
        start = perf_counter()
        wanted = len(self.policy_ids) * min(weights.shape[1] * episodes, evaluation_width(len(self.policy_ids)))
        if self._evaluation_env is None or self._evaluation_env.num_envs < wanted:
            if self._evaluation_env is not None:
                self._evaluation_env.close()
            self._evaluation_env = self._make_env(num_envs=wanted)
        actors = self.algorithm.make_actors(self.state)
        result = evaluate(actors, weights, self._evaluation_env, episodes, policy_ids=self.policy_ids)
        failed = ~np.isfinite(result.returns).all((1, 2))
        self._restore(failed, "returns")
        self._good = copy_state(self.state)
        result.returns[failed | self.set_aside] = np.nan
        self.clock["evaluating"] += perf_counter() - start
        return result

    def get_divergences(self) -> list[Divergence]:
        """Every time one of these policies has diverged so far."""
        return list(self.divergences)

    def get_clock(self) -> dict[str, float]:
        """Seconds spent on each kind of work so far, and CPU seconds of this process in all."""
        return self.clock | {"cpu": process_time()}

    def policies(self) -> dict[str, NDArray]:
        """What deployment needs, and what else the algorithm keeps: named arrays with a leading axis K."""
        return self.algorithm.name_tensors(self.state)

    def get_state(self) -> dict[str, NDArray]:
        """Everything needed to continue, as named arrays."""
        events = [(d.policy, d.iteration, CAUSES.index(d.cause)) for d in self.divergences]
        return {
            "divergences": np.array(events, np.int64).reshape(-1, 3),
            **name_leaves("policy", self.state),
            **name_leaves("good", self._good),
            **{f"collector.{n}": array for n, array in self._collector.get_state().items()},
        }

    def set_state(self, state: Mapping[str, NDArray]) -> None:
        """Continue from what ``get_state`` returned; refused if it does not fit these policies."""
        for name, own in (name_leaves("policy", self.state) | name_leaves("good", self._good)).items():
            found = state[name]
            if (found.shape, found.dtype) != (own.shape, own.dtype):
                raise RunFormatError(
                    f"the saved {name} is {found.dtype} {found.shape}, not {own.dtype} {own.shape}"
                )
        self.state = fill_leaves("policy", self.state, state)
        self._good = fill_leaves("good", self._good, state)
        self.divergences = [Divergence(p, i, CAUSES[cause]) for p, i, cause in state["divergences"].tolist()]
        prefix = "collector."
        self._collector.set_state({n.removeprefix(prefix): a for n, a in state.items() if n.startswith(prefix)})

    def close(self) -> None:
        self._collector.env.close()
        if self._evaluation_env is not None:
            self._evaluation_env.close()
