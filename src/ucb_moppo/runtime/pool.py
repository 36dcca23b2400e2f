"""Independent pieces of work side by side: the cells of a sweep, in processes of this machine or as Ray tasks."""

from __future__ import annotations

import pickle
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import wait
from time import perf_counter
from typing import Any, Generic, Protocol, TypeVar

from ucb_moppo.cores import LIMIT, available_cores, pinned, share_cores, thread_settings
from ucb_moppo.errors import ConfigError, WorkerLostError, nearest_names
from ucb_moppo.runtime.processes import ProcessWorker
from ucb_moppo.runtime.worker import WorkerLost

Cell = TypeVar("Cell")
Result = TypeVar("Result")
EXECUTORS = ("local", "processes", "ray")


@dataclass(frozen=True)
class Outcome(Generic[Result]):
    """What became of a cell: a ``value``, or the ``fault`` that kept it from one."""

    value: Result | None
    fault: Exception | None
    """What the work raised, with its traceback in a note; WorkerLostError if the process died."""
    seconds: float
    """From when the cell was begun to its end; on Ray a wait for free CPUs is part of it."""

    def result(self) -> Result:
        """The value; raises the fault if there is one."""
        if self.fault is not None:
            raise self.fault
        return self.value  # type: ignore[return-value]


def run_cells(
    cells: Sequence[Cell],
    work: Callable[[Cell], Result],
    *,
    executor: str = "processes",
    cores: int = 0,
    slots: int = 0,
    restarts: int = 0,
    ray_address: str | None = None,
) -> Iterator[tuple[Cell, Outcome[Result]]]:
    """Call ``work(cell)`` for every cell, several at a time; yields each cell with its outcome as it ends.

    ``executor`` says where. `local`: one after the other in this process. `processes`: in a fresh interpreter for
    each, pinned to its share of this machine's cores. `ray`: as tasks of the cluster at ``ray_address`` (without
    one, of a Ray started on this machine alone), each of which reserves its share of CPUs. ``cores`` is how
    many to use in all (0: every one there is), ``slots`` how many cells run at a time (0: one per core); they
    divide the cores evenly. In `processes` and `ray` the libraries of a cell start no more threads than it has
    cores, so that all cells together start no more than there are.

    A cell that raises, or whose process dies, has that as its outcome, and the others go on. One whose process
    died is begun again up to ``restarts`` times; work that may be begun twice has to bear it. When the
    iterator is closed early or interrupted, cells under way are asked to stop as by Ctrl-C and waited for, so that
    training saves a checkpoint; a second Ctrl-C ends them at once.

    ``work`` must be a function of a module, not of a script, and cells and results must pickle: other processes
    import it by name. A cell that trains should fix its number of ``shards``: left open it is the number of
    cores the cell has, and the last bits of a result depend on it.

        with closing(run_cells(range(5), train_seed)) as outcomes:
            for seed, outcome in outcomes:
                print(seed, outcome.fault or outcome.value)
    """
    if executor not in EXECUTORS:
        raise ConfigError(f"unknown executor {executor!r}; {nearest_names(executor, EXECUTORS)}")
    for name, value in (("cores", cores), ("slots", slots), ("restarts", restarts)):
        if value < 0:
            raise ConfigError(f"{name} is {value}; it must not be negative")
    if executor != "local":
        check_importable(work)
    runners: dict[str, Callable[[], Runner]] = {
        "local": lambda: Here(available_cores()[: cores or None]),
        "processes": lambda: Processes(available_cores()[: cores or None], slots),
        "ray": lambda: RayTasks(ray_address, cores, slots),
    }
    return _run(list(cells), work, runners[executor], restarts)


def check_importable(work: Callable[..., Any]) -> None:
    """Refuse what another process cannot find by name, before anything is started."""
    try:
        found = pickle.loads(pickle.dumps(work))
    except Exception as fault:
        raise ConfigError(f"{work!r} cannot be sent to another process: {fault}") from fault
    function = getattr(found, "func", found)
    if getattr(function, "__module__", None) == "__main__":
        raise ConfigError(
            f"{function!r} belongs to the program itself; put it in a module, which others can import"
        )


def _run(
    cells: list[Cell], work: Callable[[Cell], Result], make_runner: Callable[[], Runner], restarts: int
) -> Iterator[tuple[Cell, Outcome[Result]]]:
    waiting, begun = deque(range(len(cells))), Counter[int]()
    runner = make_runner()
    try:
        while waiting or runner.running:
            while waiting and runner.has_room():
                index = waiting.popleft()
                begun[index] += 1
                runner.start(index, work, cells[index])
            index, outcome = runner.next()
            if isinstance(outcome.fault, WorkerLostError) and begun[index] <= restarts:
                waiting.append(index)
            else:
                yield cells[index], outcome
    finally:
        runner.close()


class Runner(Protocol):
    """A place for cells to run in."""

    running: dict[Any, Any]

    def has_room(self) -> bool: ...

    def start(self, index: int, work: Callable[[Any], Any], cell: Any) -> None: ...

    def next(self) -> tuple[int, Outcome[Any]]:
        """Wait for a cell to end: its index and its outcome."""
        ...

    def close(self) -> None:
        """End whatever still runs."""
        ...


def settle(result: Callable[[], Any], begun: float) -> Outcome[Any]:
    """The outcome of waiting for a result."""
    value: Any = None
    fault: Exception | None = None
    try:
        value = result()
    except WorkerLost as lost:
        fault = WorkerLostError(str(lost))
    except Exception as raised:
        fault = raised
    return Outcome(value, fault, perf_counter() - begun)


class Here:
    """One cell at a time, in this process."""

    def __init__(self, cores: Sequence[int]) -> None:
        self._cores = cores
        self.running: dict[int, Callable[[], Any]] = {}

    def has_room(self) -> bool:
        return not self.running

    def start(self, index: int, work: Callable[[Any], Any], cell: Any) -> None:
        self.running[index] = lambda: work(cell)

    def next(self) -> tuple[int, Outcome[Any]]:
        index, call = self.running.popitem()
        with pinned(self._cores):
            return index, settle(call, perf_counter())

    def close(self) -> None: ...


class Task:
    """A call that a process can be asked for."""

    def __init__(self, work: Callable[[Any], Any], cell: Any) -> None:
        self.run = lambda: work(cell)


@dataclass
class Slot:
    """A cell in its process, on its share of the cores."""

    index: int
    cores: list[int]
    worker: ProcessWorker
    begun: float


class Processes:
    """A fresh process for every cell, on one of ``slots`` shares of ``cores``."""

    def __init__(self, cores: Sequence[int], slots: int) -> None:
        slots = min(slots or len(cores), len(cores))
        self._free = [share_cores(cores, slot, slots) for slot in range(slots)]
        self.running: dict[Any, Slot] = {}

    def has_room(self) -> bool:
        return bool(self._free)

    def start(self, index: int, work: Callable[[Any], Any], cell: Any) -> None:
        share, begun = self._free.pop(0), perf_counter()
        worker = ProcessWorker(Task, (work, cell), share)
        worker.begin("run")
        self.running[worker.connection] = Slot(index, share, worker, begun)

    def next(self) -> tuple[int, Outcome[Any]]:
        slot = self.running.pop(wait(list(self.running))[0])
        outcome = settle(slot.worker.result, slot.begun)
        slot.worker.close()
        self._free.append(slot.cores)
        return slot.index, outcome

    def close(self) -> None:
        workers = [slot.worker for slot in self.running.values()]
        try:
            for worker in workers:
                worker.interrupt()
            for worker in workers:
                worker.wait()
        finally:
            for worker in workers:
                worker.close()


class RayTasks:
    """A task for every cell. Ray finds the CPUs; a task's process ends with it, as those of `Processes` do."""

    def __init__(self, address: str | None, cores: int, slots: int) -> None:
        from ucb_moppo.runtime.cluster import joined, node_cpus, ray  # Ray is an optional install

        self._ray, self._leave = ray, joined(address)
        largest, total = int(max(node_cpus(), default=0)), int(sum(node_cpus()))
        self._slots = slots or cores or max(1, total)
        share = min(max(1, (cores or total) // self._slots), max(1, largest))
        settings = thread_settings(share) | {LIMIT: str(share)}
        options: Any = {"num_cpus": share, "max_calls": 1, "max_retries": 0, "runtime_env": {"env_vars": settings}}
        self._task = ray.remote(**options)(run_pickled)
        self.running: dict[Any, tuple[int, float]] = {}

    def has_room(self) -> bool:
        return len(self.running) < self._slots

    def start(self, index: int, work: Callable[[Any], Any], cell: Any) -> None:
        reference = self._task.remote(pickle.dumps((work, cell)), sys.path)
        self.running[reference] = index, perf_counter()

    def next(self) -> tuple[int, Outcome[Any]]:
        from ucb_moppo.runtime.cluster import get_result

        reference = self._ray.wait(list(self.running), num_returns=1)[0][0]
        index, begun = self.running.pop(reference)
        return index, settle(lambda: get_result(reference), begun)

    def close(self) -> None:
        try:
            for reference in self.running:
                self._ray.cancel(reference)  # raises KeyboardInterrupt there
            if self.running:
                self._ray.wait(list(self.running), num_returns=len(self.running))
        finally:
            self._leave()


def run_pickled(payload: bytes, path: Sequence[str]) -> Any:
    """In the process of a Ray task: what is to be called is looked up where the driver finds it."""
    sys.path += [entry for entry in path if entry not in sys.path]
    work, cell = pickle.loads(payload)
    return work(cell)
