"""A shard: some of the policies with their environments, optimiser states and random streams.

Policies of one run are independent within a stage, so a shard trains and evaluates without knowing the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from time import perf_counter, process_time
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ucb_moppo.algos.ppo.settings import PPOSettings
from ucb_moppo.algos.ppo.update import (
    PolicyState,
    Transitions,
    UpdateFunction,
    init_policy,
    make_optimiser,
    make_update,
    stack_policies,
)
from ucb_moppo.config import MoppoConfig
from ucb_moppo.engine.evaluation import Evaluation, evaluate
from ucb_moppo.engine.rollout import Collector, draw_noise, make_actors
from ucb_moppo.envs import make_batch
from ucb_moppo.envs.base import BatchEnv
from ucb_moppo.errors import RunFormatError

# Separates the noise of a rollout from the shuffles: the update splits the key in two, and folding in 0 or 1
# would give just those two.
NOISE = 2
MAX_EVALUATION_ENVS = 1000


def evaluation_width(num_policies: int) -> int:
    """Evaluation episodes per policy that run side by side."""
    return max(1, MAX_EVALUATION_ENVS // num_policies)


@lru_cache(maxsize=4)
def _compiled(ppo: PPOSettings, num_iterations: int) -> UpdateFunction:
    return make_update(ppo, num_iterations)


@lru_cache(maxsize=4)
def _noise_function(steps: int, envs: int, action_size: int, discrete: bool) -> Callable[[Any], jax.Array]:
    """Noise [T, K, N, a] of K rollouts from the policies' keys [K, …]."""

    def one(key_data: jax.Array) -> jax.Array:
        key = jax.random.fold_in(jax.random.wrap_key_data(key_data), NOISE)
        return draw_noise(key, steps=steps, envs=envs, action_size=action_size, discrete=discrete)

    return jax.jit(jax.vmap(one, out_axes=1))


@jax.jit
def finite_policies(tree: Any) -> jax.Array:
    """Which of K policies [K] have only finite numbers in a tree of arrays [K, …]."""
    return jnp.stack([jnp.isfinite(leaf.reshape(len(leaf), -1)).all(1) for leaf in jax.tree.leaves(tree)]).all(0)


@jax.jit
def select_policies(mask: jax.Array, chosen: PolicyState, otherwise: PolicyState) -> PolicyState:
    """Policies of ``chosen`` where ``mask`` [K] says so, else of ``otherwise``."""

    def select(a: jax.Array, b: jax.Array) -> jax.Array:
        return jnp.where(mask.reshape(-1, *[1] * (a.ndim - 1)), a, b)

    return jax.tree.map(select, chosen, otherwise)


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
        self.config, self.policy_ids = config, tuple(policy_ids)
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
        spec, iterations = self._collector.spec, config.num_iterations
        optimiser = make_optimiser(config.ppo, iterations)
        self.state: PolicyState = stack_policies(
            [init_policy(spec, config.ppo, optimiser, config.seed, policy) for policy in self.policy_ids]
        )
        self._good = jax.tree.map(jnp.copy, self.state)
        self.divergences: list[Divergence] = []
        self._update = _compiled(config.ppo, iterations)
        self._noise = _noise_function(
            config.rollout_steps, config.search.active, spec.action.size, spec.action.discrete
        )
        self.clock = {"acting_and_physics": 0.0, "updating": 0.0, "evaluating": 0.0}

    def _make_collector(self) -> Collector:
        active = self.config.search.active
        env = self._make_env(num_envs=len(self.policy_ids) * active)
        return Collector(env, self.policy_ids, active, self.config.seed)

    def train(self, weights: NDArray, num_iterations: int) -> dict[str, NDArray]:
        """``num_iterations`` iterations on weights [K, N, m]; what the updates reported, [iterations, K] each.

        A policy that diverges reports NaN.
        """
        reports = [self._train_iteration(weights) for _ in range(num_iterations)]
        return {name: np.stack([report[name] for report in reports]) for name in reports[0]}

    def _train_iteration(self, weights: NDArray) -> dict[str, NDArray]:
        start = perf_counter()
        noise = np.asarray(self._noise(self.state.key))
        rollout = self._collector.collect(make_actors(self.state), weights, noise)
        middle = perf_counter()
        self.state, reported = self._update(self.state, rollout, weights.astype(np.float32))
        self._contain(~np.asarray(finite_policies(reported)), "loss")
        self._contain(~np.asarray(finite_policies(self.state)), "parameters")
        report = {name: np.where(self.set_aside, np.nan, values) for name, values in reported.items()}
        self.clock["acting_and_physics"] += middle - start
        self.clock["updating"] += perf_counter() - middle
        return report

    @property
    def iteration(self) -> int:
        return self._collector.steps_taken // self.config.rollout_steps

    @property
    def set_aside(self) -> NDArray:
        """Which policies [K] have diverged once too often and are not trained any more."""
        faulty = [divergence.policy for divergence in self.divergences]
        return np.array([faulty.count(policy) > NUM_CHANCES for policy in self.policy_ids])

    def _contain(self, diverged: NDArray, cause: str) -> None:
        """Note who has just diverged [K]; put them, and all that are set aside, back to their last good state."""
        for k in np.flatnonzero(diverged & ~self.set_aside):
            self.divergences.append(Divergence(self.policy_ids[k], self.iteration, cause))
        back = diverged | self.set_aside
        if back.any():
            # The key goes on: with its old noise a restored policy would walk the same way again.
            self.state = select_policies(back, self._good, self.state)._replace(key=self.state.key)

    def time_iteration(self) -> Timing:
        """How long an iteration takes here, measured on throw-away environments and a copy of the policies."""
        steps = min(25, self.config.rollout_steps)
        collector, weights = self._make_collector(), self._uniform_weights()
        noise = np.asarray(self._noise(self.state.key))
        start = perf_counter()
        short = collector.collect(make_actors(self.state), weights, noise[:steps])
        per_step = (perf_counter() - start) / steps
        rollout = Transitions(*(np.resize(a, (len(noise), *a.shape[1:])) for a in short))
        for _ in range(2):  # the first call compiles
            start = perf_counter()
            jax.block_until_ready(self._update(jax.tree.map(jnp.copy, self.state), rollout, weights))
        update = perf_counter() - start
        collector.env.close()
        return Timing(per_step * len(noise) + update, per_step / collector.env.num_envs)

    def _uniform_weights(self) -> NDArray:
        num_objectives = self._collector.spec.num_objectives
        shape = (len(self.policy_ids), self.config.search.active, num_objectives)
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
        result = evaluate(
            make_actors(self.state), weights, self._evaluation_env, episodes, policy_ids=self.policy_ids
        )
        failed = ~np.isfinite(result.returns).all((1, 2))
        self._contain(failed, "returns")
        self._good = jax.tree.map(jnp.copy, self.state)
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
        """What deployment needs, and the critic: named arrays with a leading axis K."""
        named: dict[str, NDArray] = {}
        for part, params in self.state.params.items():
            named |= {f"{part}.{name}": np.asarray(array) for name, array in params.items()}
        for prefix, stats in (
            ("observation", self.state.observation_stats),
            ("return", self.state.return_stats),
        ):
            named |= {f"{prefix}.{name}": np.asarray(array) for name, array in stats._asdict().items()}
        return named

    def get_state(self) -> dict[str, NDArray]:
        """Everything needed to continue, as named arrays."""
        events = [(d.policy, d.iteration, CAUSES.index(d.cause)) for d in self.divergences]
        return {
            "divergences": np.array(events, np.int64).reshape(-1, 3),
            **_named("policy", self.state),
            **_named("good", self._good),
            **{f"collector.{n}": array for n, array in self._collector.get_state().items()},
        }

    def set_state(self, state: Mapping[str, NDArray]) -> None:
        """Continue from what ``get_state`` returned; refused if it does not fit these policies."""
        for name, own in (_named("policy", self.state) | _named("good", self._good)).items():
            found = state[name]
            if (found.shape, found.dtype) != (own.shape, own.dtype):
                raise RunFormatError(
                    f"the saved {name} is {found.dtype} {found.shape}, not {own.dtype} {own.shape}"
                )
        self.state, self._good = _unnamed("policy", self.state, state), _unnamed("good", self._good, state)
        self.divergences = [Divergence(p, i, CAUSES[cause]) for p, i, cause in state["divergences"].tolist()]
        prefix = "collector."
        self._collector.set_state({n.removeprefix(prefix): a for n, a in state.items() if n.startswith(prefix)})

    def close(self) -> None:
        self._collector.env.close()
        if self._evaluation_env is not None:
            self._evaluation_env.close()


def _named(prefix: str, state: PolicyState) -> dict[str, NDArray]:
    """The leaves of a state by name."""
    leaves = jax.tree_util.tree_leaves_with_path(state)
    return {f"{prefix}{jax.tree_util.keystr(path)}": np.asarray(leaf) for path, leaf in leaves}


def _unnamed(prefix: str, like: PolicyState, named: Mapping[str, NDArray]) -> PolicyState:
    """The state that ``_named`` took apart."""
    leaves, tree = jax.tree_util.tree_flatten_with_path(like)
    values = [jnp.asarray(named[f"{prefix}{jax.tree_util.keystr(path)}"]) for path, _ in leaves]
    return jax.tree_util.tree_unflatten(tree, values)
