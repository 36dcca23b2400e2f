"""What episodes under way have returned, and the preference that each is run for until it ends."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ucb_moppo.algos.base import Transitions
from ucb_moppo.envs.base import Step
from ucb_moppo.objectives.utility import Goal


class Ledger:
    """Of N environments for each of K policies. A utility is that of a whole episode, so its preference holds till
    then, whatever is asked for meanwhile."""

    def __init__(self, goal: Goal, shape: tuple[int, int], num_objectives: int) -> None:
        self.goal = goal
        self.preference = np.full((*shape, num_objectives), np.nan)
        """[K, N, m], NaN before the first episode."""
        self.accrued = np.zeros((*shape, num_objectives))
        """[K, N, m] undiscounted."""

    def begin(self, wanted: NDArray) -> None:
        """Take the preferences [K, N, m] that are wanted for episodes that have none yet."""
        self.preference = np.where(np.isnan(self.preference), wanted, self.preference)

    def enter(self, rollout: Transitions, t: int, step: Step, wanted: NDArray) -> None:
        """Enter a step [K, N, …] into row ``t`` of a rollout; episodes that end make way for what is wanted.

        Where the utility is taken by episode, what it has changed is paid beside the objectives, and the horizon
        ends the episode for good: what is wanted is the utility of the return by then.
        """
        after = self.accrued + step.reward
        rollout.preference[t], rollout.accrued[t] = self.preference, after
        if self.goal.by_episode:
            utility = self.goal.utility
            gain = utility(after, self.preference) - utility(self.accrued, self.preference)
            rollout.reward[t, ..., -1] = gain
            rollout.terminated[t] |= step.truncated
        ended = (step.terminated | step.truncated)[..., None]
        self.accrued = np.where(ended, 0.0, after)
        self.preference = np.where(ended, wanted, self.preference)

    def get_state(self) -> dict[str, NDArray]:
        """Give everything it holds."""
        return {"preference": self.preference.copy(), "accrued": self.accrued.copy()}

    def set_state(self, state: Mapping[str, NDArray]) -> None:
        """Continue from what ``get_state`` returned."""
        self.preference, self.accrued = state["preference"].copy(), state["accrued"].copy()
