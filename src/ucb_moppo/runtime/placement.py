"""Where each executor puts the shards of a run and the cells of a sweep."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ucb_moppo.config import MoppoConfig
from ucb_moppo.cores import available_cores, physics_threads, share_cores
from ucb_moppo.runtime.place import Place, ThisProcess
from ucb_moppo.runtime.processes import Processes


@dataclass(frozen=True)
class Placement:
    """Where an executor puts its workers."""

    for_shards: Callable[[MoppoConfig, Sequence[int]], Place[Any]]
    """A place with a slot for each shard of a run, from the numbers of policies of its shards."""
    for_cells: Callable[[int, int, str | None], Place[Any]]
    """A place for independent work, from how many cores to use (0: all), how many slots they are divided among
    (0: one per core) and the address of a cluster."""
    count_slots: Callable[[int, int], int]
    """How many of so many cells run at a time on so many cores (0: all); 0 where only the cluster knows."""


def divide_cores(cores: Sequence[int], num_workers: int) -> list[list[int]]:
    """The share of each worker."""
    return [share_cores(cores, index, num_workers) for index in range(num_workers)]


def processes_for_shards(config: MoppoConfig, sizes: Sequence[int]) -> Processes:
    """Larger shards have threads for the cores of smaller ones, unless the number of threads is given."""
    shares = divide_cores(available_cores(), len(sizes))
    return Processes(shares, [len(share) for share in shares] if config.threads else physics_threads(sizes, shares))


def processes_for_cells(cores: int, slots: int, ray_address: str | None) -> Processes:
    """Where some cores are left to others, which ones is for the system to say: two sweeps that each took the first
    core would share it, with another one idle."""
    available = available_cores()
    used = available[: cores or None]
    shares = divide_cores(used, min(slots or len(used), len(used)))
    threads = [len(share) for share in shares]
    return Processes(shares, threads, interruptible=True, counted=len(used) < len(available))


def cluster_for_shards(config: MoppoConfig, sizes: Sequence[int]) -> Place[Any]:
    from ucb_moppo.runtime.cluster import ActorPlace  # Ray is an optional install

    return ActorPlace(config.ray_address, len(sizes), config.threads)


def cluster_for_cells(cores: int, slots: int, ray_address: str | None) -> Place[Any]:
    from ucb_moppo.runtime.cluster import TaskPlace

    return TaskPlace(ray_address, cores, slots)


LOCAL = Placement(
    for_shards=lambda config, sizes: ThisProcess(len(sizes)),
    for_cells=lambda cores, slots, ray_address: ThisProcess(1, available_cores()[: cores or None]),
    count_slots=lambda cells, cores: 1,
)
PROCESSES = Placement(
    for_shards=processes_for_shards,
    for_cells=processes_for_cells,
    count_slots=lambda cells, cores: min(cells, len(available_cores()[: cores or None])),
)
RAY = Placement(for_shards=cluster_for_shards, for_cells=cluster_for_cells, count_slots=lambda cells, cores: cores)
