"""Where shards of policies run. The trainer does not know which executor it has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ucb_moppo.config import Config
from ucb_moppo.evaluation import Evaluation
from ucb_moppo.shard import Shard, Timing


class Executor(Protocol):
    """Trains and evaluates all policies of a run."""

    def train(self, weights: NDArray, num_iterations: int, on_iteration: Callable[[], None]) -> dict[str, float]:
        """Train every policy on its weights [K, N, m]; what the updates reported, averaged."""
        ...

    def evaluate(self, weights: NDArray, episodes: int) -> Evaluation:
        """Returns of every policy under its weights [K, W, m]."""
        ...

    def policies(self) -> dict[str, NDArray]:
        """Parameters and statistics of all policies, with a leading axis K."""
        ...

    def time_iteration(self) -> Timing:
        """How long an iteration and an environment step take here, measured."""
        ...

    def get_state(self) -> dict[str, NDArray]: ...

    def set_state(self, state: Mapping[str, NDArray]) -> None: ...

    def close(self) -> None: ...


class LocalExecutor:
    """All policies in one shard in this process; physics and updates use all cores."""

    def __init__(self, config: Config) -> None:
        self.shard = Shard(config, range(config.num_policies))

    def train(self, weights: NDArray, num_iterations: int, on_iteration: Callable[[], None]) -> dict[str, float]:
        return self.shard.train(np.asarray(weights), num_iterations, on_iteration)

    def evaluate(self, weights: NDArray, episodes: int) -> Evaluation:
        return self.shard.evaluate(weights, episodes)

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
