"""A Ray cluster as a place (``pip install 'ucb-moppo[ray]'``): actors that stay, and tasks for a single call."""

from __future__ import annotations

import importlib
import logging
import os
import secrets
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar

from ucb_moppo.cores import LIMIT, thread_settings
from ucb_moppo.errors import ConfigError, needing
from ucb_moppo.runtime.place import Place
from ucb_moppo.runtime.worker import HeldObject, Request, Worker, WorkerLost, unpack_reply

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing about a run leaves the cluster

SEVERAL_MACHINES = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""Ray's name for whether a cluster may span machines; it is read on every system."""
MODE, TOKEN, TOKEN_FILE = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"
"""Ray's names for how a cluster knows its own, for what they must know, and for where that is written."""

with needing("--executor ray", "ray"):
    import ray
    from ray._private import ray_constants

    raylet: Any = importlib.import_module("ray._raylet")  # compiled: a type checker does not know its names

Object = TypeVar("Object")

LOST = (
    ray.exceptions.RayActorError,
    ray.exceptions.ObjectLostError,
    ray.exceptions.WorkerCrashedError,
    ray.exceptions.NodeDiedError,
    ray.exceptions.OutOfMemoryError,
)


def get_reply(reference: Any) -> bytes:
    """Wait for the reply that Ray's reference stands for; WorkerLost if there will be none."""
    try:
        return ray.get(reference)
    except LOST as fault:
        raise WorkerLost(f"a Ray process was lost ({type(fault).__name__})") from fault


class RayWorker(Worker[Object]):
    """An object in a process of the cluster: ``submit`` hands a call to Ray, ``end`` ends the process."""

    def __init__(self, submit: Callable[[bytes], Any], end: Callable[[], None]) -> None:
        self._submit, self._end = submit, end
        self.reply: Any = None
        """Ray's reference to the reply of the latest call."""

    def _begin(self, request: Request) -> Callable[[], Any]:
        reply = self.reply = self._submit(request.pack())
        return lambda: unpack_reply(get_reply(reply))

    def interrupt(self) -> None:
        """A task stops as by Ctrl-C; of an actor Ray only takes back a call that has not begun."""
        ray.cancel(self.reply)

    def join(self) -> None:
        ray.wait([self.reply])

    def close(self) -> None:
        if ray.is_initialized():
            self._end()


class Cluster(Place[RayWorker[Any]]):
    """The Ray cluster that has been joined, until ``leave`` is called."""

    def __init__(self, threads: Sequence[int], leave: Callable[[], None]) -> None:
        super().__init__(threads)
        self._leave = leave

    def wait(self, slots: Sequence[int]) -> Sequence[int]:
        ready, _ = ray.wait([self._workers[slot].reply for slot in slots], num_returns=1)
        return [slot for slot in slots if self._workers[slot].reply in ready]

    def close(self) -> None:
        try:
            super().close()
        finally:
            self._leave()


class ActorPlace(Cluster):
    """Room for ``num_workers`` that stay: actors, on even shares of the CPUs, with a thread for each CPU unless
    ``num_threads`` says otherwise. Ray is not told to restart one: who uses it knows from which state."""

    def __init__(self, address: str | None, num_workers: int, num_threads: int) -> None:
        leave = join_cluster(address)
        self._cpus = share_cpus(node_cpus(), num_workers)
        super().__init__([num_threads or max(1, self._cpus)] * num_workers, leave)

    def _make_worker(self, slot: int, building: Request) -> RayWorker[Any]:
        options: dict[str, Any] = {
            # One that takes the place of another reserves nothing: where a node has left it would wait for CPUs
            # that may never come back. It shares some with others instead.
            "num_cpus": 0 if slot in self._workers else self._cpus,
            "max_restarts": 0,
            "scheduling_strategy": "SPREAD",
            "runtime_env": {"env_vars": thread_settings(self.threads[slot])},
        }
        actor: Any = ray.remote(HeldObject).options(**options).remote(building.pack(), sys.path)
        return RayWorker(lambda request: actor.answer.remote(request), lambda: ray.kill(actor))


class TaskPlace(Cluster):
    """Room for ``slots`` that make a single call: tasks, because Ray can interrupt them, on even shares of
    ``cores`` CPUs (0: all there are). One waits until so many are free, and its process ends with it."""

    def __init__(self, address: str | None, cores: int, slots: int) -> None:
        leave = join_cluster(address)
        largest, total = int(max(node_cpus(), default=0)), int(sum(node_cpus()))
        slots = slots or cores or max(1, total)
        share = min(max(1, (cores or total) // slots), max(1, largest))
        settings = thread_settings(share) | {LIMIT: str(share)}
        options: Any = {"num_cpus": share, "max_calls": 1, "max_retries": 0, "runtime_env": {"env_vars": settings}}
        self._task = ray.remote(**options)(answer_once)
        super().__init__([share] * slots, leave)

    def _make_worker(self, slot: int, building: Request) -> RayWorker[Any]:
        def end() -> None:
            """The task ends by itself or with the cluster; Ray 2.60 may crash if told to end one that has ended."""

        message = building.pack()
        return RayWorker(lambda request: self._task.remote(message, sys.path, request), end)


def answer_once(building: bytes, path: Sequence[str], request: bytes) -> bytes:
    """In the process of a task: build an object for the one call of it, which can be interrupted."""
    # Ray passes on what a shell that ran it in the background made it ignore, and cannot interrupt such a task.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    return HeldObject(building, path).answer(request)


def share_cpus(nodes: Sequence[float], num_workers: int) -> int:
    """The most whole CPUs that every worker can have at once on nodes with so many each; 0 if not even one."""
    share = int(max(nodes, default=0))
    while share and sum(cpus // share for cpus in nodes) < num_workers:
        share -= 1
    return share


def node_cpus() -> list[float]:
    """CPUs of every node of the cluster."""
    return [node["Resources"].get("CPU", 0.0) for node in ray.nodes() if node["Alive"]]


def join_cluster(address: str | None) -> Callable[[], None]:
    """Be in a cluster: the one this process is in already, or that at ``address``. Returns how to leave it."""
    if ray.is_initialized():
        return lambda: None
    start_ray(address)
    return leave_own if address is None else ray.shutdown


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


@contextmanager
def own_token() -> Iterator[None]:
    """Let a cluster of our own answer only to those who know its token, which its processes inherit.

    Ray would make one too, but leave it in a file that others on this machine may read, for all clusters to come,
    and its mode in the environment for what is started next. What the user has set stays.
    """
    if not os.environ.keys().isdisjoint({MODE, TOKEN, TOKEN_FILE}):
        yield
        return
    os.environ |= {MODE: "token", TOKEN: secrets.token_hex(32)}
    reread_token()
    try:
        yield
    finally:
        del os.environ[MODE], os.environ[TOKEN]


def reread_token() -> None:
    """Take mode and token from the environment as it is now; Ray does so once, when it is imported.

    The mode comes first: in the other order a thread of Ray's might look for a token that is no longer there.
    """
    raylet.Config.initialize("")
    raylet.AuthenticationTokenLoader.instance().reset_cache()


def leave_own() -> None:
    """End a cluster of our own, and forget its token."""
    ray.shutdown()
    reread_token()


def start_ray(address: str | None) -> None:
    """Join a cluster, or start one that listens on this machine alone."""
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address is None:
        options |= {"address": "local", "include_dashboard": False, "_node_ip_address": "127.0.0.1"}
    else:
        options |= {"address": address}
    before = signal.getsignal(signal.SIGTERM)
    try:
        with ExitStack() as alone:
            if address is None:
                alone.enter_context(loopback_kept())
                alone.enter_context(own_token())
            ray.init(**options)
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)  # Ray takes it, but a run that is asked to stop saves first
    except Exception as fault:  # Ray 2.60 raises no less, where a machine is too busy to start it in 30 seconds
        if address is None:
            leave_own()
        raise ConfigError(f"no Ray cluster can be reached at {address or 'this machine'}: {fault}") from fault
