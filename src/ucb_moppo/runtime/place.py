"""A place for workers, and the simplest one: this process."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, Generic, ParamSpec, TypeVar

from ucb_moppo.cores import pinned
from ucb_moppo.runtime.worker import Request, Worker

SAFE_PATH = {"PYTHONSAFEPATH": "1"}
"""For the environment of processes: also those that libraries start find no module in the current directory."""

Object = TypeVar("Object")
Params = ParamSpec("Params")
WorkerKind = TypeVar("WorkerKind", bound=Worker[Any])


class Place(ABC, Generic[WorkerKind]):
    """A place with a slot for each of the workers that fit there at a time.

    ``threads`` are those for the work in each slot; 0 for as many as there are cores.
    """

    concurrent = True
    """Whether workers run side by side, in processes that may be lost."""

    def __init__(self, threads: Sequence[int]) -> None:
        self.threads = threads
        self._workers: dict[int, WorkerKind] = {}

    def start(
        self, slot: int, build: Callable[Params, Object], *args: Params.args, **kwargs: Params.kwargs
    ) -> Worker[Object]:
        """A worker with what ``build(*args)`` makes, in a slot that is free or whose worker is lost or closed."""
        worker = self._workers[slot] = self._make_worker(slot, Request(build, args, kwargs))
        return worker

    @abstractmethod
    def _make_worker(self, slot: int, building: Request) -> WorkerKind:
        """A worker with what the call ``building`` makes."""

    @abstractmethod
    def wait(self, slots: Sequence[int]) -> Sequence[int]:
        """Of slots whose workers have been called, one or more that have answered or are lost."""

    def close(self) -> None:
        """End all workers, whatever they are doing."""
        for worker in self._workers.values():
            worker.close()


class LocalWorker(Worker[Object]):
    """An object in this process. A call runs when its result is waited for, on ``cores`` alone if there are any."""

    def __init__(self, building: Request, cores: Sequence[int]) -> None:
        self._object, self._cores = building.perform(), cores

    def _begin(self, request: Request) -> Callable[[], Any]:
        def perform() -> Any:
            with pinned(self._cores) if self._cores else nullcontext():
                return request.perform(self._object)

        return perform

    def interrupt(self) -> None:
        """Nothing is under way but while a result is waited for, which an interruption ends by itself."""

    def join(self) -> None:
        """Nothing is under way."""

    def close(self) -> None:
        """There is no process to end."""


class ThisProcess(Place[LocalWorker[Any]]):
    """Room for workers here, one of which works at a time, on ``cores`` if any are named."""

    concurrent = False

    def __init__(self, num_workers: int, cores: Sequence[int] = ()) -> None:
        super().__init__([0] * num_workers)
        self._cores = cores

    def _make_worker(self, slot: int, building: Request) -> LocalWorker[Any]:
        return LocalWorker(building, self._cores)

    def wait(self, slots: Sequence[int]) -> Sequence[int]:
        return slots
