"""Which cores a process may use, and how many threads its libraries start."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import lru_cache

from threadpoolctl import ThreadpoolController

from ucb_moppo.errors import ConfigError

LIMIT = "UCB_MOPPO_CORES"
"""Environment variable with the number of cores to use, where it is not known which of them are free."""


def available_cores() -> list[int]:
    """Cores this process may use, which a container or a job scheduler may have restricted."""
    if hasattr(os, "sched_getaffinity"):
        cores = sorted(os.sched_getaffinity(0))
    else:
        cores = list(range(os.cpu_count() or 1))
    return cores[: at_most(len(cores))]


def at_most(wanted: int) -> int:
    """So many threads, or fewer where cores are counted; where they are named, threads beyond them take turns."""
    limit = read_limit()
    return wanted if limit is None else min(wanted, limit)


def read_limit() -> int | None:
    """The number of cores that the environment variable says; None where it says nothing."""
    said = os.environ.get(LIMIT)
    if not said:
        return None
    with suppress(ValueError):
        if int(said) >= 1:
            return int(said)
    raise ConfigError(f"{LIMIT} is {said!r}; give it a number of cores, at least 1, or unset it to use all of them")


def share_cores(cores: Sequence[int], index: int, num_shards: int) -> list[int]:
    """The cores of one shard: consecutive and of its own where there are enough, else one that it shares."""
    if num_shards > len(cores):
        return [cores[index % len(cores)]]
    return list(cores[index * len(cores) // num_shards : (index + 1) * len(cores) // num_shards])


def physics_threads(sizes: Sequence[int], shares: Sequence[Sequence[int]]) -> list[int]:
    """Threads for the physics of shards of these sizes: one per core of a shard's own share, and in the largest
    shards also for the cores that smaller ones lend them when they are done."""
    large = [size == max(sizes) for size in sizes]
    small_shares = [share for share, is_large in zip(shares, large, strict=True) if not is_large]
    lent = sum(map(len, small_shares)) // sum(large) if can_pin() else 0
    cores = len({core for share in shares for core in share})
    return [min(cores, len(share) + lent * is_large) for share, is_large in zip(shares, large, strict=True)]


def can_pin() -> bool:
    """Whether it is for us to say which cores a process uses: not where they are only counted, because others may
    have been given the same ones."""
    return hasattr(os, "sched_setaffinity") and LIMIT not in os.environ


def thread_settings(num_threads: int) -> dict[str, str]:
    """Environment variables under which XLA (NPROC) and BLAS start no more threads than this."""
    names = ("NPROC", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    return dict.fromkeys(names, str(num_threads))


def one_blas_thread() -> AbstractContextManager[object]:
    """Within it numpy's products take one thread: how they round must not depend on how many cores there are.

    Between two steps of physics the others would only wait, and hold the cores that physics needs while they do.
    """
    return _blas().limit(limits=1, user_api="blas")


@lru_cache(maxsize=1)
def _blas() -> ThreadpoolController:
    """The libraries that are loaded, numpy's among them; finding them takes longer than many a product."""
    return ThreadpoolController()


@contextmanager
def pinned(cores: Sequence[int]) -> Iterator[None]:
    """Pin this thread for a moment: what it starts meanwhile inherits the cores before it loads any library."""
    if not can_pin():
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def pin_process(pid: int, cores: Sequence[int]) -> None:
    """Move a process with all its threads to other cores. One that has ended is left alone."""
    if not can_pin():
        return
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with suppress(ProcessLookupError):
                os.sched_setaffinity(int(thread), cores)
