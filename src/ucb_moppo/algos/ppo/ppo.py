"""PPO as the engine sees it: an ``Algorithm`` of K policies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import jax
import numpy as np
from numpy.typing import NDArray

from ucb_moppo.algos.base import Transitions
from ucb_moppo.algos.ppo.exploration import derive_keys, make_draw
from ucb_moppo.algos.ppo.ppo_settings import PPOConfig
from ucb_moppo.algos.ppo.update import PolicyState, init_policy, make_optimiser, make_update
from ucb_moppo.algos.stacked import repeat_policies, select_policies, stack_states
from ucb_moppo.policy.actors import Actors
from ucb_moppo.policy.networks import Network
from ucb_moppo.spec import ActionSpec, EnvSpec


@dataclass(frozen=True)
class PPO:
    """Proximal policy optimisation with a vector reward."""

    settings: PPOConfig
    num_iterations: int
    """Updates of the whole run, over which the learning rate decays."""
    num_scaled: int = 0
    """Inputs at the end that have a scale of their own: what accrues grows as a policy learns; statistics lag."""

    @property
    def network(self) -> Network:
        """The paper's, unless the settings say otherwise."""
        return self.settings.network

    def init_policies(self, spec: EnvSpec, seed: int, policy_ids: Sequence[int]) -> PolicyState:
        """Fresh policies, each from streams of its own."""
        optimiser = make_optimiser(self.settings)
        return stack_states([init_policy(spec, self.settings, optimiser, seed, policy) for policy in policy_ids])

    def make_actors(self, state: PolicyState) -> Actors:
        """The actors of K policies, on the host."""
        params = jax.tree.map(np.asarray, state.params["actor"])
        return Actors(params, jax.tree.map(np.asarray, state.observation_stats), self.network)

    def draw_noise(self, state: PolicyState, action: ActionSpec, num_steps: int, num_envs: int) -> NDArray:
        """Gumbel noise for choices, normal noise otherwise: [T, K, N, a]."""
        return np.asarray(make_draw(num_steps, num_envs, action.num_outputs, action.chosen)(state.key))

    def update(
        self, state: PolicyState, rollout: Transitions, weights: NDArray, directions: NDArray | None = None
    ) -> tuple[PolicyState, dict[str, jax.Array]]:
        """All epochs of minibatches on a rollout; losses, entropy, KL and clipping are reported."""
        return make_update(self.settings, self.num_iterations, self.num_scaled)(state, rollout, weights, directions)

    def part(self, state: PolicyState, group: int) -> PolicyState:
        """Copy parameters, statistics and the optimiser's state; keys are derived from the parent's."""
        children = repeat_policies(state, group)
        return children._replace(key=derive_keys(children.key, group))

    def restore(self, diverged: NDArray, good: PolicyState, state: PolicyState) -> PolicyState:
        """Put back policies that have ``diverged`` [K]."""
        # The key goes on: with its old noise a restored policy would walk the same way again. So does the rate.
        restored = select_policies(diverged, good, state)
        return restored._replace(key=state.key, iteration=state.iteration)

    def name_tensors(self, state: PolicyState) -> dict[str, NDArray]:
        """Actor, critic, and the statistics of observations and returns."""
        parts = {
            **state.params,
            "observation": state.observation_stats._asdict(),
            "return": state.return_stats._asdict(),
        }
        return {f"{part}.{name}": np.asarray(a) for part, arrays in parts.items() for name, a in arrays.items()}
