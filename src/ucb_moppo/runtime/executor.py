"""Where shards of policies run. The trainer does not know which executor it has.

The policies are split into shards; each shard has a worker: in this process, in a process of this machine or in a
Ray cluster. The same split gives the same bits wherever the workers are. A worker that is lost is replaced: the
new one continues from the last state of its shard that was kept here and does again what was done since.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from multiprocessing.connection import wait
from time import perf_counter
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from ucb_moppo.config import MoppoConfig, override
from ucb_moppo.cores import available_cores, physics_threads, share_cores
from ucb_moppo.engine.evaluation import Evaluation
from ucb_moppo.engine.shard import Divergence, Shard, Timing
from ucb_moppo.errors import UcbMoppoWarning, WorkerLostError
from ucb_moppo.runtime.processes import ProcessWorker
from ucb_moppo.runtime.worker import LocalWorker, Worker, WorkerLost

PART_SECONDS = 5.0
"""About how long concurrent workers train without waiting for each other. Progress is told and a request to stop is
heard this often."""
MAX_RESTARTS = 3
"""How often a shard's worker is replaced in a row, without finishing a call, before the run gives up."""


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


def split_policies(num_policies: int, num_shards: int) -> list[range]:
    """Consecutive policies of each shard, as equal in number as can be. A pure function: the layout of a run."""
    cuts = [shard * num_policies // num_shards for shard in range(num_shards + 1)]
    return [range(a, b) for a, b in pairwise(cuts)]


@dataclass
class Seat:
    """A shard's worker, and what another would need to take its place."""

    worker: Worker
    policies: range
    kept: dict[str, NDArray] | None = None
    """The shard's state when it was last asked for; None is how it was built."""
    since: list[tuple[str, tuple[Any, ...]]] = field(default_factory=list)
    """What has changed the state since then."""


class ShardedExecutor:
    """Shards behind workers that ``make_worker`` makes from a shard's index and its policies."""

    def __init__(self, config: MoppoConfig, make_worker: Callable[[int, range], Worker]) -> None:
        self.part_iterations = 1
        self._make_worker = make_worker
        layout = split_policies(config.num_policies, config.shards)
        self.seats: list[Seat] = []
        try:
            for index, policies in enumerate(layout):
                self.seats.append(Seat(make_worker(index, policies), policies))
        except BaseException:
            self.close()
            raise

    @property
    def concurrent(self) -> bool:
        """Whether the shards run side by side."""
        return self.seats[0].worker.concurrent

    def train(self, weights: NDArray, num_iterations: int) -> dict[str, NDArray]:
        start = perf_counter()
        reports = self._change("train", [(part, num_iterations) for part in self._parts(weights)])
        if self.concurrent:
            pace = (perf_counter() - start) / num_iterations
            self.part_iterations = max(1, round(PART_SECONDS / pace))
        return {name: np.concatenate([report[name] for report in reports], axis=1) for name in reports[0]}

    def evaluate(self, weights: NDArray, episodes: int) -> Evaluation:
        found = self._change("evaluate", [(part, episodes) for part in self._parts(weights)])
        if self.concurrent:
            self._keep()  # a stage has ended: what a new worker would have to do again begins here
        return Evaluation(np.concatenate([part.returns for part in found]), sum(part.steps for part in found))

    def divergences(self) -> list[Divergence]:
        return [divergence for found in self._ask("get_divergences") for divergence in found]

    def policies(self) -> dict[str, NDArray]:
        parts = self._ask("policies")
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def time_iteration(self) -> Timing:
        timings: list[Timing] = self._ask("time_iteration")
        if self.concurrent:
            slowest = max(timing.iteration for timing in timings)
            return Timing(slowest, 1 / sum(1 / timing.step for timing in timings))
        return Timing(sum(t.iteration for t in timings), float(np.mean([t.step for t in timings])))

    def clocks(self) -> list[dict[str, float]]:
        """Seconds that each shard has spent on each kind of work."""
        return self._ask("get_clock")

    def get_state(self) -> dict[str, NDArray]:
        self._keep()
        return {
            f"shard{index}.{name}": array
            for index, seat in enumerate(self.seats)
            for name, array in (seat.kept or {}).items()
        }

    def set_state(self, state: Mapping[str, NDArray]) -> None:
        for index, seat in enumerate(self.seats):
            prefix = f"shard{index}."
            seat.kept = {n.removeprefix(prefix): a for n, a in state.items() if n.startswith(prefix)}
            seat.since = []
        self._call("set_state", [(seat.kept,) for seat in self.seats])

    def close(self) -> None:
        for seat in self.seats:
            seat.worker.close()

    def _parts(self, array: NDArray) -> list[NDArray]:
        """Rows [K, …] of each shard."""
        return [np.asarray(array[seat.policies.start : seat.policies.stop]) for seat in self.seats]

    def _keep(self) -> None:
        """Fetch every shard's state, from which a new worker would continue."""
        for seat, state in zip(self.seats, self._ask("get_state"), strict=True):
            seat.kept, seat.since = state, []

    def _ask(self, method: str) -> list[Any]:
        return self._call(method, [()] * len(self.seats))

    def _change(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Call what changes the shards, and remember that it did."""
        results = self._call(method, arguments)
        if self.concurrent:  # a shard in this process cannot be lost
            for seat, args in zip(self.seats, arguments, strict=True):
                seat.since.append((method, args))
        return results

    def _call(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Call a method of every shard, side by side where the workers are; the results in order."""
        for seat, args in zip(self.seats, arguments, strict=True):
            seat.worker.begin(method, *args)
        results: dict[int, Any] = {}
        while waiting := [index for index in range(len(self.seats)) if index not in results]:
            for index in self._answered(waiting):
                results[index] = self._result(index, method, arguments[index])
        return [results[index] for index in range(len(self.seats))]

    def _answered(self, waiting: Sequence[int]) -> Sequence[int]:
        """Whose results to ask for next: some of the shards that are waited for."""
        return waiting

    def _result(self, index: int, method: str, args: tuple[Any, ...]) -> Any:
        """The result of a call that has begun. If the worker is lost another one makes the call."""
        seat, faults = self.seats[index], list[str]()
        while True:
            try:
                if faults:
                    self._replace(index)
                    seat.worker.begin(method, *args)
                return seat.worker.result()
            except WorkerLost as fault:
                faults.append(str(fault))
            if len(faults) > MAX_RESTARTS:
                raise WorkerLostError(
                    f"the worker of policies {seat.policies.start} to {seat.policies.stop - 1} was lost "
                    f"{len(faults)} times in a row ({'; '.join(faults)}); is there enough memory? The run can be "
                    f"continued from its last checkpoint"
                )
            warnings.warn(f"{faults[-1]}; a new one continues its shard", UcbMoppoWarning, stacklevel=2)

    def _replace(self, index: int) -> None:
        """A new worker in the state of the one that is lost: the last one kept, and what was done since."""
        seat = self.seats[index]
        seat.worker.close()
        seat.worker = self._make_worker(index, seat.policies)
        kept = [("set_state", (seat.kept,))] if seat.kept is not None else []
        for method, args in [*kept, *seat.since]:
            seat.worker.begin(method, *args)
            seat.worker.result()


def choose_executor(config: MoppoConfig) -> str:
    """What `auto` means here: processes for several shards where there are several cores."""
    if config.executor != "auto":
        return config.executor
    return "processes" if config.shards > 1 and len(available_cores()) > 1 else "local"


def make_executor(config: MoppoConfig) -> ShardedExecutor:
    """The executor of a resolved config."""
    kind = choose_executor(config)
    if kind == "processes":
        return ProcessExecutor(config)
    if kind == "ray":
        from ucb_moppo.runtime.cluster import RayExecutor  # Ray is an optional install

        return RayExecutor(config)
    return LocalExecutor(config)


class LocalExecutor(ShardedExecutor):
    """All shards in this process, one after the other; physics and updates of each use all cores."""

    def __init__(self, config: MoppoConfig) -> None:
        super().__init__(config, lambda index, policies: LocalWorker(config, policies))


class ProcessExecutor(ShardedExecutor):
    """Each shard in a process of its own, pinned to its share of the cores, which it lends to others when done."""

    def __init__(self, config: MoppoConfig) -> None:
        layout, cores = split_policies(config.num_policies, config.shards), available_cores()
        shares = [share_cores(cores, index, config.shards) for index in range(config.shards)]
        threads = physics_threads([len(policies) for policies in layout], shares)
        self._borrows = [not config.threads and n > len(share) for n, share in zip(threads, shares, strict=True)]

        def make_worker(index: int, policies: range) -> Worker:
            own = override(config, threads=config.threads or threads[index])
            return ProcessWorker(Shard, (own, policies), shares[index])

        super().__init__(config, make_worker)

    def _answered(self, waiting: Sequence[int]) -> Sequence[int]:
        """Those that have answered or are lost. Meanwhile the cores of others that have are lent to the larger."""
        workers = [cast(ProcessWorker, seat.worker) for seat in self.seats]
        free = [core for index, worker in enumerate(workers) if index not in waiting for core in worker.cores]
        for index in waiting:
            if self._borrows[index]:
                workers[index].borrow(free)
        ready = wait([workers[index].connection for index in waiting])
        answered = [index for index in waiting if workers[index].connection in ready]
        for index in answered:
            workers[index].borrow([])
        return answered
