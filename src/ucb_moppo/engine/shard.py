"""A shard: some of the sub-spaces with their environments, and the policies that train there.

While policies are shared, a shard only collects and evaluates for them, and whoever leads them updates. Policies of
their own are independent within a stage, so a shard then trains without knowing the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from time import perf_counter, process_time
from typing import NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from ucb_moppo.algos.base import Transitions
from ucb_moppo.algos.stacked import arrays_under, copy_state
from ucb_moppo.config import MoppoConfig
from ucb_moppo.engine.environments import environments_of
from ucb_moppo.engine.evaluation import Evaluation, evaluate, evaluation_width
from ucb_moppo.engine.population import Divergence, Population
from ucb_moppo.engine.rollout import Collector
from ucb_moppo.envs.base import BatchEnv
from ucb_moppo.envs.staggered import StaggeredBatch, draw_first_lengths
from ucb_moppo.policy.actors import ActingFunction, actors_from_tensors

Tensors = Mapping[str, NDArray]
"""What acts for the sub-spaces of a shard: named arrays with a row for each."""


class Timing(NamedTuple):
    """Seconds of one training iteration, and of one environment step with its action."""

    iteration: float
    step: float


class Shard:
    """``subspaces`` of a resolved ``config``; ``led`` while policies of other places act in them."""

    def __init__(self, config: MoppoConfig, subspaces: Sequence[int], led: bool = False) -> None:
        self._config, self.subspaces = config, tuple(subspaces)
        self._make_env = partial(environments_of(config), num_threads=config.threads)
        self._collector = self._make_collector()
        self._evaluation_env: BatchEnv | None = None
        self.population: Population | None = None if led else self._make_population()
        self.clock = {"acting_and_physics": 0.0, "updating": 0.0, "evaluating": 0.0}

    def _make_collector(self) -> Collector:
        config, active = self._config, self._config.search.active
        env: BatchEnv = self._make_env(num_envs=len(self.subspaces) * active)
        goal = config.make_goal(env.spec)
        # The utility of a return is that of a whole episode: none may be cut short.
        if config.search.stagger and goal.is_linear:
            lengths = draw_first_lengths(config.seed, self.subspaces, active, config.horizon)
            env = StaggeredBatch(env, lengths)
        return Collector(env, self.subspaces, config.seed, goal)

    def _make_population(self) -> Population:
        return Population(self._config, self._collector.spec, self.subspaces, group=1)

    @property
    def own(self) -> Population:
        """The policies of its own."""
        if self.population is None:
            raise RuntimeError("this shard is led: it has no policies of its own yet")
        return self.population

    def train(self, weights: NDArray) -> dict[str, NDArray]:
        """An iteration on each of weights [I, K, N, m]; what the updates reported, [I, K] each.

        A policy that diverges reports NaN.
        """
        reports = [self._train_iteration(row) for row in weights]
        return {name: np.stack([report[name] for report in reports]) for name in reports[0]}

    def _train_iteration(self, weights: NDArray) -> dict[str, NDArray]:
        population = self.own
        rollout = self._collect(population.actors, weights, population.draw_noise())
        start = perf_counter()
        report = population.update(rollout, weights)
        self.clock["updating"] += perf_counter() - start
        return report

    def collect(self, tensors: Tensors, weights: NDArray, noise: NDArray) -> Transitions:
        """A rollout [T, K, N, …] for policies that are led, under weights [K, N, m] with noise [T, K, N, a]."""
        return self._collect(actors_from_tensors(tensors, self._config.ppo.network), weights, noise)

    def _collect(self, act: ActingFunction, weights: NDArray, noise: NDArray) -> Transitions:
        start = perf_counter()
        rollout = self._collector.collect(act, weights, noise)
        self.clock["acting_and_physics"] += perf_counter() - start
        return rollout

    def evaluate(self, weights: NDArray, episodes: int, tensors: Tensors | None = None) -> Evaluation:
        """Episodes of every policy under its weights [K, W, m]; NaN for those that diverged.

        ``tensors`` act where policies are led; who leads them judges by what comes out.
        """
        start = perf_counter()
        network = self._config.ppo.network
        act = self.own.actors if tensors is None else actors_from_tensors(tensors, network)
        num_policies = len(self.subspaces)
        wanted = num_policies * min(weights.shape[1] * episodes, evaluation_width(num_policies))
        if self._evaluation_env is None or self._evaluation_env.num_envs < wanted:
            if self._evaluation_env is not None:
                self._evaluation_env.close()
            self._evaluation_env = self._make_env(num_envs=wanted)
        result = evaluate(
            act,
            weights,
            self._evaluation_env,
            episodes,
            sampled=self._config.sampled,
            policy_ids=self.subspaces,
            discount=self._config.evaluation_discount,
        )
        if tensors is None:
            result = result.without(self.own.judge(result.returns, weights))
        self.clock["evaluating"] += perf_counter() - start
        return result

    def adopt(self, state: Mapping[str, NDArray]) -> None:
        """Go on with policies of its own, from the state of those that were led."""
        self.population = self._make_population()
        self.population.set_state(state)

    def time_iteration(self) -> Timing:
        """How long an iteration takes here, measured on throw-away environments and a copy of the policies."""
        population = self.population or self._make_population()
        noise, weights = population.draw_noise(), self._uniform_weights()
        collector = self._make_collector()
        start = perf_counter()
        collector.collect(population.actors, weights, noise[: min(25, len(noise))])
        per_step = (perf_counter() - start) / min(25, len(noise))
        collector.env.close()
        update = time_update(population) if self.population else 0.0
        return Timing(per_step * len(noise) + update, per_step / collector.env.num_envs)

    def _uniform_weights(self) -> NDArray:
        num_objectives = self._collector.spec.num_objectives
        shape = (len(self.subspaces), self._config.search.active, num_objectives)
        return np.full(shape, 1 / num_objectives, np.float32)

    def get_divergences(self) -> list[Divergence]:
        """Every time one of its own policies has diverged so far."""
        return [] if self.population is None else list(self.population.divergences)

    def get_clock(self) -> dict[str, float]:
        """Seconds spent on each kind of work so far, and CPU seconds of this process in all."""
        return self.clock | {"cpu": process_time()}

    def policies(self) -> dict[str, NDArray]:
        """What deployment needs, and what else the algorithm keeps: named arrays with a leading axis K."""
        return self.own.tensors()

    def get_state(self) -> dict[str, NDArray]:
        """Everything needed to continue, as named arrays."""
        own = {} if self.population is None else self.population.get_state()
        return own | {f"collector.{n}": array for n, array in self._collector.get_state().items()}

    def set_state(self, state: Mapping[str, NDArray]) -> None:
        """Continue from what ``get_state`` returned; refused if it does not fit."""
        prefix = "collector."
        own = {name: array for name, array in state.items() if not name.startswith(prefix)}
        if own:
            self.adopt(own)
        self._collector.set_state(arrays_under(prefix, state))

    def close(self) -> None:
        self._collector.env.close()
        if self._evaluation_env is not None:
            self._evaluation_env.close()


def time_update(population: Population) -> float:
    """Seconds of an update, on a rollout of nothing and a copy of the policies."""
    rollout, weights = population.empty_rollout()
    for _ in range(2):  # the first call compiles
        start = perf_counter()
        jax.block_until_ready(population.learn(copy_state(population.state), rollout, weights))
    return perf_counter() - start
