"""Where shards run. The trainer does not know which executor it has.

Sub-spaces are split into shards; each shard has a worker: in this process, in a process of this machine or in a
Ray cluster. Policies that are shared learn here, in the executor's process, from what all shards collect; once they
have parted, every shard trains its own. The same split gives the same bits wherever the workers are. A worker that
is lost is replaced: the new one continues from the last state of its shard that was kept here and does again what
was done since.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from time import perf_counter
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ucb_moppo.algos.base import Transitions
from ucb_moppo.algos.stacked import arrays_under
from ucb_moppo.config import MoppoConfig, override
from ucb_moppo.cores import available_cores
from ucb_moppo.engine.evaluation import Evaluation
from ucb_moppo.engine.population import Divergence, Population, by_policy, by_subspace
from ucb_moppo.engine.shard import Shard, Timing, time_update
from ucb_moppo.envs import found_by_import
from ucb_moppo.errors import UcbMoppoWarning, WorkerLostError
from ucb_moppo.registry import EXECUTORS
from ucb_moppo.runtime.place import Place
from ucb_moppo.runtime.placement import Placement
from ucb_moppo.runtime.worker import Call, Worker, WorkerLost
from ucb_moppo.spec import EnvSpec

Value = TypeVar("Value")

PART_SECONDS = 5.0
"""About how long concurrent workers train without waiting for each other. Progress is told and a request to stop is
heard this often."""
MAX_RESTARTS = 3
"""How often a shard's worker is replaced in a row, without finishing a call, before the run gives up."""


def split_subspaces(num_subspaces: int, num_shards: int) -> list[range]:
    """Consecutive sub-spaces of each shard, as equal in number as can be. A pure function: the layout of a run."""
    cuts = [shard * num_subspaces // num_shards for shard in range(num_shards + 1)]
    return [range(a, b) for a, b in pairwise(cuts)]


@dataclass
class PlacedShard:
    """A shard at its worker, and what another worker would need to take its place."""

    worker: Worker[Shard]
    subspaces: range
    kept: dict[str, NDArray] | None = None
    """The shard's state when it was last asked for; None is how it was built."""
    since: list[BeginCall[Any]] = field(default_factory=list)
    """What has changed the state since then."""

    def rows(self, array: NDArray) -> NDArray:
        """What belongs to its sub-spaces of an array [K, …]."""
        return np.asarray(array[self.subspaces.start : self.subspaces.stop])

    def columns(self, array: NDArray) -> NDArray:
        """What belongs to its sub-spaces of an array [I, K, …]."""
        return np.asarray(array[:, self.subspaces.start : self.subspaces.stop])


BeginCall = Callable[[PlacedShard], Call[Value]]
"""Begins a call of a shard at the worker that it has now."""


class ShardedExecutor:
    """The shards of a resolved config at workers of a place, which has a slot for each."""

    def __init__(self, config: MoppoConfig, spec: EnvSpec, place: Place[Any]) -> None:
        self.part_iterations = 1
        self.place, self._config, self._spec = place, config, spec
        self.lead = self._make_lead() if config.shared_iterations else None
        """The policies that are shared, until they part."""
        self.shards: list[PlacedShard] = []
        try:
            for index, subspaces in enumerate(split_subspaces(config.num_subspaces, config.shards)):
                self.shards.append(PlacedShard(self._start_worker(index, subspaces), subspaces))
        except BaseException:
            self.close()
            raise

    def _make_lead(self) -> Population:
        config = self._config
        return Population(config, self._spec, range(config.num_subspaces), group=config.search.policies)

    def _start_worker(self, index: int, subspaces: range) -> Worker[Shard]:
        own = override(self._config, threads=self._config.threads or self.place.threads[index])
        return self.place.start(index, Shard, own, subspaces, led=self.lead is not None)

    def train(self, weights: NDArray) -> dict[str, NDArray]:
        start = perf_counter()
        if self.lead is not None:
            rows = [self._train_led(self.lead, row) for row in weights]
            reports = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
        else:
            parts = self._change(lambda shard: shard.worker.begin(Shard.train, shard.columns(weights)))
            reports = {name: np.concatenate([part[name] for part in parts], axis=1) for name in parts[0]}
        if self.place.concurrent:
            pace = (perf_counter() - start) / len(weights)
            self.part_iterations = max(1, round(PART_SECONDS / pace))
        return reports

    def _train_led(self, lead: Population, weights: NDArray) -> dict[str, NDArray]:
        """One iteration of policies that are shared: every shard collects, then they learn from all of it."""
        tensors, noise = acting_tensors(lead), by_subspace(lead.draw_noise(), lead.group, axis=1)
        parts = self._change(
            lambda shard: shard.worker.begin(
                Shard.collect,
                {name: shard.rows(array) for name, array in tensors.items()},
                shard.rows(weights),
                shard.columns(noise),
            )
        )
        return lead.update(merge_rollouts(parts, lead.group), by_policy(weights, lead.group, axis=0))

    def part(self) -> None:
        """Give every sub-space a policy of its own: the shards go on with copies of those that were shared."""
        lead, self.lead = self.lead, None
        if lead is None:
            return
        lead.part()
        self._change(lambda shard: shard.worker.begin(Shard.adopt, lead.share_of(shard.subspaces)))

    def evaluate(self, weights: NDArray, episodes: int) -> Evaluation:
        tensors = None if self.lead is None else acting_tensors(self.lead)

        def begin(shard: PlacedShard) -> Call[Evaluation]:
            acting = None if tensors is None else {name: shard.rows(array) for name, array in tensors.items()}
            return shard.worker.begin(Shard.evaluate, shard.rows(weights), episodes, acting)

        parts = self._change(begin)
        found = Evaluation(np.concatenate([part.episodes for part in parts]), sum(part.steps for part in parts))
        if self.lead is not None:
            found = found.without(self.lead.judge(found.returns, weights))
        if self.place.concurrent:
            self._keep()  # a stage has ended: what a new worker would have to do again begins here
        return found

    def divergences(self) -> list[Divergence]:
        led = [] if self.lead is None else list(self.lead.divergences)
        return led + [divergence for found in self._ask(Shard.get_divergences) for divergence in found]

    def policies(self) -> dict[str, NDArray]:
        if self.lead is not None:
            return self.lead.tensors()
        parts = self._ask(Shard.policies)
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def time_iteration(self) -> Timing:
        timings = self._ask(Shard.time_iteration)
        if self.place.concurrent:
            iteration = max(timing.iteration for timing in timings)
            step = 1 / sum(1 / timing.step for timing in timings)
        else:
            iteration = sum(timing.iteration for timing in timings)
            step = float(np.mean([timing.step for timing in timings]))
        return Timing(iteration + (0.0 if self.lead is None else time_update(self.lead)), step)

    def clocks(self) -> list[dict[str, float]]:
        """Seconds that each shard has spent on each kind of work."""
        return self._ask(Shard.get_clock)

    def get_state(self) -> dict[str, NDArray]:
        self._keep()
        lead = {} if self.lead is None else self.lead.get_state()
        return {f"lead.{name}": array for name, array in lead.items()} | {
            f"shard{index}.{name}": array
            for index, shard in enumerate(self.shards)
            for name, array in (shard.kept or {}).items()
        }

    def set_state(self, state: Mapping[str, NDArray]) -> None:
        led = arrays_under("lead.", state)
        self.lead = self._make_lead() if led else None
        if self.lead is not None:
            self.lead.set_state(led)
        for index, shard in enumerate(self.shards):
            shard.kept, shard.since = arrays_under(f"shard{index}.", state), []
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
                    f"the worker of policies {shard.subspaces.start} to {shard.subspaces.stop - 1} was lost "
                    f"{len(faults)} times in a row ({'; '.join(faults)}); is there enough memory? The run can be "
                    f"continued from its last checkpoint"
                )
            warnings.warn(f"{faults[-1]}; a new one continues its shard", UcbMoppoWarning, stacklevel=2)

    def _replace_worker(self, index: int) -> None:
        """A new worker in the state of the one that is lost: the last one kept, and what was done since."""
        shard = self.shards[index]
        shard.worker.close()
        shard.worker = self._start_worker(index, shard.subspaces)
        if shard.kept is not None:
            shard.worker.begin(Shard.set_state, shard.kept).result()
        for begin in shard.since:
            begin(shard).result()


def merge_rollouts(parts: Sequence[Transitions], group: int) -> Transitions:
    """Rollouts [T, K, N, …] of the shards side by side, as those of policies for ``group`` sub-spaces each."""

    def merge(arrays: Sequence[NDArray | None]) -> NDArray | None:
        found = [array for array in arrays if array is not None]
        return by_policy(np.concatenate(found, axis=1), group, axis=1) if found else None

    return Transitions(*(merge(arrays) for arrays in zip(*parts, strict=True)))


def acting_tensors(population: Population) -> dict[str, NDArray]:
    """What acts for each of the sub-spaces, and nothing else that is kept of the policies."""
    acting = ("actor.", "observation.")
    return {name: array for name, array in population.tensors().items() if name.startswith(acting)}


def choose_executor(config: MoppoConfig) -> str:
    """What `auto` means here: processes for several shards, given several cores and a problem that they find."""
    if config.executor != "auto":
        return config.executor
    apart = config.shards > 1 and len(available_cores()) > 1 and found_by_import(config.problem)
    return "processes" if apart else "local"


def make_executor(config: MoppoConfig, spec: EnvSpec) -> ShardedExecutor:
    """The executor of a resolved config for the problem ``spec``."""
    sizes = [len(subspaces) for subspaces in split_subspaces(config.num_subspaces, config.shards)]
    placement: Placement = EXECUTORS.find(choose_executor(config))
    return ShardedExecutor(config, spec, placement.for_shards(config, sizes))
