"""A worker: one shard somewhere, called by the name of its method. Where it is makes no difference to the bits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from ucb_moppo.config import MoppoConfig
from ucb_moppo.engine.shard import Shard


class WorkerLost(Exception):
    """The process that held a shard is gone: killed, out of memory, or its machine is."""


class Worker(Protocol):
    """Runs one call at a time: ``begin`` it, then wait for its ``result``."""

    concurrent: bool
    """Whether calls of several workers run side by side."""

    def begin(self, method: str, *args: Any) -> None:
        """Start a call of the shard's ``method``; a worker that is lost may say so here or in ``result``."""
        ...

    def result(self) -> Any:
        """What the call returned. Raises what it raised, or WorkerLost."""
        ...

    def close(self) -> None:
        """End the worker, whatever it is doing."""
        ...


class LocalWorker:
    """A shard in this process."""

    concurrent = False

    def __init__(self, config: MoppoConfig, policy_ids: Sequence[int]) -> None:
        self.shard = Shard(config, policy_ids)
        self._call: tuple[str, tuple[Any, ...]] = ("policies", ())

    def begin(self, method: str, *args: Any) -> None:
        self._call = method, args

    def result(self) -> Any:
        method, args = self._call
        return getattr(self.shard, method)(*args)

    def close(self) -> None:
        self.shard.close()
