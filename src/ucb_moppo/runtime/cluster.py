"""Shards in a Ray cluster (``pip install 'ucb-moppo[ray]'``): an actor for each, wherever there is room."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

from ucb_moppo.config import MoppoConfig, override
from ucb_moppo.cores import thread_settings
from ucb_moppo.errors import ConfigError
from ucb_moppo.runtime.executor import ShardedExecutor
from ucb_moppo.runtime.worker import Worker, WorkerLost

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing about a run leaves the cluster

SEVERAL_MACHINES = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""Ray's name for whether a cluster may span machines; it is read on every system."""

try:
    import ray
    from ray._private import ray_constants
except ImportError as fault:
    raise ConfigError("--executor ray needs Ray: pip install 'ucb-moppo[ray]'") from fault


class ShardActor:
    """A shard in an actor's process, called by the name of its method.

    It is built by the first call: an error there comes back as it is, one in a constructor as a dead actor.
    """

    def __init__(self, config: MoppoConfig, policy_ids: Sequence[int], path: Sequence[str]) -> None:
        sys.path += [entry for entry in path if entry not in sys.path]  # where the driver finds an environment
        self._arguments = config, policy_ids
        self._shard: Any = None

    def call(self, method: str, *args: Any) -> Any:
        if self._shard is None:
            from ucb_moppo.engine.shard import Shard

            self._shard = Shard(*self._arguments)
        return getattr(self._shard, method)(*args)


def share_cpus(nodes: Sequence[float], num_shards: int) -> int:
    """The most whole CPUs that every shard can have at once on nodes with so many each; 0 if not even one."""
    share = int(max(nodes, default=0))
    while share and sum(cpus // share for cpus in nodes) < num_shards:
        share -= 1
    return share


def node_cpus() -> list[float]:
    """CPUs of every node of the cluster."""
    return [node["Resources"].get("CPU", 0.0) for node in ray.nodes() if node["Alive"]]


LOST = (
    ray.exceptions.RayActorError,
    ray.exceptions.ObjectLostError,
    ray.exceptions.WorkerCrashedError,
    ray.exceptions.NodeDiedError,
    ray.exceptions.OutOfMemoryError,
)


def get_result(call: Any) -> Any:
    """What a call returned. Raises what it raised, as it raised it, or WorkerLost."""
    try:
        return ray.get(call)
    except ray.exceptions.RayTaskError as fault:
        raise fault.cause from fault
    except LOST as fault:
        raise WorkerLost(f"a Ray process was lost ({type(fault).__name__})") from fault


class RayWorker:
    """A shard in an actor. Ray is not told to restart it: the executor knows from which state."""

    concurrent = True

    def __init__(self, config: MoppoConfig, policy_ids: Sequence[int], num_cpus: int, num_threads: int) -> None:
        threads = config.threads or num_threads
        options: dict[str, Any] = {
            "num_cpus": num_cpus,
            "max_restarts": 0,
            "scheduling_strategy": "SPREAD",
            "runtime_env": {"env_vars": thread_settings(threads)},
        }
        actor = ray.remote(ShardActor).options(**options)
        self._actor: Any = actor.remote(override(config, threads=threads), tuple(policy_ids), sys.path)
        self._call: Any = None

    def begin(self, method: str, *args: Any) -> None:
        self._call = self._actor.call.remote(method, *args)

    def result(self) -> Any:
        return get_result(self._call)

    def close(self) -> None:
        if ray.is_initialized():
            ray.kill(self._actor)


class RayExecutor(ShardedExecutor):
    """Each shard in an actor of a Ray cluster: that at ``ray_address``, or one of its own on this machine."""

    def __init__(self, config: MoppoConfig) -> None:
        self._leave = joined(config.ray_address)
        cpus, begun = share_cpus(node_cpus(), config.shards), set[int]()

        def make_worker(index: int, policies: range) -> Worker:
            # One that takes the place of another reserves nothing: where a node has left it would wait for CPUs
            # that may never come back. It shares some with other shards instead.
            reserved = 0 if index in begun else cpus
            begun.add(index)
            return RayWorker(config, policies, reserved, max(1, cpus))

        super().__init__(config, make_worker)

    def close(self) -> None:
        super().close()
        self._leave()


def joined(address: str | None) -> Callable[[], None]:
    """Be in a cluster: the one this process is in already, or that at ``address``. Returns how to leave it."""
    if ray.is_initialized():
        return lambda: None
    connect(address)
    return ray.shutdown


@contextmanager
def loopback_kept() -> Iterator[None]:
    """Let 127.0.0.1 mean 127.0.0.1. Where clusters may have several machines, Ray takes it for the machine's own
    address and listens to the network; it reads this variable when it is imported, and its processes inherit it."""
    before = os.environ.get(SEVERAL_MACHINES), ray_constants.ENABLE_RAY_CLUSTER
    os.environ[SEVERAL_MACHINES], ray_constants.ENABLE_RAY_CLUSTER = "0", False
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before[1]
        if before[0] is None:
            del os.environ[SEVERAL_MACHINES]
        else:
            os.environ[SEVERAL_MACHINES] = before[0]


def connect(address: str | None) -> None:
    """Join a cluster, or start one that listens on this machine alone."""
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address is None:
        options |= {"address": "local", "include_dashboard": False, "_node_ip_address": "127.0.0.1"}
    else:
        options |= {"address": address}
    before = signal.getsignal(signal.SIGTERM)
    try:
        with loopback_kept() if address is None else nullcontext():
            ray.init(**options)
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)  # Ray takes it, but a run that is asked to stop saves first
    except (ConnectionError, ValueError, RuntimeError) as fault:
        raise ConfigError(f"no Ray cluster can be reached at {address or 'this machine'}: {fault}") from fault
