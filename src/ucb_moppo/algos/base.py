"""What an algorithm is: how policies begin, explore, learn from a rollout, and what is kept of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from numpy.typing import NDArray

from ucb_moppo.policy.actors import ActingFunction
from ucb_moppo.policy.networks import Array, Network
from ucb_moppo.spec import ActionSpec, EnvSpec

State = Any
"""Everything that training changes in K policies: a pytree of arrays with a leading axis K.

``algos/stacked.py`` copies and compares such states, and names their arrays for a checkpoint."""


class Transitions(NamedTuple):
    """A rollout of one policy in N environments for T steps. Observations are raw, actions the actor's own.

    That of K policies has its axis K after T.
    """

    observation: Any  # [T, N, d]
    next_observation: Any  # [T, N, d]: the final one where an episode ended
    action: Any  # [T, N, a] (Box, MultiDiscrete) or [T, N] (Discrete)
    reward: Any  # [T, N, m]
    terminated: Any  # [T, N]
    truncated: Any  # [T, N]
    preference: Any = None  # [T, N, m] of each step, where it may change within a rollout
    accrued: Any = None  # [T, N, m] what the episode has returned after the step


class Algorithm(Protocol):
    """What the engine trains K policies with. It holds settings only: states go in and come out."""

    @property
    def network(self) -> Network:
        """How the tensors that it names act."""
        ...

    def init_policies(self, spec: EnvSpec, seed: int, policy_ids: Sequence[int]) -> State:
        """Fresh policies; the random streams of each belong to (seed, policy id) and to nothing else."""
        ...

    def make_actors(self, state: State) -> ActingFunction:
        """What acts for the policies, on the host; without noise it does what the deployed policies do."""
        ...

    def draw_noise(self, state: State, action: ActionSpec, num_steps: int, num_envs: int) -> NDArray:
        """Exploration noise of the next rollout, [T, K, N, a]: at step t ``make_actors(state)`` is given row t."""
        ...

    def update(
        self, state: State, rollout: Transitions, weights: NDArray, directions: NDArray | None = None
    ) -> tuple[State, dict[str, Array]]:
        """Learn from a rollout [T, K, N, …] under weights [K, N, m]: the new state, and reports [K] by name.

        ``directions`` [T, K, N, …] scalarise what is paid in the place of the weights, which then condition the
        policy alone and are of every step, [T, K, N, m].
        The state that was given is used up: its memory may hold the new one.
        """
        ...

    def part(self, state: State, group: int) -> State:
        """Make ``group`` copies of every policy, neighbours of each other, with random streams of their own."""
        ...

    def restore(self, diverged: NDArray, good: State, state: State) -> State:
        """Put policies back to their ``good`` state where ``diverged`` [K] says so; random streams go on."""
        ...

    def name_tensors(self, state: State) -> dict[str, NDArray]:
        """Arrays [K, …] that deployment needs (actor.* and observation.*), and others worth keeping."""
        ...
