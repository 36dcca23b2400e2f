"""Policies that learn: their states, what becomes of one that diverges, and how one parts into several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucb_moppo.algos.algorithms import make_algorithm
from ucb_moppo.algos.base import State, Transitions
from ucb_moppo.algos.stacked import arrays_under, copy_state, fill_leaves, finite_policies, name_leaves
from ucb_moppo.compile_cache import use_compile_cache
from ucb_moppo.config import MoppoConfig
from ucb_moppo.cores import one_blas_thread
from ucb_moppo.engine.probes import make_run_decomposition
from ucb_moppo.engine.recent import RecentReturns, num_remembered
from ucb_moppo.engine.rollout import empty_transitions
from ucb_moppo.errors import RunFormatError
from ucb_moppo.objectives.utility import Goal
from ucb_moppo.objectives.weights import subspace_width
from ucb_moppo.policy.actors import ActingFunction
from ucb_moppo.policy.networks import Array
from ucb_moppo.spec import EnvSpec

CAUSES = ("loss", "parameters", "returns")
NUM_CHANCES = 1
"""How often a policy that diverges is restored before it is set aside."""


class Divergence(NamedTuple):
    """A policy whose loss, parameters or returns stopped being finite."""

    policy: int
    """The first of the sub-spaces that it was for."""
    iteration: int
    cause: str


class Population:
    """The policies for ``subspaces`` of a resolved ``config``, each for ``group`` neighbouring ones.

    A policy is known by the first of its sub-spaces, which its random streams belong to.
    """

    def __init__(self, config: MoppoConfig, spec: EnvSpec, subspaces: Sequence[int], group: int) -> None:
        use_compile_cache()
        self._config, self._spec, self.subspaces, self.group = config, spec, tuple(subspaces), group
        self.algorithm = make_algorithm(config.ppo, config.num_iterations, spec.num_accrued)
        with one_blas_thread():  # others would only wait for each other, a hundred times as long on busy cores
            self.state = self.algorithm.init_policies(spec, config.seed, self.policy_ids)
        self._good = copy_state(self.state)
        self.divergences: list[Divergence] = []
        self.iteration = 0
        self.goal = config.make_goal(spec)
        self.recent = self._make_recent()
        """What each policy has returned of late; None where that does not change what is learnt."""

    def _make_recent(self) -> RecentReturns | None:
        if self.goal.is_linear or self.goal.by_episode:
            return None
        config, search = self._config, self._config.search
        pivots = make_run_decomposition(config, self._spec).pivots
        together = search.policies if config.shared_iterations else 1
        evaluated = search.probes + (search.candidates if search.candidate_values == "simulate" else 0)
        return RecentReturns(
            len(self.policy_ids),
            num_remembered(search.active * together),
            evaluated * self.group,
            self._spec.num_objectives,
            subspace_width(pivots) / 4,
        )

    @property
    def policy_ids(self) -> tuple[int, ...]:
        return self.subspaces[:: self.group]

    @property
    def actors(self) -> ActingFunction:
        """What acts for the policies, on the host."""
        return self.algorithm.make_actors(self.state)

    def draw_noise(self) -> NDArray:
        """Exploration noise of the next rollout, [T, policies, N·group, a]."""
        config = self._config
        return self.algorithm.draw_noise(
            self.state, self._spec.action, config.rollout_steps, config.search.active * self.group
        )

    def update(self, rollout: Transitions, weights: NDArray) -> dict[str, NDArray]:
        """Learn from a rollout [T, policies, N·group, …] under its weights; NaN is the report of who diverges."""
        self.iteration += 1
        if self.recent is not None:
            note_episodes(self.recent, rollout)
        self.state, reported = self.learn(self.state, rollout, weights)
        self._restore(~np.asarray(finite_policies(reported)), "loss")
        self._restore(~np.asarray(finite_policies(self.state)), "parameters")
        return {name: np.where(self.set_aside, np.nan, values) for name, values in reported.items()}

    def learn(self, state: State, rollout: Transitions, weights: NDArray) -> tuple[State, dict[str, Array]]:
        """A state [policies, …] after a rollout, and its reports; nothing else changes. The state is used up."""
        if self.goal.is_linear:
            return self.algorithm.update(state, rollout, weights.astype(np.float32))
        preference = rollout.preference
        if self.recent is None:
            directions = np.zeros(rollout.reward.shape)
            directions[..., -1] = 1
        else:
            directions = find_directions(self.goal, self.recent, preference)
        bare = rollout._replace(preference=None, accrued=None)
        return self.algorithm.update(state, bare, preference.astype(np.float32), directions.astype(np.float32))

    def empty_rollout(self) -> tuple[Transitions, NDArray]:
        """A rollout in which nothing happens and its weights, of the size that ``update`` is given."""
        shape = self.draw_noise().shape[:3]
        rollout = empty_transitions(self._spec, shape, kept=not self.goal.is_linear)
        for array in rollout:
            if array is not None:
                array.fill(0)
        num_objectives = self._spec.num_objectives
        if rollout.preference is not None:
            rollout.preference.fill(1 / num_objectives)
        return rollout, np.full((*shape[1:], num_objectives), 1 / num_objectives, np.float32)

    def judge(self, returns: NDArray, weights: NDArray) -> NDArray:
        """Take returns evaluated at weights [sub-spaces, W, m] as a verdict: NaN for a policy that has failed.

        What passes is from now on the last good state of its policy.
        """
        failed = ~np.isfinite(returns.reshape(len(self.policy_ids), -1)).all(1)
        self._restore(failed, "returns")
        if self.recent is not None and not self._config.sampled:
            shape = (len(self.policy_ids), -1, returns.shape[-1])
            for k in np.flatnonzero(~failed):
                self.recent.correct(int(k), weights.reshape(shape)[k], returns.reshape(shape)[k])
        self._good = copy_state(self.state)
        lost = np.repeat(failed | self.set_aside, self.group)
        return np.where(lost[:, None, None], np.nan, returns)

    @property
    def set_aside(self) -> NDArray:
        """Which policies have diverged once too often and are not trained any more."""
        faulty = [divergence.policy for divergence in self.divergences]
        return np.array([faulty.count(policy) > NUM_CHANCES for policy in self.policy_ids])

    def _restore(self, diverged: NDArray, cause: str) -> None:
        """Note who has just diverged; put them, and all that are set aside, back to their last good state."""
        for k in np.flatnonzero(diverged & ~self.set_aside):
            self.divergences.append(Divergence(self.policy_ids[k], self.iteration, cause))
        back = diverged | self.set_aside
        if back.any():
            self.state = self.algorithm.restore(back, self._good, self.state)

    def part(self) -> None:
        """Give every sub-space a policy of its own: a copy of the one it shared, with streams of its own."""
        self.state = self.algorithm.part(self.state, self.group)
        if self.recent is not None:
            self.recent.part(self.group)
        self._good, self.group = copy_state(self.state), 1

    def tensors(self) -> dict[str, NDArray]:
        """What deployment needs, and what else the algorithm keeps: a row for each of the sub-spaces."""
        named = self.algorithm.name_tensors(self.state)
        return {name: np.repeat(array, self.group, axis=0) for name, array in named.items()}

    def get_state(self) -> dict[str, NDArray]:
        """Everything needed to continue, as named arrays."""
        events = [(d.policy, d.iteration, CAUSES.index(d.cause)) for d in self.divergences]
        recent = {} if self.recent is None else self.recent.get_state()
        return {f"recent.{name}": array for name, array in recent.items()} | {
            "divergences": np.array(events, np.int64).reshape(-1, 3),
            "group": np.array(self.group),
            "iteration": np.array(self.iteration),
            **name_leaves("policy", self.state),
            **name_leaves("good", self._good),
        }

    def share_of(self, subspaces: Sequence[int]) -> dict[str, NDArray]:
        """The state of the policies for some of the sub-spaces, once each has one of its own."""
        rows = np.isin(self.subspaces, subspaces)
        state = self.get_state()
        own = np.isin(state["divergences"][:, 0], subspaces)
        policies = {n: a[rows] for n, a in state.items() if n.startswith(("policy", "good", "recent"))}
        return state | policies | {"divergences": state["divergences"][own]}

    def set_state(self, state: Mapping[str, NDArray]) -> None:
        """Continue from what ``get_state`` returned; refused if it does not fit these policies."""
        if int(state["group"]) == 1 < self.group:
            self.part()
        for name, own in (name_leaves("policy", self.state) | name_leaves("good", self._good)).items():
            found = state[name]
            if (found.shape, found.dtype) != (own.shape, own.dtype):
                raise RunFormatError(
                    f"the saved {name} is {found.dtype} {found.shape}, not {own.dtype} {own.shape}"
                )
        self.state = fill_leaves("policy", self.state, state)
        self._good = fill_leaves("good", self._good, state)
        if self.recent is not None:
            self.recent.set_state(arrays_under("recent.", state))
        self.iteration = int(state["iteration"])
        self.divergences = [Divergence(p, i, CAUSES[cause]) for p, i, cause in state["divergences"].tolist()]


def note_episodes(recent: RecentReturns, rollout: Transitions) -> None:
    """Remember what episodes that ended in a rollout [T, K, N, …] have returned, in the order of their ends."""
    ended = rollout.terminated | rollout.truncated
    for policy in range(ended.shape[1]):
        own = ended[:, policy]
        recent.note(policy, rollout.preference[:, policy][own], rollout.accrued[:, policy][own])


def find_directions(goal: Goal, recent: RecentReturns, preference: NDArray) -> NDArray:
    """The slope of the utility at what each policy returns of late near preferences [T, K, N, m], as such."""
    directions = np.empty(preference.shape)
    for policy in range(preference.shape[1]):
        own = preference[:, policy]
        different, places = np.unique(own.reshape(-1, own.shape[-1]), axis=0, return_inverse=True)
        found = goal.direction(recent.estimate(policy, different), different)
        directions[:, policy] = found[places.ravel()].reshape(own.shape)
    return directions


def by_policy(array: NDArray, group: int, axis: int) -> NDArray:
    """Merge sub-spaces and their environments: […, K, N, …] -> […, K/group policies, group·N, …]."""
    shape = array.shape
    return array.reshape(*shape[:axis], shape[axis] // group, group * shape[axis + 1], *shape[axis + 2 :])


def by_subspace(array: NDArray, group: int, axis: int) -> NDArray:
    """Tell sub-spaces and their environments apart again: […, K/group policies, group·N, …] -> […, K, N, …]."""
    shape = array.shape
    return array.reshape(*shape[:axis], shape[axis] * group, shape[axis + 1] // group, *shape[axis + 2 :])
