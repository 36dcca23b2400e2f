"""Where shards of policies run. The trainer does not know which executor it has.

The policies are split into shards; each shard has a worker: in this process, in a process of this machine or in a
Ray cluster. The same split gives the same bits wherever the workers are. A worker that is lost is replaced: the
new one continues from the last state of its shard that was kept here and does again what was done since.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from time import perf_counter
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ucb_moppo.config import MoppoConfig, override
from ucb_moppo.cores import available_cores
from ucb_moppo.engine.evaluation import Evaluation
from ucb_moppo.engine.shard import Divergence, Shard, Timing
from ucb_moppo.errors import UcbMoppoWarning, WorkerLostError
from ucb_moppo.registry import EXECUTORS
from ucb_moppo.runtime.place import Place
from ucb_moppo.runtime.placement import Placement
from ucb_moppo.runtime.worker import Call, Worker, WorkerLost

Value = TypeVar("Value")

PART_SECONDS = 5.0
"""About how long concurrent workers train without waiting for each other. Progress is told and a request to stop is
heard this often."""
MAX_RESTARTS = 3
"""How often a shard's worker is replaced in a row, without finishing a call, before the run gives up."""


def split_policies(num_policies: int, num_shards: int) -> list[range]:
    """Consecutive policies of each shard, as equal in number as can be. A pure function: the layout of a run."""
    cuts = [shard * num_policies // num_shards for shard in range(num_shards + 1)]
    return [range(a, b) for a, b in pairwise(cuts)]


@dataclass
class PlacedShard:
    """A shard at its worker, and what another worker would need to take its place."""

    worker: Worker[Shard]
    policies: range
    kept: dict[str, NDArray] | None = None
    """The shard's state when it was last asked for; None is how it was built."""
    since: list[BeginCall[Any]] = field(default_factory=list)
    """What has changed the state since then."""

    def rows(self, array: NDArray) -> NDArray:
        """What belongs to its policies of an array [K, …]."""
        return np.asarray(array[self.policies.start : self.policies.stop])


BeginCall = Callable[[PlacedShard], Call[Value]]
"""Begins a call of a shard at the worker that it has now."""


class ShardedExecutor:
    """The shards of a resolved config at workers of a place, which has a slot for each."""

    def __init__(self, config: MoppoConfig, place: Place[Any]) -> None:
        self.part_iterations = 1
        self.place, self._config = place, config
        self.shards: list[PlacedShard] = []
        try:
            for index, policies in enumerate(split_policies(config.num_policies, config.shards)):
                self.shards.append(PlacedShard(self._start_worker(index, policies), policies))
        except BaseException:
            self.close()
            raise

    def _start_worker(self, index: int, policies: range) -> Worker[Shard]:
        own = override(self._config, threads=self._config.threads or self.place.threads[index])
        return self.place.start(index, Shard, own, policies)

    def train(self, weights: NDArray, num_iterations: int) -> dict[str, NDArray]:
        start = perf_counter()
        reports = self._change(lambda shard: shard.worker.begin(Shard.train, shard.rows(weights), num_iterations))
        if self.place.concurrent:
            pace = (perf_counter() - start) / num_iterations
            self.part_iterations = max(1, round(PART_SECONDS / pace))
        return {name: np.concatenate([report[name] for report in reports], axis=1) for name in reports[0]}

    def evaluate(self, weights: NDArray, episodes: int) -> Evaluation:
        found = self._change(lambda shard: shard.worker.begin(Shard.evaluate, shard.rows(weights), episodes))
        if self.place.concurrent:
            self._keep()  # a stage has ended: what a new worker would have to do again begins here
        return Evaluation(np.concatenate([part.returns for part in found]), sum(part.steps for part in found))

    def divergences(self) -> list[Divergence]:
        return [divergence for found in self._ask(Shard.get_divergences) for divergence in found]

    def policies(self) -> dict[str, NDArray]:
        parts = self._ask(Shard.policies)
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def time_iteration(self) -> Timing:
        timings = self._ask(Shard.time_iteration)
        if self.place.concurrent:
            slowest = max(timing.iteration for timing in timings)
            return Timing(slowest, 1 / sum(1 / timing.step for timing in timings))
        return Timing(sum(t.iteration for t in timings), float(np.mean([t.step for t in timings])))

    def clocks(self) -> list[dict[str, float]]:
        """Seconds that each shard has spent on each kind of work."""
        return self._ask(Shard.get_clock)

    def get_state(self) -> dict[str, NDArray]:
        self._keep()
        return {
            f"shard{index}.{name}": array
            for index, shard in enumerate(self.shards)
            for name, array in (shard.kept or {}).items()
        }

    def set_state(self, state: Mapping[str, NDArray]) -> None:
        for index, shard in enumerate(self.shards):
            prefix = f"shard{index}."
            shard.kept = {n.removeprefix(prefix): a for n, a in state.items() if n.startswith(prefix)}
            shard.since = []
        self._call(lambda shard: shard.worker.begin(Shard.set_state, shard.kept or {}))

    def close(self) -> None:
        """End the workers; only what a shard has opened in this process does not end with its worker."""
        if not self.place.concurrent:
            for shard in self.shards:
                shard.worker.begin(Shard.close).result()
        self.place.close()

    def _keep(self) -> None:
        """Fetch every shard's state, from which a new worker would continue."""
        for shard, state in zip(self.shards, self._ask(Shard.get_state), strict=True):
            shard.kept, shard.since = state, []

    def _ask(self, method: Callable[[Shard], Value]) -> list[Value]:
        return self._call(lambda shard: shard.worker.begin(method))

    def _change(self, begin: BeginCall[Value]) -> list[Value]:
        """Call what changes the shards, and remember that it did."""
        results = self._call(begin)
        if self.place.concurrent:  # a shard in this process cannot be lost
            for shard in self.shards:
                shard.since.append(begin)
        return results

    def _call(self, begin: BeginCall[Value]) -> list[Value]:
        """Make a call of every shard, side by side where the workers are; the results in order."""
        calls = [begin(shard) for shard in self.shards]
        results: dict[int, Value] = {}
        while waiting := [index for index in range(len(calls)) if index not in results]:
            for index in self.place.wait(waiting):
                results[index] = self._result(index, begin, calls[index])
        return [results[index] for index in range(len(calls))]

    def _result(self, index: int, begin: BeginCall[Value], call: Call[Value]) -> Value:
        """The result of a call that has begun. If the worker is lost another one makes the call."""
        shard, faults = self.shards[index], list[str]()
        while True:
            try:
                if faults:
                    self._replace_worker(index)
                    call = begin(shard)
                return call.result()
            except WorkerLost as fault:
                faults.append(str(fault))
            if len(faults) > MAX_RESTARTS:
                raise WorkerLostError(
                    f"the worker of policies {shard.policies.start} to {shard.policies.stop - 1} was lost "
                    f"{len(faults)} times in a row ({'; '.join(faults)}); is there enough memory? The run can be "
                    f"continued from its last checkpoint"
                )
            warnings.warn(f"{faults[-1]}; a new one continues its shard", UcbMoppoWarning, stacklevel=2)

    def _replace_worker(self, index: int) -> None:
        """A new worker in the state of the one that is lost: the last one kept, and what was done since."""
        shard = self.shards[index]
        shard.worker.close()
        shard.worker = self._start_worker(index, shard.policies)
        if shard.kept is not None:
            shard.worker.begin(Shard.set_state, shard.kept).result()
        for begin in shard.since:
            begin(shard).result()


def choose_executor(config: MoppoConfig) -> str:
    """What `auto` means here: processes for several shards where there are several cores."""
    if config.executor != "auto":
        return config.executor
    return "processes" if config.shards > 1 and len(available_cores()) > 1 else "local"


def make_executor(config: MoppoConfig) -> ShardedExecutor:
    """The executor of a resolved config."""
    sizes = [len(policies) for policies in split_policies(config.num_policies, config.shards)]
    placement: Placement = EXECUTORS.find(choose_executor(config))
    return ShardedExecutor(config, placement.for_shards(config, sizes))
