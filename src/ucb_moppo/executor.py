"""Where shards of policies run. The trainer does not know which executor it has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ucb_moppo.config import Config
from ucb_moppo.evaluation import Evaluation
from ucb_moppo.shard import Divergence, Shard, Timing


class Executor(Protocol):
    """Trains and evaluates all policies of a run."""

    part_iterations: int
    """Iterations to train at a time. Between two parts the whole state can be saved and the run can stop."""

    def train(self, weights: NDArray, num_iterations: int) -> dict[str, NDArray]:
        """Train every policy on its weights [K, N, m]; what the updates reported, [iterations, K] each."""
        ...

    def evaluate(self, weights: NDArray, episodes: int) -> Evaluation:
        """Returns of every policy under its weights [K, W, m]; NaN for a policy that has diverged."""
        ...

    def divergences(self) -> list[Divergence]:
        """Every time a policy has diverged so far."""
        ...

    def policies(self) -> dict[str, NDArray]:
        """Parameters and statistics of all policies, with a leading axis K."""
        ...

    def time_iteration(self) -> Timing:
        """How long an iteration and an environment step take here, measured."""
        ...

    def get_state(self) -> dict[str, NDArray]:
        """Everything needed to continue."""
        ...

    def set_state(self, state: Mapping[str, NDArray]) -> None:
        """Continue from what ``get_state`` returned: the next iterations are the same to the bit."""
        ...

    def close(self) -> None: ...


class LocalExecutor:
    """All policies in one shard in this process; physics and updates use all cores."""

    part_iterations = 1

    def __init__(self, config: Config) -> None:
        self.shard = Shard(config, range(config.num_policies))

    def train(self, weights: NDArray, num_iterations: int) -> dict[str, NDArray]:
        return self.shard.train(np.asarray(weights), num_iterations)

    def evaluate(self, weights: NDArray, episodes: int) -> Evaluation:
        return self.shard.evaluate(weights, episodes)

    def divergences(self) -> list[Divergence]:
        return list(self.shard.divergences)

    def policies(self) -> dict[str, NDArray]:
        return self.shard.policies()

    def time_iteration(self) -> Timing:
        return self.shard.time_iteration()

    def get_state(self) -> dict[str, NDArray]:
        return self.shard.get_state()

    def set_state(self, state: Mapping[str, NDArray]) -> None:
        self.shard.set_state(state)

    def close(self) -> None:
        self.shard.close()
