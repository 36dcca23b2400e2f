"""Independent pieces of work side by side, such as the cells of a sweep, in any of the places for workers."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Generic, TypeVar

from ucb_moppo.errors import ConfigError, WorkerLostError
from ucb_moppo.registry import EXECUTORS
from ucb_moppo.runtime.place import Place
from ucb_moppo.runtime.placement import Placement
from ucb_moppo.runtime.worker import Call, Worker, WorkerLost, check_importable

Item = TypeVar("Item")
Value = TypeVar("Value")


@dataclass(frozen=True)
class Outcome(Generic[Value]):
    """What became of a cell: a ``value``, or the ``fault`` that kept it from one."""

    value: Value | None
    fault: Exception | None
    """What the work raised, with its traceback in a note; WorkerLostError if the process died."""
    seconds: float
    """From when the cell was begun to its end; on Ray a wait for free CPUs is part of it."""

    def result(self) -> Value:
        """The value; raises the fault if there is one."""
        if self.fault is not None:
            raise self.fault
        return self.value  # type: ignore[return-value]


def run_cells(
    cells: Sequence[Item],
    work: Callable[[Item], Value],
    *,
    executor: str = "processes",
    cores: int = 0,
    slots: int = 0,
    restarts: int = 0,
    ray_address: str | None = None,
) -> Iterator[tuple[Item, Outcome[Value]]]:
    """Call ``work(cell)`` for every cell, several at a time; yields each cell with its outcome as it ends.

    ``executor`` says where. `local`: one after the other in this process. `processes`: in a fresh interpreter for
    each, pinned to its share of this machine's cores, or, where only some are to be used, on whichever are free.
    `ray`: as tasks of the cluster at ``ray_address`` (without one, of a Ray started on this machine alone), each
    of which reserves its share of CPUs. ``cores`` is how many to use in all (0: every one there is), ``slots`` how
    many cells run at a time (0: one per core); they divide the cores evenly. In `processes` and `ray` the libraries
    of a cell start no more threads than it has cores, so that all cells together start no more than there are.

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
    EXECUTORS.check(executor)
    for name, value in (("cores", cores), ("slots", slots), ("restarts", restarts)):
        if value < 0:
            raise ConfigError(f"{name} is {value}; it must not be negative")
    if not EXECUTORS.entries[executor].in_this_process:
        check_importable(work)
    placement: Placement = EXECUTORS.find(executor)
    return _run(list(cells), work, lambda: placement.for_cells(cores, slots, ray_address), restarts)


@dataclass(frozen=True)
class Running(Generic[Value]):
    """A cell under way."""

    index: int
    worker: Worker[Any]
    call: Call[Value]
    begun: float

    def outcome(self) -> Outcome[Value]:
        """Wait for the cell to end; what became of it."""
        value: Value | None = None
        fault: Exception | None = None
        try:
            value = self.call.result()
        except WorkerLost as lost:
            fault = WorkerLostError(str(lost))
        except Exception as raised:
            fault = raised
        return Outcome(value, fault, perf_counter() - self.begun)


def _run(
    cells: list[Item], work: Callable[[Item], Value], make_place: Callable[[], Place[Any]], restarts: int
) -> Iterator[tuple[Item, Outcome[Value]]]:
    waiting, times_begun = deque(range(len(cells))), Counter[int]()
    place = make_place()
    free, running = deque(range(len(place.threads))), dict[int, Running[Value]]()
    try:
        while waiting or running:
            while waiting and free:
                index, slot = waiting.popleft(), free.popleft()
                times_begun[index] += 1
                running[slot] = _begin(place, slot, index, cells[index], work)
            slot = place.wait(list(running))[0]
            ended = running.pop(slot)
            outcome = ended.outcome()
            ended.worker.close()
            free.append(slot)
            if isinstance(outcome.fault, WorkerLostError) and times_begun[ended.index] <= restarts:
                waiting.append(ended.index)
            else:
                yield cells[ended.index], outcome
    finally:
        try:
            _stop([cell.worker for cell in running.values()])
        finally:
            place.close()


def _begin(place: Place[Any], slot: int, index: int, cell: Item, work: Callable[[Item], Value]) -> Running[Value]:
    """Begin a cell with a worker of its own, which holds the cell for the work to be called with."""
    begun = perf_counter()
    worker = place.start(slot, _same, cell)
    return Running(index, worker, worker.begin(work), begun)


def _same(cell: Item) -> Item:
    """What a cell's worker builds: nothing but the cell."""
    return cell


def _stop(workers: Sequence[Worker[Any]]) -> None:
    """Interrupt what is under way and wait until it has stopped."""
    for worker in workers:
        worker.interrupt()
    for worker in workers:
        worker.join()
